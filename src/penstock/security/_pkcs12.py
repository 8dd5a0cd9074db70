"""PKCS12 stores, which Java's keytool makes by default: read by the package `cryptography`, an extra.

Pure. `cryptography` opens the first private key and does not tell of others. So they are counted here: a
store with several is refused, because a broker may expect any of them. Only keys outside of the store's
encrypted parts are counted and used. keytool and OpenSSL write certificates alone into these parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.security._der import (
    EXPLICIT_0,
    INTEGER,
    OCTETS,
    OID,
    SEQUENCE,
    SET,
    DerError,
    DerReader,
    der_of,
)
from penstock.security._pem import CERTIFICATE, PRIVATE_KEY, pem_of
from penstock.security._store_error import StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import pkcs12

_CHAIN_MAX = 20
_BMP_STRING = 0x1E
_VERSION = b"\x03"
_DATA = bytes.fromhex("2a864886f70d010701")
_BAG = bytes.fromhex("2a864886f70d010c0a01")
_KEY_BAGS, _NESTED_BAG = (_BAG + b"\x01", _BAG + b"\x02"), _BAG + b"\x06"
_FRIENDLY_NAME = bytes.fromhex("2a864886f70d010914")


def pkcs12_trusted(data: bytes, password: str | None) -> str:
    """Return the certificates of a store, as PEM: trusted ones, and the first of a key's chain.

    Raises:
        StoreError: the password is wrong, or the store is damaged.
        ImportError: there is no `cryptography`.
    """
    _private_keys(data)  # tells a file that is cut off from a wrong password
    store = _loaded(data, password)
    if store.cert is not None and not store.additional_certs:
        return _pem(store.cert.certificate)
    return "".join(dict.fromkeys(_pem(each.certificate) for each in store.additional_certs))


def pkcs12_identity(data: bytes, password: str) -> str:
    """Return the private key and its chain, as PEM.

    Raises:
        StoreError: as above, or the store has another number of private keys than one.
        ImportError: as above.
    """
    aliases = _private_keys(data)
    if len(aliases) > 1:
        raise StoreError.number_of_keys(aliases)
    store = _loaded(data, password)  # checks the checksum
    if not aliases and store.key is not None:
        raise StoreError(
            "holds no private key outside of its encrypted parts, and a key in these is not used. Make the "
            "store again: keytool -importkeystore -srcalias ALIAS ..."
        )
    if not aliases:
        raise StoreError.number_of_keys([])
    store = _loaded(_with_key_first(data), password)
    if store.key is None or store.cert is None:
        raise StoreError("holds a private key, but not its certificate")
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra

    key = store.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = _chain(store.cert.certificate, [each.certificate for each in store.additional_certs])
    return pem_of(PRIVATE_KEY, key) + "".join(_pem(each) for each in chain)


def _private_keys(data: bytes) -> list[str]:
    """Return the aliases of the private keys that are counted; an empty text where a key has no alias."""
    try:
        contents = [_content_of(part) for part in _parts(data)]
        return [alias for bags in contents if bags is not None for alias in _aliases(bags)]
    except DerError as error:
        raise StoreError(f"is damaged, cut off or not a PKCS12 store (it {error})") from None


def _with_key_first(data: bytes) -> bytes:
    """Return the store without its checksum, its encrypted parts last: so no key in them is the first."""
    parts = sorted(_parts(data), key=lambda part: _content_of(part) is None)
    content = der_of(SEQUENCE, *(der_of(SEQUENCE, part) for part in parts))
    info = der_of(SEQUENCE, der_of(OID, _DATA), der_of(EXPLICIT_0, der_of(OCTETS, content)))
    return der_of(SEQUENCE, der_of(INTEGER, _VERSION), info)


def _parts(data: bytes) -> list[bytes]:
    """Return the parts of a store, each a `ContentInfo`."""
    pfx = DerReader(DerReader(data).take(SEQUENCE))
    pfx.take(INTEGER)
    content = _content_of(pfx.take(SEQUENCE)) or b""
    return list(DerReader(DerReader(content).take(SEQUENCE)).each(SEQUENCE))


def _content_of(content_info: bytes) -> bytes | None:
    """Return the data in a `ContentInfo`; None if it is encrypted."""
    reader = DerReader(content_info)
    if reader.take(OID) != _DATA:
        return None
    return DerReader(reader.take(EXPLICIT_0)).take(OCTETS)


def _aliases(bags: bytes) -> list[str]:
    found = []
    for each in DerReader(DerReader(bags).take(SEQUENCE)).each(SEQUENCE):
        bag = DerReader(each)
        kind, content = bag.take(OID), bag.take(EXPLICIT_0)
        if kind == _NESTED_BAG:
            found += _aliases(content)
        elif kind in _KEY_BAGS:
            found.append("" if bag.is_at_end else _alias(bag.take(SET)))
    return found


def _alias(attributes: bytes) -> str:
    for each in DerReader(attributes).each(SEQUENCE):
        attribute = DerReader(each)
        if attribute.take(OID) == _FRIENDLY_NAME:
            name = DerReader(attribute.take(SET)).take(_BMP_STRING)
            return name.decode("utf-16-be", errors="replace")
    return ""


def _loaded(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - an extra

    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode("utf-8"))
    except Exception:  # noqa: BLE001  # what it raises for damaged bytes is not documented, and may show them
        shown = "{password} is not its password" if password else "{password} is not set"
        raise StoreError(f"is damaged, or {shown}") from None


def _chain(first: Any, others: list[Any]) -> list[Any]:
    """Return a certificate and its issuers in order, as OpenSSL sends them."""
    chain = [first]
    while len(chain) < _CHAIN_MAX and chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in others if each.subject == chain[-1].issuer), None)
        if issuer is None or issuer in chain:
            break
        chain.append(issuer)
    return chain


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 - an extra

    return pem_of(CERTIFICATE, certificate.public_bytes(Encoding.DER))
