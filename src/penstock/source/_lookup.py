"""The questions of planning to a Kafka cluster, as a protocol. `kafka_lookup` answers them.

Runs on the driver. Invariant: each topic partition that was asked for has a value or an error, unless a
method says otherwise. A topic partition without an answer does not hide the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from penstock.client.cluster.results import Results
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.types import LogEnd, OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class Wait(Enum):
    """The time that a look-up gives to topic partitions that do not answer."""

    FOR_ALL = "for each, as long as the time-out of the client allows"
    FOR_ONE = "a moment; as long as the time-out allows if no topic partition answers at all"
    FOR_NONE = "a moment"


@dataclass(frozen=True)
class TopicView:
    """A topic, as the cluster describes it."""

    topic_partitions: frozenset[TopicPartition]
    is_internal: bool = False
    topic_id: str | None = None


class OffsetLookup(Protocol):
    """Batched look-ups; each ends within the time-outs of the client."""

    def describe_topics(self, topics: Iterable[str] | None) -> Mapping[str, TopicView]:
        """Return the named topics that exist; for None all that exist."""

    def list_offsets(
        self,
        topic_partitions: Collection[TopicPartition],
        end: LogEnd,
        isolation_level: IsolationLevel,
        *,
        wait: Wait = Wait.FOR_ALL,
    ) -> Results[TopicPartition, int]:
        """Return one end of each log. Under read_committed the latest offset is the last stable one."""

    def log_sizes(self, topic_partitions: Collection[TopicPartition]) -> Results[TopicPartition, int]:
        """Return the bytes of each log as its leader stores it, after a moment's wait at most."""

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> Results[TopicPartition, int]:
        """Return the first offset whose record is not older.

        A log without such a record has neither a value nor an error.
        """

    def committed_offsets(
        self, group_id: str, topic_partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Return the committed offsets of a group; topic partitions without one are left out."""

    def records(self, offset_range: OffsetRange, config: SourceConfig) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, in small batches with all columns of KafkaRecords."""
