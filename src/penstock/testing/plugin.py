"""The fixtures of penstock for pytest, which loads this module in each run: it is an entry point `pytest11`.

The entry point has the name of the module, so a conftest.py may name it in `pytest_plugins` too.

Runs in tests only. Invariant: importing it costs nearly nothing. A fixture imports what it needs when a test
asks for it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.devbroker import DevCluster
    from penstock.testing.fake.cluster import FakeKafka

_LONGEST_NAME = 80


@pytest.fixture
def fake_kafka() -> Iterator[FakeKafka]:
    """Give a fake Kafka with one broker. For other settings make a `penstock.testing.FakeKafka`."""
    from penstock.testing.fake.cluster import FakeKafka  # noqa: PLC0415 - see above

    with FakeKafka() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def dev_kafka() -> Iterator[DevCluster]:
    """Give a real Kafka with one broker, shared by all tests of the run. It needs Java. Do not kill it."""
    from penstock.devbroker import DevCluster  # noqa: PLC0415 - see above

    with DevCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def _three_brokers() -> Iterator[DevCluster]:
    from penstock.devbroker import DevCluster  # noqa: PLC0415 - see above

    with DevCluster(3) as cluster:
        yield cluster


@pytest.fixture
def dev_kafka_of_three(_three_brokers: DevCluster) -> Iterator[DevCluster]:
    """Give a real Kafka with three brokers that a test may kill or pause, shared by all tests of the run.

    After each test all brokers run, and all replicas are in sync. It needs Java.
    """
    from penstock.testing.brokers import revive  # noqa: PLC0415 - see above

    yield _three_brokers
    revive(_three_brokers)


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return a function that makes names of topics. Each has the name of the test in it."""
    return lambda prefix="": unique_name(request.node.name, prefix)


def unique_name(test: str, prefix: str = "") -> str:
    """Return a name of a topic that no other test has, with the name of the test in it."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", test).strip("-")[:_LONGEST_NAME]
    return "-".join(part for part in (prefix, readable, uuid.uuid4().hex[:12]) if part)


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return `penstock.testing.wait_until`: it waits for a condition, and not for a fixed time."""
    from penstock.testing.waiting import wait_until  # noqa: PLC0415 - see above

    return wait_until
