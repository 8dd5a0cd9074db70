"""Show, finish and abort the transactions of a prefix by hand, outside of any query.

Runs on the driver's machine, for `penstock transactions`. Invariants: looking changes nothing. A command that
changes something first does what a start of the query does: it checks the log, takes the prefix, and finishes
what is decided. So a query that still runs is stopped by an error, and never continues with half of the
change. A command refuses what would lose or double rows, unless a resolution asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from penstock import __version__
from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net.connection import KafkaConnections, connections_for
from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import TransactionDescription
from penstock.errors import (
    AuthorizationError,
    DecisionLogError,
    ExactlyOnceError,
    OptionError,
    ProducerFencedError,
)
from penstock.sink.exactly_once._log_records import LogLocation
from penstock.sink.exactly_once._log_store import LogStore
from penstock.sink.exactly_once._prefix_users import taken_error
from penstock.sink.exactly_once._recovery import (
    bring_to_end,
    check_none_foreign,
    choose_timeouts,
    is_prefix_new,
)
from penstock.sink.exactly_once._strays import abort_strays, stray_transactions
from penstock.sink.exactly_once._target_topics import gone_topics
from penstock.sink.exactly_once.decision import Begun, Decision, DecisionStatus, Outcome, hand_over, shadow
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, log_topic_of
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions, SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic, DecisionTopicSettings
from penstock.sink.exactly_once.names import (
    LOG_SUFFIX,
    PREFIX_OPTION,
    TransactionNames,
    first_continuous_id,
)
from penstock.sink.exactly_once.receipt import Receipt, receipt_of_taken


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction of the prefix, and the decision that names it, if there is one."""

    description: TransactionDescription
    decided_by: Decision | None


class Resolution(Enum):
    """The ways to end by hand a decision that cannot be finished."""

    WRITE_AGAIN = "write-again"
    """The whole replay of the batch is written. The part that is already committed is doubled."""
    TAKE_AS_WRITTEN = "take-as-written"
    """The replay of the batch is drained. The lost part stays lost."""


