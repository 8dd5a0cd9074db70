"""Write rows of a DataFrame, as Arrow, to a real broker. librdkafka must read back the same."""

from __future__ import annotations

import datetime
import itertools
import os
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewPartitions

from penstock.client.cluster.log_offsets import log_sizes
from penstock.client.net.connection import KafkaConnections
from penstock.client.produce import pool as producer_pool
from penstock.client.settings import ConnectionSettings
from penstock.errors import (
    OptionError,
    ProduceError,
    RecordTooLargeError,
    RowError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import SinkConfig
from penstock.options.parse import parse_write
from penstock.sink.writer import write_rows
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.waiting import PATIENCE_S, wait_until

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
UTC = datetime.UTC


def config_for(bootstrap: str, topic: str | None = None, **options: str) -> SinkConfig:
    given = {"kafka.bootstrap.servers": bootstrap} | {
        f"kafka.{name.replace('_', '.')}": value for name, value in options.items()
    }
    return parse_write(given if topic is None else {**given, "topic": topic}).sink


def table(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), list(columns))


def numbered(first: int, count: int) -> pa.Array:
    return pa.array([str(number).zfill(60).encode() for number in range(first, first + count)])


def stored_bytes(bootstrap: str, topic: str) -> int:
    """The size of the topic's logs."""
    topic_partitions = [TopicPartition(topic, partition) for partition in range(2)]
    with closing(KafkaConnections(ConnectionSettings((bootstrap,), "judge"))) as connections:
        return sum(log_sizes(connections, topic_partitions).values.values())


def values_by_partition(bootstrap: str, topic: str) -> dict[int | None, list[bytes | None]]:
    found: defaultdict[int | None, list[bytes | None]] = defaultdict(list)
    for record in judge.consume_all(bootstrap, topic):
        found[record.partition].append(record.value)
    return found


# ----- what arrives


@pytest.mark.promise
def test_every_part_of_a_record_arrives(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    moments = [
        datetime.datetime(2013, 1, 1, 5, 17, 0, 123_999, UTC),
        datetime.datetime(1970, 1, 1, tzinfo=UTC),
        None,
        None,
    ]
    headers = [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "ü", "value": b""}],
        [],
        None,
        [{"key": "", "value": b"\x00\xff"}],
    ]
    before_ms = int(time.time() * 1000)
    row_count = write_rows(
        config_for(bootstrap, topic),
        [
            table(
                key=pa.array([b"k", b"", None, b"\x00"], pa.binary()),
                value=pa.array(["text", "", None, "ü"], pa.string()),
                headers=pa.array(headers, HEADERS),
                timestamp=pa.array(moments, pa.timestamp("us", tz="America/New_York")),
            )
        ],
    )
    after_ms = int(time.time() * 1000)
    assert row_count == 4
    found = judge.consume_all(bootstrap, topic)
    assert [record.key for record in found] == [b"k", b"", None, b"\x00"]
    assert [record.value for record in found] == [b"text", b"", None, "ü".encode()]
    assert [list(record.headers) for record in found] == [
        [("a", b"1"), ("a", None), ("ü", b"")],
        [],
        [],
        [("", b"\x00\xff")],
    ]
    assert [record.timestamp_ms for record in found[:2]] == [1_357_017_420_123, 0]
    assert all(before_ms <= (record.timestamp_ms or 0) <= after_ms for record in found[2:])


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read_back(bootstrap: str, make_topic: MakeTopic, compression: str) -> None:
    topic = make_topic(partitions=2)
    config = config_for(bootstrap, topic, compression_type=compression, batch_size="20000")
    row_count = write_rows(config, [table(value=numbered(first, 500)) for first in range(0, 5_000, 500)])
    values = [record.value for record in judge.consume_all(bootstrap, topic)]
    assert sorted(values, key=str) == numbered(0, 5_000).to_pylist()
    assert row_count == 5_000
    assert (stored_bytes(bootstrap, topic) < 5_000 * 60) == (compression != "none")


