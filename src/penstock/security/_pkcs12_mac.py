"""The checksum of a PKCS12 store, which its password opens (RFC 7292, RFC 9579).

Pure. Invariant: does the work that `survey_pkcs12` has counted, and no more.
"""

from __future__ import annotations

import hashlib
import hmac

from penstock.security._der import INTEGER, OCTETS, OID, SEQUENCE, DerError, DerReader

_PBMAC1 = bytes.fromhex("2a864886f70d01050e")
_HASHES = {
    bytes.fromhex("2b0e03021a"): "sha1",
    bytes.fromhex("608648016503040201"): "sha256",
    bytes.fromhex("608648016503040202"): "sha384",
    bytes.fromhex("608648016503040203"): "sha512",
}
_HMACS = {
    bytes.fromhex("2a864886f70d0207"): "sha1",
    bytes.fromhex("2a864886f70d0209"): "sha256",
    bytes.fromhex("2a864886f70d020a"): "sha384",
    bytes.fromhex("2a864886f70d020b"): "sha512",
}
_FOR_MACS = 3
"""What RFC 7292 lets a key be for."""


def mac_fits(mac_data: bytes, content: bytes, password: str | None) -> bool:
    """Return whether a store's checksum is that of its content and this password.

    Raises:
        DerError: the checksum is not one, or its algorithm is not known.
    """
    mac = DerReader(mac_data)
    digest_info = DerReader(mac.take(SEQUENCE))
    algorithm, digest = DerReader(digest_info.take(SEQUENCE)), digest_info.take(OCTETS)
    salt = mac.take(OCTETS)
    iterations = 1 if mac.is_at_end else int.from_bytes(mac.take(INTEGER), "big")
    kind = algorithm.take(OID)
    if kind == _PBMAC1:
        found = _pbmac1(algorithm.take(SEQUENCE), content, password or "")
        return hmac.compare_digest(found, digest)
    name = _known(_HASHES, kind)
    # Without a password there are two ways to write none.
    secrets = [password.encode("utf-16-be") + b"\0\0"] if password else [b"", b"\0\0"]
    keys = (_derived(name, secret, salt, iterations) for secret in secrets)
    return any(hmac.compare_digest(hmac.digest(key, content, name), digest) for key in keys)


def _pbmac1(parameters: bytes, content: bytes, password: str) -> bytes:
    reader = DerReader(parameters)
    derivation, scheme = DerReader(reader.take(SEQUENCE)), DerReader(reader.take(SEQUENCE))
    derivation.take(OID)
    pbkdf2 = DerReader(derivation.take(SEQUENCE))
    salt, iterations = pbkdf2.take(OCTETS), int.from_bytes(pbkdf2.take(INTEGER), "big")
    length = int.from_bytes(pbkdf2.take(INTEGER), "big")
    prf = "sha1" if pbkdf2.is_at_end else _known(_HMACS, DerReader(pbkdf2.take(SEQUENCE)).take(OID))
    if not 1 <= length <= hashlib.new("sha512").block_size or iterations < 1:
        raise DerError("has a checksum that is not known")
    key = hashlib.pbkdf2_hmac(prf, password.encode("utf-8"), salt, iterations, length)
    return hmac.digest(key, content, _known(_HMACS, scheme.take(OID)))


def _known(names: dict[bytes, str], kind: bytes) -> str:
    if kind not in names:
        raise DerError("has a checksum that is not known")
    return names[kind]


def _derived(name: str, secret: bytes, salt: bytes, iterations: int) -> bytes:
    """Return a key as RFC 7292 derives it, as long as the digest: one round of its outer loop."""
    block_size = hashlib.new(name).block_size
    key = bytes([_FOR_MACS]) * block_size + _filled(salt, block_size) + _filled(secret, block_size)
    for _ in range(iterations):
        key = hashlib.new(name, key).digest()
    return key


def _filled(data: bytes, block_size: int) -> bytes:
    """Return the data, repeated until the length is a whole number of blocks."""
    length = -(-len(data) // block_size) * block_size
    return (data * (length // len(data) + 1))[:length] if data else b""
