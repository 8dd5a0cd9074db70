"""Key and trust stores as Java's own keytool makes them, and what is not a store."""

from __future__ import annotations

import pickle
import ssl
import struct
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import MissingExtraError, MissingOptionError, OptionError
from penstock.options.config import KafkaProperties
from penstock.security.tls import TlsSettings, _file_on_disk, private_file, tls_settings
from tests.examples import examples

pytest.importorskip("cryptography")
DATA = Path(__file__).parents[2] / "data"
PEM = DATA / "tls"
KINDS = {"JKS": "jks", "PKCS12": "p12"}
STORE_PASSWORD = "store-horse"  # noqa: S105  # opens a key that guards nothing
KEY_PASSWORD = "key-battery"  # noqa: S105
CLIENT = ssl.PEM_cert_to_DER_cert((PEM / "client.pem").read_text())


class Stores:
    """Stores that Java's keytool has made: see make.sh beside them."""

    def __init__(self) -> None:
        folder = DATA / "stores"
        self.trust = {kind: folder / f"trust.{suffix}" for kind, suffix in KINDS.items()}
        self.keys = {kind: folder / f"client.{suffix}" for kind, suffix in KINDS.items()}
        self.several = {kind: folder / f"several.{suffix}" for kind, suffix in KINDS.items()}
        self.legacy = folder / "client-java8.p12"


@pytest.fixture(scope="module")
def stores() -> Stores:
    return Stores()


def settings_of(properties: dict[str, str]) -> TlsSettings:
    return tls_settings(KafkaProperties(tuple(sorted(properties.items())), "kafka."))


def trust(path: Path, password: str | None = STORE_PASSWORD, **more: str) -> dict[str, str]:
    given = {"ssl.truststore.location": str(path)} | more
    return given | ({} if password is None else {"ssl.truststore.password": password})


def keys(path: Path, password: str = STORE_PASSWORD, key_password: str | None = None) -> dict[str, str]:
    given = {"ssl.keystore.location": str(path), "ssl.keystore.password": password}
    return given | ({} if key_password is None else {"ssl.key.password": key_password})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("said", [None, "JKS", "PKCS12"])
def test_a_trust_store_of_several_certificates(stores: Stores, kind: str, said: str | None) -> None:
    more = {} if said is None else {"ssl.truststore.type": said}
    context = settings_of(trust(stores.trust[kind]) | more).ssl_context()
    names = {ca["subject"][0][0][1] for ca in context.get_ca_certs()}
    assert names == {"ca", "stranger-ca"}


