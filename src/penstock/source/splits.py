"""Splits: what one Spark task reads.

Planned on the driver (see _division.py), read on the executor. Pure values; they pickle small.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.types import OffsetRange


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

    @classmethod
    def of(cls, offset_range: OffsetRange, topic_id: str | None = None) -> Split:
        """Return a split of one range."""
        return cls((SplitRange(offset_range, topic_id),))
