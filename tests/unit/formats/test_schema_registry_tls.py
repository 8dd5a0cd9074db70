"""The Schema Registry over TLS: whom it is believed from, and who asks. Real handshakes on a real port."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import SchemaRegistryError
from penstock.formats.avro.confluent import REGISTRY
from penstock.formats.format_options import FormatOptions
from penstock.formats.schema_registry.client import RegistrySettings, SchemaRegistry
from penstock.options.config import KafkaProperties
from tests.registry_server import Registry, running_registry
from tests.table_specs import format_for

DATA = Path(__file__).parents[2] / "data" / "tls"
CA, STRANGER_CA = str(DATA / "ca.pem"), str(DATA / "stranger-ca.pem")
KEY_PASSWORD = "key-password"  # noqa: S105  # opens a key that guards nothing


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that shows a certificate of our authority, and wants one of the same to be shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "broker.pem", DATA / "broker-key.pem")
    context.load_verify_locations(CA)
    context.verify_mode = ssl.CERT_REQUIRED
    with running_registry(context) as running:
        yield running


@pytest.fixture
def identity(tmp_path: Path) -> str:
    """Certificate and encrypted key in one file, as `ssl.keystore.location` wants them."""
    store = tmp_path / "client.pem"
    store.write_text((DATA / "client.pem").read_text() + (DATA / "client-key-encrypted.pem").read_text())
    return str(store)


def asked(
    registry: Registry,
    ca_file: str | None = None,
    certificate_file: str | None = None,
    key_password: str | None = None,
) -> str:
    schema_id = registry.register("s", '"string"')
    given = {
        "ssl.truststore.location": ca_file,
        "ssl.keystore.location": certificate_file,
        "ssl.keystore.password": key_password,
    }
    items = tuple(sorted((name, text) for name, text in given.items() if text is not None))
    tls = KafkaProperties(items, "avro-confluent.")
    found = SchemaRegistry(RegistrySettings((registry.url,), tls=tls)).schema(schema_id)
    assert found is not None
    return found.text


def test_both_sides_are_known_to_each_other(registry: Registry, identity: str) -> None:
    assert asked(registry, ca_file=CA, certificate_file=identity, key_password=KEY_PASSWORD) == '"string"'


@pytest.mark.parametrize("ca_file", [STRANGER_CA, None])
def test_a_server_of_a_stranger_is_not_believed(
    registry: Registry, identity: str, ca_file: str | None
) -> None:
    with pytest.raises(SchemaRegistryError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        asked(registry, ca_file=ca_file, certificate_file=identity, key_password=KEY_PASSWORD)
    assert KEY_PASSWORD not in str(caught.value)
    assert registry.requests == [], "no request, so no credentials, before the server is known"


def test_a_name_that_the_certificate_does_not_have_is_not_believed(identity: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "elsewhere.pem", DATA / "elsewhere-key.pem")
    with (
        running_registry(context) as registry,
        pytest.raises(SchemaRegistryError, match=r"doesn't match|not valid for"),
    ):
        asked(registry, ca_file=CA)


def test_an_expired_server_is_not_believed(identity: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "expired-broker.pem", DATA / "expired-broker-key.pem")
    with (
        running_registry(context) as registry,
        pytest.raises(SchemaRegistryError, match="certificate has expired"),
    ):
        asked(registry, ca_file=CA)
    assert registry.requests == []


@pytest.mark.parametrize("name", ["expired-client", "foreign-client"])
def test_a_certificate_that_the_server_refuses_is_an_error_in_time(
    registry: Registry, tmp_path: Path, name: str
) -> None:
    store = tmp_path / "client.pem"
    store.write_text((DATA / f"{name}.pem").read_text() + (DATA / f"{name}-key.pem").read_text())
    start = time.monotonic()
    with pytest.raises(SchemaRegistryError, match="cannot be reached"):
        asked(registry, ca_file=CA, certificate_file=str(store))
    assert time.monotonic() - start < 30
    assert registry.requests == []


@pytest.mark.parametrize("guard", [{"user_info": "alice:horse"}, {"bearer_token": "token-of-alice"}])
def test_wrong_credentials_are_said_at_once_and_not_shown(guard: dict[str, str]) -> None:
    wrong = "bob:wrong-staple" if "user_info" in guard else "wrong-staple"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "broker.pem", DATA / "broker-key.pem")
    trust = KafkaProperties((("ssl.truststore.location", CA),), "avro-confluent.")
    with running_registry(context, **guard) as registry:
        schema_id = registry.register("s", '"string"')
        (name,) = guard
        settings = RegistrySettings((registry.url,), tls=trust)
        assert SchemaRegistry(replace(settings, **guard)).schema(schema_id) is not None  # type: ignore[arg-type]  # by name
        registry.requests.clear()
        with pytest.raises(SchemaRegistryError, match=r"401: Unauthorized\. Check 'basic-auth") as caught:
            SchemaRegistry(replace(settings, **{name: wrong})).schema(schema_id)  # type: ignore[arg-type]  # by name
        assert len(registry.requests) == 1, "no second attempt"
    assert "wrong-staple" not in str(caught.value) + repr(caught.value.facts)


def test_without_a_certificate_of_its_own_the_client_is_refused(registry: Registry) -> None:
    with pytest.raises(SchemaRegistryError, match="cannot be reached"):
        asked(registry, ca_file=CA)


@pytest.mark.parametrize("password", [None, "wr0ng", "wr0ng" * 300])
def test_a_key_that_does_not_open_is_named(registry: Registry, identity: str, password: str | None) -> None:
    """Without a password OpenSSL would ask at the terminal."""
    with pytest.raises(
        SchemaRegistryError,
        match=r"'avro-confluent.ssl.keystore.password'\) does not open the key.*No record",
    ) as caught:
        asked(registry, ca_file=CA, certificate_file=identity, key_password=password)
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "what"),
    [("missing.pem", "missing.pem' cannot be read here"), ("broker-key.pem", "no certificate")],
)
def test_a_file_without_authorities_is_named(registry: Registry, name: str, what: str) -> None:
    with pytest.raises(SchemaRegistryError, match=f"'avro-confluent.ssl.truststore.location'.*{what}"):
        asked(registry, ca_file=str(DATA / name))


@pytest.mark.parametrize(
    ("format_name", "prefix"), [("avro-confluent", ""), ("json-confluent", ""), ("avro-confluent", "value.")]
)
def test_the_options_of_a_format(registry: Registry, identity: str, format_name: str, prefix: str) -> None:
    options = {
        "url": registry.url,
        "ssl.truststore.location": CA,
        "ssl.keystore.location": identity,
        "ssl.keystore.password": KEY_PASSWORD,
        "subject": "orders",
    }
    named = {f"{prefix}{format_name}.{key}": text for key, text in options.items()}
    made = format_for(format_name, named, prefix)
    assert KEY_PASSWORD not in repr(made)


STORES = DATA.parent / "stores"


def test_java_stores_and_a_wrong_store_password(registry: Registry) -> None:
    def settings(password: str) -> dict[str, str]:
        paths = {"truststore": STORES / "trust.jks", "keystore": STORES / "client.p12"}
        stores = {f"ssl.{store}.location": str(path) for store, path in paths.items()}
        return stores | {f"ssl.{store}.password": password for store in paths} | {"url": registry.url}

    schema_id = registry.register("s", '"string"')
    asked_with = [
        REGISTRY.settings(FormatOptions("", {f"avro-confluent.{key}": text for key, text in given.items()}))
        for given in (settings("store-horse"), settings("wrong-staple"))
    ]
    found = SchemaRegistry(asked_with[0]).schema(schema_id)
    assert found is not None
    with pytest.raises(
        SchemaRegistryError, match=r"'avro-confluent.ssl.truststore.password' is not its"
    ) as caught:
        SchemaRegistry(asked_with[1]).schema(schema_id)
    assert "wrong-staple" not in str(caught.value)
