"""Look up offsets for planning (ends of logs, by time, committed), and define what one run may read.

Runs on the driver. Invariant: in a run with fixed ends (AvailableNow) every look-up goes through `FixedEnds`.
So all parts of planning see the same ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.client.cluster.results import Results
from penstock.options.config import SourceConfig
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source._subscriber import Discovery
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


@dataclass(frozen=True)
class Run:
    """What one run of a query may read: everything, or with AvailableNow what existed at its start.

    Attributes:
        look_ups: answer every question about offsets in this run.
        ends: where reading ends; None if that is not fixed.
        discovery: the topic partitions that existed when the ends were taken.
    """

    look_ups: OffsetLookUps
    ends: Positions | None = None
    discovery: Discovery | None = None

    @property
    def is_fixed(self) -> bool:
        """Return whether records that arrive later are left out."""
        return self.ends is not None

    def up_to(self, ends: Positions, discovery: Discovery) -> Run:
        """Return a run that reads up to these ends only."""
        return Run(FixedEnds(self.look_ups, ends), ends, discovery)

    def first(self, discovery: Discovery) -> Collection[TopicPartition]:
        """Return the discovered topic partitions with which a query begins."""
        return discovery.topic_partitions if self.ends is None else self.ends.keys()

    def visible(
        self, existing: Collection[TopicPartition], known: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Return the topic partitions of `existing` that the run may read.

        With fixed ends these are the ones with an end, and the `known` ones, which are being read.
        """
        if self.ends is None:
            return existing
        return [tp for tp in existing if tp in self.ends or tp in known]

    def readable_ends(
        self, begin: Positions, latest: Positions, topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, int]:
        """Return how far the run reads each log.

        A topic that was recreated after the fixed ends were taken is not read in this run: the fixed end is
        an offset of the first topic, and as a position it would skip records of the second one.
        """
        then = {} if self.discovery is None else self.discovery.topic_ids
        recreated = {topic for topic, now in topic_ids.items() if then.get(topic, now) != now}
        return {tp: begin[tp] if tp.topic in recreated else end for tp, end in latest.items()}