@pytest.mark.promise
def test_keys_go_where_the_other_clients_put_them(bootstrap: str, make_topic: MakeTopic) -> None:
    ours, theirs = make_topic(partitions=7, suffix="-ours"), make_topic(partitions=7, suffix="-theirs")
    # Without an empty key: librdkafka gives that a partition at random, where Java hashes it.
    keys = [f"key-{number}".encode() for number in range(500)] + [bytes([number]) for number in range(256)]
    write_rows(config_for(bootstrap, ours), [table(key=pa.array(keys, pa.binary()), value=pa.array(keys))])
    judge.produce(bootstrap, theirs, *[(key, key) for key in keys], config={"partitioner": "murmur2_random"})
    found, wanted = values_by_partition(bootstrap, ours), values_by_partition(bootstrap, theirs)
    assert found == wanted
    assert sorted(partition or 0 for partition in found) == list(range(7))


def test_rows_name_their_topics_and_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    first, second = make_topic(partitions=2, suffix="-a"), make_topic(partitions=3, suffix="-b")
    batch = table(
        topic=pa.array([first, second, first, second]),
        value=pa.array(["0", "1", "2", "3"]),
        partition=pa.array([1, 2, 0, 2], pa.int32()),
    )
    assert write_rows(config_for(bootstrap), [batch]) == 4
    assert values_by_partition(bootstrap, first) == {0: [b"2"], 1: [b"0"]}
    assert values_by_partition(bootstrap, second) == {2: [b"1", b"3"]}


def test_keyless_rows_fill_all_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=4)
    config = config_for(bootstrap, topic, batch_size="10000")
    write_rows(config, [table(value=numbered(first, 1_000)) for first in range(0, 20_000, 1_000)])
    counts = {partition: len(values) for partition, values in values_by_partition(bootstrap, topic).items()}
    assert sum(counts.values()) == 20_000
    assert len(counts) == 4
    assert min(counts.values()) > 3_000


@pytest.mark.promise
def test_rows_keep_their_order_in_a_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    config = config_for(bootstrap, topic, batch_size="5000")
    keys = [f"{number % 50}".encode() for number in range(10_000)]
    all_values = numbered(0, 10_000)
    write_rows(
        config,
        [
            table(key=pa.array(keys[first : first + 700]), value=all_values.slice(first, 700))
            for first in range(0, 10_000, 700)
        ],
    )
    found = values_by_partition(bootstrap, topic)
    assert sum(map(len, found.values())) == 10_000
    assert all(values == sorted(values, key=str) for values in found.values())


def test_many_partitions_with_a_row_each(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=200)
    partitions = pa.array(list(range(200)) * 3, pa.int32())
    rows = table(value=numbered(0, 600), partition=partitions)
    assert write_rows(config_for(bootstrap, topic), [rows]) == 600
    assert {len(values) for values in values_by_partition(bootstrap, topic).values()} == {3}


