"""Measure the CPU time of sums of groups for each event: `aggregate` beside `signed_sums`, which Spark keeps.

Both read the same inserts. The cost of the scan alone is subtracted. Both have to give the sums that a batch
query of Spark gives.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import usage
from benchmarks.changelogs.queries import KINDS, PARTITIONS, read, run, wait, write
from penstock import changelog

MEASURE = "changelog-sums"
EVENTS, BATCHES, WARM_UPS = 1_000_000, 4, 3
GROUPS = (10, 100_000)
CALLS = {"n": "count(*)", "total": "sum(v)", "mean": "avg(v)"}
SCAN, AGGREGATE, SIGNED_SUMS = "scan", "aggregate", "signed_sums"


def measure(spark: SparkSession, rounds: int) -> dict[str, dict[str, float]]:
    """Return CPU microseconds for each event over the scan, by system and number of groups."""
    times_us: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary)
        _write_events(source)
        works = [(SCAN, 1), *((system, count) for count in GROUPS for system in (AGGREGATE, SIGNED_SUMS))]
        for system, count in works[1:]:
            _check(spark, system, source, count)
        for number in range(WARM_UPS + rounds):
            for system, count in works:
                cpu_us = _cpu_us(spark, system, source, count)
                if number >= WARM_UPS:
                    times_us.setdefault(f"{system}, {count} groups", []).append(cpu_us)
    medians = {name: statistics.median(found) for name, found in times_us.items()}
    scan_us = medians.pop(f"{SCAN}, 1 groups")
    return {name: {"cpu_us_over_scan": round(found - scan_us, 2)} for name, found in medians.items()}


def _write_events(folder: Path) -> None:
    keys = np.random.default_rng(1).integers(0, max(GROUPS), EVENTS)
    for number, each in enumerate(np.split(keys, BATCHES)):
        write(folder, number, each, number * len(each))


def _plan(system: str, rows: DataFrame, count: int, folder: Path) -> DataFrame:
    grouped = rows.selectExpr(f"k % {count} AS g", "v")
    if system == AGGREGATE:
        return changelog.aggregate(grouped, ["g"], CALLS, state=str(folder / "state"), partitions=PARTITIONS)
    return changelog.signed_sums(grouped, ["g"], CALLS) if system == SIGNED_SUMS else rows


def _cpu_us(spark: SparkSession, system: str, source: Path, count: int) -> float:
    with tempfile.TemporaryDirectory() as temporary:
        before = usage.snapshot()
        run(_plan(system, read(spark, source), count, Path(temporary)), Path(temporary), EVENTS)
        spent = usage.spent(before, usage.snapshot(), KINDS)
        return sum(spent.cpu_s.values()) * 1e6 / EVENTS


def _check(spark: SparkSession, system: str, source: Path, count: int) -> None:
    """Raise AssertionError unless the newest row of each group has the sums of all events."""
    newest: dict[int, tuple[int, int]] = {}

    def take(rows: DataFrame, _: int) -> None:
        newest.update({row.g: (row.n, row.total) for row in rows.where("row_kind != '-U'").collect()})

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        changes = _plan(system, read(spark, source), count, folder)
        writer = changes.writeStream.foreachBatch(take).outputMode("update")
        wait(writer.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True).start())
    events = spark.read.parquet(str(source)).selectExpr(f"k % {count} AS g", "v")
    sums = events.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("total")).collect()
    assert newest == {row.g: (row.n, row.total) for row in sums}, f"{system} has wrong sums"
