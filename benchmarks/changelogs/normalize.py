"""Measure the CPU time of `normalize` for each event, beside that of other ways to keep the newest rows.

Spark's `transformWithState` gets fewer events over fewer keys, because it takes milliseconds for each. Its
own scan of so few events is subtracted. Flink reads the same events from a topic as an upsert table, and its
scan of this topic is subtracted.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import inputs, usage
from benchmarks.changelogs import keyed_state
from benchmarks.changelogs.queries import (
    KINDS,
    PARTITIONS,
    normalized,
    read,
    rows_of,
    run,
    shuffled,
    wait,
    write,
)
from benchmarks.flink import FlinkSession
from benchmarks.systems import FLINK, PENSTOCK, Bench, taking_part

EVENTS, KEYS, BATCHES = 1_000_000, 100_000, 4
FEWER = 50
"""`transformWithState` gets one event and one key in so many."""

WARM_UPS = 3
"""Rounds that are not counted. For so long the JVM compiles each system's plan; a stream runs longer."""

MEASURE = "changelog-normalize"
TOPIC = "upserts"
_FLINK_COLUMNS = "k BIGINT, v BIGINT, s STRING, `at` BIGINT"
SCAN, SHUFFLE, MAX_BY = "scan", "scan and shuffle", "Spark's max_by"
FEW_SCAN, KEYED_STATE = "scan of few events", "Spark's transformWithState"
FLINK_SCAN, FLINK_NORMALIZE = f"{FLINK} scan", f"{FLINK} ChangelogNormalize"
OVER_SCAN = "cpu_us_over_scan"
_SCANS = {KEYED_STATE: FEW_SCAN, FEW_SCAN: FEW_SCAN, FLINK_SCAN: FLINK_SCAN, FLINK_NORMALIZE: FLINK_SCAN}
"""The scan that is subtracted, if it is another one than SCAN."""


def measure(bench: Bench, rounds: int, warm_ups: int = WARM_UPS) -> dict[str, dict[str, float]]:
    """Return CPU microseconds for each event, by system."""
    times_us: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        works = _works(bench, folder)
        for number in range(warm_ups + rounds):
            for system, work in works.items():
                cpu_us = work()
                if number >= warm_ups:
                    times_us.setdefault(system, []).append(cpu_us)
    medians = {system: statistics.median(found) for system, found in times_us.items()}
    return {
        system: {
            "cpu_us": round(found, 2),
            OVER_SCAN: round(found - medians[_SCANS.get(system, SCAN)], 2),
        }
        for system, found in medians.items()
    }


