"""`keep_values` against a plain list of rows, each with the time of the batch that brought it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.keep_values import KeepValues
from penstock.errors import RowError
from penstock.state.snapshot import Lifetime
from tests.examples import examples
from tests.unit.changelog.histories import changelog, in_batches
from tests.unit.changelog.running import Row, Running, as_changelog

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string()), ("at", pa.int64()), ("day", pa.string())])
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
VALUES = ("at", "day")


def make(chance: random.Random) -> Row:
    return {"k": chance.choice([1, 2, None]), "s": chance.choice(["x", None])}


def timed(rows: list[Row], at: int | None, day: str | None = "d") -> list[Row]:
    return [{**row, "at": at, "day": day} for row in rows]


def plain(rows: list[Row]) -> list[tuple[Any, Any]]:
    return sorted(((row["k"], row["s"]) for row in rows), key=str)


def running(keys: tuple[str, ...] = ("k",), ttl_ms: int | None = None) -> Running:
    operator = KeepValues(COLUMNS, keys, VALUES, forgets=ttl_ms is not None)
    return Running(operator, WITH_KIND, Lifetime(ttl_ms, remembers_deleted=False, of_keys=ttl_ms is not None))


@pytest.mark.parametrize("keys", [("k",), ("k", "s")])
@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 10_000),
    length=st.integers(0, 60),
    times=st.lists(st.sampled_from([None, 1, 2, 3]), min_size=5, max_size=5),
)
def test_a_row_goes_with_the_values_with_which_it_came(
    keys: tuple[str, ...], seed: int, length: int, times: list[int | None]
) -> None:
    chance = random.Random(seed)
    tested = running(keys)
    table: list[Row] = []
    left: list[Row] = []
    for batch, at in zip(in_batches(chance, changelog(chance, length, make), 5), times, strict=True):
        before = list(table)
        out = tested.step(timed(batch, at))
        # A -D of a row that is not there fails in `as_changelog`.
        table = as_changelog([*({**row, "row_kind": "+I"} for row in table), *out])["rows"]
        for row in sorted(batch, key=lambda each: each["row_kind"] in ("-U", "-D")):
            content = {"k": row["k"], "s": row["s"]}
            left.remove(content) if row["row_kind"] in ("-U", "-D") else left.append(content)
        assert plain(table) == plain(left)
        assert all(row["at"] == at or row in before for row in table)


def test_the_greatest_values_of_equal_rows_go_first() -> None:
    tested = running()
    row = {"k": 1, "s": "x", "row_kind": "+I"}
    for at in (3, None, 5):
        tested.step(timed([row], at))
    gone = [tested.step(timed([{**row, "row_kind": "-D"}], 9))[0]["at"] for _ in range(3)]
    assert gone == [5, 3, None]
    assert tested.kept() == []


def test_a_row_that_is_not_there_is_an_error() -> None:
    tested = running()
    tested.step(timed([{"k": 1, "s": "x", "row_kind": "+I"}], 1))
    with pytest.raises(RowError, match=r"a row that is not there: 1 rows, the first with \{'k': 1\}"):
        tested.step(timed([{"k": 1, "s": "y", "row_kind": "-D"}], 1))


def test_a_forgotten_row_goes_without_a_word() -> None:
    tested = running(ttl_ms=10)
    rows: list[Row] = [{"k": key, "s": "x", "row_kind": "+I"} for key in (1, 2)]
    assert len(tested.step(timed(rows, 1), now_ms=1)) == 2
    more: Row = {"k": 1, "s": "y", "row_kind": "+I"}
    assert len(tested.step(timed([more], 2), now_ms=9)) == 1
    gone: list[Row] = [{**row, "row_kind": "-D"} for row in (*rows, more)]
    out = tested.step(timed(gone, 3), now_ms=12)
    assert [(row["k"], row["s"], row["at"], row["row_kind"]) for row in out] == [
        (1, "x", 1, "-D"),
        (1, "y", 2, "-D"),
    ]


def test_the_arguments_say_what_it_keeps() -> None:
    assert (
        len({KeepValues(COLUMNS, *each).arguments for each in ((("k",), VALUES), (("k", "s"), VALUES))}) == 2
    )
