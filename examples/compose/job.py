"""Copy a topic exactly once, and serve its lag and metrics: the job of compose.yaml.

SIGTERM, which `docker compose stop` sends, ends it after the batch that runs.
"""

from __future__ import annotations

import os

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import penstock


def start(spark: SparkSession, brokers: str, folder: str, port: int = 9250) -> StreamingQuery:
    """Start the query. Prometheus asks the source at its port."""
    kafka = {"kafka.bootstrap.servers": brokers}
    metrics = {"metrics.http.port": str(port), "metrics.http.host": "0.0.0.0"}  # noqa: S104 - of its container
    source = spark.readStream.format("penstock").options(**kafka, **metrics, subscribe="orders")
    records = source.option("startingOffsets", "earliest").load().select("key", "value")
    return (
        records.writeStream.format("penstock")
        .options(**kafka, topic="orders-copy")
        .option("sink.delivery-guarantee", "exactly-once")
        .option("sink.transactional-id-prefix", "orders-copier")
        .option("metrics.http.port", str(port))  # the page of the source shows the sink too
        .option("checkpointLocation", f"{folder}/orders-copy")
        .start()
    )


if __name__ == "__main__":
    query = start(SparkSession.builder.getOrCreate(), os.environ["BROKERS"], "/checkpoints")
    with penstock.stop_on_signal(query):
        query.awaitTermination()
