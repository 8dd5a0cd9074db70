"""`sort_by_time` against a sorted list: each row in time comes out once, and in order."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.sort_by_time import SortByTime
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#clock", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("s", pa.string()),
        ("v", pa.int64()),
        ("tags", pa.list_(pa.string())),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
START = datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))
DELAY = 3


def running(*, is_bounded: bool = False) -> Running:
    then_by = (("s", True), ("v", False))
    return Running(
        SortByTime(COLUMNS, "at", then_by, DELAY * 10**6, is_bounded=is_bounded),
        WITH_KIND,
    )


def row(at: int, s: str | None = "a", v: int | None = 0) -> Row:
    when = START + timedelta(seconds=at)
    return {
        **dict.fromkeys(COLUMNS.names),
        "#side": 0,
        "at": when,
        "s": s,
        "v": v,
        "tags": ["a"],
        "row_kind": "+I",
    }


def step(tested: Running, rows: list[Row]) -> list[tuple[Any, ...]]:
    clock = max((int(each["at"].timestamp()) * 10**6 for each in rows), default=None)
    clocks = [{**dict.fromkeys(COLUMNS.names), "#side": 2, "#clock": clock, "row_kind": "+I"}]
    out = tested.step([*rows, *(clocks if clock is not None else [])])
    assert all(each["row_kind"] == "+I" and each["tags"] == ["a"] for each in out)
    return [(int((each["at"] - START).total_seconds()), each["s"], each["v"]) for each in out]


def in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows by time, then by `s` from the highest one down, then by `v`. Null is the lowest value."""

    def key(found: tuple[Any, ...]) -> tuple[Any, ...]:
        at, s, v = found
        return at, s is None, -ord(s or "a"), v is not None, v or 0

    return sorted(rows, key=key)


@settings(max_examples=examples(80))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
def test_rows_come_out_once_and_in_order(seed: int, length: int) -> None:
    chance, tested, now = random.Random(seed), running(), 0
    latest: int | None = None
    in_time: list[tuple[Any, ...]] = []
    out: list[tuple[Any, ...]] = []
    for _ in range(5):
        batch = []
        for _ in range(chance.randint(0, length // 4 + 1)):
            now += chance.choice([0, 0, 1, 2])
            at = max(0, now - chance.choice([0, 0, 1, DELAY, 3 * DELAY]))
            batch.append((at, chance.choice(["a", "b", None]), chance.choice([None, 1, 2, 3])))
        in_time += [each for each in batch if latest is None or each[0] >= latest - DELAY]
        out += step(tested, [row(*each) for each in batch])
        latest = max([*(each[0] for each in batch), *([] if latest is None else [latest])], default=None)
        wanted = [each for each in in_time if latest is not None and each[0] < latest - DELAY]
        assert out == in_order(wanted)
        kept = [each for each in tested.kept() if each["#side"] == 0]
        assert len(kept) == len(in_time) - len(wanted), "it keeps what waits, and nothing else"


def test_a_late_row_is_dropped() -> None:
    tested = running()
    assert step(tested, [row(0), row(10)]) == [(0, "a", 0)]
    assert step(tested, [row(6), row(7), row(8)]) == []
    assert step(tested, [row(20)]) == [(7, "a", 0), (8, "a", 0), (10, "a", 0)]


def test_a_batch_waits_for_nothing() -> None:
    found = step(running(is_bounded=True), [row(3), row(1, None), row(1, "b")])
    assert found == [(1, "b", 0), (1, None, 0), (3, "a", 0)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"row_kind": "-D"}, "sort_by_time takes append-only rows"),
        ({"at": None}, "is null in 1 rows"),
    ],
)
def test_rows_that_have_no_time_are_refused(wrong: Row, message: str) -> None:
    with pytest.raises(RowError, match=message):
        running().step([{**row(1), **wrong}])
