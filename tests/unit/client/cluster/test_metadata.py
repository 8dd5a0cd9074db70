"""The cached picture of a cluster: one for all threads, and none that a fork could lock up."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.cluster.metadata import ClusterView, cluster_view
from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.testing import FakeKafka, Refuse
from penstock.types import TopicPartition
from tests.unit.in_process import InProcess
from tests.waiting import PATIENCE_S


def test_all_threads_share_one_view() -> None:
    connections = KafkaConnections(ConnectionSettings(("127.0.0.1:1",), "shared-view"))
    found: list[ClusterView] = []
    together = threading.Barrier(8)

    def look() -> None:
        together.wait(PATIENCE_S)
        found.append(cluster_view(connections))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    connections.close()
    assert len(found) == 8
    assert all(view is found[0] for view in found)


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    with FakeKafka(brokers=2) as cluster:
        cluster.create_topic("t")
        yield cluster


def test_a_topic_is_described_by_the_cluster_and_never_by_what_was_known_before(kafka: FakeKafka) -> None:
    connections = InProcess(kafka).connections
    assert cluster_view(connections).topic("t").topic_partitions
    assert describe_topics(connections, ["t"]).keys() == {"t"}
    kafka.delete_topic("t")
    assert describe_topics(connections, ["t"], timeout_ms=60) == {}


def test_the_leaders_of_a_topic_that_was_described_are_known(kafka: FakeKafka) -> None:
    client = InProcess(kafka)
    describe_topics(client.connections, ["t"])
    kafka.move_leader("t", 0, 2)
    describe_topics(client.connections, ["t"])
    leader = cluster_view(client.connections).leader_of(TopicPartition("t", 0))
    assert (leader.node_id, leader.leader_epoch) == (2, 1)
    assert client.count("Metadata") == 2


def test_a_topic_that_is_unclear_is_asked_for_until_the_cluster_knows(kafka: FakeKafka) -> None:
    client = InProcess(kafka)
    unclear = kafka.control("Metadata", Refuse(codes.LEADER_NOT_AVAILABLE), times=2)
    assert len(describe_topics(client.connections, ["t"])["t"].partitions) == 1
    assert len(unclear.seen) == 2
    assert client.count("Metadata") == 1
