"""Yardsticks: librdkafka without Spark, and Spark's Arrow transfer without Kafka."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame

from benchmarks.inputs import PARTITION_COUNT
from benchmarks.ready_batches import ReadyBatches
from benchmarks.systems import Bench

BATCH_ROWS = 10_000
TIMEOUT_S = 30


def consume_all(bench: Bench) -> int:
    """Read the input topic with confluent-kafka's `consume`, which makes a Python object for each record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bench.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "queued.max.messages.kbytes": 1 << 20,
        }
    )
    partitions = [TopicPartition(bench.input_topic, each, 0) for each in range(PARTITION_COUNT)]
    consumer.assign(partitions)
    count = 0
    while count < bench.record_count:
        left = bench.record_count - count  # `consume` waits for as many records as it is asked for
        messages = consumer.consume(min(BATCH_ROWS, left), timeout=TIMEOUT_S)
        assert messages, f"nothing came for {TIMEOUT_S} s after {count} of {bench.record_count} records"
        count += len(messages)
    # An error is a message too and would be counted. Only records move the positions.
    passed: int = sum(each.offset for each in consumer.position(partitions))
    consumer.close()
    return passed


def produce_all(bench: Bench) -> None:
    """Write the records of the write cases with confluent-kafka's `produce`. Python makes each record."""
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


def transfer(bench: Bench, columns: str = "") -> DataFrame:
    """Hand ready rows, like those of the input topic, from Python to Spark."""
    bench.spark.dataSource.register(ReadyBatches)
    reader = bench.spark.read.format(ReadyBatches.name())
    if columns:
        reader = reader.schema(columns)
    return reader.option("records", bench.record_count).load()


def drop(bench: Bench, rows: DataFrame) -> None:
    """Hand rows from Spark to Python, which drops them."""
    bench.spark.dataSource.register(ReadyBatches)
    writer = rows.write.format(ReadyBatches.name()).option("records", bench.record_count)
    writer.mode("append").save()
