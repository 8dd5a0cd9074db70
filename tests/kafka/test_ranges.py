"""Several ranges in one read, on real brokers: all records once and in order, with few requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import pytest

from penstock.client.fetch.fetcher import WantedRange, fetch_ranges
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.devbroker import DevCluster
from penstock.errors import FetchError
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judge import Record
from tests.kafka.test_fetcher import watch_fetches
from tests.records import as_records, connected

PARTITIONS = 200
SETTINGS = FetchSettings(default_api_timeout_ms=60_000)


def records_of(count: int) -> list[Record]:
    """`count` records for each partition."""
    return [
        Record(b"%d of %d" % (number, partition) + b"." * 80, b"key", partition=partition)
        for partition in range(PARTITIONS)
        for number in range(count)
    ]


def whole(topic: str, count: int) -> list[WantedRange]:
    return [
        WantedRange(OffsetRange(TopicPartition(topic, partition), 0, count))
        for partition in range(PARTITIONS)
    ]


def by_partition(records: Iterable[Record]) -> dict[int | None, list[Record]]:
    found: dict[int | None, list[Record]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def read(
    connections: KafkaConnections,
    wanted: list[WantedRange],
    settings: FetchSettings,
    *,
    read_committed: bool = False,
) -> Iterator[Record]:
    for offset_range, batch in fetch_ranges(connections, wanted, settings, read_committed=read_committed):
        records = as_records([batch])
        assert {(each.topic, each.partition) for each in records} == {offset_range.topic_partition}
        yield from records


@pytest.mark.parametrize("limit_bytes", [4 << 20, 10_000])
def test_200_topic_partitions_of_a_broker_share_requests(
    bootstrap: str, make_topic: MakeTopic, limit_bytes: int
) -> None:
    topic = make_topic(PARTITIONS)
    written = judge.produce(bootstrap, topic, *records_of(5), config={"linger.ms": 50})
    settings = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=limit_bytes)
    with connected(bootstrap) as connections:
        sent = watch_fetches(connections)
        assert by_partition(read(connections, whole(topic, 5), settings)) == by_partition(written)
    assert len(sent) <= (3 if limit_bytes > 10_000 else 100)


def test_an_open_transaction_in_one_topic_partition_stops_no_other(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(PARTITIONS)
    written = judge.produce(bootstrap, topic, *records_of(1), config={"linger.ms": 50})
    producer = judge.transactional_producer(bootstrap, topic)
    producer.begin_transaction()
    judge.send(producer, topic, [Record(b"open", partition=7)])
    judge.flush(producer)
    wanted = whole(topic, 1)
    wanted[7] = WantedRange(OffsetRange(TopicPartition(topic, 7), 0, 2))
    got: list[Record] = []
    settings = dataclasses.replace(SETTINGS, default_api_timeout_ms=2_000)
    with connected(bootstrap) as connections:
        reader = read(connections, wanted, settings, read_committed=True)
        with pytest.raises(FetchError, match=r"-7\[0, 2\) at offset 1 .*open transaction holds"):
            got.extend(reader)
    producer.abort_transaction()
    assert by_partition(got) == by_partition(written)


def test_200_topic_partitions_of_three_brokers_of_which_one_dies(
    make_topic: MakeTopic, cluster3: DevCluster
) -> None:
    bootstrap = cluster3.bootstrap_servers
    topic = make_topic(PARTITIONS, cluster=cluster3)
    written = judge.produce(bootstrap, topic, *records_of(20), config={"linger.ms": 50})
    settings = dataclasses.replace(SETTINGS, max_partition_fetch_bytes=30_000)
    with connected(bootstrap) as connections:
        sent = watch_fetches(connections)
        reader = read(connections, whole(topic, 20), settings)
        got = [next(reader)]
        assert {node_id for node_id, _ in sent} == {1, 2, 3}
        cluster3.kill(2)
        try:
            got += reader
        finally:
            cluster3.restart(2)
    assert by_partition(got) == by_partition(written)
