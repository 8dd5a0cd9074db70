"""Watch queries from the program that starts them: lag and health of each source after each batch.

Set `metrics.http.port` on the source for a page, Prometheus and JSON, and `penstock dashboard` for Grafana.
"""

from __future__ import annotations

from queue import Queue
from typing import Any

from pyspark.sql import SparkSession

from penstock.metrics import MetricsListener


def run(spark: SparkSession, brokers: str, folder: str) -> dict[str, Any]:
    """Run a query to its end, and return the last figures of its source."""
    reports: Queue[dict[str, Any]] = Queue()
    listener = MetricsListener(reports.put)  # or json_lines(...), for a file
    spark.streams.addListener(listener)
    source = spark.readStream.format("penstock").option("kafka.bootstrap.servers", brokers)
    records = source.options(subscribe="ex-watched", startingOffsets="earliest").load()
    writer = records.writeStream.format("noop").option("checkpointLocation", f"{folder}/watch-checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    report = reports.get(timeout=60)  # Spark brings it a moment later
    spark.streams.removeListener(listener)
    source_figures: dict[str, Any] = report["sources"][0]
    return source_figures


if __name__ == "__main__":
    print(run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples"))
