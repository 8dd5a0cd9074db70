"""Java's own key store format, JKS: no maintained library reads it.

Pure. The format is `sun.security.provider.JavaKeyStore`: entries in order, then a SHA-1 of password, a fixed
text and all bytes before. A private key is encrypted by `sun.security.provider.KeyProtector`. Invariant: each
length is checked against the bytes that are left, so that any input ends in time that is linear in its size.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from penstock.security._der import OCTETS, SEQUENCE, DerError, DerReader
from penstock.security._pem import CERTIFICATE, PRIVATE_KEY, pem_of
from penstock.security._store_error import StoreError

MAGIC = b"\xfe\xed\xfe\xed"
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_KEY_ENTRY, _TRUSTED_ENTRY = 1, 2


@dataclass(frozen=True)
class _Entry:
    alias: str
    certificates: tuple[bytes, ...]
    encrypted_key: bytes | None = None


def jks_trusted(data: bytes, password: str | None) -> str:
    """Return the certificates that Java would trust, as PEM: trusted ones, and the first of each key's chain.

    Raises:
        StoreError: the password is wrong, or the store is damaged or empty.
    """
    certificates = [entry.certificates[0] for entry in _entries(data, password) if entry.certificates]
    return "".join(pem_of(CERTIFICATE, der) for der in dict.fromkeys(certificates))


def jks_identity(data: bytes, password: str, key_password: str) -> str:
    """Return the private key and its chain, as PEM.

    Raises:
        StoreError: a password is wrong, the store is damaged, or has another number of private keys than one.
    """
    keys = [entry for entry in _entries(data, password) if entry.encrypted_key is not None]
    if len(keys) != 1:
        raise StoreError.number_of_keys([entry.alias for entry in keys])
    [entry] = keys
    key = _decrypted(entry.encrypted_key or b"", key_password)
    return pem_of(PRIVATE_KEY, key) + "".join(pem_of(CERTIFICATE, der) for der in entry.certificates)


def _entries(data: bytes, password: str | None) -> list[_Entry]:
    try:
        entries, end = _parsed(data)
    except (struct.error, UnicodeDecodeError, ValueError) as error:
        raise StoreError(f"is damaged or cut off ({error})") from None
    digest = data[end:]
    if len(digest) != _DIGEST_BYTES:
        raise StoreError("is damaged or cut off (its end is not a digest)")
    if password is not None and not hmac.compare_digest(
        _sha1(_text(password), _WHITENER, data[:end]), digest
    ):
        raise StoreError("is damaged, or {password} is not its password")
    return entries


def _parsed(data: bytes) -> tuple[list[_Entry], int]:
    version, count = struct.unpack_from(">II", data, len(MAGIC))
    if version not in (1, 2):
        raise ValueError("its version is not known")
    position = len(MAGIC) + 8
    entries = []
    for _ in range(count):
        kind, length = struct.unpack_from(">IH", data, position)
        alias, position = _piece(data, position + 6, length)
        position += 8  # the time of creation
        key = None
        if kind == _KEY_ENTRY:
            [length] = struct.unpack_from(">I", data, position)
            key, position = _piece(data, position + 4, length)
            [chain_length] = struct.unpack_from(">I", data, position)
            position += 4
        elif kind == _TRUSTED_ENTRY:
            chain_length = 1
        else:
            raise ValueError("it has an entry of a kind that is not known")
        chain = []
        for _ in range(chain_length):
            der, position = _certificate(data, position, version)
            chain.append(der)
        entries.append(_Entry(alias.decode("utf-8", errors="replace"), tuple(chain), key))
    return entries, position


def _certificate(data: bytes, position: int, version: int) -> tuple[bytes, int]:
    if version == 2:
        [length] = struct.unpack_from(">H", data, position)
        kind, position = _piece(data, position + 2, length)
        if kind != b"X.509":
            raise ValueError("it has a certificate that is not X.509")
    [length] = struct.unpack_from(">I", data, position)
    return _piece(data, position + 4, length)


def _piece(data: bytes, start: int, length: int) -> tuple[bytes, int]:
    if start + length > len(data):
        raise ValueError("it ends too early")
    return data[start : start + length], start + length


def _decrypted(encrypted: bytes, password: str) -> bytes:
    """Return the PKCS#8 key in an `EncryptedPrivateKeyInfo` of KeyProtector: salt, key XOR stream, check."""
    try:
        info = DerReader(DerReader(encrypted).take(SEQUENCE))
        info.take(SEQUENCE)
        protected = info.take(OCTETS)
    except DerError:
        raise StoreError("is damaged (its private key cannot be read)") from None
    salt, body, check = (
        protected[:_DIGEST_BYTES],
        protected[_DIGEST_BYTES:-_DIGEST_BYTES],
        protected[-_DIGEST_BYTES:],
    )
    secret = _text(password)
    stream, link = bytearray(), salt
    while len(stream) < len(body):
        link = _sha1(secret, link)
        stream += link
    size = len(body)
    mixed = int.from_bytes(body, "big") ^ int.from_bytes(stream[:size], "big")
    plain = mixed.to_bytes(size, "big")
    if not hmac.compare_digest(_sha1(secret, plain), check):
        raise StoreError("has a private key that {key_password} does not open")
    return plain


def _text(password: str) -> bytes:
    return password.encode("utf-16-be", errors="surrogatepass")


def _sha1(*parts: bytes) -> bytes:
    digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        digest.update(part)
    return digest.digest()
