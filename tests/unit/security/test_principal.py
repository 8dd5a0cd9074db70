"""The principal of a login or a client certificate, as Kafka's ACLs name it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.client.net.broker_errors import naming_principal
from penstock.client.settings import connection_settings
from penstock.errors import AuthorizationError, ClientError
from penstock.options.config import KafkaProperties
from penstock.security.principal import certificate_expiry, principal_of
from penstock.security.settings import SecuritySettings
from penstock.security.tls import TlsSettings

DATA = Path(__file__).parents[2] / "data" / "tls"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def certificate(names: list[tuple[x509.ObjectIdentifier, str]], expiry: datetime) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(expiry - timedelta(days=1)).not_valid_after(expiry)
    signed = builder.sign(key, hashes.SHA256())
    return str(signed.public_bytes(serialization.Encoding.PEM), "ascii")


def with_certificate(pem: str) -> SecuritySettings:
    return SecuritySettings("SSL", TlsSettings(identity=pem))


def test_the_user_name_of_a_login_is_in_the_error_and_its_password_is_not() -> None:
    properties = {
        "bootstrap.servers": "unused:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="alice" password="horse";',
    }
    settings = connection_settings(KafkaProperties(tuple(properties.items())), client_id="test")
    error = naming_principal(AuthorizationError("No.", topic="t"), settings)
    assert str(error) == "No. The Kafka user is User:alice."
    assert error.facts == {"topic": "t", "principal": "User:alice"}
    assert naming_principal(error, settings) is error
    other = ClientError("No.")
    assert naming_principal(other, settings) is other


@pytest.mark.parametrize("expiry", [datetime(2031, 5, 6, 7, 8, 9), datetime(2120, 1, 1)], ids=str)  # noqa: DTZ001
def test_the_subject_of_a_certificate_has_the_order_of_rfc_2253(expiry: datetime) -> None:
    names = [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, "Müller, Söhne"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "data"),
        (NameOID.COMMON_NAME, "client"),
    ]
    pem = certificate(names, expiry)
    assert principal_of(with_certificate(pem)) == "User:CN=client,OU=data,O=Müller\\, Söhne,C=DE"
    assert certificate_expiry(pem) == expiry.replace(tzinfo=UTC)


def test_a_name_that_kafka_would_write_as_numbers_is_left_out() -> None:
    pem = certificate([(NameOID.PSEUDONYM, "x")], datetime(2031, 1, 1))  # noqa: DTZ001
    assert principal_of(with_certificate(pem)) is None


@pytest.mark.parametrize(
    "security",
    [
        SecuritySettings(),
        SecuritySettings("SSL", TlsSettings()),
        with_certificate("no certificate"),
        with_certificate("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"),
    ],
    ids=["no login", "no client certificate", "no PEM", "no X.509"],
)
def test_an_unknown_principal_is_none(security: SecuritySettings) -> None:
    assert principal_of(security) is None


def test_an_expired_certificate_tells_when() -> None:
    assert certificate_expiry((DATA / "expired-client.pem").read_text()) == datetime(2021, 1, 1, tzinfo=UTC)
    assert certificate_expiry("no certificate") is None
