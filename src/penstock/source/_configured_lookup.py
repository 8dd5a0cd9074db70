"""Look up offsets for planning: ends of logs, offsets by time, committed offsets.

Runs on the driver. Invariant: in a run with fixed ends (AvailableNow) every look-up goes through `FixedEnds`.
So all parts of planning see the same ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from penstock.client.cluster.results import Results
from penstock.options.config import SourceConfig
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source.checkpoint_offset import Positions
from penstock.types import LogEnd, OffsetRange, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class OffsetLookUps(Protocol):
    """The look-ups that resolve a starting or stopping point.

    Attributes:
        group_id: the consumer group whose offsets are looked up; None if the options name no group.
    """

    @property
    def group_id(self) -> str | None:
        """See the class."""

    def log_ends(
        self, topic_partitions: Collection[TopicPartition], end: LogEnd, *, wait: Wait = Wait.FOR_ALL
    ) -> Results[TopicPartition, int]:
        """Return one end of each log."""

    def for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        """Return the first offset whose record is not older; logs without such a record are left out."""

    def committed(self, topic_partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the committed offsets of the group; topic partitions without one are left out."""

    def records(self, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range, with all columns of KafkaRecords."""


class ConfiguredLookUps:
    """`OffsetLookUps` with the isolation level and the group of a config."""

    def __init__(self, config: SourceConfig, lookup: OffsetLookup) -> None:
        self._config = config
        self._lookup = lookup

    @property
    def group_id(self) -> str | None:
        return self._config.group_id

    def log_ends(
        self, topic_partitions: Collection[TopicPartition], end: LogEnd, *, wait: Wait = Wait.FOR_ALL
    ) -> Results[TopicPartition, int]:
        if not topic_partitions:
            return Results()
        level = self._config.isolation_level
        return self._lookup.list_offsets(topic_partitions, end, level, wait=wait)

    def for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        if not timestamps_ms:
            return Results()
        return self._lookup.offsets_for_times(timestamps_ms, self._config.isolation_level)

    def committed(self, topic_partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        group_id = self._config.group_id
        if group_id is None or not topic_partitions:
            return {}
        return self._lookup.committed_offsets(group_id, topic_partitions)

    def records(self, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
        return self._lookup.records(offset_range, self._config)


class FixedEnds:
    """`OffsetLookUps` of an AvailableNow run. The ends of its logs were taken when the run started.

    Args:
        look_ups: answers all other questions.
        ends: the ends; no other topic partition has one in the run.
    """

    def __init__(self, look_ups: OffsetLookUps, ends: Positions) -> None:
        self._look_ups = look_ups
        self._ends = ends

    @property
    def group_id(self) -> str | None:
        return self._look_ups.group_id

    def log_ends(
        self, topic_partitions: Collection[TopicPartition], end: LogEnd, *, wait: Wait = Wait.FOR_ALL
    ) -> Results[TopicPartition, int]:
        if end is LogEnd.EARLIEST:
            return self._look_ups.log_ends(topic_partitions, end, wait=wait)
        return Results({tp: self._ends[tp] for tp in topic_partitions if tp in self._ends})

    def for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        return self._look_ups.for_times(timestamps_ms)

    def committed(self, topic_partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._look_ups.committed(topic_partitions)

    def records(self, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
        return self._look_ups.records(offset_range)
