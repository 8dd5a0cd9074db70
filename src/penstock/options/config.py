"""The meaning of the options of a reader or writer, after parsing, without any dialect.

Made on the driver, pickled to the executors. Invariant: frozen and hashable, because configs are the keys of
the connection caches of a process. Nothing here talks to Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar

from penstock.options.record_filter import RecordFilter
from penstock.types import LogEnd, Time, TopicPartition, Where


class IsolationLevel(str, Enum):
    """The records of transactions that a reader sees (Kafka's `isolation.level`)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class DeliveryGuarantee(str, Enum):
    """The promise of a sink (Flink's `sink.delivery-guarantee`)."""

    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True)
class KafkaProperties:
    """Settings of a Kafka client under their Java names, e.g. `bootstrap.servers`.

    Values are texts of the user. `repr` shows names only, because values may be secrets.

    Attributes:
        items: names and values, sorted.
        prefix: the text before a name in the dialect of the user, `properties.` or `kafka.`; for messages.
    """

    items: tuple[tuple[str, str], ...] = ()
    prefix: str = field(default="", compare=False)

    def get(self, name: str, default: str | None = None) -> str | None:
        return dict(self.items).get(name, default)

    def spelled(self, name: str) -> str:
        """Return the name of a property as the user has to write it, e.g. `kafka.acks`."""
        return self.prefix + name

    def changed(self, name: str, value: str) -> KafkaProperties:
        others = [(one, text) for one, text in self.items if one != name]
        return KafkaProperties(tuple(sorted((*others, (name, value)))), self.prefix)

    def __repr__(self) -> str:
        return f"KafkaProperties({', '.join(name for name, _ in self.items)})"


