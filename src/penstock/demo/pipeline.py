"""The streaming job of the demo: delay statistics per carrier and day.

Runs on the driver (Spark's workers read and write). Invariant: it is the code that a user would write;
nothing in it is special to the demo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WATERMARK_DELAY_DAYS = 1
FLIGHT = "carrier string, flight int, origin string, dest string, dep_delay int, arr_delay int"


def read_flights(
    spark: SparkSession, bootstrap_servers: str, topic: str, limits: dict[str, str]
) -> DataFrame:
    """Return a stream of parsed flights, with the record's timestamp as event time."""
    records = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .options(**limits)
        .load()
    )
    parsed = F.from_json(F.col("value").cast("string"), FLIGHT)
    return records.select(parsed.alias("flight"), F.col("timestamp").alias("event_time")).select(
        "flight.*", "event_time"
    )


def daily_delays(flights: DataFrame) -> DataFrame:
    """Return flights, departures and their delay in minutes per carrier and day."""
    day = F.window("event_time", "1 day")
    return (
        flights.withWatermark("event_time", f"{WATERMARK_DELAY_DAYS} day")
        .groupBy(day.alias("day"), "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departed"),
            F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("delay_minutes"),
            F.count(F.when(F.col("dep_delay") > 15, 1)).alias("late"),
        )
        .select(F.date_format("day.start", "yyyy-MM-dd").alias("day"), "carrier", "flights", "departed",
                "delay_minutes", "late")
    )  # fmt: skip


def write_delays(
    delays: DataFrame, bootstrap_servers: str, topic: str, checkpoint_location: str
) -> StreamingQuery:
    """Start the query: each finished day becomes one JSON record, keyed by carrier."""
    records = delays.select(
        F.col("carrier").alias("key"), F.to_json(F.struct(*delays.columns)).alias("value")
    )
    return (
        records.writeStream.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint_location)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
