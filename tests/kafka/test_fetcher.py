"""The fetch loop on a real broker: it returns exactly the written records, or a clear error."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from kafka.protocol.admin import AlterClientQuotasRequest
from kafka.protocol.consumer import FetchRequest

from penstock.client.cluster.log_offsets import NewTopic, create_topics, list_offsets
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.settings import FetchSettings
from penstock.codec.schema import KAFKA_RECORDS
from penstock.devbroker import DevCluster
from penstock.errors import (
    FetchError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import IsolationLevel
from penstock.types import LogEnd, OffsetRange, TopicPartition
from tests import judge
from tests.fault_proxy import proxies_for, route
from tests.fix_broker import MakeTopic
from tests.records import CORNERS, as_records, connected, many
from tests.waiting import PATIENCE_S, wait_until

SMALL = FetchSettings(max_partition_fetch_bytes=2_000, default_api_timeout_ms=30_000)
"""Settings that give many responses for few records."""

SMALL_BATCHES = {"batch.size": 1_000}


@pytest.fixture
def connections(bootstrap: str) -> Iterator[KafkaConnections]:
    with connected(bootstrap) as opened:
        yield opened


def read(
    connections: KafkaConnections,
    topic: str,
    start: int = 0,
    stop: int | None = None,
    *,
    settings: FetchSettings | None = None,
    **kwargs: Any,
) -> Iterator[pa.RecordBatch]:
    topic_partition = TopicPartition(topic, 0)
    if stop is None:
        stop = list_offsets(connections, {topic_partition: LogEnd.LATEST})[topic_partition]
    offset_range = OffsetRange(topic_partition, start, stop)
    return fetch_range(connections, offset_range, settings or FetchSettings(), **kwargs)


def values(batches: Iterator[pa.RecordBatch]) -> list[bytes | None]:
    return [value for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.promise
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_content_is_what_another_client_wrote(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic, compression: str
) -> None:
    topic = make_topic(config={"retention.ms": "-1"})  # most of the records are of 2023
    for chunk in (CORNERS, CORNERS[::-1], many(500)):
        judge.produce(bootstrap, topic, *chunk, config={"compression.type": compression, "linger.ms": 20})
    batches = list(read(connections, topic))
    assert as_records(batches) == judge.consume_all(bootstrap, topic)
    assert all(batch.schema == KAFKA_RECORDS for batch in batches)


@pytest.mark.parametrize("settings", [SMALL, dataclasses.replace(SMALL, max_partition_fetch_bytes=1)])
def test_many_responses_lose_and_repeat_nothing(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic, settings: FetchSettings
) -> None:
    topic = make_topic()
    for chunk in range(30):
        judge.produce(bootstrap, topic, *many(20, size=100 + 8 * chunk), config={"linger.ms": 20})
    batches = list(read(connections, topic, settings=settings, max_rows=7))
    assert as_records(batches) == judge.consume_all(bootstrap, topic)
    assert max(batch.num_rows for batch in batches) == 7


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (3, 4), (17, 83), (99, 100), (0, 100)])
def test_a_range_is_cut_inside_of_a_batch(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic, start: int, stop: int
) -> None:
    topic = make_topic()
    records = judge.produce(bootstrap, topic, *many(100), config={"linger.ms": 50})
    assert as_records(read(connections, topic, start, stop)) == records[start:stop]


def test_only_the_wanted_columns_are_built(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"a", b"b")
    (batch,) = read(connections, topic, columns=["value", "offset"])
    assert batch.to_pydict() == {"value": [b"a", b"b"], "offset": [0, 1]}


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (5, 5), (7, 3)])
def test_an_empty_range_asks_no_broker(start: int, stop: int) -> None:
    with connected("127.0.0.1:1") as offline:
        assert list(read(offline, "no-topic", start, stop)) == []


def test_a_record_larger_than_the_fetch_size_comes_whole(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    sizes = [10, 900_000, 10, 10, 500_000, 10]
    for number, size in enumerate(sizes):
        judge.produce(bootstrap, topic, bytes([65 + number]) * size)
    assert list(map(len, map(bytes, values(read(connections, topic, settings=SMALL))))) == sizes  # type: ignore[arg-type]  # none is null


# ----- transactions


@pytest.mark.parametrize("read_committed", [False, True])
def test_aborted_transactions_are_shown_by_isolation_level(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic, read_committed: bool
) -> None:
    topic = make_topic()
    for number in range(6):
        chunk = [b"%d-%d" % (number, index) for index in range(5)]
        judge.produce_in_transaction(
            bootstrap, topic, *chunk, transactional_id=topic, is_committed=number % 2 == 0
        )
        judge.produce(bootstrap, topic, b"plain-%d" % number)
    judge.produce_in_transaction(bootstrap, topic, b"tail", transactional_id=topic, is_committed=False)
    isolation = "read_committed" if read_committed else "read_uncommitted"
    expected = judge.consume_all(bootstrap, topic, isolation)
    for settings in (SMALL, FetchSettings()):
        batches = read(connections, topic, settings=settings, read_committed=read_committed)
        assert as_records(batches) == expected


@pytest.mark.promise
def test_interleaved_transactions(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    producers = [judge.transactional_producer(bootstrap, f"{topic}-{index}") for index in range(3)]
    for producer in producers:
        producer.begin_transaction()
    for number, producer in itertools.product(range(4), producers):
        judge.send(producer, topic, [b"%d" % number])
        judge.flush(producer)
    producers[1].abort_transaction(30)
    producers[0].commit_transaction(30)
    producers[2].abort_transaction(30)
    judge.wait_for_markers(bootstrap)
    committed = as_records(read(connections, topic, settings=SMALL, read_committed=True))
    assert committed == judge.consume_all(bootstrap, topic, "read_committed")
    assert len(committed) == 4


def test_an_open_transaction_is_named_when_it_holds_the_read_up(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"before")
    producer = judge.transactional_producer(bootstrap, topic)
    producer.begin_transaction()
    judge.send(producer, topic, [b"open"])
    judge.flush(producer)
    impatient = FetchSettings(default_api_timeout_ms=1_500)
    with pytest.raises(FetchError, match=r"last stable offset at 1 \(high watermark 2\)"):
        list(read(connections, topic, 0, 2, settings=impatient, read_committed=True))
    reader = read(connections, topic, 0, 2, read_committed=True, max_rows=1)
    assert values(iter([next(reader)])) == [b"before"]
    committer = threading.Timer(0.5, producer.commit_transaction)
    committer.start()
    assert values(reader) == [b"open"]
    committer.join()


# ----- gaps and missing records


@pytest.mark.promise
def test_compaction_gaps_are_passed(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "200",
    }
    topic = make_topic(config=compacted)
    for number in range(200):
        judge.produce(bootstrap, topic, (b"key-%d" % (number % 3), b"%d" % number))

    def is_compacted() -> bool:
        judge.produce(bootstrap, topic, (b"roll", b"rolls the segment"))
        return len(judge.consume_all(bootstrap, topic)) < 100

    wait_until(is_compacted, "the log is compacted")
    # It may be compacted further between the two reads.
    wait_until(
        lambda: as_records(read(connections, topic, settings=SMALL)) == judge.consume_all(bootstrap, topic),
        "both clients read the same",
    )


@pytest.mark.promise
def test_deleted_records_are_an_error_that_names_what_is_left(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, *many(50))
    judge.delete_records(bootstrap, topic, {0: 20})
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 5 .*offsets 20 to 50.*15 offsets") as caught:
        list(read(connections, topic, 5, 50))
    facts = caught.value.facts
    assert (facts["topic"], facts["partition"], facts["offset"]) == (topic, 0, 5)
    assert (facts["log_start_offset"], facts["log_end_offset"]) == (20, 50)
    assert len(values(read(connections, topic, 20, 50))) == 30


def test_all_before_a_gap_is_given_out_before_the_error(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for record in many(60, size=1_000):
        judge.produce(bootstrap, topic, record)
    # Arrow batches of more rows than a response brings, so that the codec always keeps a rest.
    reader = read(connections, topic, settings=SMALL, max_rows=3)
    got = as_records([next(reader)])
    judge.delete_records(bootstrap, topic, {0: 55})
    with pytest.raises(OffsetOutOfRangeError) as caught:
        got.extend(record for batch in reader for record in as_records([batch]))
    position = caught.value.facts["offset"]
    assert [record.offset for record in got] == list(range(position))
    assert 3 <= position < 55


def test_a_start_behind_the_end_is_an_error(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"one")
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 5 .*offsets 0 to 1.*truncated"):
        list(read(connections, topic, 5, 9))


def test_a_stop_behind_the_end_ends_in_an_error_and_not_in_a_hang(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"one")
    started = time.monotonic()
    with pytest.raises(FetchError, match=r"offset 1 made no progress .*ends at offset 1 \(high watermark\)"):
        list(read(connections, topic, 0, 9, settings=FetchSettings(default_api_timeout_ms=1_200)))
    assert 1 < time.monotonic() - started < 20


# ----- topics that are not there


def test_an_unknown_topic_is_named(connections: KafkaConnections, topic_name: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match=f"Topic '{topic_name}' does not exist"):
        list(read(connections, topic_name, 0, 9))


def test_a_partition_that_does_not_exist_is_named(
    connections: KafkaConnections, make_topic: MakeTopic
) -> None:
    missing = OffsetRange(TopicPartition(make_topic(2), 2), 0, 9)
    with pytest.raises(UnknownTopicOrPartitionError, match=r"no partition 2: it has 2 \(0 to 1\)"):
        list(fetch_range(connections, missing, FetchSettings()))


def test_a_topic_deleted_while_it_is_read_is_an_error(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for record in many(60, size=1_000):
        judge.produce(bootstrap, topic, record)
    reader = read(connections, topic, settings=SMALL, max_rows=1)
    next(reader)
    judge.delete_topic(bootstrap, topic)
    with pytest.raises(UnknownTopicOrPartitionError, match="does not exist") as caught:
        list(reader)
    assert caught.value.facts["stopping_offset"] == 60


@pytest.mark.promise
def test_a_recreated_topic_while_it_is_read_is_an_error(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    records = many(60, size=1_000)
    for record in records:
        judge.produce(bootstrap, topic, record)
    reader = read(connections, topic, settings=SMALL, max_rows=1)
    next(reader)
    judge.delete_topic(bootstrap, topic)
    judge.create_topic(bootstrap, topic)
    judge.produce(bootstrap, topic, *records)
    with pytest.raises(TopicPartitionsRemovedError, match="deleted and created again"):
        list(reader)
    # A read that begins now reads the new topic, although this process knew the old one.
    assert len(values(read(connections, topic))) == 60


# ----- brokers and networks that fail


def test_no_broker_is_an_error_in_time() -> None:
    with connected("127.0.0.1:1") as offline:
        started = time.monotonic()
        with pytest.raises(FetchError, match=r"127\.0\.0\.1:1"):
            list(read(offline, "topic", 0, 9, settings=FetchSettings(default_api_timeout_ms=1_000)))
        assert time.monotonic() - started < 20


def test_a_broker_that_restarts_is_waited_for(mortal_broker: DevCluster, topic_name: str) -> None:
    bootstrap = mortal_broker.bootstrap_servers
    judge.create_topic(bootstrap, topic_name)
    judge.produce(bootstrap, topic_name, *many(400), config=SMALL_BATCHES)
    with connected(bootstrap) as connections:
        reader = read(connections, topic_name, settings=SMALL, max_rows=1)
        got = as_records([next(reader)])
        mortal_broker.restart()
        got += as_records(reader)
    assert got == judge.consume_all(bootstrap, topic_name)
    assert len(got) == 400


def test_a_broker_that_hangs_is_an_error_in_time(mortal_broker: DevCluster, topic_name: str) -> None:
    bootstrap = mortal_broker.bootstrap_servers
    judge.create_topic(bootstrap, topic_name)
    judge.produce(bootstrap, topic_name, *many(400), config=SMALL_BATCHES)
    hasty = dataclasses.replace(SMALL, request_timeout_ms=500, default_api_timeout_ms=2_000)
    with connected(bootstrap, request_timeout_ms=500) as connections:
        reader = read(connections, topic_name, settings=hasty, max_rows=1)
        next(reader)
        mortal_broker.pause()
        started = time.monotonic()
        with pytest.raises(FetchError, match="made no progress for 2000 ms"):
            list(reader)
        assert time.monotonic() - started < 20
        mortal_broker.resume()
        assert len(values(read(connections, topic_name))) == 400


@pytest.mark.promise
@pytest.mark.parametrize("after_bytes", [0, 10, 1_000, 50_000])
def test_a_connection_cut_inside_of_a_response_loses_nothing(
    bootstrap: str, make_topic: MakeTopic, after_bytes: int
) -> None:
    topic = make_topic()
    records = judge.produce(bootstrap, topic, *many(2_000), config=SMALL_BATCHES)
    (proxy,) = proxies_for(bootstrap)
    with proxy, route(proxy), connected(bootstrap) as connections:
        reader = read(
            connections,
            topic,
            max_rows=10,
            settings=dataclasses.replace(SMALL, max_partition_fetch_bytes=30_000),
        )
        got = as_records([next(reader)])
        proxy.cut_after(after_bytes)
        got += as_records(reader)
        assert not proxy.is_cut_pending
    assert got == records


def test_a_broker_that_cannot_be_reached_for_a_while_is_waited_for(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    records = judge.produce(bootstrap, topic, *many(2_000), config=SMALL_BATCHES)
    (proxy,) = proxies_for(bootstrap)
    with proxy, route(proxy), connected(bootstrap) as connections:
        reader = read(connections, topic, settings=SMALL, max_rows=10)
        got = as_records([next(reader)])
        proxy.refuse()
        accepting = threading.Timer(1.0, proxy.accept)
        accepting.start()
        got += as_records(reader)
        accepting.join()
    assert got == records


def test_a_throttled_reader_gets_everything(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    with connected(bootstrap, client_id=topic) as connections:
        set_consumer_quota(connections, topic, bytes_per_second=115_000)
        records = judge.produce(bootstrap, topic, *many(6_000, size=200), config=SMALL_BATCHES)
        sent = watch_fetches(connections)
        settings = FetchSettings(max_partition_fetch_bytes=300_000)
        assert as_records(read(connections, topic, settings=settings)) == records
        assert max(response.result().throttle_time_ms for _, response in sent) > 0


def set_consumer_quota(connections: KafkaConnections, client_id: str, bytes_per_second: float) -> None:
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
                ops=[entry.OpData(key="consumer_byte_rate", value=bytes_per_second, remove=False)],
            )
        ],
        validate_only=False,
    )
    (result,) = connections.request(request).entries
    assert result.error_code == 0, result


def watch_fetches(connections: KafkaConnections) -> list[tuple[int, PendingResponse]]:
    """Note the broker and the response of each Fetch that is sent from now on."""
    sent = []
    send = connections.send

    def watched(request: Any, node_id: Any, timeout_ms: int | None = None) -> PendingResponse:
        pending = send(request, node_id, timeout_ms)
        if isinstance(request, FetchRequest):
            sent.append((node_id, pending))
        return pending

    connections.send = watched  # type: ignore[method-assign]  # a spy
    return sent


# ----- several brokers


@pytest.mark.promise
def test_a_leader_that_dies_is_replaced(make_topic: MakeTopic, cluster3: DevCluster) -> None:
    bootstrap = cluster3.bootstrap_servers
    topic = make_topic(cluster=cluster3)
    records = judge.produce(bootstrap, topic, *many(2_000), config=SMALL_BATCHES)
    with connected(bootstrap) as connections:
        reader = read(connections, topic, settings=SMALL, max_rows=10)
        got = as_records([next(reader)])
        leader = leader_of(bootstrap, topic)
        cluster3.kill(leader)
        try:
            got += as_records(reader)
        finally:
            cluster3.restart(leader)
    assert got == records


def test_a_replica_in_the_rack_is_read_and_its_death_survived(
    make_topic: MakeTopic, cluster3: DevCluster
) -> None:
    bootstrap = cluster3.bootstrap_servers
    topic = make_topic(cluster=cluster3)
    records = judge.produce(bootstrap, topic, *many(2_000), config=SMALL_BATCHES)
    leader = leader_of(bootstrap, topic)
    follower = leader % 3 + 1
    settings = dataclasses.replace(SMALL, client_rack=f"rack-{follower}")
    with connected(bootstrap) as connections:
        sent = watch_fetches(connections)
        reader = read(connections, topic, settings=settings, max_rows=10)
        got = as_records([next(reader)])
        assert sent[0][0] == leader
        assert {node_id for node_id, _ in sent[1:]} == {follower}
        cluster3.kill(follower)
        try:
            got += as_records(reader)
        finally:
            cluster3.restart(follower)
        assert sent[-1][0] == leader
    assert got == records


# ----- the caller


def test_at_most_one_response_waits(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    for record in many(10, size=2_200):
        judge.produce(bootstrap, topic, record)
    sent = watch_fetches(connections)
    # Each record is larger than a fetch. So each response brings one record, in an Arrow batch of its own.
    reader = read(connections, topic, settings=SMALL, max_rows=1)
    in_flight = [len(sent) - number for number, _ in enumerate(reader, 1)]
    assert in_flight == [1] * 9 + [0]


def test_a_reader_that_is_closed_early_leaves_the_connections_usable(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    records = judge.produce(bootstrap, topic, *many(300), config=SMALL_BATCHES)
    for _ in range(5):
        reader = read(connections, topic, settings=SMALL, max_rows=3)
        next(reader)
        reader.close()  # type: ignore[attr-defined]  # it is a generator
    assert as_records(read(connections, topic)) == records


def test_many_threads_share_the_connections(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    records = judge.produce(bootstrap, topic, *many(3_000))
    results: dict[int, list[judge.Record]] = {}

    def work(number: int) -> None:
        results[number] = as_records(
            read(connections, topic, number * 500, number * 500 + 500, settings=SMALL)
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [record for number in range(6) for record in results[number]] == records


def test_latest_under_read_committed_is_the_last_stable_offset(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"one")
    producer = judge.transactional_producer(bootstrap, topic)
    producer.begin_transaction()
    judge.send(producer, topic, [b"open"])
    judge.flush(producer)
    wanted = {TopicPartition(topic, 0): LogEnd.LATEST}
    assert list_offsets(connections, wanted, IsolationLevel.READ_COMMITTED) == {TopicPartition(topic, 0): 1}
    assert list_offsets(connections, wanted) == {TopicPartition(topic, 0): 2}
    producer.abort_transaction(30)


def test_an_unclean_leader_election_is_an_error_that_says_so(cluster3: DevCluster, topic_name: str) -> None:
    """Of two replicas the one that lags behind becomes the leader, and records that were read are gone."""
    bootstrap = cluster3.bootstrap_servers
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with connected(bootstrap) as connections:
        create_topics(connections, {topic_name: NewTopic(replicas={0: [1, 2]}, configs=configs)})
        judge.produce(bootstrap, topic_name, *many(10), config=SMALL_BATCHES)
        cluster3.kill(2)
        judge.produce(bootstrap, topic_name, *many(300), config=SMALL_BATCHES)
        reader = read(connections, topic_name, settings=SMALL, max_rows=10)
        got = [record for _ in range(10) for record in as_records([next(reader)])]
        assert len(got) == 100
        cluster3.kill(1)
        cluster3.restart(2)
        wait_until(lambda: leader_of(bootstrap, topic_name) == 2, "broker 2 leads")
        with pytest.raises(LogTruncatedError, match="was truncated: records were read up to offset"):
            list(reader)


def leader_of(bootstrap: str, topic: str) -> int:
    described = judge.admin(bootstrap).list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    return described[0].leader if described else -1
