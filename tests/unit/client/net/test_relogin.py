"""Logins again on a living connection, and refused logins that are not refused for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.net.connection import KafkaConnection
from kafka.net.selector import NetworkSelector

from penstock.client.net._relogin import Connection, as_ours
from penstock.client.net._transport import ConnectionManager
from penstock.errors import AuthenticationError


@pytest.fixture
def net() -> Iterator[NetworkSelector]:
    selector = NetworkSelector(client_id="relogin")
    yield selector
    selector.close()


def closed_with(net: NetworkSelector, error: Exception | None, *, is_connected: bool) -> Exception | None:
    """What requests of a connection get that is closed with an error."""
    connection = as_ours(KafkaConnection(net))
    assert isinstance(connection, Connection)
    connection.connected, connection.initializing = is_connected, not is_connected
    given: list[Any] = []
    connection.close_future.add_errback(given.append)
    connection.init_future.add_errback(lambda _: None)
    connection.close(error)
    return given[0] if given else None


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.SaslAuthenticationFailedError("refused"),
        kafka_errors.IllegalSaslStateError("sooner than a second after the last login"),
        AuthenticationError("no token"),
        ValueError("wrong signature"),
    ],
)
def test_a_second_login_that_fails_is_a_broken_connection(net: NetworkSelector, error: Exception) -> None:
    told = closed_with(net, error, is_connected=True)
    assert isinstance(told, kafka_errors.KafkaConnectionError)
    assert type(error).__name__ in str(told)
    assert closed_with(net, error, is_connected=False) is error, "the first login tells what is wrong"


@pytest.mark.parametrize(
    "error", [kafka_errors.RequestTimedOutError("x"), kafka_errors.KafkaConnectionError("x")]
)
def test_other_errors_stay(net: NetworkSelector, error: Exception) -> None:
    assert closed_with(net, error, is_connected=True) is error


def test_a_refused_login_is_forgotten_after_its_back_off(net: NetworkSelector) -> None:
    manager = ConnectionManager(net, bootstrap_servers=["127.0.0.1:1"], reconnect_backoff_ms=60_000)
    refused = kafka_errors.SaslAuthenticationFailedError("refused")
    manager._auth_failures["bootstrap-0"] = refused
    manager.update_backoff("bootstrap-0")
    with pytest.raises(kafka_errors.SaslAuthenticationFailedError):
        manager.get_connection("bootstrap-0")
    manager.reset_backoff("bootstrap-0")
    assert isinstance(manager.get_connection("bootstrap-0"), Connection)
    manager.close()
