"""`materialize` into a table that Spark changes by MERGE, as a process that the judge lets die.

It prints, as JSON in its last line, the rows of the table and the batches that the commits name; or the
error with which the query has ended.
"""

# ruff: noqa: S608 - the name of a table is checked, and names of columns are quoted

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

import penstock
from penstock.targets import SparkDeltaTable, SparkIcebergTable
from penstock.targets.merged import MergedTable
from tests.chaos.exactly_once_job import spark_session

TABLES = {"delta": "shop.2024_customers", "iceberg": "prod-lake.shop.2024_customers"}
IN_SQL = {"delta": "shop.`2024_customers`", "iceberg": "`prod-lake`.shop.`2024_customers`"}
_CATALOG = "prod-lake"
MERGE, BEFORE, FOREIGN, COMPACTION = "after-merge", "before-merge", "foreign", "compaction"
MOVED, BACK = "moved", "back"
"""A column is moved under a MERGE, or moved back before the query starts."""
PARTS = (MERGE, BEFORE, FOREIGN, COMPACTION, MOVED, BACK)
KEY = "token_id"
"""Named like a secret, which Spark hides where it shows the properties of a table."""
_COLUMNS = (
    f"{KEY} BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP, small SMALLINT, "
    "made STRUCT<`order-id`: TINYINT>, kind STRING"
)


def settings(kind: str, folder: str, jars: str) -> dict[str, str]:
    """Return the settings of a Spark whose catalog outlives its process."""
    found = {"spark.jars": jars, "spark.sql.session.timeZone": "UTC"}
    if kind == "delta":
        return found | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": (
                f"jdbc:derby:;databaseName={folder}/metastore;create=true"
            ),
            "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
            "spark.hadoop.hive.metastore.schema.verification": "false",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.databricks.delta.autoCompact.enabled": "true",
            "spark.databricks.delta.autoCompact.minNumFiles": "2",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",  # several files of each MERGE
        }
    return found | {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


def set_catalog(spark: SparkSession, kind: str, folder: str) -> None:
    """Set the catalog of Iceberg in the session alone. Spark does not know the names of these settings."""
    if kind == "delta":
        return
    catalog = f"spark.sql.catalog.{_CATALOG}"
    for name, value in {
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": f"{folder}/lake",
    }.items():
        spark.conf.set(name, value)


class Interfering:
    """Does something before or after the first MERGE of the batch with a number."""

    def __init__(self, spark: SparkSession, given: argparse.Namespace) -> None:
        self._spark = spark
        self._given = given
        self._original = MergedTable._merge

    def merge(self, table: MergedTable, batch: Any, marker: Any, version: int) -> None:
        """Do what `MergedTable._merge` does, with it."""
        part = self._given.part if marker.batch_id == self._given.batch else None
        if part is not None:
            self._given.part = None
        name = IN_SQL[self._given.format]
        if part == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        elif part == FOREIGN:
            self._session().sql(f"DELETE FROM {name} WHERE {KEY} % 2 = 0").collect()
        elif part == COMPACTION:
            self._session().sql(self._compaction(name)).collect()
        elif part == MOVED:
            self._session().sql(f"ALTER TABLE {name} ALTER COLUMN price FIRST").collect()
        self._original(table, batch, marker, version)
        if part == MERGE:
            os.kill(os.getpid(), signal.SIGKILL)

    def _session(self) -> SparkSession:
        other = self._spark.newSession()
        set_catalog(other, self._given.format, self._given.folder)
        return other

    def _compaction(self, name: str) -> str:
        if self._given.format == "delta":
            return f"OPTIMIZE {name}"
        options = "map('rewrite-all', 'true')"
        table = name.partition(".")[2]
        return f"CALL `{_CATALOG}`.system.rewrite_data_files(table => '{table}', options => {options})"


def refresh(spark: SparkSession, kind: str) -> None:
    """Let the session forget the table, which an ALTER TABLE of it keeps for 30 seconds."""
    spark.sql(f"REFRESH TABLE {IN_SQL[kind]}").collect()


def batches_of(spark: SparkSession, kind: str) -> list[int]:
    """Return the batches that the commits of the table name, the newest first."""
    name = IN_SQL[kind]
    if kind == "delta":
        commits = spark.sql(f"DESCRIBE HISTORY {name}").collect()
        texts = [one.userMetadata for one in commits if one.operation == "MERGE"]
        return [int(json.loads(one)["penstock.batch"]) for one in texts]
    found = spark.sql(f"SELECT summary FROM {name}.snapshots ORDER BY committed_at DESC").collect()
    return [int(one.summary["penstock.batch"]) for one in found if "penstock.batch" in one.summary]


def compactions_of(spark: SparkSession, kind: str) -> int:
    """Return how many compactions Delta has added to a MERGE, with its metadata."""
    if kind == "iceberg":
        return 0
    commits = spark.sql(f"DESCRIBE HISTORY {IN_SQL[kind]}").collect()
    return sum(one.operation == "OPTIMIZE" and bool(one.userMetadata) for one in commits)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("format", "bootstrap", "topic", "folder", "jars"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--per-batch", type=int, default=100)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--batch", type=int, default=-2)
    parser.add_argument("--staging", action="store_true")
    given = parser.parse_args()
    kind = given.format
    spark = spark_session("local[2,4]", f"{given.folder}/scratch", settings(kind, given.folder, given.jars))
    set_catalog(spark, kind, given.folder)
    spark.sql("CREATE SCHEMA IF NOT EXISTS " + IN_SQL[kind].rpartition(".")[0])
    if given.part == BACK:
        spark.sql(f"ALTER TABLE {IN_SQL[kind]} ALTER COLUMN price AFTER name").collect()
    interfering = Interfering(spark, given)

    def merge(table: MergedTable, batch: Any, marker: Any, version: int) -> None:
        interfering.merge(table, batch, marker, version)

    with mock.patch.object(MergedTable, "_merge", merge):
        answer = _ran(spark, given)
    sys.stdout.write(f"\n{json.dumps(answer, default=str)}\n")
    sys.stdout.flush()
    spark.stop()


def _ran(spark: SparkSession, given: argparse.Namespace) -> dict[str, Any]:
    options = {
        "properties.bootstrap.servers": given.bootstrap,
        "topic": given.topic,
        "scan.startup.mode": "earliest-offset",
        "scan.trigger": "processing-time",
        "scan.max-records-per-batch": str(given.per_batch),
    }
    records = spark.readStream.format("penstock").options(**options).load()
    values = records.selectExpr(f"from_json(CAST(value AS STRING), '{_COLUMNS}') AS row").select("row.*")
    target: Any = (SparkDeltaTable if given.format == "delta" else SparkIcebergTable)(TABLES[given.format])
    staging = f"file://{given.folder}/staging" if given.staging else None
    changes = values.withColumnRenamed("kind", "row_kind")
    writer = penstock.changelog.materialize(changes, [KEY], target, staging=staging)
    query = writer.option("checkpointLocation", f"{given.folder}/checkpoint").start()
    try:
        query.processAllAvailable()
    except Exception as error:  # noqa: BLE001 - the judge looks at it
        return {"error": str(error)}
    query.stop()
    refresh(spark, given.format)
    rows = spark.table(IN_SQL[given.format]).select(KEY, "name", "price", "at", "small", "made").collect()
    return {
        "rows": sorted((list(one) for one in rows), key=lambda one: one[0]),
        "batches": batches_of(spark, given.format),
        "compactions": compactions_of(spark, given.format),
    }


if __name__ == "__main__":
    main()