class TransactionTools:
    """Commands on one prefix."""

    def __init__(
        self,
        names: TransactionNames,
        kafka: SinkTransactions,
        store: LogStore,
        *,
        check_rights: Callable[[], None] = lambda: None,
    ) -> None:
        self._names = names
        self._kafka = kafka
        self._check_rights = check_rights
        self._log = DecisionLog(store, names.prefix)

    # ----- looking

    @property
    def log_topic(self) -> str:
        return self._log.topic

    def log_problem(self) -> str | None:
        """Return the reason why the log cannot be relied on, as a start of the query would give it."""
        try:
            is_prefix_new(self._kafka, self._log, self._names)
        except DecisionLogError as error:
            return error.message
        return None

    def has_log(self) -> bool:
        return self._log.is_open or self._log.open(create=False)

    def decisions(self) -> list[Decision]:
        """Return the newest decision of each query; none if there is no decision log."""
        return list(self._log.catch_up(waits=False).values()) if self.has_log() else []

    def receipts(self) -> list[Receipt]:
        """Return the receipts of the newest batches, in order of time; none if there is no decision log.

        Raises:
            OptionError: the prefix is that of a continuous query, which leaves no receipts.
        """
        if self.has_log():
            return self._log.receipts()
        self.check_not_continuous()
        return []

    def check_not_continuous(self) -> None:
        """Raise OptionError if Kafka shows this user a continuous query with this prefix."""
        name = first_continuous_id(self._names.prefix)
        with suppress(AuthorizationError):
            if self._kafka.describe([name])[name] is not None:
                raise OptionError(
                    f"{self._names.prefix} is the prefix of a continuous query (Kafka knows its "
                    f"transactional id {name}), and continuous queries leave no receipts. They have no "
                    "batches: each of their transactions holds records and the offsets after them, and "
                    "nothing else is kept. Nothing was proven or changed. `penstock lag --group GROUP` shows "
                    "the position of its consumer group.",
                    option=PREFIX_OPTION,
                    value=self._names.prefix,
                )

    def open_transactions(self) -> list[OpenTransaction]:
        """Return all open transactions of the prefix by name, with that of the committer.

        Raises:
            AuthorizationError: the transactional ids of the prefix may not be described.
        """
        # Kafka leaves out of its list what this user may not describe; here it says so.
        self._kafka.describe([self._names.committer_id])
        decided = {
            committable.identity.transactional_id: decision
            for decision in self.decisions()
            if decision.status is DecisionStatus.DECIDED
            for committable in decision.with_outcome(Outcome.PENDING)
        }
        names = [each.transactional_id for each in self._kafka.list_open(self._names.claims)]
        described = self._kafka.describe(names) if names else {}
        return [
            OpenTransaction(description, decided.get(name))
            for name, description in sorted(described.items())
            if description is not None and description.state.is_open
        ]

    def gone_topics(self, decision: Decision) -> list[str]:
        """Return, for messages, the topics that a batch has written into and that were deleted since."""
        return gone_topics(self._kafka, decision.topics)

    # ----- changing

    def recover(self) -> None:
        """Finish what is decided and abort the rest, as the next start of the query would.

        Raises:
            DecisionLogError: the log is gone, or cannot be relied on. Nothing was changed.
            PrefixTakenError: the prefix was never used, and another program's transactions are open.
            TransactionsInDoubtError: a decision cannot be finished. Everything else is done.
            TargetTopicError: everything is done, but an earlier batch write's topic is gone; raised once.
        """
        if is_prefix_new(self._kafka, self._log, self._names):
            check_none_foreign(self._kafka, self._names)
            return
        self._settle_all()

    def abort(self) -> None:
        """Do the same. Under a prefix that was never used, abort what another program has left open."""
        if is_prefix_new(self._kafka, self._log, self._names):
            protocol = self._kafka.protocol()
            strays = stray_transactions(self._kafka, self._log, self._names, protocol)
            # A second look, because a first start may have written and decided what is listed.
            if is_prefix_new(self._kafka, self._log, self._names):
                abort_strays(self._kafka, self._names, strays)
                return
        self._settle_all()

    def resolve(self, query_id: str, resolution: Resolution) -> Decision:
        """End the decision about a query's newest batch by hand; return the new decision.

        Everything that can be finished is finished first. Only a decision that is then in doubt is resolved.

        Raises:
            DecisionLogError: there is no such decision.
            ExactlyOnceError: the decision is not in doubt. Nothing was resolved.
        """
        if is_prefix_new(self._kafka, self._log, self._names):
            raise self._unknown(query_id)
        before = next((each for each in self.decisions() if each.query_id == query_id), None)
        session, _ = self._settle()
        decision = self._log.decisions.get(query_id)
        if decision is None:
            raise self._unknown(query_id) if before is None else _not_in_doubt(before, "is finished now")
        check_resolvable(decision)
        is_again = resolution is Resolution.WRITE_AGAIN
        resolved = decision.to_write_again() if is_again else decision.taken_as_written()
        is_lost = decision.status is not DecisionStatus.FINISHED
        receipt = None if is_again or not is_lost else receipt_of_taken(decision, resolved, __version__)
        self._log.append(session, resolved, receipt=receipt, is_taken=True)
        return resolved

    def refuse_shadow(self, query_id: str, shadow_of: str, checkpoint: str, topics: Iterable[str]) -> None:
        """Write down that a new query repeats another one: it may never write into the same topics.

        The running query is not disturbed.

        Args:
            query_id: of the new query.
            shadow_of: the id of the query that it repeats.
            checkpoint: the folder of the new query.
            topics: which that query writes.

        Raises:
            AuthorizationError: this user may not read or write the log.
            DecisionLogError: the log is gone, or cannot be relied on.
        """
        self._check_rights()
        if is_prefix_new(self._kafka, self._log, self._names):
            raise self._unknown(shadow_of)
        self._log.refuse(shadow(query_id, shadow_of, checkpoint, topics))

    def settle_query(self, query_id: str) -> tuple[ProducerSession, Decision]:
        """Take the prefix and finish what is decided. Return the session, and the query's newest decision.

        A driver of the query that still runs can decide nothing from here on.

        Raises:
            DecisionLogError: the log is gone, or has no decision about the query. Nothing was changed.
            ExactlyOnceError: a decision cannot be finished. Everything else is done.
        """
        if is_prefix_new(self._kafka, self._log, self._names):
            raise self._unknown(query_id)
        session, doubts = self._settle()
        if doubts:
            raise doubts[0]
        decision = self._log.decisions.get(query_id)
        if decision is None:
            raise self._unknown(query_id)
        return session, decision

    def hand_over(self, session: ProducerSession, last: Decision, heir: str, begun: Begun) -> None:
        """Let another query continue one that has ended, in one transaction.

        Args:
            session: from `settle_query`.
            last: from there.
            heir: the id of the query that continues.
            begun: how it begins.

        Raises:
            PrefixTakenError: a driver has taken the prefix since. Nothing was handed over.
            PenstockError: it is unknown whether it was handed over; another call of both finds out.
        """
        try:
            self._log.hand_over(session, *hand_over(last, heir, begun))
        except ProducerFencedError as error:
            doing = "this command was handing it over"
            raise taken_error(self._names.prefix, doing, "Nothing was handed over.") from error

    def _settle_all(self) -> None:
        _, doubts = self._settle()
        if doubts:
            raise doubts[0]

    def _settle(self) -> tuple[ProducerSession, list[ExactlyOnceError]]:
        self._check_rights()
        timeouts = choose_timeouts(self._kafka, self._names, None)
        return bring_to_end(self._kafka, self._log, self._names, timeouts, self._kafka.protocol())

    def _unknown(self, query_id: str) -> DecisionLogError:
        return DecisionLogError(
            f"The decision log {self._log.topic} has no decision about query {query_id} under prefix "
            f"{self._names.prefix}. Nothing was resolved. `{self._names.command('describe')}` lists the "
            "decisions.",
            query_id=query_id,
            topic=self._log.topic,
        )


