"""Every scenario on the fake cluster. tests/kafka/test_scenarios.py runs them on a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.testing import Clock, FakeKafka
from tests.scenarios.all import ALL
from tests.scenarios.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    clock = Clock()
    with FakeKafka(clock=clock) as fake:
        connections = KafkaConnections(ConnectionSettings((fake.bootstrap_servers,), "scenario"))
        yield Cluster.of_fake(fake, connections, clock)
        connections.close()


@pytest.mark.parametrize("name", ALL)
def test_scenario(cluster: Cluster, name: str) -> None:
    ALL[name](cluster)
