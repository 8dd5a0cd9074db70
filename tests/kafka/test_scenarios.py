"""Every scenario of the fake cluster on the real broker. So the fake does what Kafka does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from tests import judge
from tests.guarded_broker import LIMITED_PASSWORD, SCENARIO_USERS, login, settings_for
from tests.scenarios.all import ALL
from tests.scenarios.cluster import Cluster
from tests.scenarios.leaders import OF_LEADERS, ThreeBrokers
from tests.scenarios.rights import GUARDED, Guarded
from tests.waiting import PATIENCE_S, wait_until


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    connections = KafkaConnections(ConnectionSettings((bootstrap,), "scenario"))
    yield Cluster.of(bootstrap, connections)
    connections.close()


@pytest.mark.parametrize("name", ALL)
def test_scenario(cluster: Cluster, name: str) -> None:
    ALL[name](cluster)


@pytest.mark.parametrize("name", GUARDED)
def test_scenario_of_rights(guarded: DevCluster, name: str) -> None:
    bootstrap = guarded.bootstrap_servers
    admin = judge.admin(bootstrap)

    def settings(user: str, password: str | None) -> ConnectionSettings:
        return settings_for(guarded, "SASL", login("PLAIN", user, password or LIMITED_PASSWORD))

    def grant(user: str, operation: str, kind: str, resource: str, is_prefix: bool) -> None:
        pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
        right = (AclOperation[operation], AclPermissionType.ALLOW)
        wanted = (ResourceType[kind], resource, pattern, f"User:{user}", "*", *right)
        for future in admin.create_acls([AclBinding(*wanted)], request_timeout=PATIENCE_S).values():
            future.result(timeout=PATIENCE_S)
        # The controller answers; the broker, which answers here, has it a moment later.
        known = AclBindingFilter(*wanted)
        wait_until(lambda: admin.describe_acls(known).result(PATIENCE_S), "the broker to know the ACL")

    connections = KafkaConnections(ConnectionSettings((bootstrap,), "scenario"))
    user = SCENARIO_USERS[list(GUARDED).index(name)]
    try:
        GUARDED[name](Guarded(Cluster.of(bootstrap, connections), user, settings, grant))
    finally:
        connections.close()


@pytest.fixture
def three(cluster3: DevCluster) -> Iterator[ThreeBrokers]:
    """Three brokers, of which none is stopped: the replicas are put into another order."""
    servers = tuple(cluster3.bootstrap_servers.split(","))
    connections = KafkaConnections(ConnectionSettings(servers, "scenario"))
    cluster = Cluster.of(cluster3.bootstrap_servers, connections)

    def move(topic: str, node_id: int) -> None:
        others = [each for each in cluster3.node_ids if each != node_id]
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        part = kind.ReassignablePartition(partition_index=0, replicas=[node_id, *others])
        reassign = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[kind(name=topic, partitions=[part])], max_version=0
        )
        answer = cluster.ask(reassign)
        assert not answer.error_code
        elect_kind = ElectLeadersRequest.TopicPartitions
        elect = ElectLeadersRequest(
            election_type=0, topic_partitions=[elect_kind(topic=topic, partitions=[0])], timeout_ms=30_000
        )

        def is_moved() -> bool:
            cluster.ask(elect)
            return cluster.leader(topic) == node_id

        wait_until(is_moved, "the other broker leads")
        # Each broker learns of it in its own time.
        wait_until(lambda: _all_see(node_id, topic), "every broker sees the new leader")

    def _all_see(node_id: int, topic: str) -> bool:
        seen = [judge.admin(each).list_topics(topic).topics[topic].partitions[0].leader for each in servers]
        return set(seen) == {node_id}

    yield ThreeBrokers(cluster, move)
    connections.close()


@pytest.mark.parametrize("name", OF_LEADERS)
def test_scenario_of_leaders(three: ThreeBrokers, name: str) -> None:
    OF_LEADERS[name](three)
