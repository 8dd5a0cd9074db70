"""PKCS12 stores with each checksum that there is, and with several private keys.

The stores are built here, byte by byte, because no one tool makes all of them.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import OptionError
from penstock.options.config import KafkaProperties
from penstock.security._der import der_of
from penstock.security.tls import TlsSettings, tls_settings

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.x509 import load_pem_x509_certificate

PEM = Path(__file__).parents[2] / "data" / "tls"
PASSWORD = "store-horse"  # noqa: S105  # opens a store that guards nothing
SALT, IV, ITERATIONS = b"salt1234", bytes(16), 1_000


def sequence(*parts: bytes) -> bytes:
    return der_of(0x30, *parts)


def octets(data: bytes) -> bytes:
    return der_of(0x04, data)


def oid(text: str) -> bytes:
    return der_of(0x06, bytes.fromhex(text))


def integer(number: int) -> bytes:
    return der_of(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def explicit(content: bytes) -> bytes:
    return der_of(0xA0, content)


DATA, ENCRYPTED_DATA = oid("2a864886f70d010701"), oid("2a864886f70d010706")
HMAC_SHA256 = sequence(oid("2a864886f70d0209"), der_of(0x05))
KEY_BAG, CERTIFICATE_BAG = oid("2a864886f70d010c0a0102"), oid("2a864886f70d010c0a0103")
NESTED_BAG = oid("2a864886f70d010c0a0106")


def pbkdf2(iterations: int, *length: bytes) -> bytes:
    return sequence(
        oid("2a864886f70d01050c"), sequence(octets(SALT), integer(iterations), *length, HMAC_SHA256)
    )


def pbes2(iterations: int) -> bytes:
    aes = sequence(oid("60864801650304012a"), octets(IV))
    return sequence(oid("2a864886f70d01050d"), sequence(pbkdf2(iterations), aes))


def encrypted(plain: bytes, password: str) -> bytes:
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS, 32)
    missing = 16 - len(plain) % 16
    encryptor = Cipher(algorithms.AES(key), modes.CBC(IV)).encryptor()
    return bytes(encryptor.update(plain + bytes([missing]) * missing) + encryptor.finalize())


def certificate(name: str = "ca") -> bytes:
    found = load_pem_x509_certificate((PEM / f"{name}.pem").read_bytes())
    x509 = sequence(
        oid("2a864886f70d01091601"), explicit(octets(found.public_bytes(serialization.Encoding.DER)))
    )
    return sequence(CERTIFICATE_BAG, explicit(x509))


def nested(bags: bytes) -> bytes:
    """A bag that holds bags."""
    return sequence(NESTED_BAG, explicit(bags))


def key_of(name: str, password: str = PASSWORD) -> bytes:
    """A bag with a private key, which has no alias."""
    text = (PEM / f"{name}-key.pem").read_bytes()
    key = serialization.load_pem_private_key(text, None).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return sequence(KEY_BAG, explicit(sequence(pbes2(ITERATIONS), octets(encrypted(key, password)))))


def data_part(content: bytes) -> bytes:
    return sequence(DATA, explicit(octets(content)))


def encrypted_part(bags: bytes, password: str) -> bytes:
    info = sequence(DATA, pbes2(ITERATIONS), der_of(0x80, encrypted(bags, password)))
    return sequence(ENCRYPTED_DATA, explicit(sequence(integer(0), info)))


def mac_of(name: str, kind: str, block_size: int) -> Callable[[bytes, str], bytes]:
    """The checksum of RFC 7292."""

    def filled(data: bytes) -> bytes:
        return (data * block_size)[: -(-len(data) // block_size) * block_size]

    def mac(content: bytes, password: str) -> bytes:
        key = b"\3" * block_size + filled(SALT) + filled((password + "\0").encode("utf-16-be"))
        for _ in range(ITERATIONS):
            key = hashlib.new(name, key).digest()
        info = sequence(sequence(oid(kind), der_of(0x05)), octets(hmac.digest(key, content, name)))
        return sequence(info, octets(SALT), integer(ITERATIONS))

    return mac


def pbmac1(content: bytes, password: str) -> bytes:
    """The checksum of RFC 9579."""
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, ITERATIONS, 32)
    parameters = sequence(pbkdf2(ITERATIONS, integer(32)), HMAC_SHA256)
    info = sequence(
        sequence(oid("2a864886f70d01050e"), parameters), octets(hmac.digest(key, content, "sha256"))
    )
    return sequence(info, octets(b"unused"))


def no_mac(content: bytes, password: str) -> bytes:
    """Java reads a store without a checksum too."""
    return b""


MACS = {
    "SHA-1": mac_of("sha1", "2b0e03021a", 64),
    "SHA-256": mac_of("sha256", "608648016503040201", 64),
    "SHA-512": mac_of("sha512", "608648016503040203", 128),
    "PBMAC1": pbmac1,
    "none": no_mac,
}


def store_of(
    *parts: bytes, mac: Callable[[bytes, str], bytes] = MACS["SHA-256"], password: str = PASSWORD
) -> bytes:
    content = sequence(*parts)
    return sequence(integer(3), data_part(content), mac(content, password))


def opened(folder: Path, data: bytes, store: str, password: str = PASSWORD) -> TlsSettings:
    path = folder / "store.p12"
    path.write_bytes(data)
    given = {f"ssl.{store}.location": str(path)}
    given |= {f"ssl.{store}.password": password} if password else {}
    return tls_settings(KafkaProperties(tuple(given.items())))


@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("password", [PASSWORD, ""])
def test_a_trust_store_with_each_checksum_is_read(tmp_path: Path, mac: str, password: str) -> None:
    part = encrypted_part(sequence(certificate()), password)
    found = opened(tmp_path, store_of(part, mac=MACS[mac], password=password), "truststore", password)
    assert (found.trusted_certificates or "").count("BEGIN CERTIFICATE") == 1
    found.ssl_context()


@pytest.mark.parametrize("is_first", [True, False])
def test_the_key_may_stand_before_and_after_its_certificate(tmp_path: Path, is_first: bool) -> None:
    certificates = encrypted_part(sequence(certificate("client")), PASSWORD)
    parts = [data_part(sequence(key_of("client"))), certificates]
    found = opened(tmp_path, store_of(*(parts if is_first else parts[::-1])), "keystore")
    assert (found.identity or "").count("BEGIN PRIVATE KEY") == 1
    found.ssl_context()


KEY, OTHER_KEY = key_of("client"), key_of("broker")


@pytest.mark.parametrize(
    "parts",
    [
        (sequence(KEY, OTHER_KEY),),
        (sequence(KEY), sequence(OTHER_KEY)),
        (sequence(KEY, nested(sequence(OTHER_KEY))),),
        (sequence(nested(sequence(OTHER_KEY)), KEY),),
        (sequence(nested(sequence(nested(sequence(OTHER_KEY, KEY))))),),
    ],
)
def test_several_keys_are_counted_in_all_bags(tmp_path: Path, parts: tuple[bytes, ...]) -> None:
    certificates = data_part(sequence(certificate("client"), certificate("broker")))
    with pytest.raises(OptionError, match="holds 2 private keys"):
        opened(tmp_path, store_of(certificates, *map(data_part, parts)), "keystore")


def test_a_key_in_a_nested_bag_is_read(tmp_path: Path) -> None:
    bags = sequence(nested(sequence(KEY)), certificate("client"))
    assert_client(opened(tmp_path, store_of(data_part(bags)), "keystore"))


@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_hidden_key_of_a_key_store_is_not_used(tmp_path: Path, mac: str, is_first: bool) -> None:
    """OpenSSL would use the first key, also if it is in an encrypted part."""
    hidden = encrypted_part(sequence(OTHER_KEY, certificate("broker"), certificate("client")), PASSWORD)
    parts = [data_part(sequence(KEY)), hidden]
    store = store_of(*(parts if is_first else parts[::-1]), mac=MACS[mac])
    assert_client(opened(tmp_path, store, "keystore"))


def test_a_key_that_is_hidden_only_is_refused(tmp_path: Path) -> None:
    part = encrypted_part(sequence(KEY, certificate("client")), PASSWORD)
    with pytest.raises(OptionError, match="holds no private key outside of its encrypted parts"):
        opened(tmp_path, store_of(part), "keystore")


def test_a_key_without_its_certificate_is_refused(tmp_path: Path) -> None:
    part = data_part(sequence(KEY, certificate("broker")))
    with pytest.raises(OptionError, match="holds a private key, but not its certificate"):
        opened(tmp_path, store_of(part), "keystore")


def assert_client(found: TlsSettings) -> None:
    """Assert that the identity is the client's key, followed by its certificate."""
    text = (found.identity or "").encode()
    assert text.count(b"PRIVATE KEY") == 2
    expected = serialization.load_pem_private_key((PEM / "client-key.pem").read_bytes(), None)
    for public in (
        serialization.load_pem_private_key(text, None).public_key(),
        load_pem_x509_certificate(text).public_key(),
    ):
        assert public == expected.public_key()


@pytest.mark.parametrize("mac", sorted(set(MACS) - {"none"}))
def test_a_checksum_that_does_not_fit_is_refused(tmp_path: Path, mac: str) -> None:
    good = store_of(data_part(sequence(certificate())), mac=MACS[mac])
    assert opened(tmp_path, good, "truststore").trusted_certificates
    changed = good.replace(b"\x17\r2", b"\x17\r1")
    assert changed != good
    for data, password in ((changed, PASSWORD), (good, "wrong-staple")):
        with pytest.raises(OptionError, match=r"is damaged, or '.*truststore.password' is not its password"):
            opened(tmp_path, data, "truststore", password)
