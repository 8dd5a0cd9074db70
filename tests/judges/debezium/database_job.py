"""`penstock.cdc.replicate` over all topics of a database, as a process that a hunt kills.

It prints `batch <number>` for each finished batch, and `done` when it has read all with `--drain`.
"""

from __future__ import annotations

import argparse
from functools import partial

import psycopg

from penstock import cdc
from penstock.cdc import SourceTopic
from penstock.targets import DeltaTable, IcebergTable, SqlTable
from tests.chaos.exactly_once_job import spark_session
from tests.chaos.said_batches import say_batches

TARGETS = ("postgresql", "delta", "iceberg")
CATALOG = "lake"


def catalog_of(folder: str) -> dict[str, str]:
    """Return the properties of the catalog of Iceberg."""
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/iceberg",
    }


def table_of(kind: str, folder: str, dsn: str, source: SourceTopic) -> SqlTable | DeltaTable | IcebergTable:
    """Return the copy of a table."""
    if kind == "postgresql":
        return SqlTable(source.table, partial(psycopg.connect, dsn))
    if kind == "delta":
        return DeltaTable(f"{folder}/delta/{source.table}")
    return IcebergTable(f"{CATALOG}.{source.table}", CATALOG, catalog_of(folder))


def _format(registry: str | None) -> dict[str, str]:
    if registry is None:
        return {"format": "debezium-json", "debezium-json.schema-include": "true"}
    return {"format": "debezium-avro-confluent", "debezium-avro-confluent.url": registry}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "folder", "dsn", "prefix", "target"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--registry", help="the URL of a registry, which has the schemas of the messages")
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--per-batch", type=int, default=400)
    parser.add_argument("--drain", action="store_true", help="read what there is, then stop")
    given = parser.parse_args()
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.memory": "512m",
        # A task fails whenever the hunt kills its executor, and the query is to survive that.
        "spark.task.maxFailures": "100",
    }
    spark = spark_session(given.master, f"{given.folder}/scratch", settings)
    options = {
        "properties.bootstrap.servers": given.bootstrap,
        "topic-pattern": rf"{given.prefix}[.]public[.]t\d+",
        "scan.topic-partition-discovery.interval": "1 s",
        "scan.max-records-per-batch": str(given.per_batch),
        **_format(given.registry),
    }
    tables = partial(table_of, given.target, given.folder, given.dsn)
    writer = cdc.replicate(spark, options, tables, state=f"{given.folder}/state")
    writer = writer.option("checkpointLocation", f"{given.folder}/checkpoint")
    query = (writer.trigger(availableNow=True) if given.drain else writer).start()
    say_batches(query)
    spark.stop()


if __name__ == "__main__":
    main()
