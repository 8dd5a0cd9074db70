"""Copy a topic. Each record is in the copy once, whatever is killed between two runs.

Run it again: it copies only what is new. The checkpoint and the prefix belong together.
"""

from __future__ import annotations

from pyspark.sql import SparkSession


def run(spark: SparkSession, brokers: str, folder: str) -> None:
    """Copy what is in the topic, and end."""
    kafka = {"kafka.bootstrap.servers": brokers}
    source = spark.readStream.format("penstock").options(**kafka, subscribe="ex-orders")
    records = source.option("startingOffsets", "earliest").load().select("key", "value")
    query = (
        records.writeStream.format("penstock")
        .options(**kafka, topic="ex-orders-copy")
        .option("sink.delivery-guarantee", "exactly-once")
        .option("sink.transactional-id-prefix", "ex-orders-copier")  # of this query alone
        .option("checkpointLocation", f"{folder}/copy-checkpoint")
        .trigger(availableNow=True)  # without it the query runs until it is stopped
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples")
