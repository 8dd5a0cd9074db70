"""Write records in an open transaction, with only a batch and a request, for the tests.

It does what a task of the sink does: it takes an id, writes, and leaves the transaction open.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.append import write_record_batch
from penstock.client.transactions.markers import Witness
from penstock.client.transactions.steps import TransactionIdentity, TransactionProtocol, Transactions
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.types import TopicPartition

TIMEOUT_MS = 30_000


@dataclass(frozen=True)
class Written:
    """An open transaction and where its records are."""

    identity: TransactionIdentity
    witness: Witness


def write_open(
    connections: KafkaConnections,
    transactional_id: str,
    topic_partition: TopicPartition,
    values: Sequence[bytes | None],
    *,
    transaction_timeout_ms: int = 60_000,
    protocol: TransactionProtocol = TransactionProtocol.V2,
) -> Written:
    """Take the id, write the values into one transaction, and leave it open."""
    identity = Transactions(connections).init_producer(
        transactional_id, transaction_timeout_ms=transaction_timeout_ms, protocol=protocol
    )
    offset = write_values(connections, identity, topic_partition, values)
    return Written(identity, Witness(topic_partition, offset))


def write_values(
    connections: KafkaConnections,
    identity: TransactionIdentity,
    topic_partition: TopicPartition,
    values: Sequence[bytes | None],
    *,
    base_sequence: int = 0,
) -> int:
    """Write one record batch into the transaction; returns its offset."""
    Transactions(connections).add_topic_partitions(identity, [topic_partition])
    builder = RecordBatchBuilder(*topic_partition, is_transactional=True)
    columns = RecordColumns(pa.record_batch({"value": pa.array(values, pa.binary())}))
    rows = pa.array(range(len(values)), pa.int32())
    assert builder.append(columns, rows, default_timestamp_ms=time.time_ns() // 1_000_000) == len(values)
    data = builder.build(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=base_sequence,
    )
    return write_record_batch(connections, identity, topic_partition, data, timeout_ms=TIMEOUT_MS)
