"""Each way to log in: reading, and writing exactly once, as it should be and with every usual mistake.

A mistake is a clear error in time, after few attempts, without a secret in it. The Schema Registry's part is
tests/unit/formats/test_schema_registry_tls.py.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from penstock.client.net.connection import close_shared_connections
from penstock.devbroker import DevCluster
from penstock.errors import AuthenticationError, OptionError, PenstockError
from penstock.sink.exactly_once.mandate import Mandate
from tests.fix_broker import MakeTopic
from tests.guarded_broker import IDENTITY, JAAS, TRUST, login, pem, properties_for, stores, token_login
from tests.kafka.sink_by_options import check_write_and_read, driver_of, sink_of, write_task
from tests.kafka.source_runs import read_batch
from tests.token_server import TokenServer, running_token_server, unsecured_token

LIMIT_S = 30.0
WRONG = "wrong-staple-of-a-battery"
FOREIGN = TRUST | {"ssl.truststore.certificates": pem("stranger-ca")}
ENDPOINT = "http://token-server"
"""Stands for the address of the token server of the test."""


class Way(NamedTuple):
    """How a client comes in."""

    listener: str
    properties: dict[str, str]


class Mistake(NamedTuple):
    """What is wrong, and what is said about it."""

    listener: str
    properties: dict[str, str]
    said: str
    kind: type[PenstockError] = AuthenticationError


WAYS = {
    "own authority": Way("TLS", TRUST),
    "mutual TLS": Way("MUTUAL", TRUST | IDENTITY),
    **{name: Way("BOTH", TRUST | login(name)) for name in JAAS},
    "OAUTHBEARER": Way("BOTH", TRUST | token_login(ENDPOINT)),
}


def identity(name: str) -> dict[str, str]:
    return {"ssl.keystore.certificate.chain": pem(name), "ssl.keystore.key": pem(f"{name}-key")}


def token_of_a_stranger() -> str:
    return f"header.{WRONG}.signature"


def token_that_has_ended() -> tuple[str, float]:
    return unsecured_token("alice", -60), time.time() - 60


def function(of: Callable[[], object]) -> dict[str, str]:
    handler = {"sasl.login.callback.handler.class": f"{__name__}.{of.__name__}"}
    return TRUST | {"sasl.mechanism": "OAUTHBEARER"} | handler


REFUSED = r"SaslAuthenticationFailedError.*Check 'properties.sasl.jaas.config'"
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
STORE = stores("client.p12", "trust.jks")
MISTAKES = {
    "the authorities of the system": Mistake("TLS", {}, UNTRUSTED),
    "a broker of a stranger": Mistake("TLS", FOREIGN, UNTRUSTED),
    "an expired broker": Mistake("EXPIRED", TRUST, "certificate has expired"),
    "another host": Mistake("ELSEWHERE", TRUST, r"IP address mismatch|doesn't match"),
    "password of the trust store": Mistake(
        "TLS", STORE | {"ssl.truststore.password": WRONG}, r"truststore.password' is not its", OptionError
    ),
    "no certificate": Mistake("MUTUAL", TRUST, r"certificate|handshake"),
    "an expired certificate": Mistake("MUTUAL", TRUST | identity("expired-client"), r"certificate|handshake"),
    "a foreign certificate": Mistake("MUTUAL", TRUST | identity("foreign-client"), r"certificate|handshake"),
    "password of the key store": Mistake(
        "MUTUAL", STORE | {"ssl.keystore.password": WRONG}, r"keystore.password' is not its", OptionError
    ),
    "password of the key": Mistake(
        "MUTUAL", TRUST | IDENTITY | {"ssl.key.password": WRONG}, r"key.password'.* open the key", OptionError
    ),
    **{
        f"password of {name}": Mistake("BOTH", TRUST | login(name, password=WRONG), REFUSED) for name in JAAS
    },
    **{f"user of {name}": Mistake("BOTH", TRUST | login(name, "stranger", WRONG), REFUSED) for name in JAAS},
    "a password for a stranger": Mistake("BOTH", FOREIGN | login("PLAIN", password=WRONG), UNTRUSTED),
    "a secret of a client": Mistake(
        "BOTH", TRUST | token_login(ENDPOINT, WRONG), r"refuses this client \(401: invalid_client"
    ),
    "a token for a stranger": Mistake("BOTH", FOREIGN | token_login(ENDPOINT), UNTRUSTED),
    "a token of a stranger": Mistake("BOTH", function(token_of_a_stranger), "SaslAuthenticationFailedError"),
    "a token that has ended": Mistake("BOTH", function(token_that_has_ended), r"expired \d+ s ago"),
    "a mechanism that the broker lacks": Mistake(
        "MUTUAL", TRUST | IDENTITY | login("PLAIN", password=WRONG) | {"security.protocol": "SASL_SSL"},
        "IllegalSaslState|UnsupportedSaslMechanism",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_shared_connections() -> Iterator[None]:
    yield
    close_shared_connections()


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with running_token_server() as running:
        yield running


def options(cluster: DevCluster, way: Way | Mistake, server: TokenServer, topic: str) -> dict[str, str]:
    """The options of a query, as its author writes them."""
    given = {name: text.replace(ENDPOINT, server.url) for name, text in way.properties.items()}
    given = properties_for(cluster, way.listener, given)
    return {"topic": topic, **{f"properties.{name}": text for name, text in given.items()}}


@pytest.mark.parametrize("name", WAYS)
def test_what_is_written_exactly_once_is_read(
    guarded: DevCluster, make_topic: MakeTopic, server: TokenServer, name: str
) -> None:
    topic = make_topic(cluster=guarded)
    given = options(guarded, WAYS[name], server, topic)
    check_write_and_read(guarded.bootstrap_servers, given)


@pytest.fixture(scope="module")
def mandate(guarded: DevCluster) -> Mandate:
    """What a driver that may enter gave to tasks that may not."""
    plain = {"properties.bootstrap.servers": guarded.bootstrap_servers, "topic": "mistakes"}
    return driver_of(sink_of(plain)).recover()


@pytest.mark.parametrize("action", ["read", "recover", "write"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_in_time_and_shows_no_secret(
    guarded: DevCluster,
    server: TokenServer,
    mandate: Mandate,
    connected_to: list[str],
    caplog: pytest.LogCaptureFixture,
    name: str,
    action: str,
) -> None:
    mistake = MISTAKES[name]
    given = options(guarded, mistake, server, "mistakes")
    actions: dict[str, Callable[[], object]] = {
        "read": lambda: read_batch(given),
        "recover": lambda: driver_of(sink_of(given)).recover(),
        "write": lambda: write_task(sink_of(given), mandate),
    }
    start = time.monotonic()
    with caplog.at_level(logging.DEBUG), pytest.raises(mistake.kind) as caught:
        actions[action]()
    assert time.monotonic() - start < LIMIT_S
    assert re.search(mistake.said, str(caught.value)), caught.value
    assert len(connected_to) <= 1, "no second attempt"
    assert len(server.forms) <= 1, "no second attempt"
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.facts) + caplog.text
    for secret in (WRONG, "BEGIN", *server.tokens):
        assert secret not in shown
