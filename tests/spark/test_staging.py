"""Executors write the rows of large batches and the files of its table, on real Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock
from penstock import changelog
from penstock.errors import OptionError
from penstock.targets import ChangeLogTable, DeltaTable, HistoryTable, ParquetTable, SqlTable, _delta_staged
from penstock.targets.staged import Staged
from tests.unit.targets.test_delta import batches_in_log
from tests.unit.targets.test_iceberg import opened, target_in
from tests.waiting import wait_until

pytest.importorskip("pyiceberg.catalog.sql")
deltalake: Any = pytest.importorskip("deltalake")

KEYS, ROWS, WAIT_MS = 1500, 6_000, 120_000
LENGTH = 4000
"""Of a text, so that each task has more rows than it would give to the driver."""


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    Attributes:
        target: makes it in a folder.
        batches: returns the numbers of the batches that the table says it has.
        rows: returns its rows.
    """

    target: Callable[[Path], Any]
    batches: Callable[[Path], list[int]]
    rows: Callable[[Path], pa.Table]


def iceberg_batches(folder: Path) -> list[int]:
    with opened(folder) as table:
        found = [one.summary.additional_properties["penstock.batch"] for one in table.snapshots()]
    return [int(one) for one in found]


def iceberg_rows(folder: Path) -> pa.Table:
    with opened(folder) as table:
        return table.scan().to_arrow()


def parquet_batches(folder: Path) -> list[int]:
    names = sorted(path.name for path in (folder / "parquet" / "_versions").iterdir())
    return [int(name[:10]) for name in names]


def parquet_rows(folder: Path) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, ParquetTable(str(folder / "parquet")).paths()))


KINDS = {
    "iceberg": Kind(target_in, iceberg_batches, iceberg_rows),
    "delta": Kind(
        lambda folder: DeltaTable(str(folder / "delta")),
        lambda folder: batches_in_log(folder / "delta"),
        lambda folder: pa.table(deltalake.DeltaTable(str(folder / "delta")).to_pyarrow_table()),
    ),
    "parquet": Kind(lambda folder: ParquetTable(str(folder / "parquet")), parquet_batches, parquet_rows),
}


def start(spark: SparkSession, folder: Path, target: Any, query: int) -> Any:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    value = F.col("value")
    is_deleted = (value / KEYS).cast("bigint") % 3 == 1
    changes = rows.select(
        (value % KEYS).alias("id"),
        "value",
        F.lpad(value.cast("string"), LENGTH, "x").alias("text"),
        F.when(is_deleted, "-D").otherwise("+U").alias("row_kind"),
    )
    writer = changelog.materialize(
        changes, ["id"], target, order_by=["value"], staging=f"file://{folder}/staging"
    )
    return writer.option("checkpointLocation", f"{folder}/c").queryName(f"staging-{query}").start()


def expected(batches: int) -> list[tuple[int, int]]:
    last = {value % KEYS: value for value in range(batches * ROWS)}
    return sorted((key, value) for key, value in last.items() if value // KEYS % 3 != 1)


def run_two_batches(running: Any, folder: Path, done: int) -> None:
    try:
        wait_until(
            lambda: len(list((folder / "c" / "commits").glob("[0-9]*"))) >= done + 2,
            "two more batches",
            progress=lambda: running.exception() and running.awaitTermination(),
        )
        assert penstock.stop_after_batch(running, WAIT_MS)
    finally:
        running.stop()


@pytest.mark.parametrize("name", KINDS)
def test_a_stream_of_large_batches_keeps_its_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, applied = KINDS[name], list[int]()
    made = type(kind.target(tmp_path))
    apply = made.apply_staged

    def noted(target: Any, batch: Staged, run: Any) -> bool:
        applied.append(len(batch.paths))
        return bool(apply(target, batch, run))

    monkeypatch.setattr(made, "apply_staged", noted)
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)
    done = 0
    for query in range(2):
        run_two_batches(start(spark, tmp_path, kind.target(tmp_path), query), tmp_path, done)
        done = len(kind.batches(tmp_path))
        assert kind.batches(tmp_path) == list(range(done))
        rows = kind.rows(tmp_path)
        columns = (rows.column(name).to_pylist() for name in ("id", "value"))
        assert sorted(zip(*columns, strict=True)) == expected(done)
        assert {len(text) for text in rows.column("text").to_pylist()} == {LENGTH}
    # Each third batch deletes all keys. It is small, so the driver applies it.
    assert len(applied) == sum(number % 3 != 1 for number in range(done))
    left = [name for _, _, names in os.walk(tmp_path / "staging") for name in names]
    assert left == [], "files of batches that are done"


SHOWN = {
    "log": ["id", "value", "row_kind", "change_batch"],
    "history": ["id", "valid_from", "valid_to", "is_current"],
}


def of_all_changes(folder: Path, kind: Kind, table: str) -> Any:
    kept = kind.target(folder)
    return HistoryTable(kept, time="value") if table == "history" else ChangeLogTable(kept)


def expected_changes(batches: int, table: str) -> list[tuple[Any, ...]]:
    values = range(batches * ROWS)
    kinds = {value: "-D" if value // KEYS % 3 == 1 else "+U" for value in values}
    if table == "log":
        return [(value % KEYS, value, kinds[value], value // ROWS) for value in values]
    ends = {value: value + KEYS if value + KEYS < len(values) else None for value in values}
    return [
        (value % KEYS, value, ends[value], ends[value] is None) for value in values if kinds[value] == "+U"
    ]


@pytest.mark.parametrize("table", ["history", "log"])
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_stream_of_large_batches_keeps_all_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, table: str
) -> None:
    kind, applied = KINDS[name], list[int]()
    made = type(of_all_changes(tmp_path, kind, table))
    apply = made.apply_staged

    def noted(target: Any, batch: Any, run: Any) -> bool:
        applied.append(batch.batch_id)
        return bool(apply(target, batch, run))

    monkeypatch.setattr(made, "apply_staged", noted)
    monkeypatch.setattr(_delta_staged, "DRIVER_BYTES", 0)
    done = 0
    for query in range(2):
        run_two_batches(start(spark, tmp_path, of_all_changes(tmp_path, kind, table), query), tmp_path, done)
        done = len(kind.batches(tmp_path))
        assert kind.batches(tmp_path) == list(range(done))
        rows = kind.rows(tmp_path)
        assert {len(text) for text in rows.column("text").to_pylist()} == {LENGTH}
        found = zip(*(rows.column(one).to_pylist() for one in SHOWN[table]), strict=True)
        assert sorted(found, key=lambda row: row[1]) == expected_changes(done, table)
        if table == "log":
            places = rows.group_by(["change_batch", "change_number"]).aggregate([])
            assert places.num_rows == rows.num_rows
    assert applied == list(range(done))
    left = [name for _, _, names in os.walk(tmp_path / "staging") for name in names]
    assert left == [], "files of batches that are done"


def test_another_target_refuses_it(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().select("value")
    with pytest.raises(
        OptionError,
        match=r"`staging` is for a DeltaTable, an IcebergTable, a ParquetTable, .*, and not for table t",
    ):
        changelog.materialize(rows, ["value"], SqlTable("t", lambda: None, "sqlite"), staging="/tmp/s")  # noqa: S108
