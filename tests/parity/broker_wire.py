"""Produce and Fetch without any other code: send our bytes to the broker, get the broker's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.codec import RecordBatchDecoder
from penstock.options.config import KafkaProperties


@contextmanager
def connections_to(bootstrap: str) -> Iterator[KafkaConnections]:
    properties = KafkaProperties((("bootstrap.servers", bootstrap),))
    connections = KafkaConnections(connection_settings(properties, client_id="codec-parity"))
    try:
        yield connections
    finally:
        connections.close()


def produce(connections: KafkaConnections, topic: str, batch: bytes) -> int:
    """Write one batch to partition 0 and return the offset that the broker gave it."""
    data = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        max_version=9,
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[data(name=topic, partition_data=[data.PartitionProduceData(index=0, records=batch)])],
    )
    answer = connections.request(request).responses[0].partition_responses[0]
    assert answer.error_code == 0, (answer.error_code, answer.error_message)
    return int(answer.base_offset)


def fetch(connections: KafkaConnections, topic: str, offset: int, *, read_committed: bool, size: int) -> Any:
    """Return what the broker answers for partition 0."""
    wanted = FetchRequest.FetchTopic
    part = wanted.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
    request = FetchRequest(
        min_version=4,
        max_version=11,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=int(read_committed),
        session_id=0,
        session_epoch=-1,
        topics=[wanted(topic=topic, partitions=[part])],
    )
    answer = connections.request(request).responses[0].partitions[0]
    assert answer.error_code == 0, answer.error_code
    return answer


def read(
    connections: KafkaConnections,
    topic: str,
    stopping_offset: int,
    *,
    read_committed: bool = True,
    size: int = 20_000,
) -> pa.Table:
    """Read partition 0 to its end, in responses so small that many batches are cut off."""
    codec = RecordBatchDecoder(
        topic,
        0,
        starting_offset=0,
        stopping_offset=stopping_offset,
        read_committed=read_committed,
        max_rows=1_000,
    )
    batches: list[pa.RecordBatch] = []
    while not codec.is_finished:
        before = codec.next_offset
        answer = fetch(connections, topic, before, read_committed=read_committed, size=size)
        aborted = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions or ()]
        batches += codec.decode(answer.records, aborted)
        assert codec.next_offset > before
    rest = codec.flush()
    batches += [] if rest is None else [rest]
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    return table
