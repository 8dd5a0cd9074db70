"""Create, check, read and append to the decision log's topic in Kafka.

Runs on the driver. Invariants: the topic has one partition and is only compacted, so no decision is ever
deleted by age or size. It has as many replicas as Kafka's own transaction log, so a decision is as safe as
its transactions. A read is complete up to the end of the log (see `stable_end`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.client.cluster.log_offsets import NewTopic, create_topics, list_offsets
from penstock.client.cluster.metadata import TopicMetadata, cluster_view, fetch_metadata
from penstock.client.cluster.rights import Operation, check_topics
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.backoff import Backoff
from penstock.client.net.broker_errors import error_from_code, is_retriable, naming_principal
from penstock.client.net.connection import KafkaConnections
from penstock.client.net.error_codes import INVALID_TOPIC_EXCEPTION
from penstock.client.settings import FetchSettings
from penstock.client.transactions.append import (
    KeyValue,
    ProducerSession,
    TransactionalAppender,
    append_plainly,
    appended_bytes,
)
from penstock.client.transactions.limits import NO_TRANSACTIONS, mark_in, topic_config
from penstock.errors import (
    ClientError,
    DecisionLogError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import IsolationLevel
from penstock.sink.exactly_once._log_records import LogRecord
from penstock.sink.exactly_once._log_search import mentions
from penstock.types import LogEnd, OffsetRange, TopicPartition

_TRANSACTION_LOG = "__transaction_state"
_COLUMNS = ("key", "value", "offset")
_REPLICAS_WANTED = 3
_BATCH_HEADER_BYTES = 100
"""More bytes than a record batch of one record has besides its key and value."""
_ASSUMED_RECORD_BYTES = 900_000
"""Below Kafka's default of max.message.bytes, if this user may not ask for the topic's."""
_EXPECTED_GRACE_MS = 2_000
_OPEN_AT_MOST_MS = 90_000
"""The broker aborts the decision of a dead driver sooner: 60 s time-out, and it looks every 10 s."""
_FIRST_PAUSE_MS = 1
_LONGEST_PAUSE_MS = 50

_CONFIGS = {
    "cleanup.policy": "compact",
    "unclean.leader.election.enable": "false",
    # A decision of thousands of tasks is one record.
    "max.message.bytes": str(8 << 20),
    # Keep the part that waits for compaction small.
    "segment.bytes": str(32 << 20),
    "segment.ms": str(6 * 3_600_000),
    "message.timestamp.type": "CreateTime",
}


@dataclass(frozen=True, slots=True)
class DecisionTopicSettings:
    """Settings for reading the log. `timeout_ms` is for each step."""

    fetch: FetchSettings = field(default_factory=lambda: FetchSettings(fetch_max_wait_ms=100))
    timeout_ms: int = 60_000


def _records(batch: pa.RecordBatch) -> Iterator[LogRecord]:
    columns = (batch.column(name).to_pylist() for name in _COLUMNS)
    for key, value, offset in zip(*columns, strict=True):
        yield LogRecord(offset, key, value)


class DecisionTopic:
    """A `LogStore` over one topic of a cluster.

    Other topics of this form have its steps and other messages: they change `what_it_is` and the methods
    that make an error.
    """

    what_it_is = "This is the decision log of the exactly-once sink. Nothing was written."

    def __init__(
        self,
        connections: KafkaConnections,
        topic: str,
        settings: DecisionTopicSettings | None = None,
    ) -> None:
        self._connections = connections
        self._topic_partition = TopicPartition(topic, 0)
        self._settings = settings or DecisionTopicSettings()
        self._appender = TransactionalAppender(connections, self._topic_partition)
        self._record_bytes_max = _ASSUMED_RECORD_BYTES
        self._is_recompressed = False

    @property
    def topic(self) -> str:
        return self._topic_partition.topic

    def incarnation(self, *, is_expected: bool) -> str | None:
        """Return the topic's id. A topic that is created again under the same name has another id."""
        metadata = self._metadata(is_expected=is_expected)
        return None if metadata is None else str(metadata.topic_id)

    def create(self) -> None:
        """Create the topic, unless another process has created it since.

        Raises:
            DecisionLogError: Kafka refuses a topic with this name.
            PenstockError: it cannot be created.
        """
        replica_count = self._replica_count()
        min_in_sync = max(1, replica_count - 1)
        topic = NewTopic(1, replica_count, {**_CONFIGS, "min.insync.replicas": str(min_in_sync)})
        timeout_ms = self._settings.timeout_ms
        try:
            create_topics(self._connections, {self.topic: topic}, exist_ok=True, timeout_ms=timeout_ms)
        except ClientError as error:
            if error.facts.get("error_code") == INVALID_TOPIC_EXCEPTION:
                raise self.name_refused(error) from error
            raise
        self.check_rights()

    def check_rights(self) -> None:
        """Raise AuthorizationError when this user may not read or write the topic. It need not exist."""
        check_topics(
            self._connections,
            [self.topic],
            [Operation.READ, Operation.WRITE],
            self.what_it_is,
            may_be_missing=True,
            timeout_ms=self._settings.timeout_ms,
        )

    def check_settings(self) -> None:
        """Raise DecisionLogError if the topic has several partitions, or may delete decisions."""
        metadata = self._metadata(is_expected=True)
        count = 0 if metadata is None else len(metadata.partitions)
        if count != 1:
            raise self.unusable(f"one partition, got {count} partitions")
        timeout_ms = self._settings.timeout_ms
        wanted = ["cleanup.policy", "max.message.bytes", "compression.type", *NO_TRANSACTIONS]
        config = topic_config(self._connections, self.topic, wanted, timeout_ms=timeout_ms) or {}
        self._record_bytes_max = int(config.get("max.message.bytes") or _ASSUMED_RECORD_BYTES)
        self._is_recompressed = config.get("compression.type", "producer") not in ("producer", "zstd")
        if (mark := mark_in(config)) is not None:
            raise self.unusable(f"a topic with transactions, got {mark}")
        policy = config.get("cleanup.policy")
        if policy is not None and {each.strip() for each in policy.split(",")} != {"compact"}:
            raise self.unusable(f"cleanup.policy=compact, got cleanup.policy={policy}")

    def stable_end(self, *, waits: bool) -> int:
        """Return the last stable offset; with `waits`, after all transactions before the end have ended.

        A decision becomes readable when its marker is written, milliseconds after its commit. A read only up
        to the present last stable offset could miss it.

        Raises:
            DecisionLogError: a transaction stays open, for instance that of another prefix's dead driver.
        """
        wanted = {self._topic_partition: LogEnd.LATEST}
        timeout_ms = self._settings.timeout_ms
        end_offset = list_offsets(self._connections, wanted, timeout_ms=timeout_ms)[self._topic_partition]
        patience_ms = max(timeout_ms, _OPEN_AT_MOST_MS)
        deadline = time.monotonic() + patience_ms / 1000
        backoff = Backoff(_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS, self._sleep)
        while True:
            stable = list_offsets(
                self._connections, wanted, IsolationLevel.READ_COMMITTED, timeout_ms=timeout_ms
            )[self._topic_partition]
            # Only records of other prefixes can move the end in the meantime.
            if stable >= end_offset or not waits:
                return stable
            if not backoff.pause(deadline):
                raise self.stays_open(stable, patience_ms)

    def read(self, first_offset: int, end_offset: int) -> list[LogRecord]:
        """Return the committed records of the range that compaction has left."""
        offset_range = OffsetRange(self._topic_partition, first_offset, end_offset)
        batches = fetch_range(
            self._connections, offset_range, self._settings.fetch, columns=_COLUMNS, read_committed=True
        )
        try:
            return [record for batch in batches for record in _records(batch)]
        except OffsetOutOfRangeError as error:
            raise self.cut_back(first_offset, error.facts.get("log_start_offset")) from error

    def fits(self, key: bytes, value: bytes) -> bool:
        """Return whether a record batch of this record is within the topic's max.message.bytes.

        If the broker compresses it again, with another codec, its size there is unknown. Then the
        uncompressed size counts.
        """
        if self._is_recompressed:
            return len(key) + len(value) + _BATCH_HEADER_BYTES <= self._record_bytes_max
        return appended_bytes(self._topic_partition, key, value) <= self._record_bytes_max

    def append(self, session: ProducerSession, *records: KeyValue) -> ProducerSession:
        return self._appender.append(session, *records, timeout_ms=self._settings.timeout_ms)

    def append_plainly(self, key: bytes, value: bytes | None) -> None:
        timeout_ms = self._settings.timeout_ms
        append_plainly(self._connections, self._topic_partition, key, value, timeout_ms=timeout_ms)

    def other(self, topic: str) -> DecisionTopic:
        return DecisionTopic(self._connections, topic, self._settings)

    def mentions(self, text: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield keys that contain the text, in this topic and in those with the name of a decision log.

        Also uncommitted ones. A topic that this user may not read is skipped, with a warning.

        Raises:
            DecisionLogError: a topic cannot be read now.
        """
        return mentions(self._connections, self.topic, text, self._settings)

    def _metadata(self, *, is_expected: bool) -> TopicMetadata | None:
        """Return the topic as the cluster knows it now; None if it does not exist.

        A broker may not know yet a topic that another process has just created. So an expected topic is
        looked for a little longer.
        """
        timeout_ms = self._settings.timeout_ms
        now = time.monotonic()
        deadline, grace_ends = now + timeout_ms / 1000, now + _EXPECTED_GRACE_MS / 1000
        backoff = self._connections.new_backoff()
        while True:
            found = fetch_metadata(self._connections, [self.topic], timeout_ms=timeout_ms).topics[self.topic]
            if not found.error_code:
                return found
            error = error_from_code(found.error_code, f"Asking for topic {self.topic!r}", topic=self.topic)
            is_unknown = isinstance(error, UnknownTopicOrPartitionError)
            if is_unknown and not (is_expected and backoff.pause(grace_ends)):
                cluster_view(self._connections).invalidate(self.topic)
                return None
            if not is_unknown and not (is_retriable(error) and backoff.pause(deadline)):
                raise naming_principal(error, self._connections.settings)

    def _replica_count(self) -> int:
        """Return the number of replicas of Kafka's transaction log, or the number that it would get."""
        timeout_ms = self._settings.timeout_ms
        cluster = fetch_metadata(self._connections, [_TRANSACTION_LOG], timeout_ms=timeout_ms)
        described = cluster.topics.get(_TRANSACTION_LOG)
        if described is not None and not described.error_code and described.partitions:
            return len(described.partitions[min(described.partitions)].replica_ids)
        return min(_REPLICAS_WANTED, len(cluster.brokers))

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._connections.is_closed

    def stays_open(self, stable: int, patience_ms: int) -> DecisionLogError:
        """Return the error about a transaction that does not end."""
        return DecisionLogError(
            f"Expected that the transaction at offset {stable} of the decision log {self.topic} ends "
            f"within {patience_ms} ms, but it is still open. The decisions after it cannot be read. "
            "Nothing more is decided or written; the next start tries again. If several prefixes "
            "share this topic, a driver of another prefix may have died. Its transaction ends when "
            "that driver starts again, or by its time-out.",
            topic=self.topic,
            offset=stable,
        )

    def cut_back(self, first_offset: int, log_start: object) -> DecisionLogError:
        """Return the error about records that are gone."""
        return DecisionLogError(
            f"The decision log {self.topic} was cut back: it begins at offset {log_start}, and the records "
            "before are gone. It is unknown which batches are written, so nothing was written. "
            "Were its records deleted (kafka-delete-records, a retention by size or time)? Compare the "
            "target with the source, then start with another sink.transactional-id-prefix.",
            topic=self.topic,
            offset=first_offset,
            log_start_offset=log_start,
        )

    def name_refused(self, error: ClientError) -> DecisionLogError:
        """Return the error about a name that Kafka does not allow."""
        return DecisionLogError(
            f"The decision log {self.topic} cannot be created, because Kafka refuses its name: "
            f"{error.message} Kafka allows no two topics whose names differ only in dots and underscores, "
            "like those of the prefixes x.a and x_a. Nothing was written. Choose another "
            "sink.transactional-id-prefix, or name the topic with sink.commit-log.topic (several prefixes "
            "may share one).",
            topic=self.topic,
        )

    def unusable(self, why: str) -> DecisionLogError:
        """Return the error about settings with which records may be deleted or not committed together."""
        return DecisionLogError(
            f"The topic {self.topic} cannot be the decision log: expected {why}. Decisions could be lost, "
            "and with them the knowledge of what is written. Nothing was written. Correct the topic, or name "
            "another one with sink.commit-log.topic; penstock creates it correctly if it does not exist.",
            topic=self.topic,
        )
