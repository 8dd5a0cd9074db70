"""One batch of changes in a large table: applied by the driver, and by executors.

The batch is a DataFrame of files, and `Materializer` gets it as `foreachBatch` would. So a measure has the
Spark job that reads the changes, and nothing of a source. The driver's memory is the growth of its largest
resident size within the measure.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks import usage
from benchmarks.cpu_share import limited_executors
from benchmarks.tables.rows import COLUMNS, PART, Changes, rows_of
from penstock.spark.materialize import Materializer
from penstock.targets import ChangeLogTable, DeltaTable, HistoryTable, IcebergTable
from penstock.targets.all_rows import AllRows
from penstock.targets.batch import LastRows
from penstock.targets.staged import Stage, StagingFolder
from penstock.targets.staged_changes import StageChanges

QUERY, KEYS = "benchmark", ("id",)
KINDS, TABLES, WAYS = ("delta", "iceberg"), ("rows", "history", "log"), ("driver", "staged")
_WARM_UP, _TASKS = 200, 8
_PROCESSES = frozenset({usage.DRIVER, usage.SPARK_JVM, usage.PYTHON_WORKERS})


@dataclass(frozen=True)
class Case:
    """One table and how it is measured.

    Attributes:
        kind: of the table.
        table: what it keeps.
        row_count: before the first batch.
        change_count: of a batch.
        executors: processes with one core each.
        folder: keeps the table for the next run.
        share: of a core, if an executor has less than one.
    """

    kind: str
    table: str
    row_count: int
    change_count: int
    executors: int
    folder: Path
    share: float | None = None

    @property
    def place(self) -> Path:
        return self.folder / f"{self.kind}-{self.table}-{self.row_count}"

    def kept(self) -> Any:
        """Return the table that has the rows."""
        if self.kind == "delta":
            return DeltaTable(str(self.place / "t"))
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.place}/catalog.db",
            "warehouse": f"file://{self.place}/warehouse",
        }
        return IcebergTable("shop.customers", "benchmark", properties)

    def prepare(self) -> None:
        """Create what the table needs before its first batch."""
        if self.kind == "iceberg":
            from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - only this kind needs it

            with SqlCatalog("benchmark", **self.kept().properties) as catalog:
                catalog.create_namespace("shop")

    def target(self) -> Any:
        """Return the target of `materialize`."""
        kept = self.kept()
        made = {
            "rows": lambda: kept,
            "history": lambda: HistoryTable(kept, time="at"),
            "log": lambda: ChangeLogTable(kept),
        }
        return made[self.table]()

    def work(self) -> LastRows | AllRows:
        """Return what a task does with its rows."""
        return LastRows(KEYS, COLUMNS) if self.table == "rows" else AllRows(KEYS, COLUMNS)


@contextmanager
def session(executors: int) -> Iterator[SparkSession]:
    """Start a Spark whose executors are processes with one core each."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    large = str(1 << 30)
    builder = SparkSession.builder.appName("tables").master(f"local-cluster[{executors},1,1500]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.memory": "1400m",
        "spark.driver.memory": "3g",
        "spark.driver.maxResultSize": "0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": large,  # a file is a task
        "spark.sql.files.openCostInBytes": large,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def shares(case: Case) -> AbstractContextManager[None]:
    """Return a context in which each executor has its share of a core."""
    return nullcontext() if case.share is None else limited_executors(case.executors, case.share)


def run_here(function: Any, items: Sequence[Any]) -> list[Any]:
    """Run what tasks would do, in this process."""
    return [function(each) for each in items]


def build(case: Case) -> float:
    """Write the table with its first batch, in files of `PART` rows. Return the seconds; 0 if it is there."""
    if (case.place / "done").exists():
        return 0.0
    shutil.rmtree(case.place, ignore_errors=True)
    case.place.mkdir(parents=True)
    began = time.monotonic()
    case.prepare()
    work, files = case.work(), StagingFolder(str(case.place / "staging"), QUERY, 0)
    stage = Stage(work, files) if isinstance(work, LastRows) else StageChanges(work, files)
    starts = range(0, case.row_count, PART)
    parts = (rows_of(np.arange(start, min(start + PART, case.row_count)), 0) for start in starts)
    receipts = itertools.chain.from_iterable(stage.run(rows.to_batches()) for rows in parts)
    batch: Any = stage.batch(QUERY, pa.Table.from_batches(receipts))
    case.target().apply_staged(batch, run_here)
    files.sweep()
    Done(1, 0).write(case.place)
    return time.monotonic() - began


@dataclass(frozen=True)
class Done:
    """What a table has had: batches, and old keys that were updated or deleted."""

    batches: int
    keys: int

    @classmethod
    def read(cls, place: Path) -> Done:
        return cls(*map(int, (place / "done").read_text().split()))

    def write(self, place: Path) -> None:
        (place / "done").write_text(f"{self.batches} {self.keys}")


def measure(case: Case, ways: Sequence[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Apply batches in each way in turn, and yield the figures of each."""
    built_s = build(case)
    if built_s:
        yield {"built_s": round(built_s, 1), "rows": case.row_count}
    done = Done.read(case.place)
    with session(case.executors) as spark, shares(case):
        for way in ways:  # starts the workers, and compiles the plans
            done, _ = _applied(case, spark, done, _WARM_UP, way)
        for number, way in itertools.product(range(rounds), ways):
            done, figures = _applied(case, spark, done, case.change_count, way)
            yield {"kind": case.kind, "table": case.table, "way": way, "round": number, **figures}


def _applied(
    case: Case, spark: SparkSession, done: Done, count: int, way: str
) -> tuple[Done, dict[str, Any]]:
    """Apply the next batch. Return what is done then, and the figures."""
    changes = Changes(case.row_count, count, done.batches, done.keys)
    frame = spark.read.schema(_schema()).parquet(*changes.write(case.place / "changes", _TASKS))
    before = _row_count(case)
    figures = _timed(case, frame, done.batches, way)
    found = _row_count(case) - before
    expected = {
        "rows": changes.inserted - changes.deleted,
        "history": changes.updated + changes.inserted,
        "log": count,
    }[case.table]
    if found != expected:
        raise AssertionError(f"expected {expected} more rows after batch {done.batches}, got {found}")
    new = Done(done.batches + 1, done.keys + changes.updated + changes.deleted)
    new.write(case.place)
    return new, {"rows": case.row_count, "changes": count, **_executors(case), **figures}


def _executors(case: Case) -> dict[str, float]:
    share = {} if case.share is None else {"share_of_a_core": case.share}
    return {"executors": case.executors, **share}


def _timed(case: Case, frame: DataFrame, number: int, way: str) -> dict[str, Any]:
    staging = str(case.place / "staging") if way == "staged" else None
    apply = Materializer(case.target(), case.work(), (), QUERY, staging)
    usage.reset_peaks(usage.snapshot())
    before, began = usage.snapshot(), time.monotonic()
    apply(frame, number)
    seconds, after = time.monotonic() - began, usage.snapshot()
    spent, at_first = usage.spent(before, after, _PROCESSES), usage.spent({}, before, {usage.DRIVER})
    grown = spent.peak_memory_mb[usage.DRIVER] - at_first.peak_memory_mb[usage.DRIVER]
    return {
        "seconds": round(seconds, 2),
        "cpu_s": round(sum(spent.cpu_s.values()), 2),
        "driver_cpu_s": round(spent.cpu_s[usage.DRIVER], 2),
        "driver_memory_mb": round(grown),
    }


def _schema() -> str:
    columns = "id BIGINT, name STRING, city STRING, amount DECIMAL(12, 2), at TIMESTAMP, note STRING"
    return f"{columns}, row_kind STRING"


def _row_count(case: Case) -> int:
    if case.kind == "delta":
        import deltalake  # noqa: PLC0415 - only this kind needs it

        actions = pa.table(deltalake.DeltaTable(str(case.place / "t")).get_add_actions())
        return sum(actions.column("num_records").to_pylist())
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - only this kind needs it

    with SqlCatalog("benchmark", **case.kept().properties) as catalog:
        found = catalog.load_table("shop.customers").current_snapshot().summary.additional_properties
    return int(found["total-records"]) - int(found["total-position-deletes"])
