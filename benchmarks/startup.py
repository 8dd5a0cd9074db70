"""Measure what a worker does before its first row: `python -m benchmarks.startup [--rounds 9]`.

For each kind of task: milliseconds of a fresh process from the pickled reader or writer to its first call,
and the memory that they take, without the imports of pyarrow and PySpark's own worker. The same for the
process that plans a stream, up to its first request to a broker, and in an empty process for
`import penstock` and for the module by which Spark finds the data source. It shows the clock and processor
time, because a busy machine changes processor time less. The goal is less than 150 ms. It needs no broker and
no Spark. Modules are compiled, as after an installation by pip.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, LongType, StringType, StructType
from rich.console import Console

from penstock.client.transactions.append import ProducerSession
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol
from penstock.sink.exactly_once.mandate import Mandate
from penstock.source.splits import Split
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.splits import SplitPartition
from penstock.types import OffsetRange, TopicPartition

_READ = {"properties.bootstrap.servers": "127.0.0.1:1", "topic": "t", "scan.startup.mode": "earliest-offset"}
_WRITE = {"properties.bootstrap.servers": "127.0.0.1:1", "topic": "t"}
_ONCE = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "startup"}
_ROWS = StructType().add("id", LongType()).add("name", StringType())
_RECORDS = StructType().add("key", BinaryType()).add("value", BinaryType())


def raw_read() -> Any:
    source = PenstockDataSource(_READ)
    return source.streamReader(source.schema())


def json_read() -> Any:
    return PenstockDataSource({**_READ, "format": "json"}).streamReader(_ROWS)


def write() -> Any:
    return PenstockDataSource(_WRITE).streamWriter(_RECORDS, overwrite=False)


def exactly_once_write() -> Any:
    """Make a writer with the mandate that `recover()` would have given it."""
    writer: Any = PenstockDataSource({**_WRITE, **_ONCE}).streamWriter(_RECORDS, overwrite=False)
    session = ProducerSession(TransactionIdentity("startup-committer", 1, 0))
    writer._mandate = Mandate("startup", session, TransactionProtocol.V2, 60_000, known={})  # noqa: SLF001
    return writer


TASKS: dict[str, Callable[[], Any]] = {
    "raw read": raw_read,
    "JSON read": json_read,
    "write at-least-once": write,
    "write exactly-once": exactly_once_write,
}

IMPORTS = ("penstock", "pyspark_penstock")

_MEASURE = """
import sys, time
def memory_mb():
    status = open("/proc/self/status").read()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024
def measured(work):
    before, mb, wall, cpu = set(sys.modules), memory_mb(), time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall_ms": wall * 1000, "cpu_ms": cpu * 1000, "memory_mb": memory_mb() - mb,
            "modules": sorted(sys.modules), "beyond": len(set(sys.modules) - before)}
"""
"""The peak of the memory is Linux's. A process begins with the peak of 0, whatever its parent has."""

_IMPORT = f"""{_MEASURE}
import json
print(json.dumps(measured(lambda: __import__(sys.argv[1]))))
"""

_PLANNER = f"""{_MEASURE}
import importlib.util, json
import pyspark.sql.streaming.python_streaming_source_runner as runner
from pyspark.sql.types import LongType, StructType
__spec__ = importlib.util.find_spec(runner.__name__)
def work():
    from penstock.spark.datasource import PenstockDataSource
    options = {_READ | {"format": "json", "scan.row-filter": "id = 1"}}
    PenstockDataSource(options).streamReader(StructType().add("id", LongType()))._enumerator
print(json.dumps(measured(work)))
"""
"""What the process does that plans a stream, up to its first request to a broker."""

WORKER = f"""{_MEASURE}
import json, pickle
import pyarrow
for name in sys.argv[1:]:
    __import__(name)
import pyspark.sql.worker.plan_data_source_read, pyspark.worker
task = sys.stdin.buffer.read()
def work():
    works, split = pickle.loads(task)
    if split is not None:
        list(works.read(split))
    elif getattr(works, "_mandate", None) is None:
        works.write(iter([]))
print(json.dumps(measured(work)))
"""
"""The code of the worker. A split without offsets and a write without rows do not ask a broker. An
exactly-once writer is only loaded, because its `write` needs a Spark task around it."""


def run_task(kind: str, *imported: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run one task in a fresh process. Return what it measured and the modules that it had at the end.

    Args:
        kind: a key of TASKS.
        imported: modules that the process has before, besides pyarrow and PySpark's worker.
        environment: of the process; ours when left out.
    """
    works = TASKS[kind]()
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    split = SplitPartition(Split.of(OffsetRange(TopicPartition("t", 0), 7, 7)))
    task = dumps((works, split if "read" in kind else None))
    return _run([WORKER, *imported], task, environment)


def run_import(module: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Import one module in a fresh process. Return the same.

    Args:
        module: its name.
        environment: of the process; ours when left out.
    """
    return _run([_IMPORT, module], b"", environment)


def _run(program: list[str], given: bytes, environment: dict[str, str] | None) -> dict[str, Any]:
    child = subprocess.run(
        [sys.executable, "-c", *program],
        input=given,
        capture_output=True,
        check=True,
        timeout=120,
        env=environment,
    )
    measured: dict[str, Any] = json.loads(child.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        measures = {
            **{kind: partial(run_task, kind, "pyarrow.compute", environment=environment) for kind in TASKS},
            "plan a stream": partial(_run, [_PLANNER], b"", environment),
            **{f"import {name}": partial(run_import, name, environment) for name in IMPORTS},
        }
        for measure in measures.values():
            measure()  # compiles the modules that it imports
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in measures}
        for _ in range(rounds):
            for kind, measure in measures.items():
                found[kind].append(measure())
    console = Console()
    for kind, runs in found.items():
        wall_ms, cpu_ms, memory_mb = (
            statistics.median(run[name] for run in runs) for name in ("wall_ms", "cpu_ms", "memory_mb")
        )
        best_ms = min(run["wall_ms"] for run in runs)
        console.print(
            f"{kind}: {wall_ms:.0f} ms (best {best_ms:.0f}), of the processor {cpu_ms:.0f}; "
            f"{memory_mb:.1f} MB; {runs[0]['beyond']} modules"
        )


if __name__ == "__main__":
    main()
