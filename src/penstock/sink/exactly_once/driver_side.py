"""The driver's half of the exactly-once sink, as the Spark adapter calls it.

Runs on the driver, in pooled worker processes that serve one batch after the other: `recover` in the process
that makes the writer for the tasks, `commit` and `abort` in another one. Each process keeps a `DriverSide`:
its connections, and the decision log as read until now. They agree through Kafka alone. Invariant: an error
drops the kept state, so that the next call reads everything again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.client.net.connection import KafkaConnections, connections_for
from penstock.client.settings import ConnectionSettings
from penstock.options.by_hand import ByHand
from penstock.sink.exactly_once._commit import abort, commit
from penstock.sink.exactly_once._log_store import LogStore
from penstock.sink.exactly_once._recovery import (
    TransactionTimeouts,
    check_not_ended,
    choose_timeouts,
    recover,
)
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import DecisionStatus
from penstock.sink.exactly_once.kafka import KafkaSinkTransactions, SinkTransactions
from penstock.sink.exactly_once.log import DecisionLog
from penstock.sink.exactly_once.log_topic import DecisionTopic, DecisionTopicSettings
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.names import TransactionNames
from penstock.sink.exactly_once.receipt import NO_FACTS, Facts

T = TypeVar("T")


@dataclass(frozen=True)
class ExactlyOnceSettings:
    """The settings of the exactly-once sink, besides those of the producer.

    `log_topic` None: named after the prefix. `transaction_timeout_ms` None: as long as the brokers allow.
    `fails_on_new_query`: whether a new query under the prefix of another one stops.
    """

    connection: ConnectionSettings
    prefix: str
    log_topic: str | None = None
    transaction_timeout_ms: int | None = None
    fails_on_new_query: bool = False

    @property
    def names(self) -> TransactionNames:
        """Return the prefix's transactional ids; OptionError for a prefix that is not allowed."""
        return TransactionNames(self.prefix, self.connection.property_prefix, self._by_hand)

    @property
    def _by_hand(self) -> ByHand:
        servers = ",".join(self.connection.bootstrap_servers)
        return ByHand(servers, self.connection.security.protocol != "PLAINTEXT", self.log_topic)


class DriverSide:
    """Recovery and commit of one prefix. Thread-safe."""

    def __init__(
        self,
        names: TransactionNames,
        kafka: SinkTransactions,
        store: LogStore,
        *,
        wanted_timeout_ms: int | None = None,
        check_rights: Callable[[], None] = lambda: None,
        fails_on_new_query: bool = False,
    ) -> None:
        self._names = names
        self._kafka = kafka
        self._store = store
        self._wanted_timeout_ms = wanted_timeout_ms
        self._check_rights = check_rights
        self._fails_on_new_query = fails_on_new_query
        self._lock = threading.Lock()
        self._log: DecisionLog | None = None
        self._timeouts: TransactionTimeouts | None = None

    def recover(self, query_id: str | None = None, stream_id: str | None = None) -> Mandate:
        """Finish and clean up before the tasks of a batch are made, and take the prefix. See `_recovery`.

        Args:
            query_id: of a batch write; None for a stream.
            stream_id: of a stream, if its checkpoint says it here.
        """
        return self._run(lambda log: self._recover(log, query_id, stream_id))

    def commit(
        self,
        reports: Sequence[TaskReport],
        siblings: Collection[str] = frozenset(),
        facts: Facts = NO_FACTS,
    ) -> None:
        """Decide and finish after all tasks of a batch. See `_commit.commit`."""
        fails, kafka, names = self._fails_on_new_query, self._kafka, self._names
        self._run(
            lambda log: commit(kafka, log, names, reports, siblings, fails_on_new_query=fails, facts=facts)
        )

    def abort(self, reports: Sequence[TaskReport]) -> None:
        """Abort a batch that failed. See `_commit.abort`."""
        self._run(lambda log: abort(self._kafka, log, self._names, reports))

    def unfinished_count(self) -> int:
        """Return how many decided batches are not finished, by what this process has read of the log."""
        with self._lock:
            decisions = () if self._log is None else self._log.decisions.values()
            return sum(each.status is DecisionStatus.DECIDED for each in decisions)

    def _recover(self, log: DecisionLog, query_id: str | None, stream_id: str | None) -> Mandate:
        if self._timeouts is None:
            self._check_rights()
            # Once in a process, because it asks the log. Later, the tasks of the batch find out.
            check_not_ended(log, self._names, query_id or stream_id)
            self._timeouts = choose_timeouts(self._kafka, self._names, self._wanted_timeout_ms)
        return recover(self._kafka, log, self._names, self._timeouts, query_id)

    def _run(self, action: Callable[[DecisionLog], T]) -> T:
        with self._lock:
            if self._log is None:
                self._log = DecisionLog(self._store, self._names.prefix)
            try:
                return action(self._log)
            except BaseException:
                self._log = self._timeouts = None
                raise


_sides: dict[tuple[int, ExactlyOnceSettings], tuple[KafkaConnections, DriverSide]] = {}
_sides_lock = threading.Lock()


def driver_side(settings: ExactlyOnceSettings) -> DriverSide:
    """Return the one of this process for these settings."""
    connections = connections_for(settings.connection)
    key = (os.getpid(), settings)
    with _sides_lock:
        kept = _sides.get(key)
        if kept is None or kept[0] is not connections:  # closed and opened again since then
            kept = _sides[key] = connections, _driver_side(connections, settings)
        return kept[1]


def _driver_side(connections: KafkaConnections, settings: ExactlyOnceSettings) -> DriverSide:
    topic_settings = DecisionTopicSettings(timeout_ms=settings.connection.default_api_timeout_ms)
    topic = DecisionTopic(connections, log_topic_of(settings), topic_settings)
    return DriverSide(
        settings.names,
        KafkaSinkTransactions(connections),
        topic,
        wanted_timeout_ms=settings.transaction_timeout_ms,
        check_rights=topic.check_rights,
        fails_on_new_query=settings.fails_on_new_query,
    )


def log_topic_of(settings: ExactlyOnceSettings) -> str:
    return settings.log_topic or settings.names.default_log_topic
