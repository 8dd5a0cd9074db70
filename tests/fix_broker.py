"""Fixtures of the real broker: one shared by the run, and private ones for tests that break theirs.

Invariant: a cluster is started by the first test that asks for it, never before, and each test has
topics of its own, so tests on the shared broker do not see one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from penstock.devbroker import DevCluster
from penstock.testing.brokers import revive
from penstock.testing.plugin import unique_name
from tests import judge

START_TIMEOUT_S = 300.0
"""Long, because brokers start together with Spark. A broker that ended is noticed at once."""

NEVER_FENCED = {"broker.session.timeout.ms": "60000"}
"""For a broker that is never killed, so that a pause of the whole machine does not count as its failure."""


class MakeTopic(Protocol):
    """Creates a topic with a name of its own on the shared broker (or on `cluster`) and returns the name."""

    def __call__(
        self,
        partitions: int = 1,
        *,
        config: dict[str, str] | None = None,
        cluster: DevCluster | None = None,
        suffix: str = "",
    ) -> str: ...


@pytest.fixture(scope="session")
def broker() -> Iterator[DevCluster]:
    """One broker, shared by the whole run. Do not kill, pause or restart it: see `mortal_broker`."""
    with DevCluster(properties=NEVER_FENCED, start_timeout_s=START_TIMEOUT_S) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def bootstrap(broker: DevCluster) -> str:
    """The address of the shared broker."""
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def guarded() -> Iterator[DevCluster]:
    """One broker with ACLs and a listener for each way to log in, shared by the run."""
    from tests.guarded_broker import guarded_broker  # noqa: PLC0415 - it needs this module

    with guarded_broker() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _three_brokers() -> Iterator[DevCluster]:
    """Three brokers, which may take long to start. They replace the plugin's."""
    with DevCluster(3, start_timeout_s=START_TIMEOUT_S) as cluster:
        yield cluster


@pytest.fixture
def cluster3(dev_kafka_of_three: DevCluster) -> DevCluster:
    """Three brokers, shared by the tests that kill some of them. All run and are in sync after each test."""
    return dev_kafka_of_three


@pytest.fixture(scope="session")
def _mortal_broker() -> Iterator[DevCluster]:
    with DevCluster(start_timeout_s=START_TIMEOUT_S) as cluster:
        yield cluster


@pytest.fixture
def mortal_broker(_mortal_broker: DevCluster) -> Iterator[DevCluster]:
    """One broker, shared by the tests that kill, pause or restart it. It runs after each test."""
    yield _mortal_broker
    revive(_mortal_broker)


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., DevCluster]]:
    """Starts private clusters, with DevCluster's own arguments; they end with the test."""
    clusters: list[DevCluster] = []

    def make(*args: object, **kwargs: object) -> DevCluster:
        settings: dict[str, object] = {"start_timeout_s": START_TIMEOUT_S, **kwargs}
        cluster = DevCluster(*args, **settings)  # type: ignore[arg-type]  # passed through as given
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in clusters:
        cluster.stop()


@pytest.fixture
def own_broker(make_cluster: Callable[..., DevCluster]) -> DevCluster:
    """One broker that this test alone uses. `mortal_broker` is enough for a test that kills or pauses it."""
    return make_cluster()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has; says which test it belongs to. The topic does not exist yet."""
    return unique_name(request.node.name)


@pytest.fixture
def make_topic(request: pytest.FixtureRequest) -> MakeTopic:
    """Creates topics with names of their own, with a leader for each partition."""

    def make(
        partitions: int = 1,
        *,
        config: dict[str, str] | None = None,
        cluster: DevCluster | None = None,
        suffix: str = "",
    ) -> str:
        used: DevCluster = cluster if cluster is not None else request.getfixturevalue("broker")
        topic = unique_name(request.node.name) + suffix
        judge.create_topic(used.bootstrap_servers, topic, partitions=partitions, config=config)
        return topic

    return make
