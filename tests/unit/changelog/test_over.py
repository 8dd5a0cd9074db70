"""`over` against a list of all rows: each row sees the rows of its key before it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.over.calls import parse_over_calls
from penstock.changelog.operators.over.operator import Over
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.running import Row, Running

COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#clock", pa.int64()),
        ("k", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("sort_key", pa.int64()),
        ("i", pa.int64()),
        ("x", pa.float64()),
        ("p", pa.decimal128(10, 2)),
        ("s", pa.string()),
        ("tags", pa.list_(pa.string())),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
DELAY = 3
START = datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))
CALLS = {
    "n": "count(*)",
    "valid": "count(i)",
    "total": "sum(i)",
    "money": "sum(p)",
    "mean": "avg(x)",
    "least": "min(s)",
    "most": "max(i)",
    "one": "first(i)",
    "other": "last(i)",
    "before": "lag(i)",
    "third": "lag(s, 3)",
    "number": "row_number()",
    "rank": "rank()",
    "dense": "dense_rank()",
}
NUMBERS = ("number", "rank", "dense")


def running(
    frame: Literal["rows", "range"], preceding: int | None, calls: dict[str, str], *, is_bounded: bool = False
) -> Running:
    given = tuple(parse_over_calls(calls))
    operator = Over(
        COLUMNS, ("k",), "at", ("sort_key",), given, frame, preceding, DELAY * 10**6, is_bounded=is_bounded
    )
    return Running(operator, WITH_KIND)


def row(k: str | None, at: int, sort_key: int, chance: random.Random) -> Row:
    number = chance.choice([None, *range(-3, 4)])
    return {
        **dict.fromkeys(COLUMNS.names),
        "#side": 0,
        "k": k,
        "at": START + timedelta(seconds=at),
        "sort_key": sort_key,
        "i": number,
        "x": None if number is None else number / 4,
        "p": None if number is None else (Decimal(number) / 4).quantize(Decimal("0.01")),
        "s": chance.choice([None, "", "a", "b", "c"]),
        "tags": chance.choice([None, [], ["a"], [None, "b"]]),
        "row_kind": "+I",
    }


def clock(rows: list[Row]) -> list[Row]:
    """The clock that a task adds."""
    if not rows:
        return []
    latest = int(max(each["at"] for each in rows).timestamp() * 10**6)
    return [{**dict.fromkeys(COLUMNS.names), "#side": 2, "#clock": latest, "row_kind": "+I"}]


class Reference:
    """All rows so far."""

    def __init__(self, frame: str, preceding: int | None) -> None:
        self.frame = frame
        self.preceding = preceding
        self.waiting: list[Row] = []
        self.past: list[Row] = []
        self.latest: datetime | None = None
        self.watermark = START - timedelta(days=1)

    def step(self, batch: list[Row]) -> list[Row]:
        rows = [each for each in batch if each["at"] > self.watermark]
        if batch:
            self.latest = max([each["at"] for each in batch] + ([self.latest] if self.latest else []))
        if self.latest is not None:
            self.watermark = self.latest - timedelta(seconds=DELAY, microseconds=1)
        rows += self.waiting
        self.waiting = [each for each in rows if each["at"] > self.watermark]
        ready = [each for each in rows if each["at"] <= self.watermark]
        self.past += sorted(ready, key=lambda each: (each["at"], each["sort_key"]))
        return [self._out(each) for each in ready]

    def _out(self, row: Row) -> Row:
        of_key = [each for each in self.past if each["k"] == row["k"]]
        index = next(number for number, each in enumerate(of_key) if each is row)
        if self.frame == "rows":
            start = 0 if self.preceding is None else max(0, index - self.preceding)
            seen = of_key[start : index + 1]
        else:
            reach = timedelta(days=9) if self.preceding is None else timedelta(microseconds=self.preceding)
            seen = [each for each in of_key if row["at"] - reach <= each["at"] <= row["at"]]
        found = {name: row[name] for name in COLUMNS.names if not name.startswith("#")}
        return {**found, **results(seen, of_key, index)}


def results(seen: list[Row], of_key: list[Row], index: int) -> Row:
    numbers = [each["i"] for each in seen if each["i"] is not None]
    money = [each["p"] for each in seen if each["p"] is not None]
    floats = [each["x"] for each in seen if each["x"] is not None]
    texts = [each["s"] for each in seen if each["s"] is not None]
    return {
        "n": len(seen),
        "valid": len(numbers),
        "total": sum(numbers) if numbers else None,
        "money": sum(money) if money else None,
        "mean": sum(floats) / len(floats) if floats else None,
        "least": min(texts, default=None),
        "most": max(numbers, default=None),
        "one": numbers[0] if numbers else None,
        "other": numbers[-1] if numbers else None,
        "before": of_key[index - 1]["i"] if index >= 1 else None,
        "third": of_key[index - 3]["s"] if index >= 3 else None,
        "number": index + 1,
        "rank": 1 + sum(each["at"] < of_key[index]["at"] for each in of_key),
        "dense": len({each["at"] for each in of_key if each["at"] <= of_key[index]["at"]}),
    }


FRAMES: list[tuple[Literal["rows", "range"], int | None]] = [
    ("rows", None),
    ("rows", 0),
    ("rows", 2),
    ("range", None),
    ("range", 0),
    ("range", 4_000_000),
]


@pytest.mark.parametrize(("frame", "preceding"), FRAMES)
@pytest.mark.parametrize("lags", [True, False])
@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 60))
def test_each_row_sees_the_rows_before_it(
    frame: Literal["rows", "range"], preceding: int | None, lags: bool, seed: int, length: int
) -> None:
    calls = {
        name: text
        for name, text in CALLS.items()
        if (lags or "lag" not in text) and (preceding is None or name not in NUMBERS)
    }
    chance = random.Random(seed)
    tested, reference = running(frame, preceding, calls), Reference(frame, preceding)
    now = 0
    for number in range(6):
        batch = []
        for index in range(chance.randint(0, length // 5 + 1)):
            now += chance.choice([0, 0, 1, 3])
            when = max(0, now - chance.choice([0, 0, 1, 2, 9]))
            batch.append(row(chance.choice([*"abc", None]), when, 1000 * number + index, chance))
        out = tested.step(chance.sample([*batch, *clock(batch)], len(batch) + len(clock(batch))))
        expected = [
            {**{name: value for name, value in each.items() if name not in CALLS or name in calls}}
            for each in reference.step(batch)
        ]
        assert {each.pop("row_kind") for each in out} <= {"+I"}
        assert Counter(map(str, out)) == Counter(map(str, expected))


@pytest.mark.parametrize(
    ("frame", "preceding", "calls", "count"),
    [
        ("rows", None, {"n": "count(*)"}, 1),
        ("rows", None, {"n": "sum(i)", "l": "lag(i, 2)"}, 3),
        ("rows", 3, {"n": "sum(i)"}, 3),
        ("range", 5_000_000, {"n": "sum(i)"}, 5),
        ("range", 0, {"n": "sum(i)"}, 0),
    ],
)
def test_a_key_keeps_what_later_rows_need(
    frame: Literal["rows", "range"], preceding: int | None, calls: dict[str, str], count: int
) -> None:
    tested, chance = running(frame, preceding, calls), random.Random(1)
    for second in range(30):
        batch = [row("a", second, second, chance)]
        tested.step([*batch, *clock(batch)])
    assert len(tested.kept()) == count + DELAY + 2, "rows that wait, and the clock"


def test_equal_rows_are_counted_each_and_a_late_row_is_dropped() -> None:
    tested, chance = running("rows", None, {"n": "count(*)"}), random.Random(1)
    same, later = row("a", 1, 1, chance), row("a", 9, 2, chance)
    assert tested.step([same, same, *clock([same])]) == []
    assert [each["n"] for each in tested.step([later, *clock([later])])] == [1, 2]
    assert tested.step([same, row("a", 5, 3, chance), *clock([later])]) == []
    out = tested.step([row("a", 30, 4, chance), *clock([row("a", 30, 4, chance)])])
    assert [each["n"] for each in out] == [3], "5 is late too: 9 less 3 has passed it"


def test_a_batch_that_has_everything_waits_for_nothing() -> None:
    tested, chance = running("range", None, {"n": "count(*)"}, is_bounded=True), random.Random(1)
    out = tested.step([row("a", second, second, chance) for second in (5, 1, 9)])
    assert sorted(each["n"] for each in out) == [1, 2, 3]


def test_a_sum_that_does_not_fit_is_an_error() -> None:
    chance = random.Random(1)
    rows = [{**row("a", second, second, chance), "i": 2**62} for second in range(2)]
    with pytest.raises(RowError, match="does not fit"):
        running("rows", None, {"n": "sum(i)"}, is_bounded=True).step(rows)
    out = running("rows", 0, {"n": "sum(i)"}, is_bounded=True).step(
        [{**each, "i": -(2**63)} for each in rows]
    )
    assert [each["n"] for each in out] == [-(2**63)] * 2


@pytest.mark.parametrize("preceding", [None, 1])
def test_decimals_of_any_scale_are_summed(preceding: int | None) -> None:
    columns = COLUMNS.set(COLUMNS.get_field_index("p"), pa.field("p", pa.decimal128(30, 25)))
    given = tuple(parse_over_calls({"money": "sum(p)"}))
    operator = Over(columns, ("k",), "at", ("sort_key",), given, "rows", preceding, 0)
    tested = Running(operator, columns.append(pa.field("row_kind", pa.string())))
    least, chance = Decimal("1E-25"), random.Random(1)
    out = []
    for second in range(4):
        batch = [{**row("a", second, second, chance), "p": least}]
        out += tested.step([*batch, *clock(batch)])
    assert [each["money"] for each in out] == [least, 2 * least, (2 if preceding else 3) * least]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"row_kind": "-D"}, "over takes append-only rows"), ({"at": None}, "is null in 1 rows")],
)
def test_rows_are_only_inserted_and_have_a_time(change: Row, message: str) -> None:
    with pytest.raises(RowError, match=message):
        running("rows", None, {"n": "count(*)"}).step([{**row("a", 1, 1, random.Random(1)), **change}])


@pytest.mark.parametrize(
    "text", ["sum", "sum()", "sum(*)", "lag(i, 0)", "rank(i)", "row_number(i)", "lag(, 1)"]
)
def test_an_aggregate_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected one of count, sum|expected"):
        running("rows", None, {"n": text}).step([])


def test_infinity_leaves_a_frame_again() -> None:
    chance = random.Random(1)
    rows = [{**row("a", at, at, chance), "x": x} for at, x in enumerate([float("inf"), 1.0, 0.1, 0.2])]
    out = running("rows", 1, {"m": "sum(x)"}, is_bounded=True).step(rows)
    assert [each["m"] for each in out] == [float("inf"), float("inf"), 1.1, 0.1 + 0.2]
