"""Rows as texts, and a table that follows a changelog."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.sql.shell.cells import aligned, cell, kind_and_cells, line, shown_names
from penstock.sql.shell.changes import FollowedRows
from tests.examples import examples


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (Decimal("1.50"), "1.50"),
        (bytearray(b"\n\xff"), "x'0aff'"),
        (datetime.fromisoformat("2026-01-02T03:04:05"), "2026-01-02 03:04:05"),
        ("a\nb\tc", "a b c"),
        ([1, None], "[1, NULL]"),
        ({"a": [True]}, "{a=[TRUE]}"),
        ((1, "x"), "(1, x)"),
    ],
)
def test_cells(value: Any, expected: str) -> None:
    assert cell(value) == expected


def test_a_row_kind_is_not_a_column() -> None:
    names = ["a", "row_kind", "b"]
    assert kind_and_cells(names, [1, "-D", None]) == ("-D", ("1", "NULL"))
    assert shown_names(names) == ["a", "b"]
    assert kind_and_cells(["a"], [1]) == ("+I", ("1",))
    assert line("+U", ("1", "x")) == "+U[1, x]"


def test_columns_are_aligned() -> None:
    assert list(aligned(["a", "long"], [("wide", "x")])) == ["a     long", "wide  x"]


def test_a_row_gets_the_number_of_the_one_that_it_replaces() -> None:
    rows = FollowedRows(10)
    for kind, *cells in [("+I", "a"), ("+I", "b"), ("-U", "a"), ("+U", "c"), ("+I", "d"), ("-D", "b")]:
        rows.apply(kind, tuple(cells))
    assert rows.last(9) == [("c",), ("d",)]
    assert rows.last(1) == [("d",)]


def test_the_oldest_rows_are_dropped_beyond_the_limit() -> None:
    rows = FollowedRows(2)
    for number in range(5):
        rows.apply("+I", (str(number),))
    rows.apply("-D", ("0",))
    assert (rows.last(9), rows.dropped, len(rows)) == ([("3",), ("4",)], 3, 2)


@settings(max_examples=examples(100))
@given(st.data())
def test_the_rows_are_those_of_the_changelog(data: st.DataObject) -> None:
    rows, true = FollowedRows(1_000), Counter[tuple[str]]()
    for _ in range(data.draw(st.integers(0, 20))):
        there = sorted(true.elements())
        is_change: bool = data.draw(st.booleans())
        if there and is_change:
            old: tuple[str] = data.draw(st.sampled_from(there))
            true -= Counter([old])
            if data.draw(st.booleans()):
                rows.apply("-D", old)
                continue
            rows.apply("-U", old)
            kind = "+U"
        else:
            kind = "+I"
        new = (data.draw(st.sampled_from("abc")),)
        true += Counter([new])
        rows.apply(kind, new)
    assert Counter(rows.last(1_000)) == true
