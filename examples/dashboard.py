"""Run a query with a page of its own, and figures for Prometheus and Grafana (extra `prometheus`).

Open http://localhost:9250: lag, health and records a second. `penstock dashboard > penstock.json` writes a
dashboard for Grafana over the same figures, and `penstock dashboard --alerts` the rules for Prometheus.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def run(spark: SparkSession, brokers: str, folder: str, port: int = 9250) -> StreamingQuery:
    """Copy a topic until the query is stopped. One port shows the source and the sink."""
    kafka = {"kafka.bootstrap.servers": brokers, "metrics.http.port": str(port)}
    source = spark.readStream.format("penstock").options(**kafka, subscribe="ex-shown")
    records = source.option("startingOffsets", "earliest").load().select("key", "value")
    return (
        records.writeStream.format("penstock")
        .options(**kafka, topic="ex-shown-copy")
        .option("sink.delivery-guarantee", "exactly-once")
        .option("sink.transactional-id-prefix", "ex-shown-copier")
        .option("checkpointLocation", f"{folder}/shown-checkpoint")
        .start()
    )


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples").awaitTermination()
