"""Recover before any task of a batch starts: finish what earlier runs left, and take the prefix.

Runs on the driver, in the process that makes the writer for the tasks. The order of the steps matters:

1. Check that the log exists. Before the prefix is first taken, create the log and write into it that the
   prefix uses it. So every prefix that was ever taken has that record. Without the record the log is lost.
2. Take the committer's transactional id. From here on no older driver can decide anything. A decision that
   an older driver was just writing is either committed or aborted.
3. Read the log to its end. Because of step 2, only the holder of the new session can add to it.
4. Finish what is decided and not finished. Write down the outcome before a task can take an id again.
5. Abort the prefix's open transactions that no decision names, if the prefix is still ours. A driver that
   stood still since step 3 must not abort what a newer one has decided.
6. Refuse to start while a batch write is in its target in part.

The result is a `Mandate`. Invariant: recovery can die at any point and be run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import TransactionProtocol, TransactionState
from penstock.errors import (
    DecisionLogError,
    ExactlyOnceError,
    OptionError,
    PrefixTakenError,
    ProducerFencedError,
    TransactionsInDoubtError,
)
from penstock.sink.exactly_once._finish import finish, lost_error
from penstock.sink.exactly_once._prefix_users import STOOD_STILL, taken_error
from penstock.sink.exactly_once._probes import Step, reached
from penstock.sink.exactly_once._strays import abort_strays, stray_transactions
from penstock.sink.exactly_once._target_topics import gone_batch_write_error, gone_topics
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, is_batch_write, is_named_write
from penstock.sink.exactly_once.ended import query_ended_error
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.mandate import Mandate, known_batch
from penstock.sink.exactly_once.names import TransactionNames

_log = logging.getLogger(__name__)

COMMITTER_TIMEOUT_MS = 60_000
"""A decision is one record. No driver may hold back the log for longer."""
ASSUMED_TIMEOUT_MS = 900_000
"""Kafka's default of transaction.max.timeout.ms, if this user may not ask the brokers."""


@dataclass(frozen=True, slots=True)
class TransactionTimeouts:
    """Time-outs of the committer's and the tasks' transactions."""

    committer_ms: int
    task_ms: int


def choose_timeouts(
    kafka: SinkTransactions, names: TransactionNames, wanted_ms: int | None
) -> TransactionTimeouts:
    """Return the time-outs that the user wants, or else the longest that the brokers allow.

    Raises:
        OptionError: the brokers do not allow what the user wants.
    """
    allowed_ms = kafka.max_timeout_ms()
    if wanted_ms is not None and allowed_ms is not None and wanted_ms > allowed_ms:
        raise OptionError(
            f"Option '{names.timeout_option}' is {wanted_ms}, but the brokers allow {allowed_ms} at most "
            "(their transaction.max.timeout.ms). Nothing was written. Lower the option, leave it out to use "
            "the brokers' maximum, or raise the brokers' maximum.",
            option=names.timeout_option,
            value=wanted_ms,
        )
    task_ms = wanted_ms or allowed_ms or ASSUMED_TIMEOUT_MS
    return TransactionTimeouts(min(COMMITTER_TIMEOUT_MS, allowed_ms or COMMITTER_TIMEOUT_MS), task_ms)


def recover(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    timeouts: TransactionTimeouts,
    query_id: str | None = None,
) -> Mandate:
    """Finish and clean up what earlier runs left, and take the mandate to decide.

    Args:
        kafka: the cluster's transactions.
        log: of the prefix.
        names: of the prefix.
        timeouts: see `choose_timeouts`.
        query_id: of the batch write that starts; None for a stream, because only its tasks know the id.

    Raises:
        PrefixTakenError: another writer recovers at the same time, or a stranger's transactions are open.
        DecisionLogError: the log is gone or cannot be relied on. Nothing was changed.
        TransactionsInDoubtError: see `finish`.
        TransactionsLostError: another batch write of the prefix is in its target in part.
        TargetTopicError: an earlier batch write is finished, but a target topic was deleted since. Said once.
        PenstockError: the cluster does not answer; nothing is lost, and the next recovery continues.
    """
    protocol = kafka.protocol()
    session, doubts = bring_to_end(kafka, log, names, timeouts, protocol)
    if doubts:
        raise doubts[0]
    check_no_lost_write(log.decisions.values(), names, query_id)
    reached(Step.RECOVERED)
    return Mandate(
        prefix=names.prefix,
        by_hand=names.by_hand,
        session=session,
        protocol=protocol,
        transaction_timeout_ms=timeouts.task_ms,
        known={
            each.query_id: known_batch(each)
            for each in log.decisions.values()
            # Names of batch writes are kept permanently, and would make the tasks of all other writes heavy.
            if not each.is_batch_write and (not each.is_named_write or each.query_id == query_id)
        },
    )


