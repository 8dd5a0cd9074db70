"""Starts and ends of an older consumer that options cannot say.

Made in the user's program; the driver asks them once, when a query is first planned. Invariants: each topic
partition has its own fall-back for its start: its offset in the map, else the offset of the group, else
`auto.offset.reset`. Everything before an end was looked at, so no element after it is ever read. The
checkpoint keeps the ends, so a restarted query ends at the same ones.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import OffsetOutOfRangeError, OptionError
from penstock.flink.offsets_initializer import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.options.offset_text import COMMITTED_OFFSET
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.types import LogEnd, OffsetRange, TopicPartition

_log = logging.getLogger("penstock.older")

_END_OF = {KafkaOffsetResetStrategy.EARLIEST: LogEnd.EARLIEST, KafkaOffsetResetStrategy.LATEST: LogEnd.LATEST}


@dataclass(frozen=True)
class SpecificOffsets(KafkaOffsetsInitializer):
    """Starts at given offsets.

    Attributes:
        given: the offset of the next record to read for each topic partition; None is the same as no entry.
        strategy: the position if neither the map nor the group has an offset.
        has_group: whether there is a consumer group.
    """

    given: tuple[tuple[TopicPartition, int | None], ...]
    strategy: KafkaOffsetResetStrategy
    has_group: bool

    @classmethod
    def of(
        cls,
        offsets: Mapping[TopicPartition, int | None],
        strategy: KafkaOffsetResetStrategy,
        *,
        has_group: bool,
    ) -> SpecificOffsets:
        """Return the start after a check.

        Raises:
            OptionError: an offset is not a number, or it is negative.
        """
        for tp, offset in offsets.items():
            is_number = isinstance(offset, int) and not isinstance(offset, bool)
            if offset is not None and (not is_number or offset < 0):
                raise OptionError(
                    f"The starting offset of {TopicPartition(*tp)} cannot be {offset!r}. Allowed: a whole "
                    "number, at least 0, or None for the committed offset of the group."
                )
        return cls(
            tuple(sorted((TopicPartition(*tp), offset) for tp, offset in offsets.items())),
            strategy,
            has_group,
        )

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Return an offset for each, or -3 for the committed one."""
        given = dict(self.given)
        if unread := sorted(str(tp) for tp in given.keys() - set(partitions)):
            _log.warning(
                "The starting offsets of %s are ignored, because the consumer does not read these topic "
                "partitions.",
                ", ".join(unread),
            )
        found = {tp: offset for tp in partitions if (offset := given.get(tp)) is not None}
        others = [tp for tp in partitions if tp not in found]
        if self.has_group or not others:
            return {**found, **dict.fromkeys(others, COMMITTED_OFFSET)}
        return {**found, **retriever.offsets_at(others, _END_OF[self.strategy])}

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return the position if the group has no committed offset."""
        return self.strategy


@dataclass(frozen=True)
class EndsOfStreams(KafkaOffsetsInitializer):
    """Stops each topic partition before the end of its stream, or at the present end of its log.

    Attributes:
        user_object: the schema with the `is_end_of_stream`.
    """

    user_object: Any

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Read each topic partition from its start, up to the end of its stream."""
        from penstock.table.older_schemas import StreamEnd  # noqa: PLC0415 - it loads Arrow
        from penstock.table.python_rows import consumer_records  # noqa: PLC0415 - it loads Arrow

        starts, log_ends = retriever.starting_offsets(partitions), retriever.end_offsets(partitions)
        found, stops = StreamEnd(self.user_object), dict(log_ends)
        for tp, start in sorted(starts.items()):
            batches = _records(retriever, OffsetRange(tp, start, max(start, log_ends[tp])))
            end = found.offset(record for batch in batches for record in consumer_records(batch))
            stops[tp] = log_ends[tp] if end is None else end
        return stops

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return a strategy that is never used, because each topic partition has a number."""
        return KafkaOffsetResetStrategy.LATEST


def _records(retriever: PartitionOffsetsRetriever, offset_range: OffsetRange) -> Iterator[Any]:
    """Yield the records of a range. Deleted records are passed over; planning the range reports that loss."""
    if offset_range.starting_offset >= offset_range.stopping_offset:
        return
    try:
        yield from retriever.records(offset_range)
    except OffsetOutOfRangeError as error:
        log_start: int = error.facts["log_start_offset"]
        if log_start <= error.facts["offset"]:
            return
        rest = OffsetRange(offset_range.topic_partition, log_start, offset_range.stopping_offset)
        yield from _records(retriever, rest)
