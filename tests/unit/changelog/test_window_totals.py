"""Rows of windows that are over get the aggregates of all rows with their keys, whatever the batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators import window_totals
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.window_totals import WindowTotals

COLUMNS = pa.schema(
    [("end", pa.timestamp("us", "UTC")), ("k", pa.string()), ("n", pa.int64()), ("s", pa.string())]
)
CALLS = {"rows": "count(*)", "known": "count(n)", "least": "min(n)", "most": "max(n)", "last": "max(s)"}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "end": st.sampled_from([0, 1, None]),
            "k": st.sampled_from(["a", "b", None]),
            "n": st.none() | st.integers(-3, 3) | st.sampled_from([1 << 62, -(1 << 63)]),
            "s": st.none() | st.text(max_size=2),
        }
    )
)
Row = dict[str, Any]


def table(rows: list[Row]) -> pa.Table:
    plain = COLUMNS.set(0, pa.field("end", pa.int64()))
    return pa.Table.from_pylist(rows, plain).cast(COLUMNS)


def with_totals(row: Row, rows: list[Row]) -> Row:
    same = [each for each in rows if (each["end"], each["k"]) == (row["end"], row["k"])]
    numbers = [each["n"] for each in same if each["n"] is not None]
    texts = [each["s"] for each in same if each["s"] is not None]
    return {
        "n": row["n"],
        "k": row["k"],
        "rows": len(same),
        "known": len(numbers),
        "least": min(numbers, default=None),
        "most": max(numbers, default=None),
        "last": max(texts, default=None, key=str.encode),
    }


@given(ROWS, st.integers(1, 4), st.sampled_from([1, 1 << 20]))
def test_each_row_has_the_aggregates_of_all_rows_with_its_keys(
    rows: list[Row], size: int, most_bytes: int
) -> None:
    made = WindowTotals(COLUMNS, ("n", "k"), ("end", "k"), tuple(parse_calls(CALLS)))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_totals, "_MOST_BYTES", most_bytes)
        for batch in made.run(table(rows).to_batches(max_chunksize=size)):
            batch.validate(full=True)
            assert batch.schema == made.out_columns
            found += batch.to_pylist()
    keyed = [row for row in rows if row["end"] is not None and row["k"] is not None]
    wanted = [with_totals(row, keyed) for row in keyed]
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def test_a_task_without_rows_gives_none() -> None:
    assert list(WindowTotals(COLUMNS, ("n",), ("end",), tuple(parse_calls(CALLS))).run([])) == []
