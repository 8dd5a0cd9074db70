"""`deduplicate`: rows with one sort key, whose values decide."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators.deduplicate import Deduplicate
from penstock.spark._keyed_task import _digest
from penstock.state.columns import hash_values
from tests.unit.changelog.running import Row, Running

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "list": (pa.list_(pa.string()), [["a"], ["b"], ["a", "b"], ["b", "a"], [], [None], None]),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int8()))]),
        [None, {"x": None, "y": None}, {"x": 1, "y": [1]}, {"x": 1, "y": []}, {"x": 1, "y": [2, 1]}],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [None, [], [("a", 1)], [("a", None)], [("b", 1), ("a", 2)]]),
    "lists": (pa.list_(pa.list_(pa.int64())), [[[1], [2]], [[1, 2], []], [[], [1, 2]], [[1, 2]], [None]]),
}


@pytest.mark.parametrize("name", KINDS)
def test_nested_values_of_rows_with_one_sort_key_decide_in_any_order(name: str) -> None:
    kind, values = KINDS[name]
    columns = pa.schema([("id", pa.int64()), ("at", pa.int64()), ("v", kind)])
    rows: list[Row] = [{"id": 1, "at": 5, "v": value} for value in values]
    tables = [pa.Table.from_pylist(each, columns) for each in (rows, rows[::-1])]
    first, second = (
        Running(Deduplicate(columns, ("id",), ("at",)), columns).step(each) for each in (rows, rows[::-1])
    )
    assert first == second
    assert len({_digest(pa.Table.from_pylist([row], columns)) for row in rows}) == len(rows)
    assert _digest(tables[0]) == _digest(tables[1])


VALUES = st.lists(
    st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 2)), max_size=3)), max_size=8
)


@given(values=VALUES, start=st.integers(0, 3))
def test_rows_have_equal_hashes_if_and_only_if_their_nested_values_are_equal(
    values: list[Any], start: int
) -> None:
    table = pa.table({"v": pa.array(values, pa.list_(pa.int64()))})
    whole, piece = hash_values(table), hash_values(table.slice(start))
    assert whole.high[start:].tolist() == piece.high.tolist(), "a slice has the same hashes"
    assert len(set(whole.low.tolist())) == len(set(map(str, values)))
