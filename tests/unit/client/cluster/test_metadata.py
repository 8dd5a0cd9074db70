"""The cached picture of a cluster: one for all threads, and none that a fork could lock up."""

from __future__ import annotations

import threading
from typing import cast

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.cluster.metadata import ClusterView, cluster_view
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.types import TopicPartition
from tests.unit.fake_cluster import FakeCluster
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


UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 3, 5


def test_a_topic_is_described_by_the_cluster_and_never_by_what_was_known_before() -> None:
    cluster = FakeCluster()
    connections = cast("KafkaConnections", cluster)
    assert cluster_view(connections).topic("t").topic_partitions
    assert describe_topics(connections, ["t"]).keys() == {"t"}
    cluster.topic_error = UNKNOWN_TOPIC
    assert describe_topics(connections, ["t"], timeout_ms=60) == {}


def test_the_leaders_of_a_topic_that_was_described_are_known() -> None:
    cluster = FakeCluster()
    connections = cast("KafkaConnections", cluster)
    describe_topics(connections, ["t"])
    cluster.leader_id, cluster.leader_epoch = 2, 1
    describe_topics(connections, ["t"])
    leader = cluster_view(connections).leader_of(TopicPartition("t", 0))
    assert (leader.node_id, leader.leader_epoch) == (2, 1)
    assert cluster.metadata_count == 2


def test_a_topic_that_is_unclear_is_asked_for_until_the_cluster_knows() -> None:
    cluster = FakeCluster(topic_error=LEADER_NOT_AVAILABLE)
    connections = cast("KafkaConnections", cluster)
    asked, answer = [], cluster.request

    def request(*args: object, **kwargs: object) -> object:
        asked.append(1)
        if len(asked) == 3:
            cluster.topic_error = 0
        return answer(*args, **kwargs)  # type: ignore[arg-type]  # passed on

    cluster.request = request  # type: ignore[method-assign]  # a cluster that settles
    assert len(describe_topics(connections, ["t"])["t"].partitions) == 1
    assert len(asked) == 3
