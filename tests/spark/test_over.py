"""`penstock.changelog.over` in real Spark: beside a list of all rows, over a restart, and without a state."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock import changelog
from penstock.errors import OptionError, SchemaError
from tests.spark.test_changelog import read_batches, run, write_batches
from tests.unit.changelog.running import Row

DELAY_S, REACH_S = 4, 6
CALLS = {"total": "sum(v)", "n": "count(*)", "before": "lag(at, 1)"}
FRAMES: list[Literal["rows", "range"]] = ["rows", "range"]
OUT = "k STRING, v BIGINT, at BIGINT, total BIGINT, n BIGINT, before BIGINT, row_kind STRING, frame STRING"


def history(seed: int, first: int, count: int) -> list[Row]:
    """Rows whose `at` is their index, and three of which have each time. Some come late or very late."""
    chance = random.Random(seed)
    rows = []
    for number in range(first, first + count):
        at = max(0, number - chance.choice([0, 0, 0, 3, 30])) * 100 + number
        value = chance.choice([None, 1, 2, 5])
        rows.append({"k": chance.choice(["a", "b", None]), "v": value, "at": at, "row_kind": "+I"})
    return rows


def time_s(row: Row) -> int:
    at: int = row["at"]
    return at // 300


class Reference:
    """All rows so far."""

    def __init__(self) -> None:
        self.waiting: list[Row] = []
        self.past: list[Row] = []
        self.latest_s: int | None = None
        self.late_count = 0

    def step(self, batch: list[Row]) -> list[tuple[Any, ...]]:
        known = self.latest_s
        in_time = [row for row in batch if known is None or time_s(row) >= known - DELAY_S]
        self.late_count += len(batch) - len(in_time)
        self.latest_s = max([*map(time_s, batch), *([] if known is None else [known])], default=None)
        if self.latest_s is None:
            return []
        end_s = self.latest_s - DELAY_S
        rows = [*self.waiting, *in_time]
        self.waiting = [row for row in rows if time_s(row) >= end_s]
        return self.out([row for row in rows if time_s(row) < end_s])

    def out(self, ready: list[Row]) -> list[tuple[Any, ...]]:
        self.past += sorted(ready, key=lambda row: row["at"])
        return [self._one(row, frame) for row in ready for frame in FRAMES]

    def _one(self, row: Row, frame: str) -> tuple[Any, ...]:
        of_key = [each for each in self.past if each["k"] == row["k"]]
        index = of_key.index(row)
        seen = of_key[: index + 1]
        if frame == "range":
            seen = [each for each in of_key if 0 <= time_s(row) - time_s(each) <= REACH_S]
        values = [each["v"] for each in seen if each["v"] is not None]
        before = of_key[index - 1]["at"] if index else None
        total = sum(values) if values else None
        return (row["k"], row["v"], row["at"], total, len(seen), before, "+I", frame)


def over_both_frames(rows: DataFrame, folder: Path | None) -> DataFrame:
    timed = rows.selectExpr(
        "k", "v", "at", "timestamp_seconds(at DIV 300) AS time", "0 AS never_null", "row_kind"
    )
    found = [
        changelog.over(
            timed,
            ["k"],
            CALLS,
            time="time",
            delay=f"{DELAY_S} s",
            frame=frame,
            preceding=f"{REACH_S} s" if frame == "range" else None,
            order_by=["at"],
            state=None if folder is None else str(folder / f"state-{frame}"),
            partitions=2,
        ).selectExpr("k", "v", "at", *CALLS, "row_kind", f"'{frame}' AS frame")
        for frame in FRAMES
    ]
    return found[0].union(found[1])


def rows_of(found: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in found)


def test_each_row_comes_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    batches = [history(seed, 12 * seed, 12) for seed in range(6)]
    batches.insert(3, [])
    reference, expected = Reference(), list[tuple[Any, ...]]()
    for start, stop in ((0, 2), (2, 4), (4, 7)):
        write_batches(tmp_path / "in", batches[start:stop])
        run(over_both_frames(read_batches(spark, tmp_path / "in"), tmp_path), tmp_path)
        for batch in batches[start:stop]:
            expected += reference.step(batch)
        found = spark.read.schema(OUT).parquet(str(tmp_path / "out")).collect()
        assert rows_of(found) == Counter(expected)
    assert reference.late_count, "late rows are among them"
    assert {row[-1] for row in expected} == {*FRAMES}


def test_a_batch_query_waits_for_nothing(spark: SparkSession, tmp_path: Path) -> None:
    rows = history(1, 0, 30)
    write_batches(tmp_path / "in", [rows])
    found = over_both_frames(spark.read.parquet(str(tmp_path / "in")), None).collect()
    assert rows_of(found) == Counter(Reference().out(rows))


def test_a_wrong_call_is_an_error_on_the_driver(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "k STRING, v BIGINT, time TIMESTAMP")

    def over(df: DataFrame, **changed: Any) -> DataFrame:
        arguments: dict[str, Any] = {"keys": ["k"], "calls": CALLS, "time": "time", "delay": "1 s"}
        return changelog.over(df, **{**arguments, "calls": {"n": "count(*)"}, **changed})

    wrong_kinds = rows.selectExpr("*", "1 AS row_kind"), rows.selectExpr("*", "'+I' AS Row_Kind")
    with pytest.raises(SchemaError, match="Expected STRING for the column row_kind, got int"):
        over(wrong_kinds[0])
    with pytest.raises(SchemaError, match="not spelled row_kind"):
        over(wrong_kinds[1])
    with pytest.raises(SchemaError, match="'v' stands twice"):
        over(rows, calls={"v": "sum(v)"})
    with pytest.raises(SchemaError, match="Expected a TIMESTAMP for the column v, got bigint"):
        over(rows, time="v")
    for changed, message in (
        ({"keys": "k"}, "Expected a list of columns for `keys`, got 'k'"),
        ({"keys": []}, "`keys` is empty"),
        ({"order_by": "v"}, "Expected a list of columns for `order_by`, got 'v'"),
        ({"calls": {}}, "`calls` is empty"),
        ({"calls": {"n": "median(v)"}}, "`calls` is wrong: expected one of count, sum"),
        ({"delay": "soon"}, "duration in `delay`"),
        ({"delay": "-1 s"}, "`delay`"),
        ({"frame": "groups"}, "Expected 'rows' or 'range'"),
        ({"frame": "rows", "preceding": "1 s"}, "Expected a number of rows for `preceding`"),
        ({"preceding": 3}, "Expected a duration such as '5 s' for `preceding`"),
        ({"preceding": "1 s", "calls": {"n": "dense_rank()"}}, "`preceding` older rows are forgotten"),
    ):
        with pytest.raises(OptionError, match=message):
            over(rows, **changed)
