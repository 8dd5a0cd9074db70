"""Copy a topic without micro-batches: records can be read in the copy some milliseconds after they came.

The function gets and returns Arrow batches. The consumer group keeps the positions: there is no checkpoint.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

import penstock
from penstock import ContinuousQuery


def only_large(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the orders of at least 100."""
    return batch.filter(pc.greater_equal(batch["amount"], 100))


def run(spark: SparkSession, brokers: str, folder: str) -> ContinuousQuery:
    """Start the query. It runs until `stop()`."""
    source = {
        "kafka.bootstrap.servers": brokers,
        "subscribe": "ex-amounts",
        "startingOffsets": "earliest",
        "kafka.group.id": "ex-large-orders",
        "format": "json",
    }
    columns = "id BIGINT, amount BIGINT"
    sink = {"topic": "ex-large", "format": "json"}
    return penstock.continuous(spark, source, only_large, sink, schema=columns, output_schema=columns)


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "").awaitTermination()
