"""Run one reading or writing task in a process of its own, as Spark's worker does, and measure its memory.

    measure("read", bootstrap_servers=..., topic="t", count=1000) -> Measured

Started by `measure()` as `python -m tests.memory_task`. Linux only: it reads /proc.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.source.splits import Split
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.splits import SplitPartition
from penstock.types import OffsetRange, TopicPartition
from tests.child_process import run_module
from tests.fault_proxy import FaultProxy, route

PROMISED_MB = 300
"""The limit for the process of a task."""
BATCH_BYTES = 8 << 20
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Measured:
    """The work of a task, and the memory of its process before it and at its peak."""

    row_count: int
    byte_count: int
    before_mb: float
    peak_mb: float
    seconds: float

    def __str__(self) -> str:
        rate = self.byte_count / self.seconds / 1e6
        return (
            f"{self.row_count:,} rows, {self.byte_count / 1e6:,.0f} MB in {self.seconds:.1f} s "
            f"({rate:.0f} MB/s): {self.before_mb:.0f} MB before, {self.peak_mb:.0f} MB at the most"
        )


def measure(what: str, *, timeout_s: float = 600, **task: Any) -> Measured:
    """Run `read` or `write` (below) with these arguments in a fresh process."""
    return Measured(**run_module("tests.memory_task", what, task, timeout_s=timeout_s))


def read(
    bootstrap_servers: str,
    topic: str,
    count: int,
    options: dict[str, str] | None = None,
    fields: dict[str, str] | None = None,
) -> tuple[int, int]:
    """Read the topic's one partition from 0 to `count`, into these columns; returns rows and their bytes."""
    given = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic, **(options or {})}
    source = PenstockDataSource(given)
    schema = StructType() if fields else source.schema()
    for name, type_name in (fields or {}).items():
        schema = schema.add(name, type_name)
    split = SplitPartition(Split.of(OffsetRange(TopicPartition(topic, 0), 0, count)))
    rows = byte_count = 0
    for batch in source.reader(schema).read(split):
        rows += batch.num_rows
        byte_count += batch.nbytes
    return rows, byte_count


def write(
    bootstrap_servers: str,
    topic: str,
    total_bytes: int,
    value_bytes: int,
    kind: str = "random",
    options: dict[str, str] | None = None,
    bytes_per_second: float | None = None,
) -> tuple[int, int]:
    """Write so many bytes of values, at full speed or to a slow broker."""
    host, port = bootstrap_servers.rsplit(":", 1)
    config = parse_write(
        {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, **(options or {})}
    ).sink
    batch = values(kind, value_bytes)
    batch_count = -(-total_bytes // (batch.num_rows * value_bytes))
    batches = iter([batch] * batch_count)
    if bytes_per_second is None:
        written = write_rows(config, batches)
    else:
        with FaultProxy(host, int(port)) as slow, route(slow):
            slow.throttle(bytes_per_second)
            written = write_rows(config, batches)
    return written, written * value_bytes


def values(kind: str, value_bytes: int) -> pa.RecordBatch:
    """An Arrow batch as Spark sends them: random bytes, zeros, JSON of two fields, or text."""
    row_count = max(1, min(BATCH_ROWS, BATCH_BYTES // value_bytes))
    chosen = random.Random(7)  # bytes, not secrets
    if kind == "zeros":
        made = [bytes(value_bytes)] * row_count
    elif kind == "json":
        made = [b'{"id":%d,"name":"%s"}' % (number, b"x" * value_bytes) for number in range(row_count)]
    elif kind == "random":
        made = [chosen.randbytes(value_bytes) for _ in range(row_count)]
    else:
        piece = b"%08d," * (value_bytes // 9 + 1)
        made = [
            (piece % ((chosen.randrange(99),) * (value_bytes // 9 + 1)))[:value_bytes]
            for _ in range(row_count)
        ]
    return pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], names=["value"])


def memory_mb(name: str) -> float:
    """`VmRSS` or `VmHWM` of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def main() -> None:
    tasks: dict[str, Callable[..., tuple[int, int]]] = {"read": read, "write": write}
    task, arguments = tasks[sys.argv[1]], json.loads(sys.argv[2])
    before_mb, started = memory_mb("VmRSS"), time.monotonic()
    rows, byte_count = task(**arguments)
    measured = Measured(rows, byte_count, before_mb, memory_mb("VmHWM"), time.monotonic() - started)
    sys.stdout.write(json.dumps(vars(measured)))


if __name__ == "__main__":
    import pyspark.worker  # noqa: F401 - what a worker of Spark has in memory before a task comes

    main()
