"""Executors write the rows of large batches and the files of an Iceberg table, on real Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import penstock
from penstock import changelog
from penstock.errors import OptionError
from penstock.targets import IcebergTable, SqlTable
from penstock.targets.staged import Staged
from tests.unit.targets.test_iceberg import opened, target_in
from tests.waiting import wait_until

pytest.importorskip("pyiceberg.catalog.sql")

KEYS, ROWS, WAIT_MS = 1500, 6_000, 120_000
LENGTH = 4000
"""Of a text, so that each task has more rows than it would give to the driver."""


def start(spark: SparkSession, folder: Path, query: int) -> Any:
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
        changes, ["id"], target_in(folder), order_by=["value"], staging=f"file://{folder}/staging"
    )
    return writer.option("checkpointLocation", f"{folder}/c").queryName(f"staging-{query}").start()


def batches_in(folder: Path) -> list[int]:
    with opened(folder) as table:
        found = [one.summary.additional_properties["penstock.batch"] for one in table.snapshots()]
    return [int(one) for one in found]


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


def test_a_stream_of_large_batches_keeps_its_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied, apply = list[int](), IcebergTable.apply_staged

    def noted(target: IcebergTable, batch: Staged, run: Any) -> bool:
        applied.append(len(batch.paths))
        return apply(target, batch, run)

    monkeypatch.setattr(IcebergTable, "apply_staged", noted)
    target_in(tmp_path)
    done = 0
    for query in range(2):
        run_two_batches(start(spark, tmp_path, query), tmp_path, done)
        done = len(batches_in(tmp_path))
        assert batches_in(tmp_path) == list(range(done))
        with opened(tmp_path) as table:
            rows = table.scan().to_arrow()
        columns = (rows.column(name).to_pylist() for name in ("id", "value"))
        assert sorted(zip(*columns, strict=True)) == expected(done)
        assert {len(text) for text in rows.column("text").to_pylist()} == {LENGTH}
    # Each third batch deletes all keys. It is small, so the driver applies it.
    assert len(applied) == sum(number % 3 != 1 for number in range(done))
    left = [name for _, _, names in os.walk(tmp_path / "staging") for name in names]
    assert left == [], "files of batches that are done"


def test_another_target_refuses_it(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load().select("value")
    with pytest.raises(OptionError, match=r"`staging` is for an IcebergTable, and not for table t"):
        changelog.materialize(rows, ["value"], SqlTable("t", lambda: None, "sqlite"), staging="/tmp/s")  # noqa: S108
