"""Open, read or write, and close again and again in one process, and measure what stays behind.

    grown("read", rounds=200, warm_up=50, bootstrap_servers=..., topic="t") -> Grown

With `keeps` the connections and producers are kept between the rounds, as Spark's workers keep them.

Started by `grown()` as `python -m tests.leak_task`. Linux only: it reads /proc.
"""

from __future__ import annotations

import gc
import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StructType

from penstock.client.net.connection import close_shared_connections
from penstock.client.produce.pool import close_kept_producers
from penstock.client.settings import connection_settings
from penstock.options.parse import parse_write
from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings, driver_side
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.sink.writer import CLIENT_ID
from penstock.spark.datasource import PenstockDataSource
from tests.child_process import run_module

_ROWS = StructType().add("key", BinaryType()).add("value", BinaryType())
_batch_ids = itertools.count()


@dataclass(frozen=True)
class Grown:
    """The growth of the process from the end of the warm-up to the end of the rounds."""

    memory_mb: float
    threads: int
    files: int
    objects: int

    def __str__(self) -> str:
        return (
            f"{self.memory_mb:+.1f} MB, {self.threads:+d} threads, {self.files:+d} files, "
            f"{self.objects:+d} objects"
        )


def grown(task: str, *, timeout_s: float = 600, **arguments: Any) -> Grown:
    """Run the rounds of a key of TASKS (below) in a fresh process."""
    return Grown(**run_module("tests.leak_task", task, arguments, timeout_s=timeout_s))


def read(bootstrap_servers: str, topic: str) -> None:
    """Do what a streaming query does, in small: plan, read the splits, stop."""
    options = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    source = PenstockDataSource(options)
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    rows = sum(batch.num_rows for split in reader.partitions(start, end) for batch in reader.read(split))
    reader.stop()
    assert rows, "nothing to read"


def write(bootstrap_servers: str, topic: str) -> None:
    """One task, at least once."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
    writer = PenstockDataSource(options).streamWriter(_ROWS, overwrite=False)
    writer.write(iter([_batch()]))


def write_once(bootstrap_servers: str, topic: str) -> None:
    """One micro-batch of one task, exactly once: recovery, a transaction, the decision, its end."""
    options = {
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": topic,
    }
    config = parse_write({"properties.bootstrap.servers": bootstrap_servers, **options}).sink
    settings = ExactlyOnceSettings(connection_settings(config.properties, client_id=CLIENT_ID), topic)
    mandate = driver_side(settings).recover()
    task = TaskAttempt("6f7a2c1e", next(_batch_ids), 0, 0)
    report = write_in_transaction(config, mandate, task, [_batch()])
    driver_side(settings).commit([report])


TASKS: dict[str, Callable[..., None]] = {"read": read, "write": write, "write_once": write_once}


def _batch() -> pa.RecordBatch:
    values = pa.array([b"%d" % number for number in range(100)], pa.binary())
    return pa.RecordBatch.from_arrays([values, values], names=["key", "value"])


def run(task: str, *, rounds: int, warm_up: int, keeps: bool = False, **arguments: Any) -> Grown:
    """Compare the process after the warm-up with the process after the rounds."""
    before = _counts()
    for number in range(warm_up + rounds):
        if number == warm_up:
            before = _counts()
        TASKS[task](**arguments)
        if not keeps:
            close_kept_producers()
            close_shared_connections()
    after = _counts()
    memory_mb, *numbers = (now - earlier for now, earlier in zip(after, before, strict=True))
    return Grown(memory_mb, *map(int, numbers))


def _counts() -> tuple[float, int, int, int]:
    gc.collect()
    process = Path("/proc/self")
    resident_mb = int((process / "statm").read_text().split()[1]) * 4096 / (1 << 20)
    files, threads = (sum(1 for _ in (process / name).iterdir()) for name in ("fd", "task"))
    return resident_mb, threads, files, len(gc.get_objects())


def main() -> None:
    sys.stdout.write(json.dumps(vars(run(sys.argv[1], **json.loads(sys.argv[2])))))


if __name__ == "__main__":
    main()
