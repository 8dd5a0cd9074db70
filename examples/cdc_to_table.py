"""Keep a table of SQLite equal to a table of a database, from the changes that Debezium writes.

For PostgreSQL change the target: SqlTable("customers", lambda: psycopg.connect("host=db dbname=copies")).
"""

from __future__ import annotations

import sqlite3

from pyspark.sql import SparkSession

from penstock import changelog
from penstock.targets import SqlTable


def run(spark: SparkSession, brokers: str, folder: str) -> None:
    """Bring the table up to date, and end."""
    messages = (
        spark.readStream.format("penstock")
        .schema("id BIGINT, name STRING, row_kind STRING, offset BIGINT, partition INT")
        .options(subscribe="ex-customers", startingOffsets="earliest", format="debezium-json")
        .option("kafka.bootstrap.servers", brokers)
        .option("metadata.columns", "offset = offset; partition = partition")
        .load()
    )
    state = f"{folder}/cdc-state"  # the last row of each key: belongs to the checkpoint
    changes = changelog.normalize(messages, ["id"], order_by=["offset"], source="partition", state=state)
    target = SqlTable("customers", lambda: sqlite3.connect(f"{folder}/copies.db"), "sqlite")
    writer = changelog.materialize(changes.drop("offset", "partition"), ["id"], target)
    writer = writer.option("checkpointLocation", f"{folder}/cdc-checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples")
