"""Run streaming queries over Parquet files, one file a batch, and write such files."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks import usage
from penstock import changelog

COLUMNS = "k BIGINT, v BIGINT, s STRING, at BIGINT"
KINDS = (usage.SPARK_JVM, usage.PYTHON_WORKERS)
PARTITIONS = 2
TIMEOUT_S = 1_800.0


@dataclass(frozen=True)
class Seen:
    """What is seen of a query: milliseconds of each batch, when the first was done, memory of a worker.

    The memory is the worker's own, without the mapped files of the state, at the end of the query.
    """

    batch_ms: list[float]
    first_s: float
    own_mb: float


def rows_of(keys: Any, at: Any) -> pa.Table:
    """Return events of keys. Each event has another value, so each is a change."""
    texts = pc.binary_join_element_wise("customer-", pa.array(keys).cast(pa.string()), "")
    return pa.table({"k": pa.array(keys), "v": pa.array(at * 7), "s": texts, "at": pa.array(at)})


def shuffled(count: int, first: int) -> Any:
    """Return the moments of a batch in a random order. They are later than those of the batch before it."""
    return first + np.random.default_rng(first + 2).permutation(count)


def write(folder: Path, number: int, keys: Any, first: int) -> None:
    """Write the file of a batch."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:05}.parquet"
    pq.write_table(rows_of(keys, shuffled(len(keys), first)), path)
    os.utime(path, (1_000_000 + number, 1_000_000 + number))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the stream of the files, one a batch."""
    return spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def normalized(rows: DataFrame, folder: Path) -> DataFrame:
    """Return the changelog of the rows, with its state in a folder."""
    return changelog.normalize(
        rows, ["k"], order_by=["at"], state=str(folder / "state"), partitions=PARTITIONS
    )


def run(rows: DataFrame, folder: Path, row_count: int) -> Seen:
    """Run a query to the end of its input. It must have read so many rows."""
    writer = rows.writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "c"))
    began_s = time.monotonic()
    query = writer.trigger(availableNow=True).start()
    first_s = wait(query, began_s)
    progress = [each for each in query.recentProgress if each.numInputRows]
    found = sum(each.numInputRows for each in progress)
    own_mb = usage.anonymous_memory_mb(usage.PYTHON_WORKERS)
    assert found == row_count, f"{found} rows instead of {row_count}"
    return Seen([float(each.durationMs["triggerExecution"]) for each in progress], first_s, own_mb)


def wait(query: Any, began_s: float = 0.0) -> float:
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
