"""Divide planned ranges into splits, the work of one Spark task each.

Planned on the driver, read on the executor. Pure. Invariant: the splits of a range tile it exactly, without
gap or overlap; the same ranges always give the same splits in the same order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.types import OffsetRange


@dataclass(frozen=True, slots=True)
class Split:
    """The part of a range that one task reads: `[starting_offset, stopping_offset)` of one topic partition.

    Attributes:
        offset_range: the offsets.
        topic_id: the id of the topic, if it is known; another topic of the same name has another id.
    """

    offset_range: OffsetRange
    topic_id: str | None = None


def divide(
    ranges: Iterable[OffsetRange],
    *,
    min_splits: int | None = None,
    max_records_per_split: int | None = None,
    topic_ids: Mapping[str, str] | None = None,
) -> list[Split]:
    """Divide ranges among tasks: one each, more where a limit asks for it.

    As Spark's `minPartitions` and `maxRecordsPerPartition`: first every range is cut into pieces of at
    most `max_records_per_split` offsets; then, if that gives fewer than `min_splits`, the ranges are cut
    in proportion to their size so that about `min_splits` (and never fewer, as long as there are as many
    offsets) come out. Each split gets the id of its topic from `topic_ids`.
    """
    ids = topic_ids or {}
    waiting = sorted((r for r in ranges if len(r) > 0), key=lambda r: (r.topic_partition, r.starting_offset))
    pieces = [_pieces_by_size(len(offset_range), max_records_per_split) for offset_range in waiting]
    wanted = min(min_splits or 0, sum(len(offset_range) for offset_range in waiting))
    if sum(pieces) < wanted:
        pieces = _grow(pieces, [len(offset_range) for offset_range in waiting], wanted)
    return [
        split
        for offset_range, count in zip(waiting, pieces, strict=True)
        for split in _cut(offset_range, count, ids.get(offset_range.topic_partition.topic))
    ]


def _pieces_by_size(length: int, max_length: int | None) -> int:
    return 1 if max_length is None else -(-length // max_length)


def _grow(pieces: Sequence[int], lengths: Sequence[int], wanted: int) -> list[int]:
    """Give every range its proportional number of pieces, then the rest to those with the largest pieces."""
    total = sum(lengths)
    grown = [max(least, wanted * length // total) for least, length in zip(pieces, lengths, strict=True)]
    # Rounding down lost less than one piece for each range, so this gives few more.
    by_piece_size = [
        (-length / count, index) for index, (length, count) in enumerate(zip(lengths, grown, strict=True))
    ]
    heapq.heapify(by_piece_size)
    missing = wanted - sum(grown)
    while missing > 0:
        _, index = heapq.heappop(by_piece_size)
        if grown[index] < lengths[index]:
            grown[index] += 1
            missing -= 1
            heapq.heappush(by_piece_size, (-lengths[index] / grown[index], index))
    return grown


def _cut(offset_range: OffsetRange, count: int, topic_id: str | None) -> list[Split]:
    """Cut into `count` pieces whose lengths differ by one at most."""
    start, length = offset_range.starting_offset, len(offset_range)
    bounds = [start + length * i // count for i in range(count + 1)]
    topic_partition = offset_range.topic_partition
    return [Split(OffsetRange(topic_partition, low, high), topic_id) for low, high in pairwise(bounds)]
