"""Create and fill the topics that the cases read, before anything is timed.

Invariant: the content of a topic depends only on its name and the number of records, so every run and every
system reads the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Producer

from penstock.client.cluster.log_offsets import list_offsets
from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net.connection import connections_for
from penstock.client.settings import connection_settings
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.types import LogEnd, TopicPartition

PARTITION_COUNT = 4
KEY_BYTES = 8
OUTPUT_TOPIC = "bench-output"
BATCH_ROWS = 10_000
TRANSACTION_RECORDS = 10_000
ABORTED_ONE_IN = 10


@dataclass(frozen=True)
class Input:
    """A topic: how many of the run's records it holds (one in `share`), and how they are written."""

    share: int = 1
    partition_count: int = PARTITION_COUNT
    compression_type: str = "lz4"
    padding: int = 0
    is_transactional: bool = False

    def count(self, record_count: int) -> int:
        """Return the number of records that a reader gets."""
        return record_count // self.share

    def byte_count(self, count: int) -> int:
        """Return the bytes of keys and values of that many records, to a thousandth."""
        sample = range(0, count, max(1, count // 1_000))
        return count * sum(len(order(number, self.padding)) + KEY_BYTES for number in sample) // len(sample)


INPUTS = {
    "orders": Input(),
    "orders-uncompressed": Input(compression_type="none"),
    "orders-zstd": Input(compression_type="zstd"),
    "orders-1k": Input(share=8, padding=900),
    "orders-200-partitions": Input(share=20, partition_count=200),
    "orders-transactional": Input(share=4, is_transactional=True),
}


def make_topic(bootstrap_servers: str, name: str, partition_count: int) -> None:
    """Create a topic without retention, and wait for its logs, because librdkafka fails without them."""
    config = _sink(bootstrap_servers, name, "none")
    connections = connections_for(connection_settings(config.properties, client_id="penstock-bench"))
    create_topics(connections, {name: NewTopic(partition_count, configs={"retention.ms": "-1"})})
    list_offsets(connections, {TopicPartition(name, each): LogEnd.LATEST for each in range(partition_count)})


def fill(bootstrap_servers: str, name: str, record_count: int) -> None:
    """Make the input topic `name`, with its share of `record_count` records."""
    wanted = INPUTS[name]
    make_topic(bootstrap_servers, name, wanted.partition_count)
    count = wanted.count(record_count)
    if wanted.is_transactional:
        _fill_transactions(bootstrap_servers, name, count)
    else:
        config = _sink(bootstrap_servers, name, wanted.compression_type)
        write_rows(config, _rows(count, wanted.padding, wanted.partition_count))


def repeat(bootstrap_servers: str, name: str, record_count: int, block: pa.RecordBatch | None = None) -> None:
    """Add that many records to a topic. They are a block of records repeated, which is fast."""
    block = block_of_orders() if block is None else block
    batches = (
        block.slice(0, min(len(block), record_count - at)) for at in range(0, record_count, len(block))
    )
    write_rows(_sink(bootstrap_servers, name, "lz4"), batches)


def block_of_orders() -> pa.RecordBatch:
    """Return the first rows of `orders`."""
    return next(_rows(BATCH_ROWS, 0, PARTITION_COUNT))


def mixed_orders() -> pa.RecordBatch:
    """Return the rows of `block_of_orders`, in which a half of each partition is paid.

    In `orders` a number that is odd is paid, and the number also chooses the partition. So two of four
    partitions have all orders that are paid. A continuous query gives both to one of its two tasks, and the
    other one has nothing to write.
    """
    block = block_of_orders()
    partitions = [number // 2 % PARTITION_COUNT for number in range(len(block))]
    at = block.schema.get_field_index("partition")
    return block.set_column(at, "partition", pa.array(partitions, pa.int32()))


def order(number: int, padding: int = 0) -> bytes:
    """Make one JSON value of about 107 bytes with five fields."""
    return (
        f'{{"id":{number},"customer":"customer-{number % 9973:05d}","amount":{number % 977}.25,'
        f'"is_paid":{"true" if number % 2 else "false"},"note":"order {number % 31:02d} of the day'
        f'{"." * padding}"}}'
    ).encode()


def _rows(
    count: int, padding: int, partition_count: int, batch_rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, batch_rows):
        numbers = range(first, min(first + batch_rows, count))
        yield pa.record_batch(
            {
                "key": pa.array([f"{number % 65536:08d}".encode() for number in numbers]),
                "value": pa.array([order(number, padding) for number in numbers]),
                "partition": pa.array([number % partition_count for number in numbers], pa.int32()),
            }
        )


def _fill_transactions(bootstrap_servers: str, name: str, count: int) -> None:
    """Write transactions with librdkafka. One in ten is written and aborted first."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "transactional.id": f"bench-{name}",
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * TRANSACTION_RECORDS,
        }
    )
    producer.init_transactions(60)
    for first in range(0, count, TRANSACTION_RECORDS):
        is_also_aborted = first // TRANSACTION_RECORDS % ABORTED_ONE_IN == 0
        for is_aborted in (True, False) if is_also_aborted else (False,):
            producer.begin_transaction()
            for number in range(first, min(first + TRANSACTION_RECORDS, count)):
                key = f"{number % 65536:08d}".encode()
                producer.produce(name, order(number), key, partition=number % PARTITION_COUNT)
            producer.flush(120)
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(60)


def _sink(bootstrap_servers: str, topic: str, compression_type: str) -> SinkConfig:
    return parse_write(
        {
            "kafka.bootstrap.servers": bootstrap_servers,
            "kafka.compression.type": compression_type,
            "topic": topic,
        }
    ).sink
