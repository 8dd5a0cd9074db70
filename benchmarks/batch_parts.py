"""Say which processes a small batch keeps busy: `python -m benchmarks.batch_parts [--seconds S]`.

A small stream, a record every 10 ms, is copied at a 200 ms trigger by each system in turn. A Python data
source and sink that do nothing (`Python alone`) take their turn: they show what Spark itself costs with any
Python connector. Invariant: each system runs in the same session, and a round begins when the one before has
warmed it, so only the last round is reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks import streaming, usage
from benchmarks.inputs import OUTPUT_TOPIC
from benchmarks.systems import PENSTOCK, SPARK_TUNED, Bench, prepared

ALONE = "Python alone"
SYSTEMS = (ALONE, PENSTOCK, SPARK_TUNED, streaming.PENSTOCK_EXACTLY_ONCE)
ROWS = 20
WARM_UP_S = 8.0
PHASES = ("addBatch", "walCommit", "commitOffsets", "queryPlanning", "latestOffset", "triggerExecution")


class IdleSource(DataSource):
    """A source that gives the same few rows in each batch, and a sink that drops them."""

    @classmethod
    def name(cls) -> str:
        return "benchmarks-idle"

    def schema(self) -> str:
        return "key BINARY, value BINARY"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return IdleReader()

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:
        return IdleWriter()


class IdleReader(DataSourceStreamReader):
    """Always has one more batch."""

    def initialOffset(self) -> dict[str, int]:
        return {"ms": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        return {"ms": time.time_ns() // 1_000_000}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        yield pa.RecordBatch.from_pydict({"key": [b"k"] * ROWS, "value": [b"v" * 100] * ROWS}, schema=schema)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept."""


class IdleWriter(DataSourceStreamArrowWriter):
    """Drops the rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:
        """Nothing was written."""

    def abort(self, messages: Any, batchId: int) -> None:
        """Nothing was written."""


def measure(bench: Bench, seconds: float, rounds: int) -> dict[str, dict[str, Any]]:
    """Return, for each system, CPU ms of a batch by kind of process and ms of the phases of a batch."""
    found = {}
    for _ in range(rounds):
        for system in SYSTEMS:
            with _stream(bench, system) as query:
                found[system] = _measured(query, seconds)
    return found


@contextmanager
def _stream(bench: Bench, system: str) -> Iterator[StreamingQuery]:
    if system != ALONE:
        with streaming.copying(bench, system, streaming.TRIGGER_MS) as (copy, probe):
            assert copy.query is not None
            yield copy.query
            probe.stop_producing()
            probe.await_all()
        return
    bench.spark.dataSource.register(IdleSource)
    with tempfile.TemporaryDirectory() as checkpoint:
        rows = bench.spark.readStream.format(IdleSource.name()).load()
        writer = rows.writeStream.format(IdleSource.name()).option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime=f"{streaming.TRIGGER_MS} milliseconds").start()
        try:
            yield query
        finally:
            query.stop()


def _measured(query: StreamingQuery, seconds: float) -> dict[str, Any]:
    while query.lastProgress is None and query.isActive:
        time.sleep(0.1)
    time.sleep(WARM_UP_S)
    assert query.lastProgress is not None
    first, before = query.lastProgress.batchId, usage.snapshot()
    time.sleep(seconds)
    after = usage.snapshot()
    batches = [each for each in query.recentProgress if each.batchId > first]
    spent = usage.spent(before, after, (usage.SPARK_JVM, usage.PYTHON_WORKERS))
    phases = {
        phase: [each.durationMs[phase] for each in batches if phase in each.durationMs] for phase in PHASES
    }
    return {
        "cpu_ms": {kind: round(cpu_s * 1_000 / len(batches), 1) for kind, cpu_s in spent.cpu_s.items()},
        "phases_ms": {phase: statistics.median(values) for phase, values in phases.items() if values},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with prepared() as (spark, bootstrap):
        bench = Bench(spark, bootstrap, OUTPUT_TOPIC, OUTPUT_TOPIC, record_count=0)
        found = measure(bench, arguments.seconds, arguments.rounds)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
