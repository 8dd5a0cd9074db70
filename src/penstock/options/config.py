"""What the options of a reader or writer mean, after both dialects have been parsed.

Made on the driver, pickled to the executors. Invariant: frozen, hashable (configs key the process-wide
connection caches), and free of any dialect's spelling. Nothing here talks to Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from penstock.types import LogEnd, TopicPartition, Where


class IsolationLevel(str, Enum):
    """Which records of transactions a reader sees (Kafka's `isolation.level`)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class DeliveryGuarantee(str, Enum):
    """What a sink promises (Flink's `sink.delivery-guarantee`)."""

    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True)
class KafkaProperties:
    """Kafka client settings under the Java client's names, e.g. `bootstrap.servers`.

    Values are what the user wrote. `repr` shows names only, because values may be secrets.

    Attributes:
        items: names and values, sorted.
        prefix: what the user writes before a name, `properties.` or `kafka.`; for messages.
    """

    items: tuple[tuple[str, str], ...] = ()
    prefix: str = field(default="", compare=False)

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the text of a property."""
        return dict(self.items).get(name, default)

    def spelled(self, name: str) -> str:
        """Return a property's name as the user has to write it, e.g. `kafka.acks`."""
        return self.prefix + name

    def changed(self, name: str, value: str) -> KafkaProperties:
        """Return the properties with another value for one of them."""
        others = [(one, text) for one, text in self.items if one != name]
        return KafkaProperties(tuple(sorted((*others, (name, value)))), self.prefix)

    def __repr__(self) -> str:
        return f"KafkaProperties({', '.join(name for name, _ in self.items)})"


@dataclass(frozen=True)
class TopicList:
    """Subscribe to these topics; each must exist."""

    topics: tuple[str, ...]


@dataclass(frozen=True)
class TopicPattern:
    """Subscribe to every non-internal topic that the pattern matches in full (Java's `matches()`)."""

    pattern: str


@dataclass(frozen=True)
class TopicPartitionSet:
    """Read exactly these topic partitions; each must exist."""

    topic_partitions: tuple[TopicPartition, ...]


Subscription = TopicList | TopicPattern | TopicPartitionSet


@dataclass(frozen=True)
class OffsetsSpec:
    """A starting or stopping point before it is resolved to numbers.

    Attributes:
        others: where the topic partitions are that `each` does not name. None: `each` has to name all.
        each: where each topic partition is by itself.
        without_committed: where a topic partition is that is at COMMITTED, and whose group has no offset.
            None makes that an error.
        needs_match: whether a log without a record of a `Time` or later is an error (Spark's `error`).
            Otherwise its end is meant.
        initializer: the user's object that decides, as text (see source/user_initializer.py). Then nothing
            else is set.
    """

    others: Where | None = None
    each: tuple[tuple[TopicPartition, Where], ...] = ()
    without_committed: LogEnd | None = None
    needs_match: bool = False
    initializer: str = ""

    @property
    def places(self) -> frozenset[Where]:
        """All places that it speaks of."""
        places = {where for _, where in self.each}
        return frozenset(places if self.others is None else {self.others, *places})


@dataclass(frozen=True)
class DiscoveryInterval:
    """How often a stream looks for new topics and topic partitions.

    Use `DiscoveryInterval.ONCE`, `DiscoveryInterval.EVERY_BATCH` or `DiscoveryInterval.every(ms)`.

    Attributes:
        after_ms: so long after the last time, at the next batch; None: never again after the start.
    """

    after_ms: int | None

    ONCE: ClassVar[DiscoveryInterval]
    EVERY_BATCH: ClassVar[DiscoveryInterval]

    @classmethod
    def every(cls, interval_ms: int) -> DiscoveryInterval:
        """Return the interval of that length; an interval of 0 means once, as in Flink."""
        return cls(interval_ms) if interval_ms else cls.ONCE

    def is_due(self, since_last_ms: int) -> bool:
        """Return whether it is time to look, so long after the last time."""
        return self.after_ms is not None and since_last_ms >= self.after_ms


DiscoveryInterval.ONCE = DiscoveryInterval(None)
DiscoveryInterval.EVERY_BATCH = DiscoveryInterval(0)

DISCOVERY_INTERVAL_MS = 300_000
IDLE_TIMEOUT_MS = 60_000
MAX_BATCH_DELAY_MS = 900_000
"""As Spark's own source."""


@dataclass(frozen=True)
class SourceConfig:
    """Everything a read needs to know.

    `starting` None means: the caller's default (Spark's dialect: latest for streams, earliest for
    batch; Flink's dialect: earliest). `stopping` None means: streams do not end, batch reads end at latest.
    `discovery`: how often the set of topic partitions is looked up (Spark's dialect: with every batch).
    `fail_on_removed_partition` None means: as `fail_on_data_loss`. `commits_offsets`: positions that Spark's
    checkpoint holds go to the consumer group.
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
    max_drift_ms: int | None = None
    idle_timeout_ms: int = IDLE_TIMEOUT_MS

    @property
    def fails_on_removal(self) -> bool:
        """Whether a deleted topic partition is an error."""
        removal = self.fail_on_removed_partition
        return self.fail_on_data_loss if removal is None else removal

    @property
    def group_id(self) -> str | None:
        """The consumer group whose offsets are read and committed; None or a name that is not empty."""
        return self.properties.get("group.id") or None


DEFAULT_PARTITIONER = "default"
FIXED_PARTITIONER = "fixed"
ROUND_ROBIN_PARTITIONER = "round-robin"
PARTITIONER_WORDS = (DEFAULT_PARTITIONER, FIXED_PARTITIONER, ROUND_ROBIN_PARTITIONER)


@dataclass(frozen=True)
class SinkConfig:
    """Everything a write needs to know. `topic` None means: each row names its topic.

    `transactional_id_prefix` is set with EXACTLY_ONCE, and only then. `commit_log_topic` None: named by the
    prefix. `partitioner` is one of the three words, a dotted name in Python, or a text of `python_objects`.
    `query_id` and `batch_id` are set, both, by a batch write that carries out a micro-batch of a stream
    (`foreachBatch`): they make it known again when it is repeated. `write_id` is set, without those, by a
    batch write that the user has named, for the same reason. `sibling_prefixes` have written the same
    micro-batch before.
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
    checkpoint_location: str | None = field(default=None, compare=False)
