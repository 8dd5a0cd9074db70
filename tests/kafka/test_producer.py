"""The producer on a real broker, with librdkafka as judge: each record once, in order, or a clear error."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.cluster.metadata import cluster_view
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.produce.pool import open_producer, request_identity
from penstock.client.produce.producer import Producer
from penstock.client.settings import ConnectionSettings, ProduceSettings, connection_settings
from penstock.codec import RecordColumns
from penstock.devbroker import DevCluster
from penstock.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    PenstockError,
    ProduceError,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import KafkaProperties
from penstock.types import TopicPartition
from tests import judge
from tests.fault_proxy import FaultProxy, proxies_for, route
from tests.fix_broker import MakeTopic
from tests.guarded_broker import LIMITED, LIMITED_PASSWORD, login, properties_for
from tests.waiting import PATIENCE_S, wait_until

OpenProducer = Callable[..., Producer]
SMALL_BATCHES = {"batch_size_bytes": 2_000, "max_request_size_bytes": 100_000}
LONG_AGO_MS = 1_000_000_000_000  # 2001: a broker forgets a producer whose records are so old


@pytest.fixture
def open_to(request: pytest.FixtureRequest) -> Iterator[OpenProducer]:
    """Opens producers that end with the test, each with connections of its own."""
    with ExitStack() as opened:

        def open_one(bootstrap: str, **settings: Any) -> Producer:
            connections = KafkaConnections(connection_settings_to(bootstrap))
            opened.callback(connections.close)
            producer = open_producer(connections, ProduceSettings(**settings))
            opened.callback(producer.close)
            return producer

        yield open_one


def connection_settings_to(bootstrap: str) -> ConnectionSettings:
    servers = tuple(bootstrap.split(","))
    return ConnectionSettings(
        servers, client_id="test", request_timeout_ms=5_000, reconnect_backoff_max_ms=200
    )


def numbered(first: int, count: int, size_bytes: int = 100) -> list[bytes]:
    return [str(number).zfill(size_bytes).encode() for number in range(first, first + count)]


def append(
    producer: Producer, tp: TopicPartition, values: list[bytes], timestamp_ms: int | None = None
) -> None:
    columns = RecordColumns(pa.record_batch([pa.array(values, pa.binary())], ["value"]))
    rows = pa.array(range(len(values)), pa.int32())
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    first = 0
    while first < len(values):
        first = producer.append(tp, columns, rows, first, default_timestamp_ms=now_ms)
    producer.offer()


def values_of(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    return [each.value for each in judge.consume_all(bootstrap, topic) if each.partition == partition]


# ----- what arrives


@pytest.mark.promise
def test_everything_arrives_once_and_in_order(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic(partitions=3)
    producer = open_to(bootstrap, **SMALL_BATCHES)
    producer.topic(topic)
    values = numbered(0, 3_000)
    for first in range(0, 3_000, 150):
        for partition in range(3):
            append(producer, TopicPartition(topic, partition), values[first : first + 150])
    producer.flush()
    for partition in range(3):
        assert values_of(bootstrap, topic, partition) == values
    assert producer.acknowledged_record_count == 9_000
    assert producer.held_bytes == 0


def test_a_flush_without_rows_returns(bootstrap: str, open_to: OpenProducer) -> None:
    producer = open_to(bootstrap)
    producer.flush()
    assert producer.acknowledged_record_count == 0


def test_rows_are_sent_after_linger_without_a_flush(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap, linger_ms=100)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), numbered(0, 10))
    wait_until(lambda: producer.acknowledged_record_count == 10, "the lingering batch is sent")
    assert producer.held_bytes == 0


def test_rows_that_linger_are_put_together(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap, linger_ms=60_000)
    producer.topic(topic)
    for first in range(0, 100, 10):
        append(producer, TopicPartition(topic, 0), numbered(first, 10))
    producer.flush()
    batch_header_bytes, record_bytes = 61, 110
    assert producer.acknowledged_bytes < 2 * batch_header_bytes + 100 * record_bytes, "one batch, not ten"
    assert values_of(bootstrap, topic) == numbered(0, 100)


def test_each_producer_has_an_identity_of_its_own(bootstrap: str, open_to: OpenProducer) -> None:
    first, second = open_to(bootstrap), open_to(bootstrap)
    assert first.identity.is_idempotent
    assert first.identity != second.identity


@pytest.mark.parametrize("acks", [0, 1])
def test_without_idempotence_records_arrive_as_well(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer, acks: int
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap, acks=acks, enable_idempotence=False)
    assert not producer.identity.is_idempotent
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), numbered(0, 50))
    producer.flush()
    assert producer.acknowledged_record_count == 50
    assert [record.value for record in judge.consume_until(bootstrap, topic, 50)] == numbered(0, 50)


def test_a_partition_added_meanwhile_can_be_written_to(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap)
    assert len(producer.topic(topic).partitions) == 1
    add_partitions(bootstrap, topic, 2)
    wait_until(lambda: len(producer.refresh_topic(topic).partitions) == 2, "the new partition is seen")
    append(producer, TopicPartition(topic, 1), [b"x"])
    producer.flush()
    assert values_of(bootstrap, topic, 1) == [b"x"]


def add_partitions(bootstrap: str, topic: str, total_count: int) -> None:
    from confluent_kafka.admin import NewPartitions  # noqa: PLC0415  # of this test alone

    client = judge.admin(bootstrap)
    client.create_partitions([NewPartitions(topic, total_count)])[topic].result(PATIENCE_S)
    judge.wait_for_leaders(bootstrap, topic, total_count)


def test_closing_leaves_no_thread(bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer) -> None:
    topic = make_topic()
    producer = open_to(bootstrap)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), [b"x"])
    producer.flush()
    sender = producer._sender
    producer.close()
    producer.close()
    assert not sender.is_alive()
    with pytest.raises(ProduceError, match="closed"):
        append(producer, TopicPartition(topic, 0), [b"y"])


# ----- faults on the way


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[FaultProxy]:
    """A proxy before the shared broker, through which connections of this process go."""
    [proxy] = proxies_for(bootstrap)
    with proxy, route(proxy):
        yield proxy


@pytest.mark.promise
def test_an_answer_lost_after_the_broker_wrote_doubles_nothing(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer, proxy: FaultProxy
) -> None:
    topic = make_topic(partitions=2)
    producer = open_to(bootstrap, **SMALL_BATCHES)
    producer.topic(topic)
    values = numbered(0, 1_000)
    for first in range(0, 1_000, 100):
        proxy.cut_after(0)
        for partition in range(2):
            append(producer, TopicPartition(topic, partition), values[first : first + 100])
        wait_until(lambda: not proxy.is_cut_pending, "an answer is lost")
    producer.flush()
    for partition in range(2):
        assert values_of(bootstrap, topic, partition) == values


def test_a_silent_broker_is_an_error_after_the_delivery_timeout(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer, proxy: FaultProxy
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap, request_timeout_ms=1_000, delivery_timeout_ms=2_500)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), [b"x"])
    producer.flush()
    proxy.hold()
    started = time.monotonic()
    append(producer, TopicPartition(topic, 0), numbered(0, 5))
    with pytest.raises(
        ProduceError, match=r"5 records for .*-0 .*may or may not have been written"
    ) as caught:
        producer.flush()
    assert 2.4 < time.monotonic() - started < 20
    assert caught.value.facts["topic"] == topic
    assert caught.value.facts["partition"] == 0
    assert not producer.is_usable
    with pytest.raises(ProduceError, match=r"5 records for"):
        producer.flush()


def test_a_silent_broker_does_not_fill_the_memory(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer, proxy: FaultProxy
) -> None:
    limit_bytes, batch_bytes = 400_000, 50_000
    topic = make_topic(partitions=3)
    producer = open_to(
        bootstrap, batch_size_bytes=batch_bytes, buffer_memory_bytes=limit_bytes, max_block_ms=2_000
    )
    producer.topic(topic)
    proxy.hold()
    largest_bytes = 0

    def write_without_end() -> None:
        nonlocal largest_bytes
        for number in range(10_000):
            append(producer, TopicPartition(topic, number % 3), numbered(number, 100))
            largest_bytes = max(largest_bytes, producer.held_bytes)

    with pytest.raises(ProduceError, match=r"max\.block\.ms.*buffer\.memory"):
        write_without_end()
    assert limit_bytes // 2 < largest_bytes <= limit_bytes + batch_bytes


def test_a_slow_broker_slows_the_writer_and_loses_nothing(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer, proxy: FaultProxy
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap, batch_size_bytes=10_000, buffer_memory_bytes=40_000)
    producer.topic(topic)
    proxy.delay(0.02)
    values = numbered(0, 2_000)
    for first in range(0, 2_000, 100):
        append(producer, TopicPartition(topic, 0), values[first : first + 100])
        assert producer.held_bytes <= 50_000
    producer.flush()
    assert values_of(bootstrap, topic) == values


class LosingConnections:
    """Connections that can withhold answers to Produce, as if the answers had died with a broker."""

    def __init__(self, connections: KafkaConnections) -> None:
        self.connections = connections
        self.is_losing = False
        self.real: list[PendingResponse] = []
        self._shown: list[PendingResponse] = []

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        pending = self.connections.send(request, node_id, timeout_ms)
        if not self.is_losing or type(request).__name__ != "ProduceRequest":
            return pending
        shown = PendingResponse("a request whose answer is lost", 60_000)
        self.real.append(pending)
        self._shown.append(shown)
        return shown

    def break_off(self) -> None:
        self.is_losing = False
        for shown in self._shown:
            shown.fail(BrokerUnavailableError("the connection broke"))


@pytest.mark.parametrize(("timestamp_ms", "lost_count"), [(None, 5), (LONG_AGO_MS, 1)])
def test_a_broker_that_restarted_and_forgot_doubles_nothing(
    mortal_broker: DevCluster, make_topic: MakeTopic, timestamp_ms: int | None, lost_count: int
) -> None:
    """Answers to several batches die with the broker. It then refuses resent batches or would double them."""
    bootstrap = mortal_broker.bootstrap_servers
    topic = make_topic(cluster=mortal_broker, config={"retention.ms": "-1"})
    connections = KafkaConnections(connection_settings_to(bootstrap))
    losing = LosingConnections(connections)
    identity = request_identity(connections, 10_000)
    settings = ProduceSettings(batch_size_bytes=1_000, linger_ms=60_000)
    producer = Producer(losing, cluster_view(connections), settings, identity)
    try:
        producer.topic(topic)
        values = numbered(0, 70)
        append(producer, TopicPartition(topic, 0), values[:20], timestamp_ms)
        producer.flush()
        losing.is_losing = True
        append(producer, TopicPartition(topic, 0), values[20:], timestamp_ms)
        wait_until(lambda: len(losing.real) == lost_count, "as many batches are under way as may be")
        for pending in losing.real:
            assert pending.result(5_000) is not None, "the broker wrote it"
        mortal_broker.restart()
        losing.break_off()
        producer.flush()
        assert values_of(bootstrap, topic) == values
    finally:
        producer.close()
        connections.close()


def test_a_killed_broker_that_comes_back_has_everything_once(
    mortal_broker: DevCluster, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    bootstrap = mortal_broker.bootstrap_servers
    topic = make_topic(partitions=2, cluster=mortal_broker)
    producer = open_to(bootstrap, **SMALL_BATCHES)
    producer.topic(topic)
    values = numbered(0, 2_000)
    restart: threading.Thread | None = None
    for first in range(0, 2_000, 100):
        for partition in range(2):
            append(producer, TopicPartition(topic, partition), values[first : first + 100])
        if first == 600:
            mortal_broker.kill()
            restart = threading.Thread(target=mortal_broker.restart)
            restart.start()
    producer.flush()
    assert restart is not None
    restart.join()
    for partition in range(2):
        assert values_of(bootstrap, topic, partition) == values


@pytest.mark.promise
def test_leaders_that_move_lose_nothing(
    cluster3: DevCluster, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    bootstrap = cluster3.bootstrap_servers
    topic = make_topic(partitions=6, cluster=cluster3)
    producer = open_to(bootstrap, **SMALL_BATCHES)
    before = {number: found.leader_id for number, found in producer.topic(topic).partitions.items()}
    assert len(set(before.values())) > 1
    values: list[bytes] = []
    restart = threading.Thread(target=cluster3.restart, args=(before[0],))
    restart.start()
    while restart.is_alive() or len(values) < 600:
        more = numbered(len(values), 60)
        values += more
        for partition in range(6):
            append(producer, TopicPartition(topic, partition), more)
        restart.join(0.2)
    producer.flush()
    after = {number: found.leader_id for number, found in producer.refresh_topic(topic).partitions.items()}
    assert after != before, "no leader has moved, so nothing was tried"
    for partition in range(6):
        assert values_of(bootstrap, topic, partition) == values


# ----- what cannot be written


def test_an_unknown_topic_is_an_error_in_seconds(
    bootstrap: str, topic_name: str, open_to: OpenProducer
) -> None:
    producer = open_to(bootstrap)
    started = time.monotonic()
    with pytest.raises(UnknownTopicOrPartitionError, match=topic_name):
        producer.topic(topic_name)
    assert time.monotonic() - started < 20
    assert topic_name not in judge.admin(bootstrap).list_topics(timeout=PATIENCE_S).topics


def test_a_deleted_topic_is_an_error_in_seconds(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), [b"x"])
    producer.flush()
    judge.delete_topic(bootstrap, topic)
    started = time.monotonic()
    append(producer, TopicPartition(topic, 0), [b"y"])
    with pytest.raises(UnknownTopicOrPartitionError, match=f"{topic}.*deleted"):
        producer.flush()
    assert time.monotonic() - started < 20


def test_a_recreated_topic_is_not_the_same(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), [b"x"])
    producer.flush()
    judge.delete_topic(bootstrap, topic)
    judge.create_topic(bootstrap, topic)
    append(producer, TopicPartition(topic, 0), [b"y"])
    with pytest.raises(ProduceError, match=f"{topic}.*created again"):
        producer.flush()
    assert values_of(bootstrap, topic) == []


def test_a_record_larger_than_a_request_is_named(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic()
    producer = open_to(bootstrap, max_request_size_bytes=10_000)
    producer.topic(topic)
    with pytest.raises(RecordTooLargeError, match=rf"{topic}-0.*max\.request\.size"):
        append(producer, TopicPartition(topic, 0), [b"x" * 20_000])


def test_a_batch_larger_than_the_topic_allows_is_named(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic(config={"max.message.bytes": "2000"})
    producer = open_to(bootstrap)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), numbered(0, 50))
    with pytest.raises(
        ProduceError, match=rf"50 records for {topic}-0.*MESSAGE_TOO_LARGE.*not written"
    ) as caught:
        producer.flush()
    assert "max.message.bytes" in str(caught.value)
    assert caught.value.facts["kafka_error"] == "MESSAGE_TOO_LARGE"


def test_a_record_that_the_topic_refuses_is_told_in_the_brokers_words(
    bootstrap: str, make_topic: MakeTopic, open_to: OpenProducer
) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    producer = open_to(bootstrap)
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), [b"no key"])
    with pytest.raises(ProduceError, match=r"INVALID_RECORD.*record 0 of the batch.*key"):
        producer.flush()


def test_no_broker_is_an_error_within_the_blocking_time(open_to: OpenProducer) -> None:
    started = time.monotonic()
    with pytest.raises(BrokerUnavailableError, match=r"127\.0\.0\.1:1\b"):
        open_to("127.0.0.1:1", max_block_ms=1_500)
    assert time.monotonic() - started < 20


# ----- who may write

READER, GUEST = LIMITED[-2:]


def properties_of(user: str, cluster: DevCluster) -> KafkaProperties:
    items = properties_for(cluster, "SASL", login("PLAIN", user, LIMITED_PASSWORD))
    return KafkaProperties(tuple(items.items()))


def test_a_user_who_may_not_write_is_told_what_is_missing(guarded: DevCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(cluster=guarded)
    allow(guarded.bootstrap_servers, READER, topic)
    reader = write_error(guarded, READER, topic)
    assert isinstance(reader, ProduceError)
    assert f"{topic}-0" in reader.message
    assert "grant this user WRITE on the topic" in reader.message
    guest = write_error(guarded, GUEST, topic)
    assert isinstance(guest, (AuthorizationError, UnknownTopicOrPartitionError))
    assert topic in guest.message
    for error in (reader, guest):
        assert LIMITED_PASSWORD not in error.message
        assert not is_retriable(error)


def write_error(cluster: DevCluster, user: str, topic: str) -> PenstockError:
    properties = properties_of(user, cluster)
    connections = KafkaConnections(connection_settings(properties, client_id="test"))
    # Without idempotence, so that it is the topic that is refused and not the producer id.
    producer = open_producer(connections, ProduceSettings(enable_idempotence=False))
    try:
        with pytest.raises(PenstockError) as caught:
            write_one(producer, topic)
        return caught.value
    finally:
        producer.close()
        connections.close()


def write_one(producer: Producer, topic: str) -> None:
    producer.topic(topic)
    append(producer, TopicPartition(topic, 0), [b"x"])
    producer.flush()


def allow(bootstrap: str, user: str, topic: str) -> None:
    """Let the user describe the topic, no more."""
    from confluent_kafka.admin import (  # noqa: PLC0415  # of this test alone
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    client = judge.admin(bootstrap)
    for future in client.create_acls([binding]).values():
        future.result(PATIENCE_S)
    # The controller answers; the broker has it a moment later.
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    wait_until(lambda: client.describe_acls(wanted).result(PATIENCE_S), "the broker to know of it")
