"""Divide planned ranges into splits, the work of one Spark task each.

Runs on the driver. Pure. Invariant: the splits tile each range exactly, without gap or overlap; the same
ranges and options always give the same splits in the same order. Nothing else may count (the cores of the
session, sizes of logs): the sink knows the parts of a batch by the numbers of their Spark partitions, so a
replay has to divide a batch like the first run did.

Costs are estimates in microseconds. They only say which ranges are small. The query behind the read may cost
more for each record than the read, so a task gets few records where several tasks can share them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

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
    return sorted([*cut, *packed], key=lambda split: _sort_key(split.ranges[0]))


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


TASK_US = 15_000
"""What Spark spends on a task that reads nothing."""
RANGE_US = 200
"""What a task spends on a range with few records: its part of a request and its Arrow batch. The ranges of
one broker share requests."""
RECORD_US = 4
"""What a record costs. Reading takes less than 1; the rest is for the query behind the read."""
FULL_TASK_US = 8 * TASK_US
"""Where a task is large enough that its own price does not matter."""
LARGE_RANGE_US = FULL_TASK_US // 2
"""From here on a range has a task of its own."""
SMALLEST_TASK_US = 2 * TASK_US
"""Below this, one more task costs more than it can save, even if a core is free."""
ASSUMED_CORES = 8
"""Up to so many tasks are made even if they are not full. The plan must not depend on the real number."""


def pack(
    ranges: Iterable[SplitRange],
    *,
    min_splits: int = 1,
    max_records_per_split: int | None = None,
    other_splits: int = 0,
) -> list[Split]:
    """Pack ranges into splits: large ranges alone, small ones together.

    Args:
        ranges: not empty ones.
        min_splits: how many splits the batch has at least, if there are as many ranges.
        max_records_per_split: how many offsets a split of several ranges has at most.
        other_splits: how many splits the batch has besides these.

    Returns:
        Splits in the order of their first ranges.
    """
    costs = {each: cost_us(each) for each in ranges}
    alone = [Split((each,)) for each, cost in costs.items() if cost >= LARGE_RANGE_US]
    small = [each for each, cost in costs.items() if cost < LARGE_RANGE_US]
    work_us = sum(costs[each] for each in small)
    count = _count(work_us, len(alone) + other_splits, min_splits)
    packed = _balanced(small, costs, min(count, len(small)), max_records_per_split)
    return sorted([*alone, *packed], key=lambda split: _sort_key(split.ranges[0]))


def cost_us(one: SplitRange) -> int:
    return RANGE_US + RECORD_US * len(one.offset_range)


def _count(work_us: int, others: int, min_splits: int) -> int:
    """Return how many splits the small ranges get."""
    full = -(-work_us // FULL_TASK_US)
    parallel = min(ASSUMED_CORES - others, work_us // SMALLEST_TASK_US)
    return max(full, parallel, min_splits - others, 1)


def _balanced(
    ranges: Sequence[SplitRange], costs: dict[SplitRange, int], count: int, max_records: int | None
) -> list[Split]:
    """Give each range, the most expensive first, to the split with the least work.

    If that split has no room for its records, the range gets a split of its own.
    """
    members: list[list[SplitRange]] = [[] for _ in range(count)]
    records = [0] * count
    loads = [(0, index) for index in range(count)]
    for one in sorted(ranges, key=lambda each: (-costs[each], _sort_key(each))):
        load_us, index = loads[0]
        length = len(one.offset_range)
        if max_records is not None and records[index] and records[index] + length > max_records:
            members.append([one])
            records.append(length)
            heapq.heappush(loads, (costs[one], len(members) - 1))
            continue
        members[index].append(one)
        records[index] += length
        heapq.heapreplace(loads, (load_us + costs[one], index))
    return [Split(tuple(sorted(each, key=_sort_key))) for each in members]


def _sort_key(one: SplitRange) -> tuple[TopicPartition, int]:
    return one.offset_range.topic_partition, one.offset_range.starting_offset
