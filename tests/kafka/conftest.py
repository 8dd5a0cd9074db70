"""The sink that tests drive without Spark; and what each test against the broker leaves behind, put away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.pool import close_kept_producers
from penstock.client.settings import ConnectionSettings
from penstock.sink.exactly_once._probes import observe
from tests.fix_broker import MakeTopic
from tests.kafka.sink_driver import SinkUnderTest


@pytest.fixture(autouse=True)
def _no_kept_producers() -> Iterator[None]:
    """Close the producers that tasks kept: they must not outlive the test, in whatever order tests run."""
    yield
    close_kept_producers()


@pytest.fixture
def sink(bootstrap: str, make_topic: MakeTopic) -> Iterator[SinkUnderTest]:
    """One with a prefix, and a target topic of three partitions, of its own."""
    settings = ConnectionSettings(tuple(bootstrap.split(",")), "test-committer")
    connections = KafkaConnections(settings)
    topic = make_topic(3)
    yield SinkUnderTest(settings, connections, topic, prefix=topic)
    connections.close()
    observe(None)
