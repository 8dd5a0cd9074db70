"""SASL/GSSAPI with a KDC that the tests start: keytabs, ticket caches, and what goes wrong with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.net.connection import close_shared_connections
from penstock.devbroker import DevCluster
from penstock.errors import AuthenticationError, BrokerUnavailableError, OptionError, PenstockError
from tests import kdc as kerberos
from tests.fix_broker import MakeTopic
from tests.guarded_broker import DATA, KERBEROS_MODULE, KERBEROS_SESSION_MS
from tests.kafka.sink_by_options import check_write_and_read, driver_of, sink_of
from tests.kafka.source_runs import read_batch
from tests.kdc import REALM, Kdc
from tests.security_page import examples

pytestmark = pytest.mark.skipif(bool(kerberos.missing()), reason=f"this machine lacks {kerberos.missing()}")
ALICE = "alice"
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> Path:
    return kdc.keytab(ALICE)


@pytest.fixture(autouse=True)
def _realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf))
    yield
    close_shared_connections()


def options(cluster: DevCluster, topic: str, **properties: str) -> dict[str, str]:
    given = {
        "bootstrap.servers": cluster.bootstrap_servers_of("KERBEROS"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        **{name.replace("__", "-").replace("_", "."): text for name, text in properties.items()},
    }
    return {"topic": topic, **{f"properties.{name}": text for name, text in given.items()}}


def of_keytab(keytab: Path, principal: str = f"{ALICE}@{REALM}") -> dict[str, str]:
    of_principal = f'keyTab="{keytab}" principal="{principal}";'
    jaas = f"{KERBEROS_MODULE} required useKeyTab=true storeKey=true {of_principal}"
    return {"sasl_mechanism": "GSSAPI", "sasl_jaas_config": jaas}


def test_a_keytab_as_kafkas_documents_have_it(
    guarded: DevCluster, alice: Path, make_topic: MakeTopic
) -> None:
    topic = make_topic(cluster=guarded)
    check_write_and_read(guarded.bootstrap_servers, options(guarded, topic, **of_keytab(alice)))


def test_the_example_of_our_documents(
    guarded: DevCluster, alice: Path, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/security.md, word for word but for the keytab, the realm and the broker."""
    given = {
        name: text.replace("/path/to/alice.keytab", str(alice)).replace("EXAMPLE.COM", REALM)
        for name, text in examples()["Kerberos (GSSAPI)"].items()
    }
    assert str(alice) in given["kafka.sasl.jaas.config"]
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "ca.pem"))
    topic_options = {"kafka.bootstrap.servers": guarded.bootstrap_servers_of("KERBEROS-TLS")}
    topic_options["topic"] = make_topic(cluster=guarded)
    check_write_and_read(guarded.bootstrap_servers, given | topic_options)


def test_a_keytab_as_flinks_documents_have_it(
    guarded: DevCluster, alice: Path, make_topic: MakeTopic
) -> None:
    """Flink's documents set no mechanism."""
    topic = make_topic(cluster=guarded)
    given = {
        "security_kerberos_login_keytab": str(alice),
        "security_kerberos_login_principal": ALICE,
        "security_kerberos_login_use__ticket__cache": "false",
        "security_kerberos_login_contexts": "Client,KafkaClient",
    }
    check_write_and_read(guarded.bootstrap_servers, options(guarded, topic, **given))


@pytest.mark.parametrize("is_default", [False, True])
def test_a_ticket_cache(
    kdc: Kdc,
    guarded: DevCluster,
    alice: Path,
    make_topic: MakeTopic,
    monkeypatch: pytest.MonkeyPatch,
    is_default: bool,
) -> None:
    topic, cache = make_topic(cluster=guarded), kdc.ticket_cache(ALICE, alice)
    given = {"sasl_jaas_config": f'{KERBEROS_MODULE} required useTicketCache=true ticketCache="{cache}";'}
    if is_default:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{cache}")
        given = {}
    check_write_and_read(guarded.bootstrap_servers, options(guarded, topic, **given))


def test_a_stream_outlives_sessions(
    guarded: DevCluster,
    alice: Path,
    make_topic: MakeTopic,
    logins: list[int],
    connected_to: list[str],
) -> None:
    topic = make_topic(cluster=guarded)
    given = options(guarded, topic, **of_keytab(alice))
    check_write_and_read(guarded.bootstrap_servers, given)
    ends_at = time.monotonic() + LIMIT_S
    while len(logins) < len(connected_to) + 2:  # logins on living connections
        assert time.monotonic() < ends_at
        assert len(read_batch(given)) == 5
    assert all(0 < lifetime_ms <= KERBEROS_SESSION_MS for lifetime_ms in logins)


def test_what_goes_wrong_is_said_in_time(kdc: Kdc, guarded: DevCluster, alice: Path) -> None:
    old_keys = kdc.keytab("bob")
    kdc.keytab("bob", "new-keys-of-bob")
    stranger = kdc.folder / "not-there.keytab"
    cache = kdc.folder / "no-cache"
    no_cache = {"sasl_jaas_config": f'{KERBEROS_MODULE} required useTicketCache=true ticketCache="{cache}";'}
    cases: list[tuple[dict[str, str], type[PenstockError], str]] = [
        (of_keytab(stranger), OptionError, "not-there.keytab' cannot be read here"),
        (
            of_keytab(alice, "carol"),
            AuthenticationError,
            "no ticket for the Kerberos service kafka/127.0.0.1",
        ),
        (of_keytab(old_keys, "bob"), AuthenticationError, "no ticket for the Kerberos service"),
        (no_cache, AuthenticationError, "Check the ticket cache"),
        (
            of_keytab(alice) | {"sasl_kerberos_service_name": "storm"},
            AuthenticationError,
            "no ticket for the Kerberos service storm/127.0.0.1: .*not found in Kerberos database",
        ),
    ]
    for properties, kind, said in cases:
        given = options(guarded, "mistakes", **properties)
        for action in (read_batch, lambda given: driver_of(sink_of(given)).recover()):
            start = time.monotonic()
            with pytest.raises(kind, match=said):
                action(given)
            assert time.monotonic() - start < LIMIT_S


def test_a_kdc_that_is_away_is_waited_for(kdc: Kdc, guarded: DevCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(cluster=guarded)
    keytab = kdc.keytab("dave")
    patience = {"default_api_timeout_ms": "1500"}
    given = options(guarded, topic, **of_keytab(keytab, "dave"), **patience)
    kdc.stop()
    try:
        with pytest.raises(BrokerUnavailableError, match="no KDC answers"):
            read_batch(given)
    finally:
        kdc.start()
    close_shared_connections()
    check_write_and_read(guarded.bootstrap_servers, given)
