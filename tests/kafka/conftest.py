"""Fixtures for tests against the broker: the sink without Spark; removal of what each test leaves behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.net.connection import SaslReauthenticator

from penstock.client.net._transport import ConnectionManager
from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.pool import close_kept_producers
from penstock.client.settings import ConnectionSettings
from penstock.devbroker import DevCluster
from penstock.sink.exactly_once._probes import observe
from tests import kdc as kerberos
from tests.fix_broker import MakeTopic
from tests.guarded_broker import guarded_broker
from tests.kafka.sink_driver import SinkUnderTest
from tests.kdc import Kdc


@pytest.fixture(autouse=True)
def _no_kept_producers() -> Iterator[None]:
    """Close the producers that tasks kept, because they must not outlive the test."""
    yield
    close_kept_producers()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests that were sent, by kind."""
    counted: Counter[str] = Counter()
    send: Callable[..., Any] = KafkaConnections.send

    def send_and_count(self: KafkaConnections, request: Any, *args: Any, **kwargs: Any) -> Any:
        counted[type(request).__name__] += 1
        return send(self, request, *args, **kwargs)

    monkeypatch.setattr(KafkaConnections, "send", send_and_count)
    return counted


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
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc | None]:
    """A Kerberos KDC; None if this machine has no Kerberos."""
    if kerberos.missing():
        yield None
        return
    with kerberos.running_kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture(scope="session")
def guarded(kdc: Kdc | None) -> Iterator[DevCluster]:
    """One broker with ACLs and a listener for each way to log in, also with Kerberos; shared by the run."""
    with guarded_broker(kdc=kdc) as cluster:
        yield cluster


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lifetimes that the broker gave to sessions, in milliseconds."""
    given: list[int] = []
    session_updated = SaslReauthenticator.session_updated

    def counted(self: Any, session_lifetime_ms: int) -> None:
        given.append(session_lifetime_ms)
        session_updated(self, session_lifetime_ms)

    monkeypatch.setattr(SaslReauthenticator, "session_updated", counted)
    return given


@pytest.fixture
def connected_to(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts of the sockets that were opened."""
    opened: list[str] = []
    original = ConnectionManager._open_socket

    async def counted(self: ConnectionManager, host: str, port: int, timeout_at: float | None) -> object:
        opened.append(host)
        return await original(self, host, port, timeout_at)

    monkeypatch.setattr(ConnectionManager, "_open_socket", counted)
    return opened
