"""Fixtures for tests against the broker: the sink without Spark; removal of what each test leaves behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.pool import close_kept_producers
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from penstock.sink.exactly_once._probes import observe
from tests.fix_broker import MakeTopic
from tests.guarded_broker import guarded_broker
from tests.kafka.sink_driver import SinkUnderTest


@pytest.fixture(autouse=True)
def _no_kept_producers() -> Iterator[None]:
    """Close the producers that tasks kept, because they must not outlive the test."""
    yield
    close_kept_producers()


@pytest.fixture
def sink(bootstrap: str, make_topic: MakeTopic) -> Iterator[SinkUnderTest]:
    """A sink with a prefix of its own and a target topic of three partitions."""
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "test-committer")
    connections = KafkaConnections(settings)
    topic = make_topic(3)
    yield SinkUnderTest(settings, connections, topic, prefix=topic)
    connections.close()
    observe(None)


@pytest.fixture(scope="session")
def guarded() -> Iterator[DevCluster]:
    """One broker with a listener for each way to log in, shared by the run."""
    with guarded_broker() as cluster:
        yield cluster
