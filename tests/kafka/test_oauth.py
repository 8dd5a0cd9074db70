"""SASL/OAUTHBEARER with tokens of a local server; the broker asks for a new login every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.pool import open_producer
from penstock.client.settings import FetchSettings, ProduceSettings
from penstock.codec import RecordColumns
from penstock.devbroker import DevCluster
from penstock.errors import AuthenticationError, PenstockError
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.chaos.relogins import Relogins
from tests.fix_broker import MakeTopic
from tests.guarded_broker import OAUTH_MODULE, SESSION_MS, TRUST, login, settings_for, token_login
from tests.token_server import TokenServer, running_token_server, unsecured_token


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as running:
        yield running


Open = Callable[..., KafkaConnections]


@pytest.fixture
def open_to(guarded: DevCluster) -> Iterator[Open]:
    """Opens connections with properties of Java's names; they end with the test."""
    with contextlib.ExitStack() as opened:

        def open_one(properties: dict[str, str], listener: str = "SASL") -> KafkaConnections:
            usual = {"sasl.mechanism": "OAUTHBEARER", "default.api.timeout.ms": "15000"}
            settings = settings_for(guarded, listener, usual | properties)
            connections = KafkaConnections(settings)
            opened.callback(connections.close)
            return connections

        yield open_one


def brokers_seen(connections: KafkaConnections) -> int:
    return len(fetch_metadata(connections, None).brokers)


def token_of_a_function() -> tuple[str, float]:
    return unsecured_token("alice", 60), time.time() + 60


def token_of_a_stranger() -> str:
    return "header.e30.signature"


@pytest.mark.promise
def test_client_credentials(open_to: Open, server: TokenServer) -> None:
    connections = open_to(token_login(server.url))
    assert brokers_seen(connections) == 1
    assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    assert server.tokens[0] not in repr(connections.settings)


def test_over_tls(open_to: Open, server: TokenServer) -> None:
    assert brokers_seen(open_to(token_login(server.url) | TRUST, "BOTH")) == 1


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.jaas.config": f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="alice";'},
        {"sasl.login.callback.handler.class": f"{__name__}.token_of_a_function"},
    ],
    ids=["for development", "of a function"],
)
def test_tokens_without_a_server(open_to: Open, properties: dict[str, str]) -> None:
    assert brokers_seen(open_to(properties)) == 1


def test_a_token_of_a_file(open_to: Open, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(unsecured_token("alice", 60) + "\n")
    assert brokers_seen(open_to({"sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token"})) == 1


def test_a_wrong_client_secret_is_said_at_once(open_to: Open, server: TokenServer) -> None:
    start = time.monotonic()
    with pytest.raises(AuthenticationError, match=r"refuses this client \(401: invalid_client") as caught:
        brokers_seen(open_to(token_login(server.url, "wrong-staple")))
    assert time.monotonic() - start < 10
    assert "wrong-staple" not in str(caught.value)
    assert len(server.forms) == 1, "no second attempt"


def test_a_token_that_the_broker_refuses_is_said_at_once(open_to: Open) -> None:
    stranger = {"sasl.login.callback.handler.class": f"{__name__}.token_of_a_stranger"}
    with pytest.raises(AuthenticationError) as caught:
        brokers_seen(open_to(stranger))
    assert "e30" not in str(caught.value)


def test_an_endpoint_that_is_away_is_an_error_in_time(open_to: Open) -> None:
    with running_token_server() as gone:
        properties = token_login(gone.url)
    with pytest.raises(PenstockError, match="token endpoint"):
        brokers_seen(open_to(properties | {"default.api.timeout.ms": "3000"}))


def write_and_read(connections: KafkaConnections, topic: str, goes_on: Callable[[], bool]) -> int:
    """Write numbers and read them, on one set of connections; returns how many."""
    tp = TopicPartition(topic, 0)
    producer = open_producer(connections, ProduceSettings(batch_size_bytes=500))
    written: list[bytes] = []
    read: list[bytes | None] = []
    try:
        producer.topic(topic)
        while goes_on():
            chunk = [b"%d" % number for number in range(len(written), len(written) + 40)]
            columns = RecordColumns(pa.record_batch([pa.array(chunk, pa.binary())], ["value"]))
            rows, first = pa.array(range(len(chunk)), pa.int32()), 0
            while first < len(chunk):
                now_ms = int(time.time() * 1000)
                first = producer.append(tp, columns, rows, first, default_timestamp_ms=now_ms)
            producer.offer()
            producer.flush()
            written += chunk
            batches = fetch_range(connections, OffsetRange(tp, len(read), len(written)), FetchSettings())
            read += [value for batch in batches for value in batch.column("value").to_pylist()]
    finally:
        producer.close()
    assert read == written
    return len(written)


def test_a_stream_outlives_tokens_and_sessions(
    guarded: DevCluster, make_topic: MakeTopic, logins: list[int]
) -> None:
    """The short form of `python -m tests.chaos.relogins`."""
    source, target = (make_topic(cluster=guarded, suffix=suffix) for suffix in ("", "-copy"))
    with running_token_server(lifetime_s=3.0) as server:
        Relogins(guarded, server, source, target).run(seconds=10)
        assert len(server.tokens) >= 6, "for each of two clients: one at first, and two renewals"
    assert len(logins) >= 8
    assert all(0 < lifetime_ms <= SESSION_MS for lifetime_ms in logins)


def test_a_stream_with_a_password_outlives_sessions(
    open_to: Open, guarded: DevCluster, make_topic: MakeTopic, logins: list[int]
) -> None:
    topic = make_topic(cluster=guarded)
    ends_at = time.monotonic() + 5
    count = write_and_read(open_to(login("PLAIN"), "SHORT"), topic, lambda: time.monotonic() < ends_at)
    stored = [each.value for each in judge.consume_all(guarded.bootstrap_servers, topic)]
    assert stored == [b"%d" % number for number in range(count)]
    assert len(logins) >= 3
