"""One function a question: what is timed, for each system.

A case takes a `Bench` (Spark, broker, topics) and a system, does the work once, and returns the number of
records it moved. Everything outside of the timed work is prepared by the harness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

PENSTOCK = "penstock"
SPARK_DEFAULT = "spark default"
SPARK_TUNED = "spark tuned"
SYSTEMS = (PENSTOCK, SPARK_DEFAULT, SPARK_TUNED)

_FORMAT = {PENSTOCK: "penstock", SPARK_DEFAULT: "kafka", SPARK_TUNED: "kafka"}
_READ_TUNING = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "10000",
}
_WRITE_TUNING = {"kafka.linger.ms": "20", "kafka.batch.size": str(256 << 10), "kafka.compression.type": "lz4"}


@dataclass(frozen=True)
class Bench:
    """What a case works with."""

    spark: SparkSession
    bootstrap_servers: str
    input_topic: str
    output_topic: str
    record_count: int


def _read(bench: Bench, system: str) -> DataFrame:
    reader = bench.spark.read.format(_FORMAT[system]).option(
        "kafka.bootstrap.servers", bench.bootstrap_servers
    )
    for key, value in (_READ_TUNING if system == SPARK_TUNED else {}).items():
        reader = reader.option(key, value)
    return reader.option("subscribe", bench.input_topic).load()


def _write(bench: Bench, system: str, rows: DataFrame) -> None:
    writer = rows.write.format(_FORMAT[system]).mode("append")
    writer = writer.option("kafka.bootstrap.servers", bench.bootstrap_servers)
    options = dict(_WRITE_TUNING) if system == SPARK_TUNED else {}
    if system == PENSTOCK:
        options["kafka.compression.type"] = "lz4"
    for key, value in options.items():
        writer = writer.option(key, value)
    writer.option("topic", bench.output_topic).save()


def raw_read_to_noop(bench: Bench, system: str) -> int:
    """All columns of every record to Spark's noop sink."""
    _read(bench, system).write.format("noop").mode("overwrite").save()
    return bench.record_count


def raw_read_and_aggregate(bench: Bench, system: str) -> int:
    """The sum of the lengths of all values."""
    row = _read(bench, system).agg(F.sum(F.length("value")), F.count("*")).first()
    assert row is not None
    assert row[1] == bench.record_count
    return bench.record_count


def write_at_least_once(bench: Bench, system: str) -> int:
    """Generated rows of key and value into a topic."""
    rows = bench.spark.range(0, bench.record_count, 1, 4).select(
        F.lpad(F.col("id").cast("string"), 8, "0").alias("key"),
        F.format_string('{"id":%d,"name":"customer-%d","amount":%d.25}', "id", "id", "id").alias("value"),
    )
    _write(bench, system, rows)
    return bench.record_count


def kafka_to_kafka(bench: Bench, system: str) -> int:
    """Key and value of one topic into another."""
    _write(bench, system, _read(bench, system).select("key", "value"))
    return bench.record_count


CASES: dict[str, Callable[[Bench, str], int]] = {
    "raw-read-noop": raw_read_to_noop,
    "raw-read-aggregate": raw_read_and_aggregate,
    "write-at-least-once": write_at_least_once,
    "kafka-to-kafka": kafka_to_kafka,
}
