"""Read a part of a topic as a batch. Records that do not match are not fetched, or are left out undecoded."""

from __future__ import annotations

from pyspark.sql import SparkSession


def run(spark: SparkSession, brokers: str, folder: str) -> list[str]:
    """Return the values of the first two records of partition 0."""
    source = spark.read.format("penstock").option("kafka.bootstrap.servers", brokers)
    source = source.option("subscribe", "ex-history").option("startingOffsets", "earliest")
    records = source.option("scan.filter", "partition = 0 AND offset < 2").load()
    return [row.text for row in records.selectExpr("CAST(value AS STRING) AS text").collect()]


if __name__ == "__main__":
    print(run(SparkSession.builder.getOrCreate(), "localhost:9092", ""))
