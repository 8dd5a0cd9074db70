"""What the options of a reader or writer mean, after both dialects have been parsed.

Made on the driver, pickled to the executors. Invariant: frozen, hashable (configs key the process-wide
connection caches), and free of any dialect's spelling. Nothing here talks to Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from penstock.types import TopicPartition


class IsolationLevel(str, Enum):
    """Which records of transactions a reader sees (Kafka's `isolation.level`)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class DeliveryGuarantee(str, Enum):
    """What a sink promises (Flink's `sink.delivery-guarantee`)."""

    NONE = "none"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class StartupMode(str, Enum):
    """Where a new query starts (Flink's `scan.startup.mode`), and where a bounded one ends."""

    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    SPECIFIC_OFFSETS = "specific-offsets"


@dataclass(frozen=True)
class KafkaProperties:
    """Kafka client settings under the Java client's names, e.g. `bootstrap.servers`.

    Values are what the user wrote. `repr` shows names only, because values may be secrets.
    """

    items: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the text of a property."""
        return dict(self.items).get(name, default)

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

    `offsets` is used with SPECIFIC_OFFSETS only. The sentinels EARLIEST_OFFSET (-2) and LATEST_OFFSET
    (-1) are allowed in it, as in Spark's `startingOffsets` JSON. `fallback` is for subscribed topic
    partitions that `offsets` does not name: None makes them an error (Spark's dialect), EARLIEST or
    LATEST is where they start (Flink's dialect: EARLIEST).
    """

    mode: StartupMode
    offsets: tuple[tuple[TopicPartition, int], ...] = ()
    fallback: StartupMode | None = None


EARLIEST_OFFSET = -2
LATEST_OFFSET = -1

DISCOVER_EVERY_BATCH_MS = 1
"""Stands for: look with every batch, however soon after the last."""


@dataclass(frozen=True)
class SourceConfig:
    """Everything a read needs to know.

    `starting` None means: the caller's default (Spark's dialect: latest for streams, earliest for
    batch; Flink's dialect: earliest). `stopping` is used by batch reads; None means latest.
    `discovery_interval_ms` 0 means: the set of topic partitions is looked up once, at the start;
    DISCOVER_EVERY_BATCH_MS: with every batch (Spark's dialect).
    """

    properties: KafkaProperties
    subscription: Subscription
    starting: OffsetsSpec | None = None
    stopping: OffsetsSpec | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    include_headers: bool = False
    fail_on_data_loss: bool = True
    discovery_interval_ms: int = 300_000
    max_records_per_batch: int | None = None
    min_splits: int | None = None
    max_records_per_split: int | None = None


@dataclass(frozen=True)
class SinkConfig:
    """Everything a write needs to know. `topic` None means: each row names its topic."""

    properties: KafkaProperties
    topic: str | None = None
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    checkpoint_location: str | None = field(default=None, compare=False)
