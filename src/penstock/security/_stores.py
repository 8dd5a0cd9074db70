"""Key and trust stores under the Java client's names (JKS, PKCS12, PEM; by location or as text), as PEM text.

Runs where a connection is opened: each process reads its own files. A store is read again when its file has
changed. Invariant: neither an error nor a `repr` shows a key or a password.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from penstock.errors import MissingOptionError, OptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import property_value
from penstock.security import _jks, _pkcs12
from penstock.security._pem import pem_blocks
from penstock.security._store_error import StoreError
from penstock.security.files import read_file, stamp_of

_JCEKS = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_KEPT_STORES = 32


def trusted_pem(properties: KafkaProperties) -> str | None:
    """Return the certificates to trust, as PEM; None means the system's.

    Raises:
        OptionError: the store is contradictory or unreadable.
    """
    location = properties.get("ssl.truststore.location")
    text = properties.get("ssl.truststore.certificates")
    if text is not None:
        return _inline(properties, "truststore", {"ssl.truststore.certificates": text})
    if location is None:
        return None
    kind = property_value(properties, "ssl.truststore.type")
    password = properties.get("ssl.truststore.password") or None
    return _read("truststore", location, kind, password, None, properties)


def identity_pem(properties: KafkaProperties) -> str | None:
    """Return the client's private key and certificate chain, as PEM; None means that the client has none.

    Raises:
        OptionError: the store is contradictory, incomplete or unreadable.
    """
    location = properties.get("ssl.keystore.location")
    names = ("ssl.keystore.key", "ssl.keystore.certificate.chain")
    texts = {name: text for name in names if (text := properties.get(name)) is not None}
    if texts:
        for name in names:
            if name not in texts:
                key, other = properties.spelled(name), properties.spelled(next(iter(texts)))
                raise MissingOptionError(f"Option '{key}' is required with '{other}'.", option=key)
        return _inline(properties, "keystore", texts)
    if location is None:
        return None
    kind = property_value(properties, "ssl.keystore.type")
    password = properties.get("ssl.keystore.password") or None
    key_password = properties.get("ssl.key.password") or password
    return _read("keystore", location, kind, password, key_password, properties)


def _inline(properties: KafkaProperties, store: str, texts: dict[str, str]) -> str:
    key, first = properties.spelled, next(iter(texts))
    if properties.get(f"ssl.{store}.location") is not None:
        raise OptionError(
            f"Options '{key(f'ssl.{store}.location')}' and '{key(first)}' exclude each other: set one of "
            "them.",
            option=key(f"ssl.{store}.location"),
        )
    kind = property_value(properties, f"ssl.{store}.type")
    if kind not in (None, "PEM"):
        raise OptionError(
            f"Option '{key(first)}' is text in PEM, but '{key(f'ssl.{store}.type')}' is '{kind}'. Set it to "
            f"'PEM', or give a file as '{key(f'ssl.{store}.location')}'.",
            option=key(f"ssl.{store}.type"),
        )
    return "".join(_checked_pem(key(name), text) for name, text in texts.items())


def _read(
    store: str,
    location: str,
    kind: str | None,
    password: str | None,
    key_password: str | None,
    properties: KafkaProperties,
) -> str:
    return _read_stamped(store, location, kind, password, key_password, properties.prefix, stamp_of(location))


@functools.lru_cache(_KEPT_STORES)  # opening a PKCS12 store takes tens of milliseconds, and each task asks
def _read_stamped(
    store: str,
    location: str,
    kind: str | None,
    password: str | None,
    key_password: str | None,
    prefix: str,
    stamp: object,  # a part of the cache's key
) -> str:
    key = f"{prefix}ssl.{store}.location"
    data = read_file(location, key)
    try:
        return _opened(store, data, kind, password, key_password)
    except StoreError as error:
        text = str(error).replace("{key_password}", f"'{prefix}ssl.key.password'")
        text = text.replace("{password}", f"'{prefix}ssl.{store}.password'")
        text = text.replace("{type}", f"'{prefix}ssl.{store}.type'")
        raise OptionError(f"Option '{key}': the file '{location}' {text}.", option=key) from None
    except ImportError as error:
        from penstock.extras import missing_extra  # noqa: PLC0415 - each task imports this module

        raise missing_extra(
            "pkcs12",
            f"Option '{key}': the file '{location}' is a PKCS12 store, which",
            "A store in JKS or PEM needs no extra.",
            option=key,
        ) from error


def _opened(store: str, data: bytes, kind: str | None, password: str | None, key_password: str | None) -> str:
    form = _form(data)
    if form is None:
        raise StoreError("is not a key store: it is neither JKS nor PKCS12 nor PEM")
    # Java's JKS reads PKCS12 too and the other way round, because keytool makes PKCS12 by default.
    if kind is not None and (kind == "PEM") != (form == "PEM"):
        raise StoreError(f"is a store of type {form}, but {{type}} is {kind}: correct it, or leave it out")
    if form == "PEM":
        return pem_blocks(data.decode("ascii", errors="replace"))
    if store == "truststore":
        found = _TRUSTED[form](data, password)
        if not found:
            raise StoreError("holds no certificate")
        return found
    if password is None:
        raise StoreError("needs {password}, which is not set")
    return _IDENTITY[form](data, password, key_password or password)


def _form(data: bytes) -> str | None:
    if data.startswith(_jks.MAGIC):
        return "JKS"
    if data.startswith(_JCEKS):
        raise StoreError(
            "is a JCEKS store, which is not read here. Convert it: keytool -importkeystore -deststoretype "
            "pkcs12"
        )
    if data.startswith(_DER_SEQUENCE):
        return "PKCS12"
    return "PEM" if pem_blocks(data.decode("ascii", errors="replace")) else None


_TRUSTED: dict[str, Callable[[bytes, str | None], str]] = {
    "JKS": _jks.jks_trusted,
    "PKCS12": _pkcs12.pkcs12_trusted,
}
_IDENTITY: dict[str, Callable[[bytes, str, str], str]] = {
    "JKS": _jks.jks_identity,
    "PKCS12": lambda data, password, _key_password: _pkcs12.pkcs12_identity(
        data, password
    ),  # one, as in Java
}


def _checked_pem(key: str, text: str) -> str:
    blocks = pem_blocks(text)
    if not blocks:
        raise OptionError(
            f"Option '{key}' holds no PEM block, from '-----BEGIN ...-----' to '-----END ...-----'.",
            option=key,
        )
    return blocks
