"""One function a question: what is timed, for each system.

A case takes a `Bench` (Spark, broker, topics) and a system, and does the work once. Whatever it needs is
prepared by the harness, and what comes out is checked against what is known to be in the topic.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.inputs import PARTITION_COUNT
from benchmarks.systems import ARROW, CONFLUENT, PENSTOCK, SYSTEMS, YARDSTICKS, Bench, read, write

COLUMNS = "id BIGINT, customer STRING, amount DOUBLE, is_paid BOOLEAN, note STRING"
BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Case:
    """What is asked, of which input, and of whom besides the three systems."""

    run: Callable[[Bench, str], None]
    input_topic: str = "orders"
    yardsticks: tuple[str, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """Everybody who takes part, penstock first."""
        return (*SYSTEMS, *self.yardsticks)


def raw_read_to_noop(bench: Bench, system: str) -> None:
    """All columns of every record to Spark's noop sink."""
    if system == CONFLUENT:
        _consume_all(bench)
    elif system == ARROW:
        _transfer(bench).write.format("noop").mode("overwrite").save()
    else:
        read(bench, system).write.format("noop").mode("overwrite").save()


def raw_read_and_aggregate(bench: Bench, system: str) -> None:
    """The sum of the lengths of all values."""
    _aggregate(bench, read(bench, system))


def read_committed(bench: Bench, system: str) -> None:
    """The same of transactions, of which one in ten was aborted first."""
    _aggregate(bench, read(bench, system, {"kafka.isolation.level": "read_committed"}))


def json_and_aggregate(bench: Bench, system: str) -> None:
    """Five typed columns of JSON values, each of them used."""
    if system == PENSTOCK:
        source = bench.spark.read.format("penstock").schema(COLUMNS).option("format", "json")
        source = source.option("kafka.bootstrap.servers", bench.bootstrap_servers)
        rows = source.option("subscribe", bench.input_topic).load()
    else:
        parsed = F.from_json(F.col("value").cast("string"), COLUMNS)
        rows = read(bench, system).select(parsed.alias("row")).select("row.*")
    found = rows.agg(
        F.count("*"), F.sum("id"), F.max("customer"), F.sum("amount"), F.count_if("is_paid"), F.max("note")
    ).first()
    count = bench.record_count
    assert found is not None
    assert tuple(found)[:2] == (count, count * (count - 1) // 2)


def write_at_least_once(bench: Bench, system: str) -> None:
    """Generated rows of key and value into a topic."""
    write(bench, system, _generated(bench))


def write_exactly_once(bench: Bench, system: str) -> None:
    """The same, exactly-once by penstock; the others can do no better than before."""
    options = {
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"bench-{uuid.uuid4().hex}",
    }
    write(bench, system, _generated(bench), **(options if system == PENSTOCK else {}))


def kafka_to_kafka(bench: Bench, system: str) -> None:
    """Key and value of one topic into another."""
    write(bench, system, read(bench, system).select("key", "value"))


def _aggregate(bench: Bench, rows: DataFrame) -> None:
    row = rows.agg(F.sum(F.length("value")), F.count("*")).first()
    assert row is not None
    assert row[1] == bench.record_count


def _generated(bench: Bench) -> DataFrame:
    return bench.spark.range(0, bench.record_count, 1, PARTITION_COUNT).select(
        F.lpad(F.col("id").cast("string"), 8, "0").alias("key"),
        F.format_string('{"id":%d,"name":"customer-%d","amount":%d.25}', "id", "id", "id").alias("value"),
    )


def _consume_all(bench: Bench) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bench.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 1 << 20,
        }
    )
    consumer.assign([TopicPartition(bench.input_topic, each, 0) for each in range(PARTITION_COUNT)])
    count = 0
    while count < bench.record_count:
        count += len(consumer.consume(BATCH_ROWS, timeout=30))
    consumer.close()


def _transfer(bench: Bench) -> DataFrame:
    """Rows as those of the topic, made once a task, handed from Python to Spark."""
    count = bench.record_count // PARTITION_COUNT // BATCH_ROWS
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"

    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            rows = {
                "key": pa.array([b"12345678"] * BATCH_ROWS, pa.binary()),
                "value": pa.array([b"v" * 107] * BATCH_ROWS, pa.binary()),
                "topic": pa.array(["orders"] * BATCH_ROWS),
                "partition": pa.array([0] * BATCH_ROWS, pa.int32()),
                "offset": pa.array(range(BATCH_ROWS), pa.int64()),
                "timestamp": pa.array([0] * BATCH_ROWS, pa.timestamp("us", tz="UTC")),
            }
            batch = pa.record_batch(rows)
            for _ in range(count):
                yield batch

    return bench.spark.range(0, PARTITION_COUNT, 1, PARTITION_COUNT).mapInArrow(produce, schema)


CASES = {
    "raw-read-noop": Case(raw_read_to_noop, yardsticks=YARDSTICKS),
    "raw-read-aggregate": Case(raw_read_and_aggregate),
    "json-aggregate": Case(json_and_aggregate),
    "read-uncompressed": Case(raw_read_and_aggregate, "orders-uncompressed"),
    "read-zstd": Case(raw_read_and_aggregate, "orders-zstd"),
    "read-1k-values": Case(raw_read_and_aggregate, "orders-1k"),
    "read-200-partitions": Case(raw_read_and_aggregate, "orders-200-partitions"),
    "read-committed": Case(read_committed, "orders-transactional"),
    "write-at-least-once": Case(write_at_least_once),
    "write-exactly-once": Case(write_exactly_once),
    "kafka-to-kafka": Case(kafka_to_kafka),
}
