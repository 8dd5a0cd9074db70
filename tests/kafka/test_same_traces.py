"""The same schedules of the exactly-once sink on the fake Kafka and on a real broker: equal traces.

The simulation is as true as the fake Kafka, which is its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.steps import TransactionProtocol
from penstock.devbroker import DevCluster
from penstock.testing import FakeKafka
from tests.faults.run import use_protocol
from tests.faults.traces import SCHEDULES, trace_of
from tests.fix_broker import NEVER_FENCED, START_TIMEOUT_S
from tests.scenarios.cluster import Cluster


@pytest.fixture(scope="module")
def older() -> Iterator[DevCluster]:
    """A broker with transaction protocol 1."""
    with DevCluster(properties=NEVER_FENCED, start_timeout_s=START_TIMEOUT_S) as cluster:
        use_protocol(cluster.bootstrap_servers, TransactionProtocol.V1)
        yield cluster


def _on_real(bootstrap: str, name: str) -> str:
    connections = KafkaConnections(ConnectionSettings((bootstrap,), "test-traces"))
    try:
        return trace_of(Cluster.of(bootstrap, connections), SCHEDULES[name]).text
    finally:
        connections.close()


def _on_fake(protocol: TransactionProtocol, name: str) -> str:
    with FakeKafka(transaction_version=protocol.value) as fake:
        connections = KafkaConnections(ConnectionSettings((fake.bootstrap_servers,), "test-traces"))
        try:
            return trace_of(Cluster.of_fake(fake, connections), SCHEDULES[name]).text
        finally:
            connections.close()


@pytest.mark.parametrize("name", SCHEDULES)
def test_protocol_2_answers_as_the_model_does(bootstrap: str, name: str) -> None:
    assert _on_fake(TransactionProtocol.V2, name) == _on_real(bootstrap, name)


@pytest.mark.parametrize("name", SCHEDULES)
def test_protocol_1_answers_as_the_model_does(older: DevCluster, name: str) -> None:
    assert _on_fake(TransactionProtocol.V1, name) == _on_real(older.bootstrap_servers, name)
