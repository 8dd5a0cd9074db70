"""`sessions` against a list of all rows: a row comes out with its session when that is over."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.sessions import Sessions
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#clock", pa.int64()),
        ("k", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("v", pa.int64()),
        ("tags", pa.list_(pa.string())),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
START = datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))
GAP, DELAY = 4, 3


def running(*, is_bounded: bool = False) -> Running:
    operator = Sessions(
        COLUMNS, ("k",), "at", GAP * 10**6, ("begin", "stop"), DELAY * 10**6, is_bounded=is_bounded
    )
    return Running(operator, WITH_KIND)


def row(k: str | None, at: float, v: int = 0) -> Row:
    when = START + timedelta(seconds=at)
    return {
        **dict.fromkeys(COLUMNS.names),
        "#side": 0,
        "k": k,
        "at": when,
        "v": v,
        "tags": ["a"],
        "row_kind": "+I",
    }


def clock(rows: list[Row]) -> list[Row]:
    """Return what `Clocks` adds to the rows of a task."""
    latest = max((int((each["at"] - START).total_seconds() * 10**6) for each in rows), default=None)
    if latest is None:
        return []
    first = int(START.timestamp()) * 10**6
    return [{**dict.fromkeys(COLUMNS.names), "#side": 2, "#clock": first + latest, "row_kind": "+I"}]


def step(tested: Running, rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(shown(each) for each in tested.step([*rows, *clock(rows)]))


def shown(found: Row) -> tuple[Any, ...]:
    seconds = [(found[name] - START).total_seconds() for name in ("at", "begin", "stop")]
    return (found["k"] or "", found["v"], *seconds)


def of_all(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return all rows with their sessions."""
    out = []
    for key in {each["k"] for each in rows}:
        session: list[Row] = []
        for each in [*sorted((r for r in rows if r["k"] == key), key=lambda r: r["at"]), None]:
            if each is None or (session and each["at"] - session[-1]["at"] > timedelta(seconds=GAP)):
                stop = session[-1]["at"] + timedelta(seconds=GAP)
                out += [shown({**one, "begin": session[0]["at"], "stop": stop}) for one in session]
                session = []
            session += [each] if each is not None else []
    return out


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 60))
def test_a_row_comes_out_with_its_whole_session(seed: int, length: int) -> None:
    """No row is late here, so each row comes out once, and the sessions are those of all rows."""
    chance, tested, now = random.Random(seed), running(), 0
    rows: list[Row] = []
    out: list[tuple[Any, ...]] = []
    for number in range(6):
        batch = []
        for index in range(chance.randint(0, length // 5 + 1)):
            now += chance.choice([0, 0, 1, 3, 6])
            when = max(0, now - chance.choice([0, 1, DELAY]))
            batch.append(row(chance.choice(["a", "b", None]), when, 100 * number + index))
        latest = max((each["at"] for each in rows), default=START)
        batch = [each for each in batch if each["at"] >= latest - timedelta(seconds=DELAY)]
        rows += batch
        out += step(tested, chance.sample(batch, len(batch)))
        if rows:
            over = max(each["at"] for each in rows) - timedelta(seconds=DELAY)
            wanted = [each for each in of_all(rows) if START + timedelta(seconds=each[4]) < over]
            assert Counter(out) == Counter(wanted)
    end = [row("z", now + 100)]
    out += step(tested, end)
    assert Counter(out) == Counter(of_all(rows))
    assert len(tested.kept()) == 2, "the last row and the clock"


def test_a_row_is_late_if_its_session_is_over() -> None:
    tested = running()
    assert step(tested, [row("a", 0), row("a", 10), row("b", 20)]) == [
        ("a", 0, 0.0, 0.0, 4.0),
        ("a", 0, 10.0, 10.0, 14.0),
    ]
    assert step(tested, [row("a", 9, 1), row("b", 17, 2), row("a", 14, 3)]) == []
    assert step(tested, [row("c", 40)]) == [
        ("a", 3, 14.0, 14.0, 18.0),
        ("b", 0, 20.0, 17.0, 24.0),
        ("b", 2, 17.0, 17.0, 24.0),
    ]
    assert step(tested, [row("d", 1), row("e", 90)]) == [("c", 0, 40.0, 40.0, 44.0)]


def test_a_batch_waits_for_nothing() -> None:
    tested = running(is_bounded=True)
    assert step(tested, [row("a", 8), row("a", 4), row("a", 13)]) == [
        ("a", 0, 4.0, 4.0, 12.0),
        ("a", 0, 8.0, 4.0, 12.0),
        ("a", 0, 13.0, 13.0, 17.0),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"row_kind": "-D"}, "sessions takes append-only rows"), ({"at": None}, "is null in 1 rows")],
)
def test_rows_that_have_no_session_are_refused(wrong: Row, message: str) -> None:
    with pytest.raises(RowError, match=message):
        running().step([{**row("a", 1), **wrong}])
