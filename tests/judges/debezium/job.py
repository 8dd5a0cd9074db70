"""The streaming query of docs/cdc-tutorial.md over Debezium's topic, as a process that a hunt kills.

It prints `batch <number>` for each finished batch, and `done` when it has read all with `--drain`.
"""

from __future__ import annotations

import argparse

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock import changelog
from penstock.targets import SqlTable
from tests.chaos.exactly_once_job import spark_session
from tests.chaos.said_batches import say_batches

COLUMNS = (
    "id BIGINT, name STRING, price DECIMAL(30, 10), flag BOOLEAN, at BIGINT, atz TIMESTAMP, day INT, "
    "raw BINARY, big STRING, x DOUBLE, doc STRING, size BIGINT, extra STRING, dropped STRING"
)
COPY = "copied_goods"


def messages(
    spark: SparkSession, bootstrap: str, topic: str, per_batch: int, *, has_schema: bool
) -> DataFrame:
    """Return the changes, with their offset in the topic."""
    read = (
        spark.readStream.format("penstock")
        .schema(f"{COLUMNS}, row_kind STRING, offset BIGINT, partition INT")
        .option("properties.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("scan.startup.mode", "earliest-offset")
        .option("scan.max-records-per-batch", per_batch)
        .option("format", "debezium-json")
        .option("debezium-json.schema-include", has_schema)
        .option("debezium-json.timestamp-format.standard", "ISO-8601")
        .option("metadata.columns", "offset = offset; partition = partition")
        .load()
    )
    # Debezium writes times without a zone and dates as numbers.
    return read.withColumns({"at": F.timestamp_micros("at"), "day": F.date_from_unix_date("day")})


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "topic", "folder", "dsn"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--per-batch", type=int, default=200)
    parser.add_argument("--has-schema", action="store_true")
    parser.add_argument("--drain", action="store_true", help="read what there is, then stop")
    given = parser.parse_args()
    spark = spark_session("local[2,4]", f"{given.folder}/scratch", {"spark.sql.session.timeZone": "UTC"})
    rows = messages(spark, given.bootstrap, given.topic, given.per_batch, has_schema=given.has_schema)
    changes = changelog.normalize(
        rows, ["id"], order_by=["offset"], source="partition", state=f"{given.folder}/state"
    )
    target = SqlTable(COPY, lambda: psycopg.connect(given.dsn))
    writer = changelog.materialize(changes.drop("offset", "partition"), ["id"], target)
    writer = writer.option("checkpointLocation", f"{given.folder}/checkpoint")
    query = (writer.trigger(availableNow=True) if given.drain else writer).start()
    say_batches(query)
    spark.stop()


if __name__ == "__main__":
    main()
