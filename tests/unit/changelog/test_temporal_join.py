"""`temporal_join` against a list of versions that forgets nothing."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.changelog.operators.temporal_join import TemporalJoin
from penstock.errors import RowError
from tests.examples import examples
from tests.unit.changelog.running import Row, Running

TIME = pa.timestamp("us", "UTC")
COLUMNS = pa.schema(
    [
        ("#side", pa.int8()),
        ("#key 0", pa.string()),
        ("#left k", pa.string()),
        ("#left at", TIME),
        ("#right rate", pa.int64()),
        ("#right since", TIME),
        ("#clock", pa.int64()),
    ]
)
WITH_KIND = COLUMNS.append(pa.field("row_kind", pa.string()))
NAMES = (("k", ("#left k",)), ("at", ("#left at",)), ("rate", ("#right rate",)))
DELAY = 3
START = datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))


def running(how: Literal["inner", "left"] = "left", **arguments: Any) -> Running:
    operator = TemporalJoin(COLUMNS, ("#left at", "#right since"), NAMES, how, DELAY * 10**6, **arguments)
    return Running(operator, WITH_KIND)


def time(second: int) -> datetime:
    return START + timedelta(seconds=second)


def order(k: str | None, at: int) -> Row:
    row = {"#side": 0, "#key 0": k, "#left k": k, "#left at": time(at), "row_kind": "+I"}
    return {**dict.fromkeys(COLUMNS.names), **row}


def version(k: str | None, since: int, rate: int, kind: str = "+I") -> Row:
    row = {"#side": 1, "#key 0": k, "#right rate": rate, "#right since": time(since), "row_kind": kind}
    return {**dict.fromkeys(COLUMNS.names), **row}


def clocks(rows: list[Row]) -> list[Row]:
    """The clocks that tasks add."""
    found = []
    for side, name in ((0, "#left at"), (1, "#right since")):
        if times := [row[name] for row in rows if row["#side"] == side]:
            clock = int(max(times).timestamp() * 10**6)
            found.append(
                {**dict.fromkeys(COLUMNS.names), "#side": side + 2, "#clock": clock, "row_kind": "+I"}
            )
    return found


class Reference:
    """All rows and versions so far."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.waiting: list[Row] = []
        self.versions: dict[tuple[str | None, datetime], int | None] = {}
        self.clocks: dict[int, datetime] = {}
        self.watermark = START - timedelta(days=1)

    def step(self, batch: list[Row]) -> list[Row]:
        for row in batch:
            when = row["#right since"] if row["#side"] else row["#left at"]
            self.clocks[row["#side"]] = max(when, self.clocks.get(row["#side"], when))
            if row["#side"]:
                self.versions[row["#key 0"], when] = None if row["row_kind"] == "-D" else row["#right rate"]
        before = self.watermark
        if len(self.clocks) == 2:
            self.watermark = min(self.clocks.values()) - timedelta(seconds=DELAY, microseconds=1)
        rows = self.waiting + [row for row in batch if row["#side"] == 0]
        self.waiting = [row for row in rows if row["#left at"] > self.watermark]
        ready = [row for row in rows if row["#left at"] <= self.watermark]
        found = [
            {"k": row["#left k"], "at": row["#left at"], "rate": self._rate(row, before)} for row in ready
        ]
        return [row for row in found if self.how == "left" or row["rate"] is not None]

    def _rate(self, row: Row, watermark: datetime) -> int | None:
        times = [when for key, when in self.versions if key == row["#key 0"] and key is not None]
        floor = max((when for when in times if when <= watermark), default=START - timedelta(days=1))
        valid = [when for when in times if floor <= when <= row["#left at"]]
        return self.versions[row["#key 0"], max(valid)] if valid else None