def check_not_ended(log: DecisionLog, names: TransactionNames, query_id: str | None) -> None:
    """Raise QueryEndedError if a query may write nothing more, before it takes the prefix from another one.

    What is behind an open transaction of the log is not seen. The tasks see it.
    """
    if query_id is None or is_batch_write(query_id) or is_named_write(query_id):
        return
    if not (log.is_open or log.open(create=False)):
        return
    decision = log.catch_up(waits=False).get(query_id)
    if decision is not None and decision.ended is not None:
        raise query_ended_error(names.prefix, query_id, decision.ended)


def bring_to_end(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    timeouts: TransactionTimeouts,
    protocol: TransactionProtocol,
) -> tuple[ProducerSession, list[ExactlyOnceError]]:
    """Take the prefix, finish what is decided, abort what is not.

    Returns:
        The session, and an error for each decision whose outcome cannot be found out, or whose target topic
        is gone.
    """
    try:
        session = take_prefix(kafka, log, names, timeouts, protocol)
        session, doubts = _finish_all(kafka, log, names, session)
        session = log.keep_short(session)
    except ProducerFencedError as error:
        raise taken_error(
            names.prefix,
            "this one was starting a batch",
            f"Nothing of that batch was written.{STOOD_STILL}",
            known={each.query_id: known_batch(each) for each in log.decisions.values()},
        ) from error
    strays = stray_transactions(kafka, log, names, protocol)
    if strays:
        _check_still_ours(kafka, log, names, session)
    abort_strays(kafka, names, strays)
    return session, doubts


def _check_still_ours(
    kafka: SinkTransactions, log: DecisionLog, names: TransactionNames, session: ProducerSession
) -> None:
    """Raise PrefixTakenError if a newer writer has the prefix, because it may have decided what is open.

    Call it after the open transactions were listed. If the prefix is still ours then, no newer writer has
    begun any of them.
    """
    now = kafka.describe([names.committer_id])[names.committer_id]
    if now is None or not now.identity.has_same_epoch(session.identity):
        raise taken_error(
            names.prefix,
            "this one was starting a batch",
            "Nothing of that batch was written. No transaction of the other writer was aborted.",
            known={each.query_id: known_batch(each) for each in log.decisions.values()},
        )


def take_prefix(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    timeouts: TransactionTimeouts,
    protocol: TransactionProtocol,
) -> ProducerSession:
    """Make sure that the log exists, and take the prefix. No older driver can decide from then on.

    Raises:
        DecisionLogError: the log is gone or cannot be relied on. Nothing was changed.
        PenstockError: the cluster does not answer.
    """
    _make_sure_of_log(kafka, log, names)
    identity = kafka.init_producer(
        names.committer_id, transaction_timeout_ms=timeouts.committer_ms, protocol=protocol
    )
    reached(Step.TAKEN_PREFIX)
    return ProducerSession(identity)


def take_from_query(kafka: SinkTransactions, prefix: str) -> None:
    """Take a prefix that a query has left, so that its older driver can no longer decide there.

    A decision that this driver was just writing is committed, or never will be.

    Raises:
        PrefixTakenError: a driver of it starts at the same moment.
    """
    names = TransactionNames(prefix)
    committer_ms = choose_timeouts(kafka, names, None).committer_ms
    try:
        kafka.init_producer(
            names.committer_id, transaction_timeout_ms=committer_ms, protocol=kafka.protocol()
        )
    except ProducerFencedError as error:
        doing = "a query that had it was moved to another prefix"
        raise taken_error(prefix, doing, "Nothing of that query's batch is decided.") from error
    _log.info("took prefix %s once, because a query has left it: an older driver there cannot decide", prefix)


