"""Measure small batches on a state of few keys and on one of many."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from benchmarks import usage
from benchmarks.changelogs.queries import KINDS, normalized, read, run, write
from benchmarks.systems import PENSTOCK
from penstock.state import tools
from penstock.state.files import open_files

FEW_KEYS, LOADED_ROWS, SMALL_ROWS, SMALL_BATCHES = 10_000, 250_000, 1_000, 12
WARM_UP_BATCHES = 2

MEASURE = "changelog-many-keys"
SMALL_RATIO, DISK_RATIO = "small_batch_ratio", "disk_ratio"
RESTART, WORKER_PEAK, WORKER_OWN = "restart_s", "worker_peak_mb", "worker_own_mb"


def measure(spark: SparkSession, keys: int) -> dict[str, dict[str, float]]:
    """Return what a small batch costs on a large state, beside a small one."""
    few, many = _on_state_of(spark, FEW_KEYS), _on_state_of(spark, keys)
    ratio = {SMALL_RATIO: round(many["small_batch_ms"] / few["small_batch_ms"], 2)}
    return {f"{PENSTOCK}, {FEW_KEYS:,} keys": few, PENSTOCK: {"keys": keys, **many, **ratio}}


def _on_state_of(spark: SparkSession, keys: int) -> dict[str, float]:
    """Fill a state, start the query again with small batches, and measure these."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = folder / "in"
        starts = range(0, keys, LOADED_ROWS)
        for number, start in enumerate(starts):
            write(source, number, np.arange(start, min(start + LOADED_ROWS, keys)), start)
        run(normalized(read(spark, source), folder), folder, keys)
        random = np.random.default_rng(3)
        for number in range(SMALL_BATCHES):
            some = random.integers(0, keys, SMALL_ROWS)
            write(source, len(starts) + number, some, keys + number * SMALL_ROWS)
        before = usage.snapshot()
        usage.reset_peaks(before)
        seen = run(normalized(read(spark, source), folder), folder, SMALL_BATCHES * SMALL_ROWS)
        spent = usage.spent(before, usage.snapshot(), KINDS)
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
