"""Pack small ranges into few splits, because each Spark task has a price of its own.

Runs on the driver. Pure. Invariants: each range is in exactly one split, whole; the splits follow from the
ranges and the options alone. Nothing else may count (the cores of the session, sizes of logs): the sink knows
the parts of a batch by the numbers of their Spark partitions, so a replay has to divide a batch like the
first run did.

Costs are estimates in microseconds. They only say which ranges are small. The query behind the read may cost
more for each record than the read, so a task gets few records where several tasks can share them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from penstock.source.splits import Split, SplitRange
from penstock.types import TopicPartition

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
    return sorted([*alone, *packed], key=lambda split: _place(split.ranges[0]))


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
    for one in sorted(ranges, key=lambda each: (-costs[each], _place(each))):
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
    return [Split(tuple(sorted(each, key=_place))) for each in members]


def _place(one: SplitRange) -> tuple[TopicPartition, int]:
    return one.offset_range.topic_partition, one.offset_range.starting_offset
