"""What nobody claims to beat: librdkafka without Spark, and Spark's Arrow transfer without Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame

from benchmarks.inputs import PARTITION_COUNT
from benchmarks.systems import Bench

BATCH_ROWS = 10_000


def consume_all(bench: Bench) -> int:
    """Read the input topic by confluent-kafka's `consume`, which makes a Python object of each record."""
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
        left = bench.record_count - count  # it waits for as many as it is asked for
        count += len(consumer.consume(min(BATCH_ROWS, left), timeout=30))
    consumer.close()
    return count


def produce_all(bench: Bench) -> None:
    """Write the records of the write cases by confluent-kafka's `produce`, made in Python as they go."""
    producer = Producer(
        {
            "bootstrap.servers": bench.bootstrap_servers,
            "linger.ms": 20,
            "batch.size": 256 << 10,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number in range(bench.record_count):
        value = f'{{"id":{number},"name":"customer-{number}","amount":{number}.25}}'
        while True:
            try:
                producer.produce(bench.output_topic, value, f"{number:08d}")
                break
            except BufferError:  # its queue is full
                producer.poll(0.1)
        if number % BATCH_ROWS == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def transfer(bench: Bench) -> DataFrame:
    """Rows as those of the input topic, made once a task, handed from Python to Spark."""
    each = bench.record_count // PARTITION_COUNT
    rest = bench.record_count - each * PARTITION_COUNT
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"

    def produce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            batch = pa.record_batch(
                {
                    "key": pa.array([b"12345678"] * BATCH_ROWS, pa.binary()),
                    "value": pa.array([b"v" * 107] * BATCH_ROWS, pa.binary()),
                    "topic": pa.array(["orders"] * BATCH_ROWS),
                    "partition": pa.array([0] * BATCH_ROWS, pa.int32()),
                    "offset": pa.array(range(BATCH_ROWS), pa.int64()),
                    "timestamp": pa.array([0] * BATCH_ROWS, pa.timestamp("us", tz="UTC")),
                }
            )
            left = sum(each + (rest if number == 0 else 0) for number in numbers.column(0).to_pylist())
            while left:
                yield batch.slice(0, left)
                left -= min(left, BATCH_ROWS)

    return bench.spark.range(0, PARTITION_COUNT, 1, PARTITION_COUNT).mapInArrow(produce, schema)
