"""TLS and SASL with the Java client's names, against a broker that demands them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net.connection import KafkaConnections
from penstock.devbroker import DevCluster
from penstock.errors import AuthenticationError, ClientError, OptionError
from tests.guarded_broker import DATA, IDENTITY, JAAS, TRUST, USER, login, pem, settings_for, stores

Connect = Callable[..., int]


@pytest.fixture
def connect(guarded: DevCluster) -> Iterator[Connect]:
    """Connects to a listener with properties of Java's names; returns how many brokers it saw."""
    with contextlib.ExitStack() as open_connections:

        def brokers_seen(listener: str, properties: dict[str, str]) -> int:
            patience = {"default.api.timeout.ms": "10000"}
            settings = settings_for(guarded, listener, patience | properties)
            connections = KafkaConnections(settings)
            open_connections.callback(connections.close)
            return len(fetch_metadata(connections, None).brokers)

        yield brokers_seen


@pytest.mark.promise
@pytest.mark.parametrize("listener", ["SASL", "BOTH"])
@pytest.mark.parametrize("mechanism", JAAS)
def test_a_login_with_user_name_and_password(connect: Connect, mechanism: str, listener: str) -> None:
    trust = TRUST if listener == "BOTH" else {}
    user = "alice" if mechanism == "PLAIN" else USER
    assert connect(listener, login(mechanism, user) | trust) == 1


@pytest.mark.parametrize("mechanism", JAAS)
def test_a_wrong_password_is_said_at_once_and_not_shown(connect: Connect, mechanism: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        connect("SASL", login(mechanism, "alice", "wrong-horse"))
    assert "wrong-horse" not in str(caught.value) + repr(caught.value.facts)


@pytest.mark.promise
def test_a_client_certificate(connect: Connect, tmp_path: Path) -> None:
    assert connect("MUTUAL", TRUST | IDENTITY) == 1
    store = tmp_path / "store.pem"
    store.write_text(pem("client") + pem("client-key"))
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(DATA / "ca.pem")}
    assert connect("MUTUAL", trust | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}) == 1


@pytest.mark.promise
@pytest.mark.parametrize(
    ("keys", "trust"),
    [("client.p12", "trust.jks"), ("client.jks", "trust.p12"), ("client-java8.p12", "trust.p12")],
)
def test_java_stores(connect: Connect, keys: str, trust: str) -> None:
    key_password = {"ssl.key.password": "key-battery"} if keys.endswith("jks") else {}
    assert connect("MUTUAL", stores(keys, trust) | key_password) == 1


def test_a_wrong_store_password_is_said_before_anything_connects(connect: Connect) -> None:
    with pytest.raises(OptionError, match=r"ssl.truststore.password' is not its password") as caught:
        connect("MUTUAL", stores("client.p12", "trust.jks", "wrong-staple"))
    assert "wrong-staple" not in str(caught.value)


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("certificate", ["expired-client", "foreign-client", None])
def test_a_client_certificate_that_the_broker_refuses(
    connect: Connect, certificate: str | None, versions: str
) -> None:
    identity = {} if certificate is None else {
        "ssl.keystore.certificate.chain": pem(certificate), "ssl.keystore.key": pem(f"{certificate}-key")
    }  # fmt: skip
    with pytest.raises(AuthenticationError, match=r"certificate|handshake"):
        connect("MUTUAL", TRUST | identity | {"ssl.enabled.protocols": versions})


def test_an_expired_certificate_of_the_broker(connect: Connect) -> None:
    with pytest.raises(AuthenticationError, match="certificate has expired"):
        connect("EXPIRED", TRUST)


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_one_tls_version(connect: Connect, versions: str) -> None:
    assert connect("MUTUAL", TRUST | IDENTITY | {"ssl.enabled.protocols": versions}) == 1


def test_the_brokers_name_is_checked_unless_told_otherwise(connect: Connect) -> None:
    with pytest.raises(AuthenticationError, match=r"IP address mismatch|doesn't match"):
        connect("ELSEWHERE", TRUST)
    assert connect("ELSEWHERE", TRUST | {"ssl.endpoint.identification.algorithm": ""}) == 1


@pytest.mark.parametrize(
    ("listener", "properties"),
    [
        ("MUTUAL", IDENTITY | TRUST | {"ssl.truststore.certificates": pem("stranger-ca")}),
        ("BOTH", login("PLAIN", "alice")),
    ],
    ids=["a broker signed by a stranger", "the system's authorities only"],
)
def test_a_broker_without_trust_is_an_error_at_once(
    connect: Connect, listener: str, properties: dict[str, str]
) -> None:
    with pytest.raises(AuthenticationError, match="CERTIFICATE_VERIFY_FAILED"):
        connect(listener, properties)


def test_a_plain_client_on_a_tls_port_is_an_error_in_time(connect: Connect) -> None:
    with pytest.raises(ClientError):
        connect("ELSEWHERE", {"security.protocol": "PLAINTEXT"})
