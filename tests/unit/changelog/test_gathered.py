"""Aggregates of gathered changes: those of the rows that are left, whatever their order."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.calls import parse_calls
from penstock.changelog.operators.gathered import GroupAggregates
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.histories import apply, changelog
from tests.unit.changelog.running import Row

COLUMNS = pa.schema([("i", pa.int32()), ("d", pa.decimal128(10, 2)), ("s", pa.string())])
CALLS = {
    "n": "count(*)",
    "c": "count(i)",
    "total": "sum(d)",
    "least": "min(i)",
    "most": "max(s)",
    "different": "count(distinct i)",
    "different_total": "sum(distinct i)",
    "list": "listagg(s)",
}
GATHERED = GroupAggregates(COLUMNS, tuple(parse_calls(CALLS)))
ROWS = pa.list_(pa.struct([*COLUMNS, pa.field("row_kind", pa.string())]))


def make(chance: random.Random) -> Row:
    return {
        "i": chance.choice([None, 1, 2, -5]),
        "d": chance.choice([None, Decimal("0.10"), Decimal("-7.25")]),
        "s": chance.choice([None, "", "a", "b"]),
    }


def of_rows(rows: list[Row]) -> dict[str, Any] | None:
    if not rows:
        return None
    of = {name: [row[name] for row in rows if row[name] is not None] for name in COLUMNS.names}
    return {
        "n": len(rows),
        "c": len(of["i"]),
        "total": sum(of["d"]) if of["d"] else None,
        "least": min(of["i"], default=None),
        "most": max(of["s"], default=None),
        "different": len(set(of["i"])),
        "different_total": sum(set(of["i"])) if of["i"] else None,
        "list": ",".join(sorted(of["s"])) if of["s"] else None,
    }


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32), st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_only_the_rows_that_are_left_count(seed: int, lengths: list[int]) -> None:
    chance = random.Random(seed)
    lists, expected = [], []
    for length in lengths:
        rows, table = changelog(chance, length, make), []  # type: tuple[list[Row], list[Row]]
        apply(table, rows)
        lists.append(chance.sample(rows, len(rows)))
        expected.append(of_rows(table))
    assert GATHERED.results(pa.array(lists, ROWS)).to_pylist() == expected


def test_a_part_of_a_batch_of_spark_is_read_from_its_beginning() -> None:
    rows = [[{"i": number, "d": None, "s": None, "row_kind": "+I"}] for number in range(5)]
    found = GATHERED.results(pa.array(rows, ROWS).slice(3)).to_pylist()
    assert [each["least"] for each in found] == [3, 4]


def test_a_row_that_never_came_cannot_go() -> None:
    rows = [[{"i": 1, "d": None, "s": None, "row_kind": "-D"}]]
    with pytest.raises(RowError, match="takes away a row that is not there"):
        GATHERED.results(pa.array(rows, ROWS))


def test_without_lists_there_is_nothing() -> None:
    assert len(GATHERED.results(pa.array([], ROWS))) == 0
