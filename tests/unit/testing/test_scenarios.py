"""Every scenario on the fake cluster. tests/kafka/test_scenarios.py runs them on a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.testing import Clock, FakeKafka
from tests.scenarios.all import ALL
from tests.scenarios.cluster import Cluster
from tests.scenarios.leaders import OF_LEADERS, ThreeBrokers


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    clock = Clock()
    with FakeKafka(clock=clock) as fake:
        connections = KafkaConnections(ConnectionSettings((fake.bootstrap_servers,), "scenario"))
        yield Cluster.of_fake(fake, connections, clock)
        connections.close()


@pytest.fixture
def three() -> Iterator[ThreeBrokers]:
    with FakeKafka(3) as fake:
        servers = tuple(fake.bootstrap_servers.split(","))
        connections = KafkaConnections(ConnectionSettings(servers, "scenario"))

        def move(topic: str, node_id: int) -> None:
            fake.move_leader(topic, 0, node_id)

        yield ThreeBrokers(Cluster.of_fake(fake, connections), move)
        connections.close()


@pytest.mark.parametrize("name", OF_LEADERS)
def test_scenario_of_leaders(three: ThreeBrokers, name: str) -> None:
    OF_LEADERS[name](three)


@pytest.mark.parametrize("name", ALL)
def test_scenario(cluster: Cluster, name: str) -> None:
    ALL[name](cluster)
