"""What operators over changelogs cost: `python -m benchmarks.changelogs [QUESTION ...] [--keys 10000000]`.

Questions, the systems in turn in one run, medians of the rounds after one to warm up:

- normalize: events over keys, in batches, into the noop sink. CPU of Spark's JVM and its Python workers for
  each event: of the scan alone, of the scan with the shuffle, of `normalize`, and of Spark's own `max_by`.
  `max_by` keeps the newest row of each key too, but knows no old row;
- many-keys: a batch of few rows on a state of few keys and on one of many; the restart, the memory of the
  largest Python worker (its own, and with the mapped files of the state) and the size of the state.

Invariants: each system reads all rows, and `normalize` gives the rows that the input must give, or the run
ends. The input is Parquet, so that its decoding hides little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import usage
from benchmarks.measured import Measures
from benchmarks.systems import PENSTOCK, prepared
from penstock import changelog
from penstock.state import tools
from penstock.state.files import open_files

NORMALIZE, MANY_KEYS = QUESTIONS = ("normalize", "many-keys")
EVENTS, KEYS, BATCHES = 1_000_000, 100_000, 4
FEW_KEYS, LOADED_ROWS, SMALL_ROWS, SMALL_BATCHES = 10_000, 250_000, 1_000, 12
WARM_UP_BATCHES = 2
PARTITIONS = 2
TIMEOUT_S = 1_800.0

NORMALIZE_MEASURE, KEYS_MEASURE = "changelog-normalize", "changelog-many-keys"
SCAN, SHUFFLE, MAX_BY = "scan", "scan and shuffle", "Spark's max_by"
OVER_SCAN, SMALL_RATIO, DISK_RATIO = "cpu_us_over_scan", "small_batch_ratio", "disk_ratio"
RESTART, WORKER_PEAK, WORKER_OWN = "restart_s", "worker_peak_mb", "worker_own_mb"
COLUMNS = "k BIGINT, v BIGINT, s STRING, at BIGINT"
_KINDS = (usage.SPARK_JVM, usage.PYTHON_WORKERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.changelogs", description=__doc__)
    parser.add_argument("questions", nargs="*", choices=[*QUESTIONS, []], default=[], metavar="QUESTION")
    parser.add_argument("--rounds", type=int, default=3, help="of all systems in turn")
    parser.add_argument("--keys", type=int, default=1_000_000, help="of the large state")
    arguments = parser.parse_args()
    with prepared() as (spark, _):
        for question in arguments.questions or QUESTIONS:
            if question == NORMALIZE:
                found = normalize(spark, arguments.rounds)
            else:
                found = many_keys(spark, arguments.keys)
            sys.stdout.write(json.dumps({question: found}) + "\n")
            sys.stdout.flush()


def measure(spark: SparkSession, rounds: int, keys: int, say: Callable[[str], object]) -> Measures:
    """Measure both questions, for `make bench`."""
    found = {NORMALIZE_MEASURE: normalize(spark, rounds), KEYS_MEASURE: many_keys(spark, keys)}
    for name, figures in found.items():
        say(f"{name}: {figures}")
    return found


def normalize(spark: SparkSession, rounds: int) -> dict[str, dict[str, float]]:
    """Return CPU microseconds for each event, by system."""
    times_us: dict[str, list[float]] = {system: [] for system in (SCAN, SHUFFLE, PENSTOCK, MAX_BY)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _write_events(folder / "in")
        _check_changes(spark, folder / "in")
        for number in range(rounds + 1):
            for system, found in times_us.items():
                cpu_us = _cpu_us(spark, system, folder / "in")
                if number:
                    found.append(cpu_us / EVENTS)
    medians = {system: statistics.median(found) for system, found in times_us.items()}
    return {
        system: {"cpu_us": round(found, 2), OVER_SCAN: round(found - medians[SCAN], 2)}
        for system, found in medians.items()
    }


def many_keys(spark: SparkSession, keys: int) -> dict[str, dict[str, float]]:
    """Return what a small batch costs on a large state, beside a small one."""
    few, many = _on_state_of(spark, FEW_KEYS), _on_state_of(spark, keys)
    ratio = {SMALL_RATIO: round(many["small_batch_ms"] / few["small_batch_ms"], 2)}
    return {f"{PENSTOCK}, {FEW_KEYS:,} keys": few, PENSTOCK: {"keys": keys, **many, **ratio}}


# ----- events over keys


def _write_events(folder: Path) -> None:
    """Write one file for each batch. Each event has another value, so each is a change."""
    random = np.random.default_rng(1)
    each = EVENTS // BATCHES
    keys = np.concatenate([np.arange(KEYS), random.integers(0, KEYS, EVENTS - KEYS)])
    for number in range(BATCHES):
        _write(folder, number, keys[number * each : (number + 1) * each], number * each)


def _write(folder: Path, number: int, keys: Any, first: int) -> None:
    """Write a file whose rows are in a random order, and older than those of the next one."""
    at = first + np.random.default_rng(first + 2).permutation(len(keys))
    texts = pc.binary_join_element_wise("customer-", pa.array(keys).cast(pa.string()), "")
    columns = {"k": pa.array(keys), "v": pa.array(at * 7), "s": texts, "at": pa.array(at)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:05}.parquet"
    pq.write_table(pa.table(columns), path)
    os.utime(path, (1_000_000 + number, 1_000_000 + number))


def _read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _normalized(rows: DataFrame, folder: Path) -> DataFrame:
    return changelog.normalize(
        rows, ["k"], order_by=["at"], state=str(folder / "state"), partitions=PARTITIONS
    )


def _plan(spark: SparkSession, system: str, source: Path, folder: Path) -> DataFrame:
    rows = _read(spark, source)
    if system == SHUFFLE:
        return rows.repartition(PARTITIONS, "k")
    if system == PENSTOCK:
        return _normalized(rows, folder)
    if system == MAX_BY:
        newest = F.max_by(F.struct("v", "s", "at"), F.col("at"))
        return rows.groupBy("k").agg(newest.alias("row"))
    return rows


def _cpu_us(spark: SparkSession, system: str, source: Path) -> float:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        before = usage.snapshot()
        _run(_plan(spark, system, source, folder), folder, EVENTS)
        spent = usage.spent(before, usage.snapshot(), _KINDS)
        return sum(spent.cpu_s.values()) * 1e6


def _check_changes(spark: SparkSession, source: Path) -> None:
    """Raise AssertionError unless the first event of each key is +I, and each other one -U and +U."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        counted = _normalized(_read(spark, source), folder).groupBy("row_kind").count()
        query = counted.writeStream.format("memory").queryName("bench_changes").outputMode("complete")
        _wait(query.option("checkpointLocation", str(folder / "c")).trigger(availableNow=True).start())
        found = {row.row_kind: row["count"] for row in spark.table("bench_changes").collect()}
    most = EVENTS - KEYS
    assert found["+I"] == KEYS, found
    # Rows of a key in the files are in a random order, so within a batch all of them count.
    assert found["-U"] == found["+U"] == most, found


