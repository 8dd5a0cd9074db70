"""`replicate` with columns that are VARIANT, in a table that Spark changes by MERGE, for the judge.

It prints, as JSON in its last line, the types and rows of the table and the batches that the commits name; or
the error with which the query has ended.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

import penstock
from penstock.targets import SparkDeltaTable, SparkIcebergTable
from penstock.targets.merged import MergedTable
from tests.chaos.exactly_once_job import spark_session
from tests.judges.merging.job import (
    COMPACTION,
    IN_SQL,
    MERGE,
    TABLES,
    Interfering,
    batches_of,
    refresh,
    set_catalog,
    settings,
)

DECLARED = "id BIGINT, name STRING"
DOC, REST = "doc", "the-rest"
UPGRADE = "TBLPROPERTIES ('format-version' = '3')"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("format", "bootstrap", "topic", "folder", "jars"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--per-batch", type=int, default=100)
    parser.add_argument("--part", choices=(MERGE, COMPACTION))
    parser.add_argument("--batch", type=int, default=-2)
    for name in ("staging", "rest", "variants", "upgrade", "read"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    kind = given.format
    spark = spark_session("local[2,4]", f"{given.folder}/scratch", settings(kind, given.folder, given.jars))
    set_catalog(spark, kind, given.folder)
    spark.sql("CREATE SCHEMA IF NOT EXISTS " + IN_SQL[kind].rpartition(".")[0])
    if given.upgrade:
        spark.sql(f"ALTER TABLE {IN_SQL[kind]} SET {UPGRADE}").collect()
    interfering = Interfering(spark, given)

    def merge(table: MergedTable, batch: Any, marker: Any, version: int) -> None:
        interfering.merge(table, batch, marker, version)

    with mock.patch.object(MergedTable, "_merge", merge):
        error = None if given.read else _ran(spark, given)
    answer = _found(spark, kind) if error is None else {"error": error}
    sys.stdout.write(f"\n{json.dumps(answer, default=str)}\n")
    sys.stdout.flush()
    spark.stop()


def _ran(spark: SparkSession, given: argparse.Namespace) -> str | None:
    """Apply all records; return the error with which the query has ended."""
    variants = (DOC, REST) if given.variants else ()
    target = SparkDeltaTable if given.format == "delta" else SparkIcebergTable
    writer = penstock.cdc.replicate(
        spark,
        {
            "properties.bootstrap.servers": given.bootstrap,
            "topic": given.topic,
            "scan.startup.mode": "earliest-offset",
            "scan.trigger": "processing-time",
            "scan.max-records-per-batch": str(given.per_batch),
            "format": "debezium-json",
        },
        tables=lambda _: target(TABLES[given.format], variants),
        state=f"file://{given.folder}/state",
        columns={given.topic: f"{DECLARED}, {DOC} STRING" if given.rest else DECLARED},
        evolve="lenient" if given.rest else "ignore",
        rest=REST if given.rest else None,
        staging=f"file://{given.folder}/staging" if given.staging else None,
    )
    query = writer.option("checkpointLocation", f"{given.folder}/checkpoint").start()
    try:
        query.processAllAvailable()
    except Exception as error:  # noqa: BLE001 - the judge looks at it
        return str(error)
    query.stop()
    return None


def _found(spark: SparkSession, kind: str) -> dict[str, Any]:
    """Return what a reader finds: texts of the VARIANTs, and values that `variant_get` takes out of them."""
    refresh(spark, kind)
    table = spark.table(IN_SQL[kind])
    types = dict(table.dtypes)
    read = ["id", "name"]
    if REST in types:
        read += [f"to_json({DOC}) AS doc", f"to_json(`{REST}`) AS rest"]
        read += [f"CAST(variant_get(`{REST}`, '$.price', 'decimal(38, 9)') AS STRING) AS price"]
        read += [f"variant_get(`{REST}`, '$.tags[1]', 'string') AS tag"]
    return {
        "types": types,
        "rows": [one.asDict() for one in table.selectExpr(*read).collect()],
        "batches": batches_of(spark, kind),
    }


if __name__ == "__main__":
    main()