@pytest.mark.parametrize("how", ["inner", "left"])
@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10_000), length=st.integers(1, 50))
def test_each_row_has_the_version_of_its_time(how: Literal["inner", "left"], seed: int, length: int) -> None:
    chance = random.Random(seed)
    tested, reference = running(how), Reference(how)
    used: set[tuple[str | None, int]] = set()
    now = 0
    for _ in range(5):
        batch: list[Row] = []
        for _ in range(length // 5 + 1):
            now += chance.randint(0, 2)
            key, when = chance.choice([*"abcd", None]), max(0, now - chance.choice([0, 0, 1, 5, 15]))
            if chance.random() < 0.5:
                batch.append(order(key, when))
            elif (key, when) not in used:
                used.add((key, when))
                batch.append(version(key, when, now, chance.choice(["+I", "+U", "-D"])))
        chance.shuffle(batch)
        noise = [version(row["#key 0"], 1, -1, "-U") for row in batch if row["row_kind"] == "+U"]
        out = tested.step([*batch, *clocks(batch), *noise])
        assert {row.pop("row_kind") for row in out} <= {"+I"}
        assert Counter(map(str, out)) == Counter(map(str, reference.step(batch)))


def test_old_versions_and_rows_that_are_out_are_forgotten() -> None:
    tested = running()
    for second in range(0, 60, 4):
        batch = [order("a", second), version("a", second, second)]
        tested.step([*batch, *clocks(batch)])
    alive = [row for run in tested.snapshot.runs for row in pa.Table.from_batches(run.pieces).to_pylist()]
    newest = {(row["#key_low"], row["#part_high"], row["#part_low"]): row["#deleted"] for row in alive}
    assert sum(not deleted for deleted in newest.values()) == 5, "a row, two versions, two clocks"


@pytest.mark.parametrize(("how", "older"), [("left", [None]), ("inner", [])])
def test_a_late_row_that_is_older_than_the_version_of_the_watermark_has_none(
    how: Literal["inner", "left"], older: list[None]
) -> None:
    tested = running(how)
    batch = [order("a", 205), version("a", 0, 12), version("a", 60, 13), version("a", 160, 14)]
    batch.append(version("b", 208, 0))  # the watermark is at 202 then
    assert tested.step([*batch, *clocks(batch)]) == []
    batch = [order("a", 80), order("a", 170)]
    out = tested.step([*batch, *clocks(batch)])
    assert [row["rate"] for row in sorted(out, key=lambda row: row["at"])] == [*older, 14]


def test_a_version_of_a_later_batch_replaces_one_of_the_same_time() -> None:
    tested = running()
    tested.step([version("a", 1, 5)])
    tested.step([version("a", 1, 6)])
    batch = [order("a", 2), order("a", 20), version("b", 20, 0)]
    assert [row["rate"] for row in tested.step([*batch, *clocks(batch)])] == [6]
    with pytest.raises(RowError, match="Two different versions of a key"):
        tested.step([version("a", 30, 5), version("a", 30, 6)])


@pytest.mark.parametrize("kinds", [("-D", "+I"), ("+U", "-D")])
def test_a_version_and_its_deletion_at_one_time_of_one_batch_are_an_error(kinds: tuple[str, str]) -> None:
    tested = running()
    with pytest.raises(RowError, match="or a version and its -D, have the same time"):
        tested.step([version("a", 1, 10, kind) for kind in kinds])
    assert tested.step([version("a", 1, 10, "-D"), version("a", 1, 10, "-D")]) == []


@pytest.mark.parametrize("since", [10, 1])
def test_an_update_of_the_key_ends_the_version_of_the_old_key(since: int) -> None:
    """Maxwell and Canal tell it as one update. A -U has the time of its record, or that of the old row."""
    tested = running(has_whole_updates=True)
    tested.step([version("a", 1, 5), version("c", 1, 7)])
    moved = [version("a", since, 5, "-U"), version("b", 10, 5, "+U")]
    updated = [version("c", since, 7, "-U"), version("c", 10, 8, "+U")]
    rows = [order(key, at) for key in "abc" for at in (5, 12)]
    batch = [*moved, *updated, *rows, order("z", 40), version("z", 40, 0)]
    out = tested.step([*batch, *clocks(batch)])
    found = {(row["k"], (row["at"] - START).seconds): row["rate"] for row in out}
    assert found == {
        ("a", 5): 5 if since == 10 else None,
        ("a", 12): None,
        ("b", 5): None,
        ("b", 12): 5,
        ("c", 5): 7,
        ("c", 12): 8,
    }


def test_the_newest_of_the_old_rows_of_a_key_ends_it() -> None:
    tested = running(has_whole_updates=True)
    tested.step([version("a", 1, 5)])
    moved = [version("a", 20, 6, "-U"), version("b", 20, 6, "+U")]
    batch = [version("a", 10, 5, "-U"), version("a", 10, 6, "+U"), *moved]
    batch += [*(order("a", at) for at in (5, 12, 22)), order("z", 40), version("z", 40, 0)]
    out = tested.step([*batch, *clocks(batch)])
    assert {(row["at"] - START).seconds: row["rate"] for row in out} == {5: 5, 12: 6, 22: None}


def test_a_part_of_an_update_ends_nothing() -> None:
    """Its +U may come in the next batch."""
    tested = running()
    tested.step([version("a", 1, 5)])
    tested.step([version("a", 1, 5, "-U")])
    batch = [version("a", 10, 6, "+U"), order("a", 5), order("a", 12), order("z", 40), version("z", 40, 0)]
    assert sorted(row["rate"] for row in tested.step([*batch, *clocks(batch)])) == [5, 6]


def test_other_columns_to_join_on_are_other_arguments() -> None:
    arguments = {running(on=((name, "k"),)).operator.arguments for name in ("a", "b")}
    assert len(arguments) == 2


def test_rows_are_only_inserted() -> None:
    with pytest.raises(RowError, match="temporal_join takes append-only rows"):
        running().step([{**order("a", 1), "row_kind": "-D"}])


def test_one_batch_that_has_everything_waits_for_nothing() -> None:
    tested = running(is_bounded=True)
    out = tested.step([order("a", 1), order("a", 7), version("a", 5, 9)])
    assert sorted(str(row["rate"]) for row in out) == ["9", "None"]


def test_one_batch_that_has_everything_has_no_late_rows() -> None:
    """The watermark before it is not the end of time: a row sees the version of its own time."""
    batch = [version("a", when, rate) for when, rate in ((1, 10), (5, 50), (9, 90))]
    out = running(is_bounded=True).step([*batch, *(order("a", when) for when in (0, 2, 6, 9))])
    assert sorted(str(row["rate"]) for row in out) == ["10", "50", "90", "None"]