def test_a_jks_trust_store_needs_no_password(stores: Stores) -> None:
    """As in Java: without it the digest is not checked."""
    opened = settings_of(trust(stores.trust["JKS"], None))
    assert opened == settings_of(trust(stores.trust["JKS"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_store_gives_key_and_chain(stores: Stores, kind: str) -> None:
    key_password = KEY_PASSWORD if kind == "JKS" else None
    opened = settings_of(keys(stores.keys[kind], key_password=key_password))
    opened.ssl_context()
    assert opened.identity is not None
    blocks = opened.identity.count("BEGIN CERTIFICATE"), opened.identity.count("BEGIN PRIVATE KEY")
    assert blocks == (2, 1), "the certificate, its authority, and the key"
    first = opened.identity.partition("-----END PRIVATE KEY-----\n")[2]
    assert (
        ssl.PEM_cert_to_DER_cert(
            first.partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
        )
        == CLIENT
    )


def test_a_pkcs12_store_of_java_8(stores: Stores) -> None:
    settings_of(keys(stores.legacy)).ssl_context()


def test_a_pem_store_with_the_password_of_a_key_store(tmp_path: Path) -> None:
    store = tmp_path / "client.pem"
    store.write_text((PEM / "client.pem").read_text() + (PEM / "client-key-encrypted.pem").read_text())
    settings_of(keys(store, "key-password")).ssl_context()


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_password_is_said_and_not_shown(stores: Stores, kind: str) -> None:
    wrong = "wrong-staple"
    for properties, name in (
        (trust(stores.trust[kind], wrong), "'kafka.ssl.truststore.password'"),
        (keys(stores.keys[kind], wrong), "'kafka.ssl.keystore.password'"),
    ):
        with pytest.raises(OptionError) as caught:
            settings_of(properties)
        assert name in str(caught.value)
        assert wrong not in repr(pickle.dumps(caught.value))


def test_a_wrong_key_password_is_said(stores: Stores) -> None:
    for key_password in (None, "wrong-staple"):
        with pytest.raises(OptionError, match=r"private key that 'kafka.ssl.key.password' does not open"):
            settings_of(keys(stores.keys["JKS"], key_password=key_password))


@pytest.mark.parametrize("kind", KINDS)
def test_several_private_keys_are_refused_with_their_aliases(stores: Stores, kind: str) -> None:
    with pytest.raises(OptionError, match=r"holds 2 private keys \(aliases: first, second\)"):
        settings_of(keys(stores.several[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_without_a_private_key(stores: Stores, kind: str) -> None:
    with pytest.raises(OptionError, match=r"holds certificates only, and no private key"):
        settings_of(keys(stores.trust[kind]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_store_needs_a_password(stores: Stores, kind: str) -> None:
    with pytest.raises(OptionError, match=r"needs 'kafka.ssl.keystore.password', which is not set"):
        settings_of({"ssl.keystore.location": str(stores.keys[kind])})


def test_a_pkcs12_trust_store_needs_a_password(stores: Stores) -> None:
    with pytest.raises(OptionError, match=r"'kafka.ssl.truststore.password' is not set"):
        settings_of(trust(stores.trust["PKCS12"], None))


@pytest.mark.parametrize(("said", "form"), [("PEM", "JKS"), ("PEM", "PKCS12"), ("JKS", "PEM")])
def test_the_wrong_type_is_named(stores: Stores, said: str, form: str) -> None:
    path = PEM / "ca.pem" if form == "PEM" else stores.trust[form]
    with pytest.raises(OptionError, match=rf"type {form}, but 'kafka.ssl.truststore.type' is {said}"):
        settings_of(trust(path) | {"ssl.truststore.type": said})


def test_a_jceks_store_names_the_way_out(tmp_path: Path) -> None:
    store = tmp_path / "s"
    store.write_bytes(b"\xce\xce\xce\xce\x00\x00\x00\x02")
    with pytest.raises(OptionError, match=r"keytool -importkeystore -deststoretype pkcs12"):
        settings_of(trust(store))


def test_without_the_package_the_extra_is_named(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "no-package.p12"
    store.write_bytes(stores.trust["PKCS12"].read_bytes())
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(MissingExtraError, match=r"PKCS12 store, which needs the extra 'pkcs12'") as error:
        settings_of(trust(store))
    assert error.value.facts == {"extra": "pkcs12", "option": "kafka.ssl.truststore.location"}
    assert str(store) in str(error.value)


def test_a_store_that_changed_is_read_again(stores: Stores, tmp_path: Path) -> None:
    store = tmp_path / "trust"
    store.write_bytes(stores.trust["JKS"].read_bytes())
    before = settings_of(trust(store))
    store.write_bytes((PEM / "ca.pem").read_bytes())
    assert settings_of(trust(store)) != before


# ----- hostile


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_damage_is_an_error_in_time(
    stores: Stores, kind: str, tmp_path: Path, data: st.DataObject
) -> None:
    whole = stores.keys[kind].read_bytes()
    cut = data.draw(st.integers(1, len(whole)))
    damaged = bytearray(whole[:cut])
    for _ in range(data.draw(st.integers(0 if cut < len(whole) else 1, 3))):
        damaged[data.draw(st.integers(0, cut - 1))] ^= data.draw(st.integers(1, 255))
    if bytes(damaged) == whole:
        return
    store = tmp_path / "damaged"
    store.write_bytes(damaged)
    start = time.monotonic()
    with pytest.raises(OptionError) as caught:
        settings_of(keys(store, key_password=KEY_PASSWORD if kind == "JKS" else None)).ssl_context()
    assert time.monotonic() - start < 20
    assert STORE_PASSWORD not in str(caught.value)


@pytest.mark.parametrize("count", [0xFFFFFFFF, 1 << 20])
def test_a_jks_store_that_claims_much_is_refused_at_once(tmp_path: Path, count: int) -> None:
    store = tmp_path / "store"
    store.write_bytes(struct.pack(">4sIIIH", b"\xfe\xed\xfe\xed", 2, count, 1, 0xFFFF))
    with pytest.raises(OptionError, match="damaged or cut off"):
        settings_of(trust(store))


@pytest.mark.parametrize(
    "part", ["-----BEGIN CERTIFICATE-----\n", "-----BEGIN A", "-----BEGIN A-----x-----END B-----", "-"]
)
def test_blocks_without_an_end_are_refused_in_time(tmp_path: Path, part: str) -> None:
    store = tmp_path / "store.pem"
    store.write_text(part * ((4 << 20) // len(part)))
    start = time.monotonic()
    with pytest.raises(OptionError, match="is not a key store"):
        settings_of(trust(store))
    assert time.monotonic() - start < 5


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with store.open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(OptionError, match="is larger than"):
        settings_of(trust(store))


# ----- where keys go


def test_a_key_file_is_private_and_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with _file_on_disk(b"secret") as name:
        path = Path(name)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []
    with private_file("secret") as name:
        assert Path(name).read_text() == "secret"
        if name.startswith("/proc/"):
            assert list(tmp_path.iterdir()) == []
    assert not Path(name).exists()


def test_nothing_of_a_store_is_shown(stores: Stores) -> None:
    opened = settings_of(trust(stores.trust["JKS"]) | keys(stores.keys["JKS"], key_password=KEY_PASSWORD))
    for secret in (STORE_PASSWORD, KEY_PASSWORD, "BEGIN"):
        assert secret not in repr(opened)


def test_a_missing_type_of_file_is_named() -> None:
    with pytest.raises(MissingOptionError, match=r"'kafka.ssl.keystore.key' is required"):
        settings_of({"ssl.keystore.certificate.chain": (PEM / "client.pem").read_text()})
