"""The fixtures of penstock for pytest. The user's conftest.py names this module in `pytest_plugins`.

It is not an entry point `pytest11`: with one, pytest would rewrite the assertions of the whole package
`penstock` in every run, and warn if `penstock` was imported earlier.

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
    """Give a real Kafka with one broker, shared by all tests of the run. It needs Java."""
    from penstock.devbroker import DevCluster  # noqa: PLC0415 - see above

    with DevCluster() as cluster:
        yield cluster


@pytest.fixture
def unique_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return a function that makes names of topics. Each has the name of the test in it."""

    def make(prefix: str = "") -> str:
        test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:_LONGEST_NAME]
        return "-".join(part for part in (prefix, test, uuid.uuid4().hex[:12]) if part)

    return make


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Return `penstock.testing.wait_until`: it waits for a condition, and not for a fixed time."""
    from penstock.testing.waiting import wait_until  # noqa: PLC0415 - see above

    return wait_until
