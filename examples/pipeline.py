"""Definitions of a Spark Declarative Pipeline: `spark-pipelines run` reads this file.

docs/pipelines.md says what a run and a full refresh do.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

BROKERS = "localhost:9092"
spark = SparkSession.active()


@dp.temporary_view
def incoming() -> DataFrame:
    """Read the topic."""
    source = spark.readStream.format("penstock").option("kafka.bootstrap.servers", BROKERS)
    return source.options(subscribe="ex-whispers", startingOffsets="earliest").load()


dp.create_sink(
    "outgoing",
    "penstock",
    {
        "properties.bootstrap.servers": BROKERS,
        "topic": "ex-shouts",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "ex-shouts",
    },
)


@dp.append_flow(target="outgoing")
def shout() -> DataFrame:
    """Write each value in capital letters."""
    return spark.readStream.table("incoming").selectExpr("key", "upper(CAST(value AS STRING)) AS value")