def test_without_a_guarantee_records_arrive_as_well(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    options = {
        "topic": topic,
        "properties.bootstrap.servers": bootstrap,
        "properties.acks": "1",
        "sink.delivery-guarantee": "none",
    }
    assert write_rows(parse_write(options).sink, [table(value=numbered(0, 100))]) == 100
    assert values_by_partition(bootstrap, topic) == {0: numbered(0, 100).to_pylist()}


# ----- producers of a process


def test_the_next_task_takes_the_same_producer(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    config = config_for(bootstrap, topic)
    identities = []
    for number in range(3):
        assert write_rows(config, [table(value=numbered(number, 1))]) == 1
        [(_, producer)] = producer_pool._kept.values()
        identities.append(producer.identity)
    assert len(set(identities)) == 1
    assert values_by_partition(bootstrap, topic) == {0: numbered(0, 3).to_pylist()}


def test_tasks_at_the_same_time_have_producers_of_their_own(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    config = config_for(bootstrap, topic)

    def task(number: int) -> int:
        keys = pa.array([f"{number}".encode()] * 500)
        return write_rows(config, [table(key=keys, value=numbered(number * 500, 500))])

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(task, range(4))) == {500}
    values = [record.value for record in judge.consume_all(bootstrap, topic)]
    assert Counter(values) == Counter(numbered(0, 2_000).to_pylist())
    assert len(producer_pool._kept) == 1


def test_a_failed_task_leaves_no_producer_and_no_thread(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    config = config_for(bootstrap, topic)
    bad = table(value=numbered(0, 1), partition=pa.array([9], pa.int32()))
    good = table(value=numbered(0, 1), partition=pa.array([0], pa.int32()))
    with pytest.raises(RowError, match=r"\(0 to 0\), got a row with partition 9"):
        write_rows(config, [good, bad])
    assert not producer_pool._kept
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-producer"]
    assert write_rows(config, [good]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_opens_a_producer_of_its_own(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    config = config_for(bootstrap, topic)
    write_rows(config, [table(value=numbered(0, 1))])
    child = os.fork()
    if not child:
        try:
            write_rows(config, [table(value=numbered(1, 1))])
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    write_rows(config, [table(value=numbered(2, 1))])
    assert values_by_partition(bootstrap, topic) == {0: numbered(0, 3).to_pylist()}


# ----- what cannot be written


def test_a_topic_that_does_not_exist_is_named(bootstrap: str, topic_name: str) -> None:
    started = time.monotonic()
    with pytest.raises(UnknownTopicOrPartitionError, match=topic_name):
        write_rows(config_for(bootstrap, topic_name), [table(value=numbered(0, 1))])
    assert time.monotonic() - started < 20


def test_a_record_that_fits_in_no_request_is_named(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    config = config_for(bootstrap, topic, max_request_size="5000")
    with pytest.raises(RecordTooLargeError, match=f"{topic}-0"):
        write_rows(config, [table(value=pa.array([b"small", b"x" * 6_000]))])


def test_a_record_that_the_topic_does_not_take_is_named(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(ProduceError, match=rf"1 records for {topic}-0.*max\.message\.bytes"):
        write_rows(config_for(bootstrap, topic), [table(value=pa.array([b"x" * 3_000]))])
    assert judge.consume_all(bootstrap, topic) == []


def test_a_timestamp_before_1970_is_named(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    early = pa.array([datetime.datetime(1969, 12, 31, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    with pytest.raises(RowError, match=rf"{topic}-0.*before 1970"):
        write_rows(config_for(bootstrap, topic), [table(value=numbered(0, 1), timestamp=early)])


def test_contradicting_properties_are_an_error(bootstrap: str, make_topic: MakeTopic) -> None:
    with pytest.raises(OptionError, match="acks"):
        write_rows(config_for(bootstrap, make_topic(), acks="0"), [table(value=numbered(0, 1))])


@pytest.mark.parametrize("partitioner", ["default", "fixed", "round-robin"])
def test_partitions_added_to_a_topic_are_used_without_a_restart(
    bootstrap: str, make_topic: MakeTopic, partitioner: str
) -> None:
    topic = make_topic()
    config = replace(config_for(bootstrap, topic, metadata_max_age_ms="100"), partitioner=partitioner)

    def write_task(spark_partition_id: int) -> None:
        rows = [table(value=numbered(0, 4))]
        write_rows(config, rows, spark_partition_id=spark_partition_id)

    write_task(0)
    admin = judge.admin(bootstrap)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
    judge.wait_for_leaders(bootstrap, topic, 3)
    tasks = itertools.count(1)

    def is_everywhere() -> bool:
        write_task(next(tasks))
        return len(values_by_partition(bootstrap, topic)) == 3

    wait_until(is_everywhere, "records in all three partitions")