def _works(bench: Bench, folder: Path) -> dict[str, Callable[[], float]]:
    """Write the events, check the rows that they give, and return what measures each system."""
    spark, many, few = bench.spark, folder / "many", folder / "few"
    _write_events(many, EVENTS, KEYS)
    _write_events(few, EVENTS // FEWER, KEYS // FEWER)
    _check_changes(spark, PENSTOCK, many, EVENTS, KEYS)
    _check_changes(spark, KEYED_STATE, few, EVENTS // FEWER, KEYS // FEWER)

    def work(system: str, source: Path, events: int) -> Callable[[], float]:
        return lambda: _cpu_us(spark, system, source, events)

    found = {system: work(system, many, EVENTS) for system in (SCAN, SHUFFLE, PENSTOCK, MAX_BY)}
    found |= {system: work(system, few, EVENTS // FEWER) for system in (FEW_SCAN, KEYED_STATE)}
    if bench.flink_session is not None:
        flink = bench.flink_session
        _write_topic(bench.bootstrap_servers)
        found[FLINK_SCAN] = lambda: _flink_us(flink, is_upsert=False)
        found[FLINK_NORMALIZE] = lambda: _flink_us(flink, is_upsert=True)
    return found


# ----- the events


def _batches(events: int, keys: int) -> Iterator[Any]:
    """Return the keys of each batch. The first events are one for each key."""
    found = np.random.default_rng(1).integers(0, keys, events - keys)
    yield from np.split(np.concatenate([np.arange(keys), found]), BATCHES)


def _write_events(folder: Path, events: int, keys: int) -> None:
    """Write one file for each batch."""
    for number, each in enumerate(_batches(events, keys)):
        write(folder, number, each, number * len(each))


def _write_topic(bootstrap_servers: str) -> None:
    """Write the same events as records of an upsert table. All events of a key are in one partition."""
    inputs.make_topic(bootstrap_servers, TOPIC, inputs.PARTITION_COUNT)
    for number, keys in enumerate(_batches(EVENTS, KEYS)):
        rows = rows_of(keys, shuffled(len(keys), number * len(keys))).to_pylist()
        records = pa.record_batch(
            {
                "key": pa.array([f'{{"k":{row["k"]}}}'.encode() for row in rows]),
                "value": pa.array(
                    [
                        f'{{"k":{row["k"]},"v":{row["v"]},"s":"{row["s"]}","at":{row["at"]}}}'.encode()
                        for row in rows
                    ]
                ),
                "partition": pa.array([row["k"] % inputs.PARTITION_COUNT for row in rows], pa.int32()),
            }
        )
        inputs.repeat(bootstrap_servers, TOPIC, len(rows), records)


# ----- the systems


def _plan(system: str, rows: DataFrame, folder: Path) -> DataFrame:
    if system == SHUFFLE:
        return rows.repartition(PARTITIONS, "k")
    if system == PENSTOCK:
        return normalized(rows, folder)
    if system == KEYED_STATE:
        return keyed_state.changes(rows)
    if system == MAX_BY:
        newest = F.max_by(F.struct("v", "s", "at"), F.col("at"))
        return rows.groupBy("k").agg(newest.alias("row"))
    return rows


@contextmanager
def _state_store(spark: SparkSession, system: str) -> Iterator[None]:
    """Set RocksDB, which `transformWithState` needs. The others use Spark's default."""
    if system == KEYED_STATE:
        spark.conf.set(keyed_state.PROVIDER_SETTING, keyed_state.PROVIDER)
    try:
        yield
    finally:
        spark.conf.unset(keyed_state.PROVIDER_SETTING)


def _cpu_us(spark: SparkSession, system: str, source: Path, events: int) -> float:
    with tempfile.TemporaryDirectory() as temporary, _state_store(spark, system):
        folder = Path(temporary)
        before = usage.snapshot()
        run(_plan(system, read(spark, source), folder), folder, events)
        spent = usage.spent(before, usage.snapshot(), KINDS)
        return sum(spent.cpu_s.values()) * 1e6 / events


def _flink_us(flink: FlinkSession, *, is_upsert: bool) -> float:
    before = usage.snapshot()
    if is_upsert:
        count = flink.normalize(TOPIC, _FLINK_COLUMNS, "k", "v >= 0")
    else:
        count, _ = flink.drop(TOPIC, _FLINK_COLUMNS, {"format": "json"})
    spent = usage.spent(before, usage.snapshot(), taking_part(FLINK) - {usage.BROKER})
    assert count == EVENTS, f"Flink has read {count} events instead of {EVENTS}"
    return sum(spent.cpu_s.values()) * 1e6 / EVENTS


def _check_changes(spark: SparkSession, system: str, source: Path, events: int, keys: int) -> None:
    """Raise AssertionError unless the first event of each key is +I, and each other one -U and +U."""
    name = f"bench_changes_{events}"
    kinds: dict[str, int] = {}

    def count(rows: DataFrame, _: int) -> None:
        for row in rows.groupBy("row_kind").count().collect():
            kinds[row.row_kind] = kinds.get(row.row_kind, 0) + row["count"]

    with tempfile.TemporaryDirectory() as temporary, _state_store(spark, system):
        folder = Path(temporary)
        changes = _plan(system, read(spark, source), folder)
        writer = changes.writeStream.foreachBatch(count).queryName(name).outputMode("update")
        wait(writer.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True).start())
    # Rows of a key in the files are in a random order, so within a batch all of them count.
    most = events - keys
    assert kinds == {"+I": keys, "-U": most, "+U": most}, f"{system}: {kinds}"
