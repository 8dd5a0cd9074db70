"""The streaming queries of `penstock demo cdc`.

Run on the driver (Spark's workers read, and run the operators). Invariant: it is the code that a user would
write; nothing in it is special to the demo.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import changelog
from penstock.targets import ParquetTable, SqlTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = (
    "flight STRING, scheduled TIMESTAMP, carrier STRING, origin STRING, dest STRING, status STRING, "
    "dep_delay INT, arr_delay INT"
)
KEYS = ["flight", "scheduled"]
STATISTICS = {
    "flights": "count(*)",
    "departed": "count(dep_delay)",
    "delay_minutes": "sum(dep_delay)",
    "worst": "max(dep_delay)",
    "destinations": "count(distinct dest)",
}


def read_departures(
    spark: SparkSession, bootstrap_servers: str, topic: str, limits: dict[str, str]
) -> DataFrame:
    """Return the changes as Debezium has written them, with their partition and offset in the topic."""
    return (
        spark.readStream.format("penstock")
        .schema(f"{COLUMNS}, row_kind STRING, offset BIGINT, partition INT")
        .option("properties.bootstrap.servers", bootstrap_servers)
        .option("topic", topic)
        .option("scan.startup.mode", "earliest-offset")
        .options(**limits)
        .option("format", "debezium-json")
        .option("debezium-json.timestamp-format.standard", "ISO-8601")
        .option("metadata.columns", "offset = offset; partition = partition")
        .load()
    )


def follow_departures(messages: DataFrame, folder: Path) -> StreamingQuery:
    """Keep the table `departures` of a SQLite database equal to PostgreSQL's."""
    state = f"{folder}/departures-state"
    changes = changelog.normalize(messages, KEYS, order_by=["offset"], source="partition", state=state)
    target = SqlTable("departures", partial(sqlite3.connect, folder / "airports.db"), "sqlite")
    writer = changelog.materialize(changes.drop("offset", "partition"), KEYS, target)
    checkpoint = writer.option("checkpointLocation", f"{folder}/departures-checkpoint")
    return checkpoint.trigger(availableNow=True).start()


def follow_carriers(messages: DataFrame, folder: Path) -> StreamingQuery:
    """Keep statistics of each carrier in a folder of Parquet files."""
    state = f"{folder}/carriers-state"
    changes = changelog.normalize(
        messages, KEYS, order_by=["offset"], source="partition", state=state, name="flights"
    )
    carriers = changelog.aggregate(changes, ["carrier"], STATISTICS, state=state, name="carriers")
    writer = changelog.materialize(carriers, ["carrier"], ParquetTable(f"{folder}/carriers"))
    checkpoint = writer.option("checkpointLocation", f"{folder}/carriers-checkpoint")
    return checkpoint.trigger(availableNow=True).start()
