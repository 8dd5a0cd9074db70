"""Read enough of DER to tell how much work an encrypted key or a PKCS12 store asks for.

Pure. OpenSSL does the real work later, and would do it for hours when a store asks for a billion iterations.
Invariant: each step consumes bytes, and depth is limited, so that any input ends in bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ITERATIONS_MAX = 10_000_000
"""Of all keys and parts of a store together: some seconds of work. Java's keytool writes 10,000 for each."""

SEQUENCE, SET, INTEGER, OCTETS, OID, EXPLICIT_0, BMP_STRING = 0x30, 0x31, 0x02, 0x04, 0x06, 0xA0, 0x1E
_PBES2 = bytes.fromhex("2a864886f70d01050d")
_PBKDF2 = bytes.fromhex("2a864886f70d01050c")
_PBMAC1 = bytes.fromhex("2a864886f70d01050e")
_SCRYPT = bytes.fromhex("2b06010401da47040b")
_PBES1 = bytes.fromhex("2a864886f70d0105")
_PKCS12_PBE = bytes.fromhex("2a864886f70d010c01")
DATA = bytes.fromhex("2a864886f70d010701")
_ENCRYPTED_DATA = bytes.fromhex("2a864886f70d010706")
_BAG = bytes.fromhex("2a864886f70d010c0a01")
KEY_BAG, _SHROUDED_KEY_BAG, _NESTED_BAG = _BAG + b"\x01", _BAG + b"\x02", _BAG + b"\x06"
_FRIENDLY_NAME = bytes.fromhex("2a864886f70d010914")
_NESTED_MAX = 4


class DerError(ValueError):
    """The bytes are not the DER that they should be."""


@dataclass(frozen=True)
class Survey:
    """What a PKCS12 store says without its password: how much work it asks for, and its private keys."""

    iterations: int
    private_keys: tuple[str, ...]
    """Aliases; an empty text where a key has no alias."""


class DerReader:
    """The elements of one DER value, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._data)

    def next_tag(self) -> int | None:
        return None if self.is_at_end else self._data[self._position]

    def any(self) -> tuple[int, bytes]:
        """Return tag and content of the next element."""
        data, position = self._data, self._position
        if position + 2 > len(data):
            raise DerError("ends too early")
        tag, length = data[position], data[position + 1]
        position += 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4:
                raise DerError("has a length that is not DER")
            length = int.from_bytes(data[position : position + size], "big")
            position += size
        end = position + length
        if end > len(data):
            raise DerError("ends too early")
        self._position = end
        return tag, data[position:end]

    def take(self, wanted: int) -> bytes:
        """Return the content of the next element, which has this tag."""
        tag, content = self.any()
        if tag != wanted:
            raise DerError("has another structure")
        return content

    def each(self, wanted: int) -> Iterator[bytes]:
        """Return the contents of all elements that are left; each has this tag."""
        while not self.is_at_end:
            yield self.take(wanted)


def der_of(tag: int, *contents: bytes) -> bytes:
    """Return an element with these contents, one after the other."""
    content = b"".join(contents)
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    size = (length.bit_length() + 7) // 8
    return bytes([tag, 0x80 | size]) + length.to_bytes(size, "big") + content


def encrypted_key_iterations(data: bytes) -> int:
    """Return the iterations that an `EncryptedPrivateKeyInfo` asks for.

    Raises:
        DerError: it is not one, or its algorithm is not known.
    """
    return _algorithm_iterations(DerReader(DerReader(data).take(SEQUENCE)).take(SEQUENCE))


def survey_pkcs12(data: bytes) -> Survey:
    """Return what a PKCS12 store asks for.

    Raises:
        DerError: it is not one.
    """
    pfx = DerReader(DerReader(data).take(SEQUENCE))
    pfx.take(INTEGER)
    safes = DerReader(DerReader(content_of(pfx.take(SEQUENCE))).take(SEQUENCE))
    iterations = 0 if pfx.is_at_end else _mac_iterations(DerReader(pfx.take(SEQUENCE)))
    aliases: list[str] = []
    for safe in safes.each(SEQUENCE):
        found, keys = _safe(safe)
        iterations += found
        aliases += keys
    return Survey(iterations, tuple(aliases))


def content_of(content_info: bytes) -> bytes:
    """Return the data in a `ContentInfo`."""
    reader = DerReader(content_info)
    if reader.take(OID) != DATA:
        raise DerError("has another structure")
    return DerReader(reader.take(EXPLICIT_0)).take(OCTETS)


def _mac_iterations(mac: DerReader) -> int:
    digest = DerReader(DerReader(mac.take(SEQUENCE)).take(SEQUENCE))
    is_pbmac1 = digest.take(OID) == _PBMAC1
    mac.take(OCTETS)
    iterations = 1 if mac.is_at_end else int.from_bytes(mac.take(INTEGER), "big")
    if is_pbmac1:
        iterations += _algorithm_iterations(DerReader(digest.take(SEQUENCE)).take(SEQUENCE))
    return iterations


def _safe(content: bytes) -> tuple[int, list[str]]:
    reader = DerReader(content)
    kind = reader.take(OID)
    if kind == DATA:
        return _bags(DerReader(reader.take(EXPLICIT_0)).take(OCTETS), 0)
    if kind != _ENCRYPTED_DATA:
        raise DerError("has a part that is neither data nor data encrypted with a password")
    encrypted = DerReader(DerReader(reader.take(EXPLICIT_0)).take(SEQUENCE))
    encrypted.take(INTEGER)
    info = DerReader(encrypted.take(SEQUENCE))
    info.take(OID)
    return _algorithm_iterations(info.take(SEQUENCE)), []


def _bags(content: bytes, depth: int) -> tuple[int, list[str]]:
    if depth > _NESTED_MAX:
        raise DerError("is nested too deep")
    iterations, aliases = 0, []
    for each in DerReader(DerReader(content).take(SEQUENCE)).each(SEQUENCE):
        bag = DerReader(each)
        kind, value = bag.take(OID), bag.take(EXPLICIT_0)
        if kind == _NESTED_BAG:
            found, keys = _bags(value, depth + 1)
            iterations += found
            aliases += keys
        if kind == _SHROUDED_KEY_BAG:
            iterations += encrypted_key_iterations(value)
        if kind in (KEY_BAG, _SHROUDED_KEY_BAG):
            aliases.append("" if bag.is_at_end else _alias(bag.take(SET)))
    return iterations, aliases


def _alias(attributes: bytes) -> str:
    for each in DerReader(attributes).each(SEQUENCE):
        attribute = DerReader(each)
        if attribute.take(OID) == _FRIENDLY_NAME:
            name = DerReader(attribute.take(SET)).take(BMP_STRING)
            return name.decode("utf-16-be", errors="replace")
    return ""


def _algorithm_iterations(content: bytes) -> int:
    """Return what an AlgorithmIdentifier asks for."""
    reader = DerReader(content)
    kind = reader.take(OID)
    if kind == _PBES2:
        return _algorithm_iterations(DerReader(reader.take(SEQUENCE)).take(SEQUENCE))
    parameters = DerReader(reader.take(SEQUENCE))
    parameters.take(OCTETS)  # salt
    first = int.from_bytes(parameters.take(INTEGER), "big")
    if kind == _SCRYPT:
        return (
            first
            * int.from_bytes(parameters.take(INTEGER), "big")
            * int.from_bytes(parameters.take(INTEGER), "big")
        )
    if kind != _PBKDF2 and not kind.startswith((_PBES1, _PKCS12_PBE)):
        raise DerError("is encrypted in a way that is not known")
    return first
