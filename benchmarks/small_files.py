"""Measure what small files and delete files of batches cost a reader and the next batch.

`python -m benchmarks.small_files` keeps a table of Delta and one of Iceberg by small batches, and prints
files, bytes, and the seconds and processor seconds of reading the whole table and of applying a batch.
Processor seconds say more on a busy machine. It needs no broker and no Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import deltalake
import numpy as np
import pyarrow as pa
from pyiceberg.catalog import load_catalog

from penstock.targets import DeltaTable, IcebergTable
from penstock.targets.batch import DELETED, Batch

ROWS, CHANGES, BATCHES, LENGTH = 500_000, 1_000, 60, 40
_NAME = "shop.customers"


class Files(NamedTuple):
    """What a reader of the table opens."""

    data: int
    deletes: int
    megabytes: float


class Spent(NamedTuple):
    """What a piece of work has taken."""

    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s ({self.cpu_seconds:.2f} s of processors)"


def spent(work: Callable[[], object]) -> Spent:
    """Do some work, and return how long it took."""
    begun, cpu_begun = time.perf_counter(), time.process_time()
    work()
    return Spent(time.perf_counter() - begun, time.process_time() - cpu_begun)


class Lake(NamedTuple):
    """A kind of table: its target, how all rows are read, and its files."""

    target: Any
    read: Callable[[], pa.Table]
    files: Callable[[], Files]


def delta(folder: Path) -> Lake:
    """Return a table of Delta."""

    def files() -> Files:
        actions = pa.table(deltalake.DeltaTable(str(folder)).get_add_actions())
        sizes = actions.column("size_bytes").to_pylist()
        return Files(len(sizes), 0, sum(sizes) / 1e6)

    def read() -> pa.Table:
        return pa.table(deltalake.DeltaTable(str(folder)).to_pyarrow_table())

    return Lake(DeltaTable(str(folder)), read, files)


def iceberg(folder: Path) -> Lake:
    """Return a table of Iceberg."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/lake",
    }
    folder.mkdir()
    catalog = load_catalog("benchmark", **properties)
    catalog.create_namespace("shop")

    def files() -> Files:
        tasks = list(catalog.load_table(_NAME).scan().plan_files())
        deletes = {one.file_path: one.file_size_in_bytes for task in tasks for one in task.delete_files}
        size = sum(task.file.file_size_in_bytes for task in tasks) + sum(deletes.values())
        return Files(len(tasks), len(deletes), size / 1e6)

    def read() -> pa.Table:
        return catalog.load_table(_NAME).scan().to_arrow()

    return Lake(IcebergTable(_NAME, "benchmark", properties), read, files)


def batch(number: int, keys: np.ndarray[Any, np.dtype[np.int64]], random: np.random.Generator) -> Batch:
    """Return new rows for keys."""
    texts = ["".join(each) for each in random.choice(list("abcdefghijklmnop"), (len(keys), LENGTH))]
    rows = pa.table({"id": keys, "name": texts})
    return Batch(
        "benchmark", number, ("id",), rows.append_column(DELETED, pa.array(np.zeros(len(keys), bool)))
    )


def run(name: str, lake: Lake) -> None:
    """Keep a table and print what it costs after some batches."""
    random = np.random.default_rng(34)
    lake.target.apply(batch(0, np.arange(ROWS), random))
    report(name, 0, lake, [])
    took, rows = list[Spent](), ROWS
    for number in range(1, BATCHES + 1):
        old = random.choice(ROWS, CHANGES // 2, replace=False)
        new = np.arange(rows, rows + CHANGES // 2)
        rows += len(new)
        changes = batch(number, np.concatenate([old, new]), random)
        took.append(spent(partial(lake.target.apply, changes)))
        if number in (BATCHES // 4, BATCHES):
            report(name, number, lake, took[-5:])
    assert lake.read().num_rows == rows


def report(name: str, number: int, lake: Lake, batches: list[Spent]) -> None:
    """Print one line: the best of three reads, and the median of the last batches."""
    read, found = min(spent(lake.read) for _ in range(3)), lake.files()
    each = f", a batch {Spent(*(median(one) for one in zip(*batches, strict=True)))}" if batches else ""
    print(
        f"{name}, after {number} batches: {found.data} data files, {found.deletes} delete files, "
        f"{found.megabytes:.0f} MB, a read {read}{each}",
        flush=True,
    )


def main() -> None:
    """Print both kinds, and Delta after a compaction."""
    with tempfile.TemporaryDirectory() as folder:
        run("Iceberg", iceberg(Path(folder) / "iceberg"))
        made = delta(Path(folder) / "delta")
        run("Delta", made)
        deltalake.DeltaTable(str(Path(folder) / "delta")).optimize.compact()
        report("Delta compacted", BATCHES, made, [])


if __name__ == "__main__":
    main()