@dataclass(frozen=True)
class TopicList:
    """Subscribe to these topics; each must exist."""

    topics: tuple[str, ...]

    @property
    def has_one_topic(self) -> bool:
        """Return whether all records are of one topic. Offsets of several topics cannot be compared."""
        return len(set(self.topics)) == 1

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Return names of what two reads have in common if both have the name."""
        return self.topics


@dataclass(frozen=True)
class TopicPattern:
    """Subscribe to every topic whose whole name matches, except internal ones (Java's `matches()`)."""

    pattern: str

    @property
    def has_one_topic(self) -> bool:
        return False

    @property
    def shared_names(self) -> tuple[str, ...]:
        return (self.pattern,)


@dataclass(frozen=True)
class TopicPartitionSet:
    """Read exactly these topic partitions; each must exist."""

    topic_partitions: tuple[TopicPartition, ...]

    @property
    def has_one_topic(self) -> bool:
        return len({each.topic for each in self.topic_partitions}) == 1

    @property
    def shared_names(self) -> tuple[str, ...]:
        return ()  # two reads may share out the topic partitions of a topic


Subscription = TopicList | TopicPattern | TopicPartitionSet


@dataclass(frozen=True)
class OffsetsSpec:
    """A starting or stopping point before it is resolved to offsets.

    Attributes:
        others: the position for topic partitions that `each` does not name. None: `each` has to name all.
        each: the position for each named topic partition.
        without_committed: the position instead of `Committed()` if the group has no committed offset. None
            makes that an error.
        needs_match: whether a log without a record at or after a `Time` is an error (Spark's `error`).
            If not, the end of the log is used.
        before_now_ms: the position for all topic partitions, as a time this long before the read is planned.
            `at` replaces it; until then `others` is None and `each` is empty.
        initializer: the user's object that decides, as text (see source/user_initializer.py). If it is set,
            nothing else is.
    """

    others: Where | None = None
    each: tuple[tuple[TopicPartition, Where], ...] = ()
    without_committed: LogEnd | None = None
    needs_match: bool = False
    initializer: str = ""
    before_now_ms: int | None = None

    def at(self, now_ms: int) -> OffsetsSpec:
        """Return the spec with a time instead of `before_now_ms`; `now_ms` is in milliseconds since 1970."""
        if self.before_now_ms is None:
            return self
        return replace(self, others=Time(max(0, now_ms - self.before_now_ms)), before_now_ms=None)

    @property
    def positions(self) -> frozenset[Where]:
        positions = {where for _, where in self.each}
        return frozenset(positions if self.others is None else {self.others, *positions})


@dataclass(frozen=True)
class DiscoveryInterval:
    """How often a stream looks for new topics and topic partitions.

    Use `DiscoveryInterval.ONCE`, `DiscoveryInterval.EVERY_BATCH` or `DiscoveryInterval.every(ms)`.

    Attributes:
        after_ms: milliseconds from one discovery to the next, which happens with a batch. None: only at the
            start.
    """

    after_ms: int | None

    ONCE: ClassVar[DiscoveryInterval]
    EVERY_BATCH: ClassVar[DiscoveryInterval]

    @classmethod
    def every(cls, interval_ms: int) -> DiscoveryInterval:
        """Return an interval of this length. 0 means only once, as in Flink."""
        return cls(interval_ms) if interval_ms else cls.ONCE

    def is_due(self, since_last_ms: int) -> bool:
        return self.after_ms is not None and since_last_ms >= self.after_ms


DiscoveryInterval.ONCE = DiscoveryInterval(None)
DiscoveryInterval.EVERY_BATCH = DiscoveryInterval(0)

DISCOVERY_INTERVAL_MS = 300_000
IDLE_TIMEOUT_MS = 60_000
MAX_FUTURE_SKEW_MS = 86_400_000
MAX_BATCH_DELAY_MS = 900_000
"""The same as in Spark's own source."""
PROCESSING_TIME = "processing-time"
"""The value of `scan.trigger`."""


@dataclass(frozen=True)
class MetricsSettings:
    """Where the metrics of a source are served.

    Attributes:
        http_port: of the HTTP end; 0 lets the system choose.
        http_host: of the interface that it is bound to.
        tasks_host: of the interface where tasks send their figures.
        topic_partitions_max: how many topic partitions are served one by one; the others only in totals.
        aliases: sets of names that are served besides penstock's.
        stalled_after_ms: how long a topic partition with records to read may stand still until it is STALLED.
        blocked_after_ms: how long a transaction may be open until its readers are BLOCKED_BY_TRANSACTION.
    """

    http_port: int
    http_host: str = "127.0.0.1"
    tasks_host: str = "127.0.0.1"
    topic_partitions_max: int = 1_000
    aliases: tuple[str, ...] = ()
    stalled_after_ms: int = 60_000
    blocked_after_ms: int = 10_000


@dataclass(frozen=True)
class SourceConfig:
    """All settings of a read.

    Attributes:
        properties: of Kafka.
        subscription: the topics or topic partitions to read.
        starting: None means the default of the caller (Spark's dialect: latest for streams, earliest for
            batch reads; Flink's dialect: earliest).
        stopping: None means that a stream does not end, and that a batch read ends at latest.
        fail_on_removed_partition: None means the same as `fail_on_data_loss`.
        commits_offsets: whether positions in Spark's checkpoint are committed to the consumer group.
        packs_small_ranges: whether small ranges of topic partitions share a task.
        discovery: how often topic partitions are discovered (Spark's dialect: with every batch).
        metrics: None means that nothing is served, sent or counted by tasks.
        progress_to: host, port and token of a `penstock.batch_progress()`; batch reads only.
        record_filter: conditions that all records satisfy; batch reads only.
        has_processing_time: whether the user says that the trigger is `processingTime`. Spark before 4.2 does
            not say it.
    """

    properties: KafkaProperties
    subscription: Subscription
    starting: OffsetsSpec | None = None
    stopping: OffsetsSpec | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    include_headers: bool = False
    fail_on_data_loss: bool = True
    fail_on_removed_partition: bool | None = None
    commits_offsets: bool = False
    discovery: DiscoveryInterval = DiscoveryInterval(DISCOVERY_INTERVAL_MS)
    max_records_per_batch: int | None = None
    max_bytes_per_batch: int | None = None
    min_records_per_batch: int | None = None
    max_batch_delay_ms: int = MAX_BATCH_DELAY_MS
    min_splits: int | None = None
    max_records_per_split: int | None = None
    packs_small_ranges: bool = True
    max_drift_ms: int | None = None
    idle_timeout_ms: int = IDLE_TIMEOUT_MS
    max_future_skew_ms: int = MAX_FUTURE_SKEW_MS
    metrics: MetricsSettings | None = None
    progress_to: tuple[str, int, str] | None = None
    record_filter: RecordFilter = ()
    has_processing_time: bool = False

    def at(self, now_ms: int) -> SourceConfig:
        """Return the config with times instead of times before now. `now_ms` is used for both ends."""
        starting, stopping = (
            None if end is None else end.at(now_ms) for end in (self.starting, self.stopping)
        )
        return replace(self, starting=starting, stopping=stopping)

    @property
    def fails_on_removal(self) -> bool:
        removal = self.fail_on_removed_partition
        return self.fail_on_data_loss if removal is None else removal

    @property
    def group_id(self) -> str | None:
        """Return the consumer group whose offsets are read and committed; None without one."""
        return self.properties.get("group.id") or None


DEFAULT_PARTITIONER = "default"
FIXED_PARTITIONER = "fixed"
ROUND_ROBIN_PARTITIONER = "round-robin"
PARTITIONER_WORDS = (DEFAULT_PARTITIONER, FIXED_PARTITIONER, ROUND_ROBIN_PARTITIONER)


@dataclass(frozen=True)
class SinkConfig:
    """All settings of a write.

    Attributes:
        properties: of Kafka.
        topic: None means that each row names its topic.
        delivery_guarantee: the promise of the sink.
        transactional_id_prefix: set with EXACTLY_ONCE, and only then.
        commit_log_topic: None means that the prefix gives the name.
        partitioner: one of `PARTITIONER_WORDS`, a dotted name in Python, or a text of `python_objects`.
        query_id: of the stream, if a batch write carries out a micro-batch of it (`foreachBatch`). With
            `batch_id` it identifies the write when it is repeated.
        batch_id: set with `query_id`, and only then.
        write_id: the user's name for a batch write, which identifies it when it is repeated. Never set
            together with `query_id`.
        sibling_prefixes: other prefixes that have written the same micro-batch before.
        logs_failures: whether records that Kafka does not take are logged and lost. Only with NONE.
        flushes_on_checkpoint: whether a task of a stream waits for acknowledgements. False only with NONE.
        checkpoint_location: of the stream, where Spark says it.
        metrics_port: the HTTP end of a source that shows this sink; None: nothing is reported.
        fails_on_new_query: whether a new query under the prefix of another one stops. Only with EXACTLY_ONCE.
    """

    properties: KafkaProperties
    topic: str | None = None
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    transactional_id_prefix: str | None = None
    commit_log_topic: str | None = None
    partitioner: str = DEFAULT_PARTITIONER
    query_id: str | None = None
    batch_id: int | None = None
    write_id: str | None = None
    sibling_prefixes: frozenset[str] = frozenset()
    logs_failures: bool = False
    flushes_on_checkpoint: bool = True
    checkpoint_location: str | None = field(default=None, compare=False)
    metrics_port: int | None = None
    fails_on_new_query: bool = False
