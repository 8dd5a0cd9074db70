"""Rows put together by slices: aggregates of them are those of the rows, whatever came together."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.changelog.operators import slices
from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.slices import Slices

COLUMNS = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("i", pa.int64()),
        ("s", pa.string()),
        ("d", pa.decimal128(27, 2)),
    ]
)
CALLS = {
    "n": "count(*)",
    "m": "count(i)",
    "i": "sum(i)",
    "d": "sum(d)",
    "low": "min(s)",
    "high": "max(s)",
    "last": "max(t)",
}
BIG = 1 << 62
ROWS = st.fixed_dictionaries(
    {
        "t": st.none() | st.integers(-9_000_000, 9_000_000),
        "k": st.none() | st.sampled_from("ab"),
        "i": st.none() | st.integers(-3, 3) | st.sampled_from([BIG, -BIG]),
        "s": st.none() | st.text(max_size=2),
        "d": st.none() | st.sampled_from([Decimal("0.01"), Decimal("-9999999999999999999999999.99")]),
    }
)
ADDED = ("n", "m", "i", "d")


def made(length_us: int, offset_us: int, calls: dict[str, str] = CALLS) -> Slices:
    return Slices(COLUMNS, "t", length_us, offset_us, ("k",), tuple(parse_calls(calls)))


def table(rows: list[dict[str, Any]]) -> pa.Table:
    plain = COLUMNS.set(0, pa.field("t", pa.int64()))
    return pa.Table.from_pylist(rows, plain).cast(COLUMNS)


def alone(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a row is for each aggregate."""
    return {
        "n": 1,
        "m": int(row["i"] is not None),
        "i": row["i"],
        "d": row["d"],
        "low": row["s"],
        "high": row["s"],
        "last": row["t"],
    }


def merged(rows: list[tuple[Any, dict[str, Any]]]) -> dict[Any, dict[str, Any]]:
    """Return the aggregates of each group, as Spark merges them."""
    groups: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for key, row in rows:
        groups[key].append(row)
    found = {}
    for key, members in groups.items():
        values = {name: [row[name] for row in members if row[name] is not None] for name in CALLS}
        of = {name: sum if name in ADDED else min if name == "low" else max for name in CALLS}
        found[key] = {name: of[name](each) if each else None for name, each in values.items()}
    return found


def found_by(one: Slices, batches: list[pa.Table]) -> list[tuple[Any, dict[str, Any]]]:
    given_batches = [batch for each in batches for batch in each.to_batches()]
    found = []
    for batch in one.run(given_batches):
        plain = pa.Table.from_batches([batch])
        for name in ("t", "last"):
            index = plain.schema.get_field_index(name)
            plain = plain.set_column(index, name, plain.column(name).cast(pa.int64()))
        found += [((row["t"], row["k"]), row) for row in plain.to_pylist()]
    return found


@given(
    st.lists(ROWS, max_size=30),
    st.integers(1, 3_000_000),
    st.integers(-5_000_000, 5_000_000),
    st.integers(1, 8),
)
def test_aggregates_of_slices_are_those_of_their_rows(
    rows: list[dict[str, Any]], length_us: int, offset_us: int, held: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slices, "_MOST_ROWS", held)
        found = found_by(made(length_us, offset_us), [table([row]) for row in rows])
    wanted = [
        ((row["t"] - (row["t"] - offset_us) % length_us, row["k"]), alone(row))
        for row in rows
        if row["t"] is not None
    ]
    assert merged(found) == merged(wanted)


def test_rows_of_a_slice_become_one() -> None:
    rows = [{"t": number * 10, "k": "a", "i": 1, "s": "x", "d": None} for number in range(100)]
    found = found_by(made(1_000, 0), [table(rows[:60]), table(rows[60:])])
    assert [key for key, _ in found] == [(0, "a")]
    assert found[0][1]["n"] == found[0][1]["i"] == 100


def test_a_sum_of_a_batch_with_millions_of_rows_does_not_wrap_around() -> None:
    """Spark's `maxRecordsPerBatch` bounds a batch, and may be 0."""
    count, value = 3_000_000, (1 << 63) // 2_000_000
    row = {"t": 0, "k": "a", "i": value, "s": None, "d": None}
    rows = pa.concat_tables([table([row])] * 1_000).combine_chunks()
    batch = pa.concat_tables([rows] * (count // 1_000)).combine_chunks()
    sums = [
        each.column("i").to_numpy().astype(object).sum() for each in made(1_000, 0).run(batch.to_batches())
    ]
    assert sum(sums) == count * value


def test_a_sum_that_may_not_fit_is_left_to_spark() -> None:
    """A sum of Arrow begins again at the other end. Spark ends the query with an error."""
    rows = [{"t": 0, "k": "a", "i": BIG, "s": None, "d": None}] * 3
    found = found_by(made(1_000, 0), [table(rows)])
    assert [row["i"] for _, row in found] == [BIG] * 3


def test_a_task_gives_rows_away_before_it_holds_too_much() -> None:
    one, row = made(1_000, 0), {"t": 0, "k": "a", "i": 1, "s": None, "d": None}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slices, "_MOST_BYTES", 1)
        assert len(found_by(one, [table([row]), table([row])])) == 2
    assert len(found_by(one, [table([row]), table([row])])) == 1
