"""Read a backlog that a stand-in plays, and watch memory: `python -m benchmarks.backlog --gigabytes 1 10`.

The stand-in (`benchmarks.stand_in`) is a process that has one stored record batch, and serves it again and
again under other offsets. A planner plans a batch read of the topics in a process of its own, as Spark's
driver does. A third process reads the planned splits, one after the other, as a Python worker of Spark does:
Fetch over real sockets, checksums, decoding, Arrow batches, rows of the schema. It has imported what such a
worker has.

`--gigabytes` counts the record batches as they cross the socket. If they are compressed, `arrow_gb` tells how
much the rows are. Each size is read by a new process, which prints a line of JSON:

- `peak_mb`: the most memory of the task's process (VmHWM). `before_mb`: before it read.
- `grown_mb`: the most memory (VmRSS) in the last quarter of the read, less the most in the second quarter.
- `requests`: of the task. `cpu_s_a_gb`: its processor time for each GB, and that of the stand-in.
- `faults`: what is wrong. Then the command fails.

The limits are 300 MB and a growth of 16 MB, at any size. With `--plant-leak` the task keeps an eighth of what
it reads, and the command has to fail. With `--minutes` a read may be ended early. Then `is_whole` is false.
"""

from __future__ import annotations

import argparse
import base64
import json
import pickle
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType
from tests.memory_task import PROMISED_MB, memory_mb

from benchmarks.stand_in import Shape, child, counted_requests, started
from penstock.source.splits import Split
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.splits import SplitPartition

GROWTH_MB = 16.0
_SAMPLES = 1_000
_FIELDS = {"id": "long", "name": "string"}


