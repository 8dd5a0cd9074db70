"""One broker with a listener for each way to log in, and the properties of clients that may enter.

Runs in tests only. The keys and passwords here guard nothing. The broker has ACLs: the users of this file may
do everything, and those of `LIMITED` what a test grants them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from penstock.client.settings import ConnectionSettings, connection_settings
from penstock.devbroker import DevCluster
from penstock.devbroker import cluster as devbroker_cluster
from penstock.devbroker.properties import HOST, server_properties
from penstock.options.config import KafkaProperties
from tests import judge
from tests.fix_broker import NEVER_FENCED, START_TIMEOUT_S
from tests.kdc import KAFKA_PRINCIPAL, REALM, Kdc
from tests.waiting import PATIENCE_S, wait_until

DATA = Path(__file__).parent / "data" / "tls"
STORES = DATA.parent / "stores"
STORE_PASSWORD = "store-horse"  # noqa: S105  # opens stores that guard nothing
USER = "alice, who=1"  # the signs that SCRAM has to escape
HORSE = 'correct "horse"; \\staple = 1'
QUOTED = HORSE.replace("\\", "\\\\").replace('"', '\\"')
PASSWORDS = {USER: HORSE, "alice": HORSE, "username": "password"}
"""Of SCRAM. The last one is the user of Flink's documents."""
CLOUD_USERS = {
    # Azure Event Hubs and Confluent Cloud.
    "$ConnectionString": "Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=a+b/c=",
    "API_KEY": "cflt/horse+staple==",
}
"""Of PLAIN."""
LIMITED = (*(f"limited{number}" for number in range(150)), "patient")
"""Users of PLAIN with LIMITED_PASSWORD and without any right."""
SCENARIO_USERS = tuple(f"scenario{number}" for number in range(12))
"""More of them, one for each scenario of tests/scenarios."""
LIMITED_PASSWORD = "limited-horse"  # noqa: S105 - of users that guard nothing
CLIENT_SECRET = "client-horse"  # noqa: S105 - of a client that guards nothing
COMMON = "org.apache.kafka.common.security"
JAAS = {
    "PLAIN": f"{COMMON}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{COMMON}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{COMMON}.scram.ScramLoginModule",
}
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTH_MODULE = f"{COMMON}.oauthbearer.OAuthBearerLoginModule"
OAUTH_HANDLER = f"{COMMON}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
LISTENERS = {
    "SASL": "SASL_PLAINTEXT",
    "SHORT": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "EXPIRED": "SSL",
    "LOST": "PLAINTEXT",
}
"""SASL and BOTH take every mechanism; with tokens a session ends soon. SHORT: PLAIN with short sessions. LOST
advertises an address that cannot be reached."""
DEAD_ADDRESS = "127.0.0.1:1"
KERBEROS_LISTENERS = {"KERBEROS": "SASL_PLAINTEXT", "KERBEROS-TLS": "SASL_SSL"}
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SESSION_MS, SHORT_SESSION_MS, KERBEROS_SESSION_MS = 3_000, 1_500, 1_200


def pem(name: str) -> str:
    return (DATA / f"{name}.pem").read_text()


TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem("ca")}
IDENTITY = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.certificate.chain": pem("client"),
    "ssl.keystore.key": pem("client-key-encrypted"),
    "ssl.key.password": "key-password",
}


def login(mechanism: str, user: str = "alice", password: str = QUOTED) -> dict[str, str]:
    """The properties of a login with a password. `alice` may enter with each mechanism."""
    jaas = f'{JAAS[mechanism]} required username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def token_login(url: str, secret: str = CLIENT_SECRET) -> dict[str, str]:
    """The properties of Kafka's documents for client credentials."""
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": OAUTH_HANDLER,
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.jaas.config": f'{OAUTH_MODULE} required clientId="penstock" clientSecret="{secret}" '
        'scope="kafka";',
        "sasl.login.retry.backoff.max.ms": "1000",
    }


def stores(keys: str, trust: str, password: str = STORE_PASSWORD) -> dict[str, str]:
    """The properties of Flink's documents, for stores that keytool has made."""
    return {
        "ssl.truststore.location": str(STORES / trust),
        "ssl.truststore.password": password,
        "ssl.keystore.location": str(STORES / keys),
        "ssl.keystore.password": password,
    }


def properties_for(cluster: DevCluster, listener: str, given: dict[str, str]) -> dict[str, str]:
    """All properties of a client of one listener."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers_of(listener),
        "security.protocol": LISTENERS[listener],
    } | given


def settings_for(cluster: DevCluster, listener: str, given: dict[str, str]) -> ConnectionSettings:
    items = properties_for(cluster, listener, given)
    return connection_settings(KafkaProperties(tuple(sorted(items.items()))), client_id="test")


def keys_of(listener: str, certificate: str, *, client_auth: str = "none") -> dict[str, str]:
    """The broker's properties of a listener with TLS."""
    start = f"listener.name.{listener}.ssl."
    return {
        f"{start}keystore.type": "PEM",
        f"{start}keystore.key": pem(f"{certificate}-key"),
        f"{start}keystore.certificate.chain": pem(certificate),
        f"{start}truststore.type": "PEM",
        f"{start}truststore.certificates": pem("ca"),
        f"{start}client.auth": client_auth,
    }


