"""The rows of a key in order: what `in_order` does in one task."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import RowError
from penstock.spark.in_order import SortedRows
from tests.examples import examples

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string()), ("at", pa.int64()), ("row_kind", pa.string())])
Row = tuple[int, str | None, int | None, str]


def ordered(rows: list[Row], keys: tuple[str, ...] = ("k",), columns: pa.Schema = COLUMNS) -> list[Any]:
    batches = [
        pa.RecordBatch.from_pylist([dict(zip(columns.names, row, strict=False))], columns) for row in rows
    ]
    out = pa.Table.from_batches(SortedRows(keys, ("at",)).run(batches), columns)
    return [tuple(row.values()) for row in out.to_pylist()]


@settings(max_examples=examples(50))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["+I", "+U", "-D", "change"])), max_size=12),
    st.integers(0, 1_000),
)
def test_the_order_does_not_depend_on_delivery(changes: list[tuple[int, str]], seed: int) -> None:
    history: list[Row] = []
    for at, (key, kind) in enumerate(changes):
        if kind == "change":
            history += [(key, "old", at, "-U"), (key, "new", at, "+U")]
        else:
            history.append((key, f"{at}", at, kind))
    chance = random.Random(seed)
    delivered = history + chance.sample(history, len(history) // 3)  # equal rows may come twice
    chance.shuffle(delivered)
    once = list(dict.fromkeys(ordered(delivered)))
    for key in range(4):
        assert [row for row in once if row[0] == key] == [row for row in history if row[0] == key]


@pytest.mark.parametrize(
    "tied",
    [
        [(1, "a", 5, "+I"), (1, "b", 5, "+I")],
        [(1, "a", 5, "+U"), (1, None, 5, "+U")],
        [(1, "a", 5, "-D"), (1, "a", 5, "+I")],
        [(1, "a", 5, "-U"), (1, "b", 5, "+I")],
        [(1, "a", 5, "-U"), (1, "a", 5, "-D")],
        [(1, "a", 5, "-U"), (1, "b", 5, "+U"), (1, "c", 5, "+U")],
        [(1, "a", 5, "-U"), (1, "b", 5, "-U")],
    ],
)
def test_different_rows_of_a_key_with_one_sort_key_are_an_error(tied: list[Row]) -> None:
    others: list[Row] = [(2, "x", 5, "+I"), (1, "x", 4, "+I")]
    for rows in (tied + others, others + tied[::-1]):
        with pytest.raises(RowError, match=r"Rows of 1 keys .* for example \{'k': 1, 'at': 5\}.*Nothing"):
            ordered(rows)
    with pytest.raises(RowError, match="got null"):
        ordered([(1, "a", None, "+I")])


def test_without_kinds_all_rows_are_inserts() -> None:
    columns = COLUMNS.remove(3)
    assert ordered([(1, "b", 2, ""), (1, "a", 1, "")], columns=columns) == [(1, "a", 1), (1, "b", 2)]
    with pytest.raises(RowError, match="It is unknown which row is newer"):
        ordered([(1, "b", 1, ""), (1, "a", 1, "")], columns=columns)
    assert ordered([], columns=columns) == []