@dataclass(frozen=True)
class Job:
    """How a backlog is read.

    Attributes:
        one_task: whether one task reads all topic partitions.
        leaks: whether the task keeps a little of what it reads.
        minutes: after which the read ends, and is judged for what was read until then.
        samples: gets the gigabytes and the memory on the way.
    """

    one_task: bool = False
    leaks: bool = False
    minutes: float | None = None
    samples: Path | None = None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=1, help="of each topic")
    parser.add_argument("--value-bytes", type=int, default=16 << 10)
    parser.add_argument("--batch-bytes", type=int, default=1_000_000, help="of values in a record batch")
    parser.add_argument("--kind", choices=["random", "events", "json"], default="random", help="of values")
    parser.add_argument("--compression", default="none")
    parser.add_argument("--one-task", action="store_true", help="one task reads all topic partitions")
    parser.add_argument("--plant-leak", action="store_true")
    parser.add_argument(
        "--minutes", type=float, help="end after this time, and judge what was read until then"
    )
    parser.add_argument("--samples", type=Path, help="a file for gigabytes and MB on the way")
    parser.add_argument("--part", nargs=2, metavar=("PLAN|READ", "JSON"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        part, arguments = given.part
        (_plan if part == "plan" else _read)(**json.loads(arguments))
        return
    shape = Shape(
        brokers=given.brokers,
        topics=given.topics,
        partitions=given.partitions,
        records=max(1, given.batch_bytes // given.value_bytes),
        value_bytes=given.value_bytes,
        kind=given.kind,
        compression=given.compression,
    )
    wrong = []
    for gigabytes in given.gigabytes:
        job = Job(given.one_task, given.plant_leak, given.minutes, given.samples)
        found = measure(shape, gigabytes, job)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
        wrong += found["faults"]
    assert not wrong, wrong


# ----- the command


def measure(shape: Shape, gigabytes: float, job: Job) -> dict[str, Any]:
    """Read so many gigabytes of record batches of this shape in a fresh process, and judge its memory."""
    shape = replace(shape, repeats=copies_of(shape, gigabytes))
    copies = shape.topics * shape.partitions * shape.repeats
    rows, wire_gb = copies * shape.records, copies * len(shape.stored().data) / 1e9
    with started(shape) as kafka, tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan"
        [planned] = _told(
            "plan", servers=kafka.servers, kind=shape.kind, plan=str(plan), one_task=job.one_task
        )
        given = {"rows": rows, "wire_gb": wire_gb, "leaks": job.leaks, "minutes": job.minutes}
        read = _told("read", plan=str(plan), **given)
        before_s = kafka.cpu_s
        samples, found = _watched(read, job.samples)
        stand_in_s = (kafka.cpu_s - before_s) / found["wire_gb"]
    found |= planned
    found["shape"] = asdict(shape)
    found["cpu_s_a_gb"] = {"task": found["cpu_s_a_gb"], "stand-in": round(stand_in_s, 2)}
    found["grown_mb"] = round(growth_mb(samples), 1)
    return {**found, "faults": faults(found, rows=rows if found["is_whole"] else None)}


def copies_of(shape: Shape, gigabytes: float) -> int:
    """Return how many copies of its batch each topic partition has, if all have so many gigabytes."""
    return max(1, round(gigabytes * 1e9 / len(shape.stored().data) / shape.topics / shape.partitions))


def _watched(
    read: Iterable[dict[str, Any]], file: Path | None
) -> tuple[list[tuple[float, float]], dict[str, Any]]:
    """Return the memory of a task on the way, and what it says at the end."""
    samples, found = list[tuple[float, float]](), dict[str, Any]()
    for told in read:
        if "at_gb" not in told:
            found = told
            continue
        samples.append((told["at_gb"], told["mb"]))
        if file is not None:
            with file.open("a") as lines:
                lines.write(f"{told['at_gb']},{told['mb']}\n")
    return samples, found


def _told(part: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Run a part in a process of its own, and yield what it says."""
    with child("benchmarks.backlog", "--part", part, json.dumps(arguments)) as process:
        yield from (json.loads(line) for line in process.stdout)
    assert process.returncode == 0, f"could not {part} the backlog"


def growth_mb(samples: Sequence[tuple[float, float]]) -> float:
    """Return by how much the memory is higher in the last quarter of a read than in the second one."""
    quarter = len(samples) // 4
    if not quarter:
        return 0.0
    mb = [each for _, each in samples]
    return max(mb[-quarter:]) - max(mb[quarter : 2 * quarter])


def faults(found: Mapping[str, Any], *, rows: int | None) -> list[str]:
    """Return what is wrong with a read of so many rows. None: the read was ended early."""
    wrong = []
    if rows not in (None, found["rows"]):
        wrong.append(f"expected {rows} rows, got {found['rows']}")
    if found["incomplete_tasks"]:
        wrong.append(f"{found['incomplete_tasks']} tasks did not get each offset once")
    if found["peak_mb"] >= PROMISED_MB:
        wrong.append(f"the task had {found['peak_mb']} MB")
    if found["grown_mb"] >= GROWTH_MB:
        wrong.append(f"the memory of the task grew by {found['grown_mb']} MB")
    return wrong


# ----- the planner


def _plan(servers: str, kind: str, plan: str, *, one_task: bool) -> None:
    """Plan a batch read, and write the reader and its splits to a file, pickled as Spark does."""
    options = {"properties.bootstrap.servers": servers, "topic-pattern": "bench-model-.*"}
    options |= {"scan.startup.mode": "earliest-offset", "scan.bounded.mode": "latest-offset"}
    options["properties.default.api.timeout.ms"] = "600000"  # 100 brokers answer from one thread at a time
    source: Any = PenstockDataSource({**options, "format": "json"} if kind == "json" else options)
    schema = source.schema() if kind != "json" else StructType()
    for name, type_name in _FIELDS.items() if kind == "json" else ():
        schema = schema.add(name, type_name)
    began = time.perf_counter()
    reader = source.reader(schema)
    with counted_requests() as requests:
        splits = reader.partitions()
    took_s = time.perf_counter() - began
    tasks = [_one_task(splits)] if one_task else splits
    with Path(plan).open("w") as file:
        for each in (reader, *tasks):
            file.write(base64.b64encode(pickle.dumps(each)).decode() + "\n")
    planned = {"seconds": round(took_s, 2), "mb": round(memory_mb("VmHWM")), "requests": dict(requests)}
    _tell({"tasks": len(tasks), "plan": planned})


def _one_task(splits: Iterable[SplitPartition]) -> SplitPartition:
    return SplitPartition(Split(tuple(one for each in splits for one in each.split.ranges)))


# ----- the task


def _read(plan: str, rows: int, wire_gb: float, minutes: float | None, *, leaks: bool) -> None:
    """Read the splits of a plan, and say on the way how much memory this process has."""
    import pyspark.worker  # noqa: F401, PLC0415 - what a worker of Spark has in memory before a task comes

    before_mb, cpu_began = memory_mb("VmRSS"), time.process_time()
    progress, incomplete = _Progress(rows, wire_gb, minutes, leaks=leaks), 0
    with counted_requests() as requests, Path(plan).open() as file:
        reader = _unpickled(next(file))
        for line in file:
            partition = _unpickled(line)
            offsets = _Offsets()
            for batch in reader.read(partition):
                offsets.take(batch)
                progress.take(batch)
                if progress.is_late:
                    break
            if progress.is_late:
                break
            incomplete += not offsets.are_those_of(partition.split)
    found = {
        "wire_gb": round(progress.wire_gb, 3),
        "arrow_gb": round(progress.row_bytes / 1e9, 3),
        "rows": progress.rows,
        "is_whole": not progress.is_late,
        "incomplete_tasks": incomplete,
        "before_mb": round(before_mb, 1),
        "peak_mb": round(memory_mb("VmHWM"), 1),
        "seconds": round(progress.seconds, 1),
        "cpu_s_a_gb": round((time.process_time() - cpu_began) / progress.wire_gb, 2),
        "requests": dict(requests),
    }
    _tell(found)


class _Progress:
    """Counts rows, and says now and then how much memory this process has."""

    def __init__(self, expected_rows: int, wire_gb: float, minutes: float | None, *, leaks: bool) -> None:
        self.rows = self.row_bytes = 0
        self.is_late = False
        self._began = time.monotonic()
        self._limit_s = float("inf") if minutes is None else 60 * minutes
        self._wire_gb_a_row = wire_gb / expected_rows
        self._step = self._next = expected_rows / _SAMPLES
        self._leaks = leaks
        self._kept: list[bytes] = []

    @property
    def wire_gb(self) -> float:
        return self.rows * self._wire_gb_a_row

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def take(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.row_bytes += batch.nbytes
        if self._leaks:
            self._kept.append(b"x" * (batch.nbytes // 8))
        if self.rows < self._next:
            return
        self._next = self.rows + self._step
        self.is_late = self.seconds > self._limit_s
        _tell({"at_gb": round(self.wire_gb, 4), "mb": round(memory_mb("VmRSS"), 2)})


class _Offsets:
    """Adds up the offsets of a task, if its rows have them."""

    def __init__(self) -> None:
        self._count = self._sum = 0
        self._is_seen = False

    def take(self, batch: pa.RecordBatch) -> None:
        if "offset" in batch.schema.names:
            self._is_seen = True
            self._count += batch.num_rows
            self._sum += pc.sum(batch.column("offset")).as_py()

    def are_those_of(self, split: Split) -> bool:
        ranges = [each.offset_range for each in split.ranges]
        count = sum(len(each) for each in ranges)
        total = sum(len(each) * (each.starting_offset + each.stopping_offset - 1) // 2 for each in ranges)
        return not self._is_seen or (self._count, self._sum) == (count, total)


def _unpickled(line: str) -> Any:
    return pickle.loads(base64.b64decode(line))  # noqa: S301 - what the planner of this command wrote


def _tell(found: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
