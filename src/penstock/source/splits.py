"""Splits: what one Spark task reads.

Planned on the driver (see _division.py), read on the executor. Pure values; they pickle small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.types import OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True)
class SplitRange:
    """A range of one topic partition, `[starting_offset, stopping_offset)`, whole or a piece of a larger one.

    Attributes:
        offset_range: the offsets.
        topic_id: the id of the topic, if it is known; another topic of the same name has another id.
    """

    offset_range: OffsetRange
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: one range, or several small ones.

    Attributes:
        ranges: at least one, sorted by topic partition and offset.
    """

    ranges: tuple[SplitRange, ...]

    @property
    def size(self) -> int:
        return sum(len(each.offset_range) for each in self.ranges)

    def __reduce__(self) -> tuple[Callable[..., Split], tuple[tuple[_Plain, ...]]]:
        """Pickle plain values: a split may have hundreds of ranges, and dataclasses pickle slowly."""
        return _split, (
            tuple(
                (*one.offset_range.topic_partition, *_bounds(one.offset_range), one.topic_id)
                for one in self.ranges
            ),
        )

    @classmethod
    def of(cls, offset_range: OffsetRange, topic_id: str | None = None) -> Split:
        return cls((SplitRange(offset_range, topic_id),))


_Plain = tuple[str, int, int, int, str | None]


def _bounds(offset_range: OffsetRange) -> tuple[int, int]:
    return offset_range.starting_offset, offset_range.stopping_offset


def _split(ranges: tuple[_Plain, ...]) -> Split:
    return Split(
        tuple(
            SplitRange(OffsetRange(TopicPartition(topic, partition), start, stop), topic_id)
            for topic, partition, start, stop, topic_id in ranges
        )
    )
