"""Commit and abort a batch: take the reports of its tasks, decide that it is written, and finish it.

Runs on the driver, in `commit` and `abort` of the writer. `commit` works in this order:

1. Compare the reports with the log: is it a new batch, a replay of a written one, or a replay of lost parts?
   Check that all transactions are still open.
2. Write the decision under the mandate of the reports. Kafka refuses it if another driver has recovered
   since. From here on the batch is written, whatever dies.
3. Finish: commit all its transactions, and write down the outcome.
4. Abort the open transactions of other attempts at the batch.

Invariants: nothing is committed that is not decided. Nothing decided is aborted. After an error in step 3 or
4 the batch stays decided, and the next recovery finishes it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import (
    EndState,
    TransactionIdentity,
    TransactionProtocol,
    has_moved_on,
)
from penstock.errors import (
    DecisionLogError,
    ExactlyOnceError,
    PenstockError,
    ProducerFencedError,
    TransactionsInDoubtError,
)
from penstock.sink.exactly_once._aborted import check_all_open
from penstock.sink.exactly_once._elsewhere import find_written, prefix_changed_error
from penstock.sink.exactly_once._fate import NOT_DECIDED, fate_of_decision, fate_of_finish, prefix_taken
from penstock.sink.exactly_once._finish import finish, lost_error
from penstock.sink.exactly_once._log_records import LogLocation
from penstock.sink.exactly_once._prefix_users import new_query_error, new_query_warning
from penstock.sink.exactly_once._probes import Step, reached
from penstock.sink.exactly_once._recovery import take_from_query
from penstock.sink.exactly_once._replay import (
    check_none_drained,
    check_none_written,
    check_replay,
    drain_doubt,
    drain_error,
)
from penstock.sink.exactly_once._strays import abort_strays, stray_transactions, without_decided
from penstock.sink.exactly_once._target_topics import check_topics_in_place, gone_error, gone_topics
from penstock.sink.exactly_once.committable import Committable, TaskReport
from penstock.sink.exactly_once.decision import Decision, DecisionStatus, decide, decide_again
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.ended import query_ended_error
from penstock.sink.exactly_once.kafka import SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.mandate import check_order, known_batch
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.receipt import NO_FACTS, Facts, Receipt, receipt_of

_log = logging.getLogger(__name__)


def commit(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    reports: Sequence[TaskReport],
    siblings: Collection[str] = frozenset(),
    *,
    fails_on_new_query: bool = False,
    facts: Facts = NO_FACTS,
) -> None:
    """Decide that the batch of these reports is written, and finish it.

    Args:
        kafka: the cluster's transactions.
        log: of the prefix.
        names: of the prefix.
        reports: one of each task of the batch, written under one mandate.
        siblings: other prefixes under which the query writes its batches, too.
        fails_on_new_query: whether a new query under the prefix of another one is an error.
        facts: what else the receipt of the batch says.

    Raises:
        NewQueryError: with `fails_on_new_query`, another query has written under the prefix.
        PrefixChangedError: the batch is written under a prefix that the query had before.
        PrefixTakenError: another writer has taken the prefix; this one must stop.
        QueryEndedError: the prefix was handed over to another query, or this query is a shadow.
        TargetTopicError: a target topic was deleted or created again; nothing is decided.
        TransactionsLostError: the broker has aborted transactions; the batch has to be replayed.
        TransactionsInDoubtError: a replay differs from what is written or was lost, or an outcome cannot be
            found out.
        BatchOrderError: a later batch of the query is written already.
        DecidedError: the batch is decided, or may be, and finishing it failed; the next recovery does it.
        PenstockError: the batch is not decided.
    """
    if not reports:
        return
    head = _checked(reports)
    with _unless_taken(kafka, log, names, head, is_written=bool(_written(reports))):
        previous = _previous(log, names, head)
        before = _last_before(log, head)
        decision = _decision(head, reports, previous, names, sibling_count=len(siblings))
        came_back_from: Sequence[LogLocation] = ()
        if decision is not None:
            # A query that this log does not know may have written this batch under another prefix.
            if previous is None:
                came_back_from = _check_elsewhere(
                    kafka, log, decision, frozenset(siblings), fails_on_new_query=fails_on_new_query
                )
            # After the decision nothing can be taken back, so whatever can be checked is checked before.
            check_all_open(kafka, decision, _written(reports), names)
            check_topics_in_place(kafka, decision, names, is_replay_of_lost=previous is not None)
    # From `_decide` on the batch counts as written: an error below is one of finishing, not of the batch.
    if decision is not None:
        # A query that comes back from another prefix may have written batches there in between.
        last = None if came_back_from else before
        receipt = receipt_of(decision, reports, facts, last)
        session = _decide(kafka, log, names, head.session, decision, came_back_from, receipt)
        _finish(kafka, log, names, session, decision)
    elif previous is not None:
        _take_replay(kafka, log, names, head, reports, previous)


def abort(
    kafka: SinkTransactions, log: DecisionLog, names: TransactionNames, reports: Sequence[TaskReport]
) -> None:
    """Abort the transactions of a batch that failed, unless it is decided.

    Spark also calls this when `commit` has failed after the decision. Then nothing is done here, because the
    next recovery finishes the batch. Nothing is done either when another writer has taken the prefix.

    Raises:
        PenstockError: there was no answer in time, or open transactions cannot be listed; the next recovery
            aborts them.
    """
    if not reports:
        return
    decision = reports[0].session.identity
    # Listed before it is known that the prefix is still ours, as in `_finish`.
    strays, unlisted = _strays(kafka, log, names, decision.protocol)
    # After this, the decision that failed in commit is either committed or aborted. The call names that very
    # transaction, so a newer driver's is not touched.
    result = kafka.end([decision], is_commit=False)[decision]
    if result.state in (EndState.FENCED, EndState.UNKNOWN_ID):
        return
    if result.state is EndState.UNKNOWN and result.error is not None:
        raise result.error
    _catch_up(log)
    abort_strays(kafka, names, without_decided(log, strays))
    if unlisted is not None:
        raise unlisted


@contextmanager
def _unless_taken(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    head: TaskReport,
    *,
    is_written: bool,
) -> Iterator[None]:
    """Raise PrefixTakenError for a contradiction before the decision that a newer driver has caused."""
    try:
        yield
    except DecisionLogError:
        raise
    except ExactlyOnceError as error:
        if has_moved_on(kafka.describe, head.session.identity):
            raise prefix_taken(log, names, head, NOT_DECIDED, is_written=is_written) from error
        raise


# ----- deciding


def _catch_up(log: DecisionLog) -> None:
    if not log.is_open:
        # Recovery, in another process, has opened it before the tasks began.
        log.open(create=False, is_expected=True)
    log.catch_up()
    log.check_started()


def _previous(log: DecisionLog, names: TransactionNames, head: TaskReport) -> Decision | None:
    """Return the decision that exists about this very batch and still counts."""
    _catch_up(log)
    decision = log.decisions.get(head.query_id)
    if decision is not None and decision.ended is not None:
        raise query_ended_error(names.prefix, head.query_id, decision.ended)
    if decision is None or decision.batch_id < head.batch_id:
        return None
    check_order(names.prefix, head.query_id, head.batch_id, decision.batch_id)
    return None if decision.status is DecisionStatus.WITHDRAWN else decision


def _last_before(log: DecisionLog, head: TaskReport) -> int | None:
    """Return the last batch of the query that was decided before this one; None if there is none."""
    decision = log.decisions.get(head.query_id)
    return decision.batch_id if decision is not None and decision.batch_id < head.batch_id else None


def _check_elsewhere(
    kafka: SinkTransactions,
    log: DecisionLog,
    decision: Decision,
    siblings: frozenset[str],
    *,
    fails_on_new_query: bool,
) -> Sequence[LogLocation]:
    """Return the markers to take back.

    Raises:
        PrefixChangedError: another prefix has written the batch.
        NewQueryError: another query has written under this prefix, and that shall be an error.
    """
    if decision.is_batch_write or decision.is_named_write:
        return ()  # its query id belongs to this write, or to this prefix, alone
    found = find_written(log, decision, siblings, lambda prefix: take_from_query(kafka, prefix))
    if found.holders:
        raise prefix_changed_error(log.location, decision, found.holders)
    if found.is_known:
        return found.came_back_from
    known = {each.query_id: known_batch(each) for each in log.decisions.values()}
    warning = new_query_warning(known, log.location.prefix, decision.query_id)
    if warning is not None and fails_on_new_query:
        raise new_query_error(warning, log.location.prefix, decision.query_id)
    if warning is not None:
        _log.warning("%s", warning)
    return found.came_back_from


def _decision(
    head: TaskReport,
    reports: Sequence[TaskReport],
    previous: Decision | None,
    names: TransactionNames,
    *,
    sibling_count: int,
) -> Decision | None:
    """Return what to decide; None if the batch has no rows, or is written already."""
    written = _written(reports)
    topics = [topic for report in reports for topic in report.topics]
    if previous is None:
        check_none_drained(head, _drained(reports))
        if not written:
            return None
        return decide(
            head.query_id, head.batch_id, len(reports), written, topics, sibling_count=sibling_count
        )
    if previous.status is DecisionStatus.LOST:
        check_replay(previous, reports, names)
        return decide_again(previous, written, topics)
    check_none_written(previous, written)
    return None


def _decide(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    session: ProducerSession,
    decision: Decision,
    came_back_from: Sequence[LogLocation],
    receipt: Receipt,
) -> ProducerSession:
    reached(Step.BEFORE_DECISION)
    try:
        following = log.append(session, decision, came_back_from, receipt)
    except Exception as error:
        raise fate_of_decision(kafka, log, names, session, decision, error) from error
    reached(Step.DECIDED)
    return following


# ----- a replay of what is written


def _take_replay(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    head: TaskReport,
    reports: Sequence[TaskReport],
    previous: Decision,
) -> None:
    """Compare the replay of a finished batch with what is written."""
    drained = _drained(reports)
    try:
        if previous.takes_any_replay:
            log.append(head.session, previous.with_replay(drained))
        elif (error := _replay_error(kafka, previous, drained, names)) is not None:
            _note(log, names, head.session, previous.doubted(str(error.facts["doubt"])))
            raise error
        elif previous.doubt is not None:
            _note(log, names, head.session, previous.doubted(None))
    except ProducerFencedError as error:
        raise prefix_taken(log, names, head, NOT_DECIDED) from error
    if previous.is_named_write:
        _log.warning("%s is written already: nothing was written.", previous.where)


def _replay_error(
    kafka: SinkTransactions, previous: Decision, drained: RecordDigest, names: TransactionNames
) -> TransactionsInDoubtError | None:
    doubt = drain_doubt(previous, drained)
    if doubt is not None:
        return drain_error(previous, doubt, names)
    gone = gone_topics(kafka, previous.topics)
    return gone_error(previous, "; ".join(gone), names) if gone else None


def _note(log: DecisionLog, names: TransactionNames, session: ProducerSession, doubted: Decision) -> None:
    """Write down a doubt for `penstock transactions`. Best effort, because the error says the same."""
    try:
        log.append(session, doubted)
    except ProducerFencedError:
        raise
    except PenstockError as error:
        _log.warning("prefix %s: cannot write down what a replay brought: %s", names.prefix, error)


# ----- finishing


def _finish(
    kafka: SinkTransactions,
    log: DecisionLog,
    names: TransactionNames,
    session: ProducerSession,
    decision: Decision,
) -> None:
    # Listed before the outcome is written down. If writing it down succeeds, no other driver had the prefix
    # until then, so none of these transactions belongs to a later driver's tasks.
    strays, _ = _strays(kafka, log, names, session.identity.protocol)
    try:
        _, settled = finish(kafka, log, names, session, decision, Step.FINISHED)
    except Exception as error:
        raise fate_of_finish(log, names, decision, error) from error
    reached(Step.MARKED)
    if settled.status is not DecisionStatus.FINISHED:
        lost = lost_error(settled, names)
        _log.error("%s", lost)
        raise lost
    _abort_quietly(kafka, names, strays)


def _strays(
    kafka: SinkTransactions, log: DecisionLog, names: TransactionNames, protocol: TransactionProtocol
) -> tuple[list[TransactionIdentity], PenstockError | None]:
    """Return the open transactions of the prefix that are not decided; none, and why, if listing fails."""
    try:
        return stray_transactions(kafka, log, names, protocol), None
    except PenstockError as error:
        _log.warning("prefix %s: cannot list open transactions now: %s", names.prefix, error)
        return [], error


def _abort_quietly(
    kafka: SinkTransactions, names: TransactionNames, strays: Sequence[TransactionIdentity]
) -> None:
    """Abort other attempts' transactions, so that readers need not wait for the next batch. Best effort."""
    try:
        abort_strays(kafka, names, strays)
    except PenstockError as error:
        _log.warning("prefix %s: cannot abort open transactions now: %s", names.prefix, error)


def _written(reports: Sequence[TaskReport]) -> list[Committable]:
    return [report.committable for report in reports if report.committable is not None]


def _drained(reports: Sequence[TaskReport]) -> RecordDigest:
    return sum((report.drained for report in reports), RecordDigest())


def _checked(reports: Sequence[TaskReport]) -> TaskReport:
    """Return the first report, if all are of one batch and one mandate."""
    head = reports[0]
    for report in reports:
        is_same = (report.query_id, report.batch_id, report.session) == (
            head.query_id,
            head.batch_id,
            head.session,
        )
        if not is_same:
            raise ExactlyOnceError(
                f"Expected reports of one batch, got batch {head.batch_id} of query {head.query_id} and "
                f"batch {report.batch_id} of query {report.query_id}. Nothing was decided. Restart the "
                "query. If this error comes again, report it as a bug of penstock.",
                query_id=head.query_id,
                batch_id=head.batch_id,
            )
    return head
