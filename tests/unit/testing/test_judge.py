"""The judge for users' tests: it finds what is lost, doubled, unexpected or undecided."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.testing import FakeKafka, assert_each_once, committed_values, leader_of
from tests import judge
from tests.scenarios.cluster import Cluster
from tests.scenarios.transactions import V2, Writer

VALUES = [b"a", b"b", b"c"]


@pytest.fixture
def topic(fake_kafka: FakeKafka, unique_topic: Callable[..., str]) -> str:
    name = unique_topic("orders")
    fake_kafka.create_topic(name, 2)
    return name


def test_each_value_is_there_once(fake_kafka: FakeKafka, topic: str) -> None:
    assert_each_once(fake_kafka, topic, [])
    judge.produce(fake_kafka.bootstrap_servers, topic, *VALUES)
    assert_each_once(fake_kafka, topic, reversed(VALUES))
    assert_each_once(fake_kafka.bootstrap_servers, topic, VALUES)
    judge.produce(fake_kafka.bootstrap_servers, topic, b"a")
    assert_each_once(fake_kafka, topic, [*VALUES, b"a"])


def test_what_is_wrong_is_named(fake_kafka: FakeKafka, topic: str) -> None:
    judge.produce(fake_kafka.bootstrap_servers, topic, b"a", b"b", b"b", b"x", (b"key", None))
    with pytest.raises(AssertionError) as caught:
        assert_each_once(fake_kafka, topic, [b"a", b"b", b"c"])
    said = str(caught.value)
    assert "does not hold each of the 3 values once" in said
    assert "1 lost: b'c'." in said
    assert "1 doubled: b'b'." in said
    assert "2 unexpected: " in said
    assert "b'x'" in said


def test_aborted_records_do_not_count(fake_kafka: FakeKafka, topic: str) -> None:
    server = fake_kafka.bootstrap_servers
    judge.produce_in_transaction(server, topic, b"lost", transactional_id="id", is_committed=False)
    judge.produce_in_transaction(server, topic, *VALUES, transactional_id="id")
    assert_each_once(fake_kafka, topic, VALUES)


def test_an_open_transaction_is_waited_for(fake_kafka: FakeKafka, topic: str) -> None:
    connections = KafkaConnections(ConnectionSettings((fake_kafka.bootstrap_servers,), "judge"))
    writer = Writer(Cluster.of_fake(fake_kafka, connections), V2)
    writer.write(topic, b"open")
    with pytest.raises(AssertionError, match="a transaction is open"):
        committed_values(fake_kafka, topic, timeout_s=1.0)
    writer.end(is_commit=True)
    assert_each_once(fake_kafka, topic, [b"open"])
    connections.close()


def test_the_leader_is_known() -> None:
    with FakeKafka(brokers=3) as kafka:
        kafka.create_topic("t")
        leader = leader_of(kafka, "t")
        kafka.stop_broker(leader)
        assert leader_of(kafka, "t") != leader
