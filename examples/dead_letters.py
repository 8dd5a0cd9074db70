"""Read JSON. Records that cannot be decoded go to a topic of dead letters, with the reason in a header.

`penstock dead-letters show ex-mixed-bad` names them. repair_dead_letters.py repairs them.
"""

from __future__ import annotations

from pyspark.sql import SparkSession


def run(spark: SparkSession, brokers: str, folder: str) -> list[int]:
    """Return the ids of the good records."""
    orders = (
        spark.read.format("penstock")
        .schema("id BIGINT NOT NULL, name STRING")
        .options(subscribe="ex-mixed", startingOffsets="earliest", format="json")
        .option("kafka.bootstrap.servers", brokers)
        .option("kafka.isolation.level", "read_committed")  # repaired records come in transactions
        .option("scan.on-decode-error", "dead-letter")
        .option("scan.dead-letter.topic", "ex-mixed-bad")  # it has to exist
        .load()
    )
    return sorted(row.id for row in orders.collect())


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), "localhost:9092", "/tmp/penstock-examples")
