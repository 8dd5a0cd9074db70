"""Use a Spark Connect server: the client needs no Java, and the server has penstock installed."""

from __future__ import annotations

from pyspark.sql import SparkSession


def run(spark: SparkSession, brokers: str, folder: str) -> list[str]:
    """Write three records through the server, and return what the topic has."""
    rows = spark.range(3).selectExpr("concat('order-', id) AS value")
    target = rows.write.format("penstock").option("kafka.bootstrap.servers", brokers)
    target.option("topic", "ex-connect").mode("append").save()
    source = spark.read.format("penstock").option("kafka.bootstrap.servers", brokers)
    records = source.options(subscribe="ex-connect", startingOffsets="earliest").load()
    return sorted(row.text for row in records.selectExpr("CAST(value AS STRING) AS text").collect())


if __name__ == "__main__":
    run(SparkSession.builder.remote("sc://localhost:15002").getOrCreate(), "localhost:9092", "")
