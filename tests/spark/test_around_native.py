"""Spark's own operators before and after functions of `penstock.changelog`, as in docs/spark-operators.md."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock import changelog
from penstock.errors import SchemaError
from penstock.spark.reused_shuffles import REUSE
from tests.spark import running_count
from tests.spark.queries import QUERY_TIMEOUT_S, stopped
from tests.spark.test_changelog import read_batches, write_batches
from tests.unit.changelog.running import Row


def row(k: str, v: int | None, at: int, kind: str = "+I") -> Row:
    return {"k": k, "v": v, "at": at, "row_kind": kind}


BATCHES = [
    [row("a", 1, 1), row("b", 2, 2), row("a", 3, 3, "+U")],
    [row("a", 5, 40, "+U"), row("c", 1, 41), row("b", None, 42, "-D")],
    [row("d", 1, 100)],
]
NORMALIZED = [
    ("a", "+I", 1),
    ("a", "-U", 1),
    ("a", "+U", 3),
    ("b", "+I", 2),
    ("a", "-U", 3),
    ("a", "+U", 5),
    ("b", "-D", 2),
    ("c", "+I", 1),
    ("d", "+I", 1),
]
WAITS = "5 seconds"


@dataclass
class Scene:
    """A stream of three batches, and a folder for each state and checkpoint."""

    spark: SparkSession
    folder: Path
    count: int = 0
    found: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def stream(self, *, with_kind: bool = True) -> DataFrame:
        rows = read_batches(self.spark, self.folder / "in").withColumn("ts", f.timestamp_seconds("at"))
        return rows if with_kind else rows.drop("row_kind")

    def timed(self) -> DataFrame:
        return self.stream(with_kind=False).withWatermark("ts", WAITS)

    def state(self) -> dict[str, Any]:
        self.count += 1
        return {"state": str(self.folder / f"state-{self.count}"), "partitions": 2}

    def normalized(self, rows: DataFrame, order_by: str = "at") -> DataFrame:
        return changelog.normalize(rows, ["k"], order_by=[order_by], **self.state())

    def counted(self, rows: DataFrame) -> DataFrame:
        return changelog.aggregate(rows, ["k"], {"n": "count(*)"}, **self.state())

    def in_windows(self) -> DataFrame:
        """Sums of windows, each of which comes once, in append mode."""
        sums = self.timed().groupBy(f.window("ts", "10 seconds"), "k").agg(f.sum("v").alias("v"))
        return sums.selectExpr("k", "v", "window.end AS ts")

    def start(self, name: str, rows: DataFrame, mode: str) -> Any:
        found = self.found.setdefault(name, [])
        start = rows.writeStream.outputMode(mode).foreachBatch(
            lambda batch, _: found.extend(tuple(row) for row in batch.collect())
        )
        start = start.option("checkpointLocation", str(self.folder / f"checkpoint-{name}"))
        return start.trigger(availableNow=True).start()


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    write_batches(tmp_path / "in", BATCHES)
    return Scene(spark, tmp_path)


def test_native_operators_on_both_sides(scene: Scene) -> None:
    """All queries run at once. Operators of Spark take each row of a changelog for a new row."""
    normalized = scene.normalized(scene.stream())
    without_repeats = scene.stream().dropDuplicates(["k", "at"])
    one, other = (scene.timed().alias(name) for name in ("one", "other"))
    outer = one.join(other.where("v = 1"), f.expr("one.k = other.k AND one.ts = other.ts"), "left")
    grouped = scene.stream(with_kind=False).groupBy("k").agg(f.sum("v").alias("v"), f.max("at").alias("at"))
    new = f.lit("+I").alias("row_kind")
    queries: dict[str, tuple[DataFrame, str]] = {
        "group after dropDuplicates": (
            scene.normalized(without_repeats).groupBy("k").count(),
            "update",
        ),
        "window after dropDuplicates": (
            scene.normalized(without_repeats)
            .withWatermark("ts", WAITS)
            .groupBy(f.window("ts", "10 seconds"), "k")
            .count()
            .selectExpr("k", "count", "unix_timestamp(window.end)"),
            "append",
        ),
        "aggregate of an outer join": (
            scene.counted(outer.select("one.k", "one.at", "other.v")).where("row_kind IN ('+I', '+U')"),
            "append",
        ),
        "join with static rows": (
            normalized.crossJoin(scene.spark.range(2)).select("k", "row_kind", "v", "id"),
            "append",
        ),
        "join of streams": (
            scene.normalized(scene.stream())
            .withWatermark("ts", WAITS)
            .alias("one")
            .join(other, f.expr("one.k = other.k AND one.ts = other.ts"))
            .select("one.k", "row_kind", "one.v"),
            "append",
        ),
        "normalize of groups": (scene.normalized(grouped).select("k", "row_kind", "v"), "update"),
        "aggregate of windows": (
            scene.counted(scene.in_windows().select("*", new)).where("row_kind IN ('+I', '+U')"),
            "append",
        ),
        "limits": (scene.counted(scene.stream(with_kind=False).limit(4)).limit(3), "append"),
        "windows twice": (
            scene.normalized(scene.in_windows(), "ts")
            .withWatermark("ts", WAITS)
            .groupBy(f.window("ts", "20 seconds"))
            .count(),
            "append",
        ),
    }
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(stopped(scene.start(name, rows, mode)))
            for name, (rows, mode) in queries.items()
        ]
        for query in started:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
    of_join, limited = (scene.found.pop(name) for name in ("aggregate of an outer join", "limits"))
    assert {k: n for k, n, _ in of_join} == {"a": 3, "b": 2, "c": 1, "d": 1}, "the last count of each key"
    assert len(limited) == 3
    found = {name: Counter(rows) for name, rows in scene.found.items()}
    assert found == {
        "group after dropDuplicates": Counter([("a", 3), ("b", 1), ("a", 5), ("b", 2), ("c", 1), ("d", 1)]),
        "window after dropDuplicates": Counter([("a", 4, 10), ("b", 2, 10), ("a", 1, 50), ("c", 1, 50)]),
        "join with static rows": Counter((*each, number) for each in NORMALIZED for number in range(2)),
        "join of streams": Counter(NORMALIZED),
        "normalize of groups": Counter(
            [("a", "+I", 4), ("b", "+I", 2), ("a", "-U", 4), ("a", "+U", 9), ("c", "+I", 1), ("d", "+I", 1)]
        ),
        "aggregate of windows": Counter(
            [("a", 1, "+I"), ("b", 1, "+I"), ("a", 2, "+U"), ("b", 2, "+U"), ("c", 1, "+I")]
        ),
        "windows twice": Counter(),
    }


def test_equal_windows_on_both_sides_of_a_join_keep_their_watermarks(scene: Scene) -> None:
    """Spark would shuffle the rows of both once, and the watermark would be below the first one alone."""
    before = scene.spark.conf.get(REUSE)
    try:
        sums = scene.timed().groupBy(f.window("ts", "10 seconds"), "k").agg(f.sum("v").alias("v"))
        most = sums.groupBy("window").agg(f.max("v").alias("most"))
        one = sums.selectExpr("k", "v", "window.end AS at", "'+I' AS row_kind")
        other = most.selectExpr("most", "window.end AS until", "'+I' AS row_kind")
        assert scene.counted(one).isStreaming
        assert scene.spark.conf.get(REUSE) == before, "one watermark is not read twice"
        joined = changelog.join(one, other, {"at": "until", "v": "most"}, **scene.state())
        with stopped(scene.start("most", joined.select("k", "v", "row_kind"), "append")) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
    finally:
        scene.spark.conf.set(REUSE, str(before))
    assert Counter(scene.found["most"]) == Counter([("a", 4, "+I"), ("a", 5, "+I")])


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(running_count.SETTING, running_count.PROVIDER)
    yield
    spark.conf.unset(running_count.SETTING)


@pytest.mark.usefixtures("rocksdb")
def test_transform_with_state_on_both_sides(scene: Scene) -> None:
    counts = running_count.running_counts
    queries = {
        "before": scene.normalized(counts(scene.stream()), "place").select("k", "row_kind", "n"),
        "after": counts(scene.normalized(scene.stream())).select("k", "n"),
        "between": counts(scene.counted(counts(scene.stream()))).select("k", "n"),
    }
    for name, rows in queries.items():
        with stopped(scene.start(name, rows, "update")) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
    updates = [("a", "-U", 2), ("a", "+U", 3), ("b", "-U", 1), ("b", "+U", 2)]
    first = [("a", "+I", 2), ("b", "+I", 1), ("c", "+I", 1), ("d", "+I", 1)]
    assert Counter(scene.found["before"]) == Counter([*first, *updates])
    counted = [("a", 3), ("b", 1), ("a", 5), ("b", 2), ("c", 1), ("d", 1)]
    assert Counter(scene.found["after"]) == Counter(counted), "each row of a changelog is a new row"
    twice = [("a", 1), ("b", 1), ("a", 3), ("b", 3), ("c", 1), ("d", 1)]
    assert Counter(scene.found["between"]) == Counter(twice), "-U and +U are two rows"


def test_what_spark_and_penstock_refuse(scene: Scene) -> None:
    normalized = scene.normalized(scene.stream())
    times_two = normalized.crossJoin(scene.spark.range(2).hint("shuffle_replicate_nl"))
    grouped = scene.stream(with_kind=False).groupBy("k").agg(f.max("at").alias("at"))
    refused: dict[str, tuple[DataFrame, str, str]] = {
        "a partition several times": (
            times_two,
            "append",
            "has computed partition . of the state in .* several",
        ),
        "crossJoin of streams": (
            normalized.crossJoin(scene.timed().selectExpr("v AS w")),
            "append",
            "Stream-stream join without equality predicate is not supported",
        ),
        "groups twice": (
            scene.normalized(grouped).groupBy("k").count(),
            "update",
            "possible 'correctness' issue",
        ),
        "append without watermark": (
            normalized.groupBy("k").count(),
            "append",
            "aggregations without watermark",
        ),
        "complete without groups": (normalized, "complete", "no streaming aggregations"),
        "sort": (normalized.orderBy("k"), "append", "Sorting is not supported|SORT"),
        "limit in update mode": (normalized.limit(3), "update", "Limits are not supported"),
    }
    for name, (rows, mode, message) in refused.items():
        start = rows.writeStream.outputMode(mode).format("noop").trigger(availableNow=True)
        start = start.option("checkpointLocation", str(scene.folder / name))
        with pytest.raises(PySparkException, match=message), stopped(start.start()) as query:
            query.awaitTermination(QUERY_TIMEOUT_S)


def test_rows_that_an_aggregation_may_emit_again_are_refused(scene: Scene) -> None:
    grouped = scene.in_windows()
    rows = scene.stream(with_kind=False).selectExpr("k", "v AS w", "ts AS since")
    calls: list[Callable[[DataFrame], DataFrame]] = [
        scene.counted,
        lambda df: changelog.top_n(df, ["k"], 1, order_by=["v"], **scene.state()),
        lambda df: changelog.join(df, rows, ["k"], **scene.state()),
        lambda df: changelog.join(rows, df.drop("ts"), ["k"], **scene.state()),
        lambda df: changelog.over(df, ["k"], {"n": "count(*)"}, time="ts", delay="1 s", **scene.state()),
        lambda df: changelog.temporal_join(
            df, rows, ["k"], time="ts", version_time="since", delay="1 s", **scene.state()
        ),
    ]
    for call in calls:
        for wrong in (grouped, scene.spark.sql("SELECT * FROM {df}", df=grouped).select("k", "v", "ts")):
            with pytest.raises(
                SchemaError, match="takes rows without row_kind as new rows, and they come from"
            ):
                call(wrong)
        assert call(grouped.withColumn("row_kind", f.lit("+I"))).isStreaming
    static = scene.spark.range(3).groupBy("id").count().selectExpr("id AS v", "count")
    assert scene.counted(scene.stream(with_kind=False).join(static, "v")).isStreaming
    again = scene.normalized(grouped, "ts").where("row_kind = '+I'").drop("row_kind")
    assert scene.counted(again).isStreaming, "rows of penstock come once"