def _logins_of(listener: str, session_ms: int) -> dict[str, str]:
    start = f"listener.name.{listener}."
    tokens = f"{start}oauthbearer."
    plain = {"alice": QUOTED, "username": "password", **CLOUD_USERS}
    plain |= dict.fromkeys((*LIMITED, *SCENARIO_USERS), LIMITED_PASSWORD)
    users = " ".join(f'user_{user}="{password}"' for user, password in plain.items())
    return {
        f"{start}sasl.enabled.mechanisms": ",".join([*JAAS, "OAUTHBEARER"]),
        # The name after `user_` cannot hold the signs that only SCRAM has trouble with.
        f"{start}plain.sasl.jaas.config": f"{JAAS['PLAIN']} required {users};",
        **{f"{start}{name.lower()}.sasl.jaas.config": f"{JAAS[name]} required;" for name in SCRAM},
        f"{tokens}sasl.jaas.config": f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="broker";',
        f"{tokens}connections.max.reauth.ms": str(session_ms),
    }


def _tickets_of(listener: str, keytab: Path) -> dict[str, str]:
    start = f"listener.name.{listener}."
    return {
        f"{start}sasl.enabled.mechanisms": "GSSAPI",
        f"{start}gssapi.sasl.jaas.config": f"{KERBEROS_MODULE} required useKeyTab=true storeKey=true "
        f'keyTab="{keytab}" principal="{KAFKA_PRINCIPAL}@{REALM}" serviceName="kafka";',
        f"{start}gssapi.connections.max.reauth.ms": str(KERBEROS_SESSION_MS),
    }


def _properties(session_ms: int, keytab: Path | None) -> dict[str, str]:
    short = "listener.name.short.plain.connections.max.reauth.ms"
    mighty = ("ANONYMOUS", "CN=client", "dave", *PASSWORDS, *CLOUD_USERS)
    properties = (
        NEVER_FENCED
        | {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
        | {"super.users": ";".join(f"User:{user}" for user in mighty)}
        | {"delegation.token.secret.key": "key-of-a-test"}
        | {"connection.failed.authentication.delay.ms": "0"}
        | _logins_of("sasl", session_ms)
        | _logins_of("short", session_ms)
        | {short: str(SHORT_SESSION_MS)}
        | _logins_of("both", session_ms)
        | keys_of("both", "broker", client_auth="requested")
        | keys_of("tls", "broker")
        | keys_of("mutual", "broker", client_auth="required")
        | keys_of("elsewhere", "elsewhere")
        | keys_of("expired", "expired-broker")
    )
    if keytab is not None:
        properties |= keys_of("kerberos-tls", "broker")
        for listener in KERBEROS_LISTENERS:
            properties |= _tickets_of(listener.lower(), keytab)
    return properties


@contextmanager
def guarded_broker(session_ms: int = SESSION_MS, kdc: Kdc | None = None) -> Iterator[DevCluster]:
    """Run a broker with all `LISTENERS`; a session with a token lasts `session_ms`.

    With a KDC it has `KERBEROS_LISTENERS` too.
    """
    keytab = None if kdc is None else kdc.keytab(KAFKA_PRINCIPAL)
    listeners = LISTENERS if kdc is None else LISTENERS | KERBEROS_LISTENERS
    cluster = DevCluster(
        properties=_properties(session_ms, keytab), listeners=listeners, start_timeout_s=START_TIMEOUT_S
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(devbroker_cluster, "server_properties", _advertising_a_dead_address)
        if kdc is not None:
            patched.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={kdc.krb5_conf}")
        cluster.start()
    try:
        _make_users(cluster)
        yield cluster
    finally:
        cluster.stop()


def _advertising_a_dead_address(*args: Any) -> Mapping[str, str]:
    found = server_properties(*args)
    name = "advertised.listeners"
    lost = f"LOST://{HOST}:{args[0].ports['LOST']}"
    assert lost in found[name]
    return {**found, name: found[name].replace(lost, f"LOST://{DEAD_ADDRESS}")}


def _make_users(cluster: DevCluster) -> None:
    admin = judge.admin(cluster.bootstrap_servers)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # a user once in a request
        credentials = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
            for user, password in PASSWORDS.items()
        ]
        for future in admin.alter_user_scram_credentials(credentials).values():
            future.result(timeout=PATIENCE_S)
    for user in PASSWORDS:
        # The controller answers; the broker has it a moment later, and what was before it too.
        is_known = functools.partial(_is_let_in, cluster, SCRAM[-1], user)
        wait_until(is_known, "the broker to know the password")


def _is_let_in(cluster: DevCluster, mechanism: str, user: str) -> bool:
    """Ask librdkafka, which knows nothing of ours."""
    client = AdminClient(
        {
            "bootstrap.servers": cluster.bootstrap_servers_of("SASL"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
            "log_level": 0,
        }
    )
    try:
        client.list_topics(timeout=1.0)
    except KafkaException:
        return False
    return True
