"""TLS and SASL with the Java client's names, against a broker that demands them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.devbroker import DevCluster
from penstock.errors import AuthenticationError, ClientError, OptionError
from penstock.options.config import KafkaProperties
from tests import judge
from tests.waiting import PATIENCE_S, wait_until

DATA = Path(__file__).parents[1] / "data" / "tls"
USER = "alice, who=1"  # the signs that SCRAM has to escape
HORSE = 'correct "horse"; \\staple = 1'
QUOTED = HORSE.replace("\\", "\\\\").replace('"', '\\"')
JAAS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
LISTENERS = {
    "SASL": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "EXPIRED": "SSL",
}
STORES = DATA.parent / "stores"
STORE_PASSWORD = "store-horse"  # noqa: S105  # opens stores that guard nothing
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def pem(name: str) -> str:
    return (DATA / f"{name}.pem").read_text()


def keys_of(listener: str, certificate: str, *, client_auth: str = "none") -> dict[str, str]:
    start = f"listener.name.{listener}.ssl."
    return {
        f"{start}keystore.type": "PEM",
        f"{start}keystore.key": pem(f"{certificate}-key"),
        f"{start}keystore.certificate.chain": pem(certificate),
        f"{start}truststore.type": "PEM",
        f"{start}truststore.certificates": pem("ca"),
        f"{start}client.auth": client_auth,
    }


def logins_of(listener: str) -> dict[str, str]:
    start = f"listener.name.{listener}."
    return {
        f"{start}sasl.enabled.mechanisms": ",".join(JAAS),
        # The name after `user_` cannot hold the signs that only SCRAM has trouble with.
        f"{start}plain.sasl.jaas.config": f'{JAAS["PLAIN"]} required user_alice="{QUOTED}";',
        **{f"{start}{name.lower()}.sasl.jaas.config": f"{JAAS[name]} required;" for name in MECHANISMS},
    }


@pytest.fixture(scope="module")
def guarded() -> Iterator[DevCluster]:
    """A broker with a listener for each way to log in."""
    properties = (
        logins_of("sasl")
        | logins_of("both")
        | keys_of("both", "broker")
        | keys_of("mutual", "broker", client_auth="required")
        | keys_of("elsewhere", "elsewhere")
        | keys_of("expired", "expired-broker")
    )
    with DevCluster(properties=properties, listeners=LISTENERS) as cluster:
        credentials = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), HORSE.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = judge.admin(cluster.bootstrap_servers)
        # One alteration a request: a request may name a user once.
        for credential in credentials:
            for future in admin.alter_user_scram_credentials([credential]).values():
                future.result(timeout=PATIENCE_S)
        for mechanism in MECHANISMS:
            # The controller answers; the broker has it a moment later.
            wait_until(functools.partial(_is_let_in, cluster, mechanism), "the broker to know the password")
        yield cluster


def _is_let_in(cluster: DevCluster, mechanism: str) -> bool:
    client = AdminClient(
        {
            "bootstrap.servers": cluster.bootstrap_servers_of("SASL"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": HORSE,
            "log_level": 0,
        }
    )
    try:
        client.list_topics(timeout=2)
    except KafkaException:
        return False
    return True


Connect = Callable[..., int]


@pytest.fixture
def connect(guarded: DevCluster) -> Iterator[Connect]:
    """Connects to a listener with properties of Java's names; returns how many brokers it saw."""
    with contextlib.ExitStack() as open_connections:

        def brokers_seen(listener: str, properties: dict[str, str]) -> int:
            items = {
                "bootstrap.servers": guarded.bootstrap_servers_of(listener),
                "security.protocol": LISTENERS[listener],
                "default.api.timeout.ms": "10000",
            } | properties
            settings = connection_settings(KafkaProperties(tuple(sorted(items.items()))), client_id="test")
            connections = KafkaConnections(settings)
            open_connections.callback(connections.close)
            return len(fetch_metadata(connections, None).brokers)

        yield brokers_seen


def login(mechanism: str, user: str = USER, password: str = QUOTED) -> dict[str, str]:
    jaas = f'{JAAS[mechanism]} required username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem("ca")}
IDENTITY = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.certificate.chain": pem("client"),
    "ssl.keystore.key": pem("client-key-encrypted"),
    "ssl.key.password": "key-password",
}


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


def test_a_client_certificate(connect: Connect, tmp_path: Path) -> None:
    assert connect("MUTUAL", TRUST | IDENTITY) == 1
    store = tmp_path / "store.pem"
    store.write_text(pem("client") + pem("client-key"))
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(DATA / "ca.pem")}
    assert connect("MUTUAL", trust | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}) == 1


def stores(keys: str, trust: str, password: str = STORE_PASSWORD) -> dict[str, str]:
    """Return the properties of Flink's documents, for stores that keytool has made."""
    return {
        "ssl.truststore.location": str(STORES / trust),
        "ssl.truststore.password": password,
        "ssl.keystore.location": str(STORES / keys),
        "ssl.keystore.password": password,
    }


@pytest.mark.parametrize(
    ("keys", "trust"),
    [("client.p12", "trust.jks"), ("client.jks", "trust.p12"), ("client-java8.p12", "trust.p12")],
)
def test_java_stores(connect: Connect, keys: str, trust: str) -> None:
    key_password = {"ssl.key.password": "key-battery"} if keys.endswith("jks") else {}
    assert connect("MUTUAL", stores(keys, trust) | key_password) == 1


def test_flinks_example_of_scram_with_stores(connect: Connect) -> None:
    assert connect("BOTH", login("SCRAM-SHA-256") | stores("client.p12", "trust.jks")) == 1


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
