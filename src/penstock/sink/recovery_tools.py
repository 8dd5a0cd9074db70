"""What a human can see and do about the transactions of a prefix, outside of any query.

Runs on the driver's machine, for `penstock transactions`. Invariants: looking changes nothing; whatever
changes something first takes the prefix, so that a query that still runs is stopped by an error (it names
the reason) and never works on half of what was changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.client.connection import connections_for
from penstock.client.transaction_append import ProducerSession
from penstock.client.transactions import TransactionDescription
from penstock.errors import DecisionLogError
from penstock.sink.committer_driver import ExactlyOnceSettings, driver_side, log_topic_of
from penstock.sink.committer_kafka import KafkaSinkTransactions
from penstock.sink.committer_mandate import Mandate
from penstock.sink.decision import Decision, DecisionStatus, Outcome
from penstock.sink.decision_log import DecisionLog
from penstock.sink.decision_log_topic import DecisionTopic
from penstock.sink.recovery import abort_strays, choose_timeouts, stray_transactions


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction of the prefix, and the decision that names it, if one does."""

    description: TransactionDescription
    decided_by: Decision | None


class Resolution(Enum):
    """How a human ends a decision that cannot be finished."""

    WRITE_AGAIN = "write-again"
    """The batch's replay is written whole; what is committed of it is doubled."""
    TAKE_AS_WRITTEN = "take-as-written"
    """The batch's replay is drained; what is lost of it stays lost."""


class TransactionTools:
    """Looks at, and works on, one prefix."""

    def __init__(self, settings: ExactlyOnceSettings) -> None:
        self._settings = settings
        self._names = settings.names
        connections = connections_for(settings.connection)
        self._kafka = KafkaSinkTransactions(connections)
        self._log = DecisionLog(DecisionTopic(connections, log_topic_of(settings)), settings.prefix)

    def decisions(self) -> list[Decision]:
        """The newest decision of each query; none when there is no decision log."""
        return self._read_log(waits=False)

    def open_transactions(self) -> list[OpenTransaction]:
        """All open transactions of the prefix, the committer's included, by name."""
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

    def recover(self) -> Mandate:
        """Finish what is decided and abort the rest, as the next start of the query would."""
        return driver_side(self._settings).recover()

    def abort(self) -> list[str]:
        """Abort the open transactions that no decision names; returns their ids."""
        protocol = self._take_prefix().identity.protocol
        self._read_log(waits=True)
        strays = stray_transactions(self._kafka, self._log, self._names, protocol)
        return [each.transactional_id for each in abort_strays(self._kafka, self._names, strays)]

    def resolve(self, query_id: str, resolution: Resolution) -> Decision:
        """End the decision about a query's newest batch by a human's word; returns what is written down.

        Raises:
            DecisionLogError: there is no such decision.
        """
        session = self._take_prefix()
        decision = next((each for each in self._read_log(waits=True) if each.query_id == query_id), None)
        if decision is None:
            raise DecisionLogError(
                f"The decision log {self._log.topic} has no decision about query {query_id} under prefix "
                f"{self._names.prefix}. Nothing was changed. `penstock transactions describe` shows those "
                "there are.",
                query_id=query_id,
                topic=self._log.topic,
            )
        is_again = resolution is Resolution.WRITE_AGAIN
        resolved = decision.to_write_again() if is_again else decision.taken_as_written()
        self._log.append(session, resolved)
        return resolved

    def _read_log(self, *, waits: bool) -> list[Decision]:
        if not self._log.is_open and not self._log.open(create=False):
            return []
        return list(self._log.catch_up(waits=waits).values())

    def _take_prefix(self) -> ProducerSession:
        timeouts = choose_timeouts(self._kafka, None)
        identity = self._kafka.init_producer(
            self._names.committer_id,
            transaction_timeout_ms=timeouts.committer_ms,
            protocol=self._kafka.protocol(),
        )
        return ProducerSession(identity)