def check_resolvable(decision: Decision) -> None:
    """Raise ExactlyOnceError if a decision has nothing to resolve."""
    # It is still decided after everything was finished: neither Kafka nor the log knows its outcome.
    if decision.is_in_doubt or decision.status is DecisionStatus.DECIDED:
        return
    is_whole = decision.status is DecisionStatus.FINISHED
    raise _not_in_doubt(
        decision,
        "is finished: all of it is written, and a replay of it writes nothing"
        if is_whole
        else "is withdrawn: nothing of it is written, and its replay will be written",
    )


def _not_in_doubt(decision: Decision, why: str) -> ExactlyOnceError:
    return ExactlyOnceError(
        f"Expected a batch in doubt, but {decision.where} {why}. Nothing was resolved, because write-again "
        "would double its rows and take-as-written could lose some.",
        query_id=decision.query_id,
        batch_id=decision.batch_id,
        status=decision.status.value,
    )


def transaction_tools(
    settings: ExactlyOnceSettings, connections: KafkaConnections | None = None
) -> TransactionTools:
    """Make the tools for the prefix of these settings; without connections over those that are kept."""
    connections = connections or connections_for(settings.connection)
    topic_settings = DecisionTopicSettings(timeout_ms=settings.connection.default_api_timeout_ms)
    topic = DecisionTopic(connections, log_topic_of(settings), topic_settings)
    kafka = KafkaSinkTransactions(connections)
    return TransactionTools(settings.names, kafka, topic, check_rights=topic.check_rights)


def known_prefixes(connections: KafkaConnections) -> list[str]:
    """Return the prefixes with a decision log of the default name. Other names do not show the prefix."""
    topics = fetch_metadata(connections, None).topics
    return sorted(
        name.removesuffix(LOG_SUFFIX)
        for name, found in topics.items()
        if name.endswith(LOG_SUFFIX) and name != LOG_SUFFIX and len(found.partitions) == 1
    )


def logs_of(connections: KafkaConnections, query_id: str, log_topic: str | None = None) -> list[LogLocation]:
    """Return the prefixes that have decided about a query, with their logs, which may be shared.

    Logs that this user may not read are left out, with a warning.

    Args:
        connections: to the cluster of the logs.
        query_id: Spark's id of the query.
        log_topic: a log with another name than the default one; None: only those with the default name.

    Raises:
        DecisionLogError: a log cannot be read now.
    """
    topics = [each + LOG_SUFFIX for each in known_prefixes(connections)] if log_topic is None else [log_topic]
    if not topics:
        return []
    topic_settings = DecisionTopicSettings(timeout_ms=connections.settings.default_api_timeout_ms)
    # One log is enough: it also looks through all that have the default name.
    return DecisionLog(DecisionTopic(connections, topics[0], topic_settings), "").locations_of(query_id)