def _finish_all(
    kafka: SinkTransactions, log: DecisionLog, names: TransactionNames, session: ProducerSession
) -> tuple[ProducerSession, list[ExactlyOnceError]]:
    doubts: list[ExactlyOnceError] = []
    for decision in list(log.catch_up().values()):
        if decision.status is not DecisionStatus.DECIDED:
            continue
        gone = "; ".join(gone_topics(kafka, decision.topics))
        reached(Step.BEFORE_FINISHING_OLD)
        try:
            session, settled = finish(kafka, log, names, session, decision, Step.FINISHED_OLD)
        except TransactionsInDoubtError as error:
            doubts.append(error)  # the others can be finished all the same
            continue
        if settled.status is DecisionStatus.FINISHED:
            _log.info("finished %s, which was decided before", settled.where)
            if gone:
                _log.warning("%s was decided before, and since then %s", settled.where, gone)
            if gone and settled.is_batch_write:
                doubts.append(gone_batch_write_error(settled, gone))  # a stream's replay finds out by itself
        else:
            _log.warning("%s", lost_error(settled, names))
    return session, doubts


def _make_sure_of_log(kafka: SinkTransactions, log: DecisionLog, names: TransactionNames) -> None:
    """Find the log that the prefix uses, or create it for a prefix that was never taken."""
    if is_prefix_new(kafka, log, names):
        check_none_foreign(kafka, names)
        if not log.is_open:
            log.open(create=True)
        log.start()


def is_prefix_new(kafka: SinkTransactions, log: DecisionLog, names: TransactionNames) -> bool:
    """Return whether the prefix was never taken. Changes nothing.

    Kafka itself remembers whether it was taken, in every state of the committer's transaction.

    Raises:
        DecisionLogError: the prefix was taken, and the log does not show it.
    """
    if log.is_open:
        log.check_same()
    # Not read to the end: until the prefix is taken, a dead driver's transaction may be open there.
    if (log.is_open or log.open(create=False)) and _is_started(log, waits=False):
        return False
    if kafka.describe([names.committer_id])[names.committer_id] is None:
        return True
    # Another writer may have begun between the two looks. If so, the log has it now, or in a moment.
    if (log.is_open or log.open(create=False, is_expected=True)) and _is_started(log, waits=True):
        return False
    raise DecisionLogError(
        f"The committer {names.committer_id} was used before, but the decision log {log.topic} "
        f"{'has no record of it' if log.is_open else 'does not exist'}. Was the topic deleted, or was "
        "sink.commit-log.topic changed? Without the log it is unknown which transactions of the last batch "
        "must be committed. Nothing was written or aborted. Set sink.commit-log.topic to the topic that was "
        "used before. If that topic is gone, compare the target with the source and start with another "
        "sink.transactional-id-prefix.",
        topic=log.topic,
        prefix=names.prefix,
    )


def _is_started(log: DecisionLog, *, waits: bool) -> bool:
    if not log.is_started:
        log.catch_up(waits=waits)
    return log.is_started


_SHOWN = 10


def check_none_foreign(kafka: SinkTransactions, names: TransactionNames) -> None:
    """Raise PrefixTakenError before a prefix is first taken, if transactions with its names are open.

    Our tasks begin after the prefix is taken, so these are not ours. Flink's sink uses the same names.
    """
    listed = kafka.list_open(lambda each: names.parse(each) is not None)
    ongoing = [each.transactional_id for each in listed if each.state is TransactionState.ONGOING]
    if not ongoing:
        return
    shown = ", ".join(ongoing[:_SHOWN]) + (", ..." if len(ongoing) > _SHOWN else "")
    raise PrefixTakenError(
        f"Expected no open transactions with the transactional id prefix {names.prefix}, which penstock has "
        f"never used on this cluster, got {len(ongoing)}: {shown}. They belong to another program, for "
        "instance a Flink job with this prefix, because Flink uses the same names. Nothing was written or "
        "aborted. If that job may still run, choose another sink.transactional-id-prefix. If it will never "
        f"run again, run `{names.command('abort', '--yes')}`, or wait for the time-out of its transactions.",
        prefix=names.prefix,
        transactional_ids=ongoing,
    )


def check_no_lost_write(decisions: Iterable[Decision], names: TransactionNames, query_id: str | None) -> None:
    """Raise TransactionsLostError if a batch write is in its target in part. Its own repetition may start.

    A stream's incomplete batch is refused when its next batch comes. A batch write stops any other writer.

    Args:
        decisions: of the prefix.
        names: of the prefix.
        query_id: of the write that starts; None for a stream, which has no name yet.
    """
    for decision in decisions:
        is_write = decision.is_batch_write or decision.is_named_write
        if is_write and decision.status is DecisionStatus.LOST and decision.query_id != query_id:
            raise lost_error(decision, names)
