"""Lines of the connector print, and texts that would repeat their parts."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.sql.plan.texts import let
from penstock.sql.run._lines import line, text
from tests.unit.sql.planning import in_spark


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-1.25e20, "-1.25E20"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("0E-7"), "0.0000000"),
        (Decimal("1.50"), "1.50"),
        (datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (datetime(2026, 1, 2, 3, 4, 5, 120_000), "2026-01-02T03:04:05.120"),
        (datetime(2026, 1, 2, 3, 4, 5, 120_001), "2026-01-02T03:04:05.120001"),
        (date(2026, 1, 2), "2026-01-02"),
        (b"\x01\xff", "[1, -1]"),
        ([1, None], "[1, null]"),
        ({"k": 1.5}, "{k=1.5}"),
        ((1, "a"), "+I[1, a]"),
        ("a, b", "a, b"),
    ],
)
def test_a_value_has_the_text_of_java(value: Any, expected: str) -> None:
    assert text(value) == expected


def test_a_row_is_a_line() -> None:
    assert line((1, "a", None)) == "+I[1, a, null]"
    assert line((1,), "-D") == "-D[1]"


def test_nested_calls_grow_by_their_own_length() -> None:
    expression = "s"
    lengths = []
    for _ in range(12):
        expression = f"GREATEST({expression}, s, SUBSTRING(s, i))"
        lengths.append(len(in_spark(expression)))
    assert lengths[-1] - lengths[-2] < 2 * (lengths[-6] - lengths[-7]) < 2_000


def test_what_changes_with_each_look_stands_once() -> None:
    made = in_spark("GREATEST(RAND(), d)")
    assert made.count("rand()") == 1
    assert let(["rand()"], lambda x: f"{x[0]} + {x[0]}").count("rand()") == 1


def test_names_in_a_text_differ_from_those_around_it() -> None:
    inner = let(["x" * 300], lambda x: f"f({x[0]}, {x[0]})")
    outer = let([inner, "v7"], lambda x: f"g({x[0]}, {x[0]}, {x[1]})")
    names = re.findall(r"(v\d+) ->", outer)
    assert len(names) == len(set(names)) == 2
    assert "v7" not in names
