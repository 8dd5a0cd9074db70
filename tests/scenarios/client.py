"""Scenarios of penstock's own parts: its producer, its fetcher, and the exactly-once sink."""

from __future__ import annotations

import pyarrow as pa

from penstock.client.fetch.fetcher import WantedRange, fetch_ranges
from penstock.client.produce.pool import open_producer
from penstock.client.settings import FetchSettings, ProduceSettings
from penstock.codec import RecordColumns
from penstock.types import OffsetRange, TopicPartition
from tests.kafka.sink_driver import SinkUnderTest, assert_none_open, assert_seen, expected, run_batch
from tests.scenarios.cluster import NOW_MS, Cluster, scenario, unique


def write(cluster: Cluster, topic_partition: TopicPartition, values: list[bytes]) -> None:
    """Write by penstock's idempotent producer, in small batches."""
    producer = open_producer(cluster.connections, ProduceSettings(batch_size_bytes=500))
    try:
        producer.topic(topic_partition.topic)
        columns = RecordColumns(pa.record_batch({"value": pa.array(values, pa.binary())}))
        rows, first = pa.array(range(len(values)), pa.int32()), 0
        while first < len(values):
            first = producer.append(topic_partition, columns, rows, first, default_timestamp_ms=NOW_MS)
        producer.flush()
    finally:
        producer.close()


def read(cluster: Cluster, topic: str, ends: list[int]) -> list[list[bytes]]:
    """Read by penstock's fetcher, partition by partition."""
    wanted = [
        WantedRange(OffsetRange(TopicPartition(topic, index), 0, end)) for index, end in enumerate(ends)
    ]
    found: list[list[bytes]] = [[] for _ in ends]
    settings = FetchSettings(max_partition_fetch_bytes=2_000)
    batches = fetch_ranges(cluster.connections, wanted, settings, columns=["value"], read_committed=True)
    for offset_range, rows in batches:
        found[offset_range.topic_partition.partition] += rows.column("value").to_pylist()
    return found


@scenario
def penstock_reads_what_it_has_written(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    values = [[b"%d-%04d" % (index, number) for number in range(200)] for index in range(2)]
    for index, of_partition in enumerate(values):
        write(cluster, TopicPartition(topic, index), of_partition)
    assert read(cluster, topic, [200, 200]) == values
    found = [value for value in cluster.values(topic) if value is not None]
    assert sorted(found) == sorted(value for of_partition in values for value in of_partition)


def sink_of(cluster: Cluster) -> SinkUnderTest:
    """Return a sink with a prefix and a topic of its own."""
    return SinkUnderTest(
        cluster.connections.settings, cluster.connections, cluster.topic(3), unique("prefix")
    )


@scenario
def an_exactly_once_sink_writes_each_batch_once(cluster: Cluster) -> None:
    sink = sink_of(cluster)
    for batch_id in range(3):
        run_batch(sink, batch_id)
    assert_seen(cluster.bootstrap_servers, sink.topic, expected(3))
    assert_none_open(sink)


@scenario
def a_batch_of_the_sink_that_was_not_decided_is_written_again(cluster: Cluster) -> None:
    sink = sink_of(cluster)
    with sink.driver() as dies:
        sink.tasks(dies.recover(), 0)
    run_batch(sink, 0)
    assert_seen(cluster.bootstrap_servers, sink.topic, expected(1))
    assert_none_open(sink)
