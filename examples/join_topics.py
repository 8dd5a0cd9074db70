"""Join two topics: each order with the payment that came within ten minutes.

The watermarks let Spark forget orders that are too old for a payment.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr


def read(spark: SparkSession, brokers: str, topic: str, columns: str, time: str) -> DataFrame:
    """Read a topic of JSON with the time of each record."""
    rows = (
        spark.readStream.format("penstock")
        .schema(f"{columns}, {time} TIMESTAMP")
        .options(subscribe=topic, startingOffsets="earliest", format="json")
        .option("kafka.bootstrap.servers", brokers)
        .option("metadata.columns", f"{time} = timestamp")
        .load()
    )
    return rows.withWatermark(time, "10 minutes")


def run(spark: SparkSession, brokers: str, folder: str) -> None:
    """Write the pairs that are there, and end."""
    orders = read(spark, brokers, "ex-bought", "id BIGINT, item STRING", "ordered")
    payments = read(spark, brokers, "ex-paid", "order_id BIGINT, amount DOUBLE", "paid")
    is_pair = expr("id = order_id AND paid BETWEEN ordered AND ordered + INTERVAL 10 MINUTES")
    pairs = orders.join(payments, is_pair).select("id", "item", "amount")
    query = (
        pairs.writeStream.format("penstock")
        .options(topic="ex-pairs", format="json")
        .option("kafka.bootstrap.servers", brokers)
        .option("checkpointLocation", f"{folder}/join-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples")
