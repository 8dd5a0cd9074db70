"""Divide planned ranges into splits, the work of one Spark task each.

Runs on the driver. Pure. Invariant: the splits tile each range exactly, without gap or overlap; the same
ranges and options always give the same splits in the same order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from penstock.source._packing import pack
from penstock.source.splits import Split, SplitRange
from penstock.types import OffsetRange, TopicPartition


def divide(
    ranges: Iterable[OffsetRange],
    *,
    min_splits: int | None = None,
    max_records_per_split: int | None = None,
    topic_ids: Mapping[str, str] | None = None,
    packs: bool = True,
) -> list[Split]:
    """Divide ranges among tasks: one each; large ones among several, small ones together in one.

    The limits are Spark's `minPartitions` and `maxRecordsPerPartition`. First every range is cut into pieces
    of at most `max_records_per_split` offsets. Then, if that gives fewer than `min_splits`, the ranges are
    cut in proportion to their size, so that about `min_splits` come out, and never fewer if there are as many
    offsets. Otherwise small ranges are packed, into `min_splits` splits or more. A piece of a range is never
    packed.

    Args:
        ranges: at most one of each topic partition; empty ones are left out.
        min_splits: how many splits to make at least; None for no minimum.
        max_records_per_split: how many offsets a split has at most; None for no limit.
        topic_ids: the known ids of the topics.
        packs: whether small ranges share a task.
    """
    ids = topic_ids or {}
    waiting = sorted((r for r in ranges if len(r) > 0), key=lambda r: (r.topic_partition, r.starting_offset))
    pieces = [_pieces_by_size(len(offset_range), max_records_per_split) for offset_range in waiting]
    wanted = min(min_splits or 0, sum(len(offset_range) for offset_range in waiting))
    if sum(pieces) < wanted:
        pieces = _grow(pieces, [len(offset_range) for offset_range in waiting], wanted)
    cut: list[Split] = []
    whole: list[SplitRange] = []
    for offset_range, count in zip(waiting, pieces, strict=True):
        topic_id = ids.get(offset_range.topic_partition.topic)
        if count == 1:
            whole.append(SplitRange(offset_range, topic_id))
        else:
            cut += [Split.of(piece, topic_id) for piece in _cut(offset_range, count)]
    least = wanted if packs else len(whole) + len(cut)
    packed = pack(whole, min_splits=least, max_records_per_split=max_records_per_split, other_splits=len(cut))
    return sorted([*cut, *packed], key=_place)


def _place(split: Split) -> tuple[TopicPartition, int]:
    first = split.ranges[0].offset_range
    return first.topic_partition, first.starting_offset


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


def _cut(offset_range: OffsetRange, count: int) -> list[OffsetRange]:
    """Cut into `count` pieces whose lengths differ by one at most."""
    start, length = offset_range.starting_offset, len(offset_range)
    bounds = [start + length * i // count for i in range(count + 1)]
    return [OffsetRange(offset_range.topic_partition, low, high) for low, high in pairwise(bounds)]
