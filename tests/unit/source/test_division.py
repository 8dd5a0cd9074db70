"""Ranges divided among tasks: every offset once, in order; large ranges cut, small ones packed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.source._division import (
    ASSUMED_CORES,
    FULL_TASK_US,
    LARGE_RANGE_US,
    RECORD_US,
    SMALLEST_TASK_US,
    cost_us,
    divide,
)
from penstock.source.splits import Split, SplitRange
from penstock.types import OffsetRange, TopicPartition
from tests.unit.planning import ranges_of, tp

LARGE_RECORDS = LARGE_RANGE_US // RECORD_US
LENGTHS = st.integers(0, 300) | st.integers(0, 3 * LARGE_RECORDS)
RANGES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 40)),
    st.tuples(st.integers(0, 1000), LENGTHS),
    max_size=25,
).map(lambda ranges: [OffsetRange(key, start, start + length) for key, (start, length) in ranges.items()])
MIN_SPLITS = st.none() | st.integers(1, 120)
MAX_RECORDS = st.none() | st.integers(50, 3 * LARGE_RECORDS)


def equal_ranges(count: int, length: int) -> list[OffsetRange]:
    return [OffsetRange(tp(partition), 0, length) for partition in range(count)]


def records_in(split: Split) -> int:
    return sum(len(each.offset_range) for each in split.ranges)


def work_us(splits: Iterable[Split]) -> int:
    return sum(cost_us(each) for split in splits for each in split.ranges)


@given(RANGES, MIN_SPLITS, MAX_RECORDS, st.booleans())
def test_each_offset_is_in_one_split_and_the_limits_hold(
    ranges: list[OffsetRange], min_splits: int | None, max_records: int | None, packs: bool
) -> None:
    splits = divide(ranges, min_splits=min_splits, max_records_per_split=max_records, packs=packs)
    pieces = ranges_of(splits)
    for offset_range in ranges:
        position = offset_range.starting_offset
        for piece in (each for each in pieces if each.topic_partition == offset_range.topic_partition):
            assert piece.starting_offset == position, "in the order of the log"
            assert len(piece) > 0
            position = piece.stopping_offset
        assert position == offset_range.stopping_offset
    assert all(split.ranges for split in splits)
    assert all(records_in(split) <= (max_records or records_in(split)) for split in splits)
    assert len(splits) >= min(min_splits or 0, sum(len(offset_range) for offset_range in ranges))


@given(RANGES, MAX_RECORDS)
def test_packing_makes_no_more_splits_and_moves_no_bound(
    ranges: list[OffsetRange], max_records: int | None
) -> None:
    packed = divide(ranges, max_records_per_split=max_records)
    apart = divide(ranges, max_records_per_split=max_records, packs=False)
    assert len(packed) <= len(apart)
    assert sorted(ranges_of(packed), key=str) == sorted(ranges_of(apart), key=str)
    assert all(len(split.ranges) == 1 for split in apart)


@given(RANGES)
def test_there_are_as_many_tasks_as_the_work_can_use_and_none_is_much_too_long(
    ranges: list[OffsetRange],
) -> None:
    splits = divide(ranges)
    packed = [split for split in splits if len(split.ranges) > 1]
    assert all(cost_us(each) < LARGE_RANGE_US for split in packed for each in split.ranges)
    assert all(work_us([split]) < FULL_TASK_US + LARGE_RANGE_US for split in packed)
    # If there is work for a number of cores, and there are as many ranges, each core gets a task.
    assert len(splits) >= min(work_us(splits) // FULL_TASK_US, len(ranges_of(splits)))
    small = [split for split in splits if work_us([split]) < LARGE_RANGE_US or len(split.ranges) > 1]
    useful = min(ASSUMED_CORES - (len(splits) - len(small)), work_us(small) // SMALLEST_TASK_US)
    assert len(small) >= min(useful, len(ranges_of(small)))


@given(RANGES)
def test_few_tasks_are_small(ranges: list[OffsetRange]) -> None:
    splits = divide(ranges)
    large = sum(1 for split in splits if work_us([split]) >= LARGE_RANGE_US)
    small_us = work_us(split for split in splits if work_us([split]) < LARGE_RANGE_US)
    assert len(splits) - large <= max(1, small_us // SMALLEST_TASK_US, -(-work_us(splits) // FULL_TASK_US))


@given(RANGES, st.randoms(use_true_random=False), MIN_SPLITS, MAX_RECORDS)
def test_the_same_ranges_give_the_same_splits(
    ranges: list[OffsetRange], random: object, min_splits: int | None, max_records: int | None
) -> None:
    shuffled = list(ranges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random, which hypothesis does not say
    one, other = (
        divide(each, min_splits=min_splits, max_records_per_split=max_records) for each in (ranges, shuffled)
    )
    assert one == other


@given(RANGES, MIN_SPLITS, MAX_RECORDS)
@example(equal_ranges(200, 3), 150, None)
def test_a_minimum_is_reached_by_packing_less_before_a_range_is_cut(
    ranges: list[OffsetRange], min_splits: int | None, max_records: int | None
) -> None:
    splits = divide(ranges, min_splits=min_splits, max_records_per_split=max_records)
    if len(ranges_of(divide(ranges, max_records_per_split=max_records))) >= (min_splits or 0):
        uncut = divide(ranges, max_records_per_split=max_records, packs=False)
        assert sorted(ranges_of(splits), key=str) == sorted(ranges_of(uncut), key=str)


@pytest.mark.parametrize(
    ("min_splits", "max_records", "expected"),
    [
        (None, None, [(0, 100), (0, 10)]),
        (2, None, [(0, 100), (0, 10)]),
        (5, None, [(0, 25), (25, 50), (50, 75), (75, 100), (0, 10)]),
        (None, 50, [(0, 50), (50, 100), (0, 10)]),
        (None, 3, None),
    ],
)
def test_pieces_by_example(
    min_splits: int | None, max_records: int | None, expected: list[tuple[int, int]] | None
) -> None:
    ranges = [OffsetRange(tp(0), 0, 100), OffsetRange(tp(1), 0, 10)]
    splits = divide(ranges, min_splits=min_splits, max_records_per_split=max_records)
    bounds = [(piece.starting_offset, piece.stopping_offset) for piece in ranges_of(splits)]
    if expected is None:
        assert len(bounds) == 34 + 4
    else:
        assert bounds == expected


@pytest.mark.parametrize(
    ("count", "length", "min_splits", "expected"),
    [
        (1, 10, None, 1),
        (8, 100, None, 1),
        (200, 0, None, 0),
        (200, 1_250, None, 9),
        (200, 1_250, 50, 50),
        (200, 1_250, 200, 200),
        (2_000, 10, None, 8),
        (2, 1_000_000, None, 2),
        (40, LARGE_RECORDS, None, 40),
    ],
)
def test_splits_by_example(count: int, length: int, min_splits: int | None, expected: int) -> None:
    assert len(divide(equal_ranges(count, length), min_splits=min_splits)) == expected


def test_a_large_range_has_a_task_of_its_own_beside_packed_ones() -> None:
    ranges = [*equal_ranges(5, 10), OffsetRange(tp(5), 0, LARGE_RECORDS)]
    small, large = divide(ranges, topic_ids={"t": "an-id"})
    assert small.ranges == tuple(SplitRange(each, "an-id") for each in equal_ranges(5, 10))
    assert large.ranges == (SplitRange(OffsetRange(tp(5), 0, LARGE_RECORDS), "an-id"),)


def test_thousands_of_ranges_are_packed_in_no_time() -> None:
    ranges = equal_ranges(8_000, 7)
    assert len(divide(ranges, max_records_per_split=13)) == 8_000
    assert len(divide(ranges, max_records_per_split=14)) == 4_000
