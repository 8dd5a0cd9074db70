"""The orders that `penstock.changelog.operators.ordering` finds by packed numbers are NumPy's own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given

from penstock.changelog.operators.ordering import groups_of, groups_of_kept, rank, sort
from penstock.state.columns import Hashes, order_of, order_with_parts, state_rows

LEAST, MOST = -(2**63), 2**63 - 1
# Few values, so that rows are equal; and values so far apart that they do not fit into one number.
values = st.sampled_from([0, 1, -1, 5, 10**6, LEAST, MOST]) | st.integers(0, 20)
rows = st.lists(st.tuples(values, values, st.booleans()), max_size=60)


@given(rows)
def test_sort_gives_the_order_of_lexsort_and_leaves_equal_rows_in_their_order(
    drawn: list[tuple[int, int, bool]],
) -> None:
    groups = np.array([group % 7 for group, _, _ in drawn], np.int64)
    sort_keys = np.array([sort_key for _, sort_key, _ in drawn], np.int64)
    is_old = np.array([old for _, _, old in drawn], bool)
    assert sort(groups, [sort_keys], is_old).tolist() == np.lexsort((is_old, sort_keys, groups)).tolist()


@pytest.mark.parametrize(
    "column",
    [
        np.array([2**64 - 1, 0, 2**63], np.uint64),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 2], np.uint64),
        np.array([127, -128, 0], np.int8),
        np.array([LEAST, MOST, 0], np.int64),
        np.array([LEAST + 2, LEAST, LEAST + 1], np.int64),
        np.array([7, 7, 7], np.int32),
    ],
    ids=str,
)
def test_sort_takes_any_integer(column: npt.NDArray[Any]) -> None:
    groups = np.zeros(3, np.int64)
    assert sort(groups, [column]).tolist() == np.lexsort((column, groups)).tolist()


@pytest.mark.parametrize("bits", [1, 11, 12, 40, 64])
@pytest.mark.parametrize("count", [0, 1, 3_000])
def test_numbers_are_in_order_and_equal_ones_stay_in_theirs(count: int, bits: int) -> None:
    numbers = np.random.default_rng(bits).integers(0, 2**bits - 1, count, np.uint64, endpoint=True)
    for each in (numbers, np.repeat(numbers, 2), numbers[::2], numbers | np.uint64(2**63)):
        assert order_of(each).tolist() == np.argsort(each, kind="stable").tolist()


halves = st.sampled_from([0, 1, 2, 2**40, 2**40 + 1, 2**63, 2**64 - 1])
hashes = st.lists(st.tuples(halves, halves), max_size=40)


def _hashes(pairs: list[tuple[int, int]]) -> Hashes:
    high, low = (np.array([pair[half] for pair in pairs], np.uint64) for half in (0, 1))
    return Hashes(high, low)


@given(hashes)
def test_hashes_that_share_many_bits_are_in_order_too(pairs: list[tuple[int, int]]) -> None:
    found = _hashes(pairs)
    assert found.order().tolist() == np.lexsort((found.low, found.high)).tolist()
    assert found.ascends() == (pairs == sorted(set(pairs)))


@given(st.lists(st.tuples(halves, halves, halves, halves), max_size=40))
def test_rows_are_in_the_order_of_key_then_part(drawn: list[tuple[int, int, int, int]]) -> None:
    keys, parts = _hashes([each[:2] for each in drawn]), _hashes([each[2:] for each in drawn])
    order = np.lexsort((parts.low, parts.high, keys.low, keys.high))
    assert order_with_parts(keys, parts).tolist() == order.tolist()
    indices = pa.table({"index": np.arange(len(drawn))})
    for taken in (np.arange(len(drawn)), order):  # in any order, and sorted already
        given = indices.take(pa.array(taken))
        rows = state_rows(given, keys.take(taken), taken < 0, 0, parts.take(taken))
        assert rows.column("index").to_pylist() == order.tolist()


@given(st.lists(st.decimals(-(10**15), 10**15, places=2), max_size=20), st.integers(0, 5))
def test_small_decimals_are_ranked_by_their_values(drawn: list[Decimal], start: int) -> None:
    array = pa.array(drawn, pa.decimal128(18, 2))[start:]
    ranked = np.argsort(rank(array), kind="stable").tolist()
    assert ranked == sorted(range(len(array)), key=drawn[start:].__getitem__)
    assert len(set(rank(array).tolist())) == len(set(drawn[start:]))


@given(hashes, st.data())
def test_rows_that_were_kept_find_their_group(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    _, groups = groups_of(_hashes(pairs))
    count = len(groups)
    chosen = sorted(data.draw(st.sets(st.integers(0, count - 1)))) if count else []
    kept = groups.take(np.array(chosen, np.int64))
    assert groups_of_kept(kept, groups).tolist() == chosen