# ----- small batches on many keys


@dataclass(frozen=True)
class _Seen:
    """What is seen of a query: milliseconds of each batch, when the first was done, memory of a worker.

    The memory is the worker's own, without the mapped files of the state, at the end of the query.
    """

    batch_ms: list[float]
    first_s: float
    own_mb: float


def _on_state_of(spark: SparkSession, keys: int) -> dict[str, float]:
    """Fill a state, start the query again with small batches, and measure these."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = folder / "in"
        starts = range(0, keys, LOADED_ROWS)
        for number, start in enumerate(starts):
            _write(source, number, np.arange(start, min(start + LOADED_ROWS, keys)), start)
        _run(_normalized(_read(spark, source), folder), folder, keys)
        random = np.random.default_rng(3)
        for number in range(SMALL_BATCHES):
            some = random.integers(0, keys, SMALL_ROWS)
            _write(source, len(starts) + number, some, keys + number * SMALL_ROWS)
        before = usage.snapshot()
        usage.reset_peaks(before)
        seen = _run(_normalized(_read(spark, source), folder), folder, SMALL_BATCHES * SMALL_ROWS)
        spent = usage.spent(before, usage.snapshot(), _KINDS)
        return {
            "small_batch_ms": round(statistics.median(seen.batch_ms[WARM_UP_BATCHES:]), 1),
            RESTART: round(seen.first_s, 2),
            WORKER_OWN: round(seen.own_mb, 1),
            WORKER_PEAK: round(spent.peak_memory_mb.get(usage.PYTHON_WORKERS, 0.0), 1),
            DISK_RATIO: _disk_ratio(folder / "state", keys),
        }


def _disk_ratio(state: Path, keys: int) -> float:
    """Return all bytes of the state, of those that one row for each key needs."""
    all_bytes = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
    partitions = tools.inspect(open_files(str(state))).partitions
    row_bytes = sum(each.size_bytes for each in partitions) / sum(each.row_count for each in partitions)
    return round(all_bytes / (row_bytes * keys), 2)


def _run(rows: DataFrame, folder: Path, row_count: int) -> _Seen:
    """Run a query to the end of its input. It must have read so many rows."""
    writer = rows.writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "c"))
    began_s = time.monotonic()
    query = writer.trigger(availableNow=True).start()
    first_s = _wait(query, began_s)
    progress = [each for each in query.recentProgress if each.numInputRows]
    found = sum(each.numInputRows for each in progress)
    own_mb = usage.anonymous_memory_mb(usage.PYTHON_WORKERS)
    assert found == row_count, f"{found} rows instead of {row_count}"
    return _Seen([float(each.durationMs["triggerExecution"]) for each in progress], first_s, own_mb)


def _wait(query: Any, began_s: float = 0.0) -> float:
    """Wait for the end of a query, and return when its first batch was done."""
    first_s, deadline_s = 0.0, time.monotonic() + TIMEOUT_S
    try:
        while not query.awaitTermination(0.05):
            assert time.monotonic() < deadline_s, f"the query takes longer than {TIMEOUT_S} s"
            if not first_s and query.lastProgress is not None:
                first_s = time.monotonic() - began_s
    finally:
        query.stop()
    return first_s or time.monotonic() - began_s


if __name__ == "__main__":
    main()
