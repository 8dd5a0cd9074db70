"""PEM under the Java client's names: what is trusted, what is presented, and what is refused."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path

import pytest

from penstock.errors import MissingOptionError, OptionError
from penstock.options.config import KafkaProperties
from penstock.security._pem import pem_blocks
from penstock.security.tls import TlsSettings, tls_settings

DATA = Path(__file__).parents[2] / "data" / "tls"
CA = (DATA / "ca.pem").read_text()
CLIENT = (DATA / "client.pem").read_text()
KEY = (DATA / "client-key.pem").read_text()
ENCRYPTED_KEY = (DATA / "client-key-encrypted.pem").read_text()
PEM_TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": CA}
PEM_IDENTITY = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.certificate.chain": CLIENT,
    "ssl.keystore.key": KEY,
}


def settings_of(properties: dict[str, str]) -> TlsSettings:
    return tls_settings(KafkaProperties(tuple(sorted(properties.items()))))


def test_by_default_the_system_is_trusted_and_names_are_checked() -> None:
    context = settings_of({}).ssl_context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_given_certificates_alone_are_trusted() -> None:
    context = settings_of(PEM_TRUST).ssl_context()
    assert [ca["subject"] for ca in context.get_ca_certs()] == [((("commonName", "ca"),),)]


def test_a_file_holds_the_same_as_the_text() -> None:
    from_file = settings_of({"ssl.truststore.type": "pem", "ssl.truststore.location": str(DATA / "ca.pem")})
    assert from_file == settings_of(PEM_TRUST)


def test_a_file_of_key_and_chain(tmp_path: Path) -> None:
    store = tmp_path / "client.pem"
    store.write_text(f"Bag Attributes\n    friendlyName: client\n{KEY}\n{CLIENT}")
    from_file = settings_of({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)})
    assert from_file == settings_of(PEM_IDENTITY)
    from_file.ssl_context()


def test_an_empty_algorithm_checks_no_host_name() -> None:
    settings = settings_of(PEM_TRUST | {"ssl.endpoint.identification.algorithm": ""})
    context = settings.ssl_context()
    assert not context.check_hostname
    # Who signed the certificate still matters.
    assert context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    ("text", "versions"),
    [("TLSv1.3", ("TLSv1.3", "TLSv1.3")), ("TLSv1.2", ("TLSv1.2", "TLSv1.2")),
     ("TLSv1.3, TLSv1.2", ("TLSv1.2", "TLSv1.3"))],
)  # fmt: skip
def test_tls_versions(text: str, versions: tuple[str, str]) -> None:
    settings = settings_of({"ssl.enabled.protocols": text})
    assert (settings.minimum_version, settings.maximum_version) == versions
    context = settings.ssl_context()
    assert context.minimum_version is getattr(ssl.TLSVersion, versions[0].replace(".", "_"))
    assert context.maximum_version is getattr(ssl.TLSVersion, versions[1].replace(".", "_"))


@pytest.mark.parametrize("text", ["TLSv1.1", "TLSv1.2,SSLv3", "", "1.3"])
def test_old_tls_versions_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"TLSv1.2, TLSv1.3 or both; older versions are not safe"):
        settings_of({"ssl.enabled.protocols": text})


def test_an_encrypted_key_opens_with_its_password() -> None:
    encrypted = PEM_IDENTITY | {"ssl.keystore.key": ENCRYPTED_KEY}
    settings_of(encrypted | {"ssl.key.password": "key-password"}).ssl_context()
    for password in ({}, {"ssl.key.password": "wrong-horse"}):
        with pytest.raises(OptionError, match=r"'ssl.key.password' .* does not open the key") as caught:
            settings_of(encrypted | password).ssl_context()
        assert "wrong-horse" not in repr(pickle.dumps(caught.value))


def test_a_key_that_is_not_the_certificates_is_refused() -> None:
    stranger = (DATA / "broker-key.pem").read_text()
    with pytest.raises(OptionError, match=r"they do not belong together"):
        settings_of(PEM_IDENTITY | {"ssl.keystore.key": stranger}).ssl_context()


@pytest.mark.parametrize(
    "mangle",
    [
        lambda pem: pem.replace("\n", "\\n"),
        lambda pem: pem.replace("\n", " "),
        lambda pem: pem.replace("\n", "\r\n"),
        lambda pem: f"subject=CN = ca\n\n   {pem}   rest",
    ],
    ids=["escaped", "one line", "windows", "with text around"],
)
def test_line_breaks_lost_on_the_way_are_put_back(mangle: object) -> None:
    assert callable(mangle)
    mangled = mangle(CA + CLIENT)
    assert pem_blocks(mangled) == pem_blocks(CA + CLIENT)
    settings_of(PEM_TRUST | {"ssl.truststore.certificates": mangled}).ssl_context()


def test_the_headers_of_an_old_style_key_are_kept() -> None:
    old_style = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    )
    assert pem_blocks(old_style) == old_style


def test_what_is_not_pem_is_refused(tmp_path: Path) -> None:
    for text in ("", "MIIB", "-----BEGIN CERTIFICATE-----\nAAAA"):
        with pytest.raises(OptionError, match=r"'ssl.truststore.certificates' holds no PEM block"):
            settings_of(PEM_TRUST | {"ssl.truststore.certificates": text})
    strange = tmp_path / "store"
    strange.write_bytes(b"\xca\xfe\xba\xbe\x00\x00")
    with pytest.raises(OptionError, match=r"'ssl.truststore.location'.* is neither JKS nor PKCS12 nor PEM"):
        settings_of({"ssl.truststore.location": str(strange)})


def test_pem_that_is_no_certificate_is_refused() -> None:
    with pytest.raises(OptionError, match=r"hold no certificate that OpenSSL can read"):
        settings_of(
            PEM_TRUST
            | {"ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"}
        ).ssl_context()


def test_a_missing_file_is_named() -> None:
    with pytest.raises(OptionError, match=r"'ssl.truststore.location': the file '/no/ca.pem' cannot be read"):
        settings_of({"ssl.truststore.type": "PEM", "ssl.truststore.location": "/no/ca.pem"})


@pytest.mark.parametrize("kind", ["JKS", "pkcs12"])
def test_text_is_pem(kind: str) -> None:
    with pytest.raises(OptionError, match=r"is text in PEM, but 'ssl.truststore.type' is '(JKS|PKCS12)'"):
        settings_of(PEM_TRUST | {"ssl.truststore.type": kind})


def test_a_store_is_a_file_or_a_text() -> None:
    with pytest.raises(
        OptionError, match=r"'ssl.truststore.location' and 'ssl.truststore.certificates' exclude"
    ):
        settings_of(PEM_TRUST | {"ssl.truststore.location": "x"})
    with pytest.raises(OptionError, match=r"'ssl.keystore.location' and 'ssl.keystore.key' exclude"):
        settings_of(PEM_IDENTITY | {"ssl.keystore.location": "x"})


def test_key_and_certificate_need_each_other() -> None:
    pem = {"ssl.keystore.type": "PEM"}
    with pytest.raises(
        MissingOptionError, match=r"'ssl.keystore.certificate.chain' is required with 'ssl.keystore.key'"
    ):
        settings_of(pem | {"ssl.keystore.key": KEY})
    with pytest.raises(MissingOptionError, match=r"'ssl.keystore.key' is required with"):
        settings_of(pem | {"ssl.keystore.certificate.chain": CLIENT})


def test_no_key_or_password_in_the_repr() -> None:
    settings = settings_of(PEM_TRUST | PEM_IDENTITY | {"ssl.key.password": "correct-horse"})
    body = KEY.splitlines()[1]
    assert body in (settings.identity or "")
    assert body not in repr(settings)
    assert "correct-horse" not in repr(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - just made here
