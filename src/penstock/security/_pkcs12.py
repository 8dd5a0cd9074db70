"""PKCS12 stores, which Java's keytool makes by default: read by the package `cryptography`, an extra.

Pure. Invariant: a store that asks for more work than `ITERATIONS_MAX` is refused before any of it is done. It
can hide a demand in what is encrypted: the iterations of another private key there. OpenSSL opens the first
private key only, so it gets the store with a key that is not hidden before all that is encrypted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.security._der import (
    DATA,
    EXPLICIT_0,
    INTEGER,
    ITERATIONS_MAX,
    KEY_BAG,
    OCTETS,
    OID,
    SEQUENCE,
    DerError,
    DerReader,
    Survey,
    content_of,
    der_of,
    survey_pkcs12,
)
from penstock.security._pem import CERTIFICATE, PRIVATE_KEY, pem_of
from penstock.security._pkcs12_mac import mac_fits
from penstock.security._store_error import StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import pkcs12

_CHAIN_MAX = 20


def pkcs12_trusted(data: bytes, password: str | None) -> str:
    """Return the certificates of a store, as PEM: trusted ones, and the first of a key's chain.

    Raises:
        StoreError: the password is wrong, the store is damaged or asks for too much, or there is no
            `cryptography`.
    """
    survey = _surveyed(data)
    store = _loaded(data, password, has_key=bool(survey.private_keys))
    if survey.private_keys and store.cert is not None and not store.additional_certs:
        return _pem(store.cert.certificate)
    certificates = [each.certificate for each in store.additional_certs]
    return "".join(dict.fromkeys(_pem(each) for each in certificates))


def pkcs12_identity(data: bytes, password: str) -> str:
    """Return the private key and its chain, as PEM.

    Raises:
        StoreError: as above, or the store has another number of private keys than one.
    """
    survey = _surveyed(data)
    if len(survey.private_keys) > 1:
        raise StoreError.number_of_keys(survey.private_keys)
    store = _loaded(data, password, has_key=bool(survey.private_keys))
    if not survey.private_keys or store.key is None or store.cert is None:
        raise StoreError.number_of_keys([])
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra

    key = store.key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = _chain(store.cert.certificate, [each.certificate for each in store.additional_certs])
    return pem_of(PRIVATE_KEY, key) + "".join(_pem(each) for each in chain)


def _without_hidden_work(data: bytes, password: str | None, *, has_key: bool) -> bytes:
    """Return the store with a private key first, and without its checksum, which is checked here.

    Raises:
        DerError: it is not a store, or its checksum is not known.
        StoreError: the checksum does not fit.
    """
    pfx = DerReader(DerReader(data).take(SEQUENCE))
    version, content = pfx.take(INTEGER), content_of(pfx.take(SEQUENCE))
    if not pfx.is_at_end and not mac_fits(pfx.take(SEQUENCE), content, password):
        raise _refused(password)
    safes = [der_of(SEQUENCE, each) for each in DerReader(DerReader(content).take(SEQUENCE)).each(SEQUENCE)]
    safes.sort(key=lambda safe: DerReader(DerReader(safe).take(SEQUENCE)).take(OID) != DATA)
    if not has_key:
        safes.insert(0, _safe_with_a_key_of_no_use())
    return der_of(SEQUENCE, der_of(INTEGER, version), _data(der_of(SEQUENCE, *safes)))


def _safe_with_a_key_of_no_use() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - an extra

    key = Ed25519PrivateKey.from_private_bytes(bytes(32)).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    bag = der_of(SEQUENCE, der_of(OID, KEY_BAG), der_of(EXPLICIT_0, key))
    return _data(der_of(SEQUENCE, bag))


def _data(content: bytes) -> bytes:
    """Return a `ContentInfo` with this data."""
    return der_of(SEQUENCE, der_of(OID, DATA), der_of(EXPLICIT_0, der_of(OCTETS, content)))


def _refused(password: str | None) -> StoreError:
    shown = "{password} is not its password" if password else "{password} is not set"
    return StoreError(f"is damaged, or {shown}")


def _surveyed(data: bytes) -> Survey:
    try:
        survey = survey_pkcs12(data)
    except DerError as error:
        raise StoreError(f"is damaged, cut off or not a PKCS12 store (it {error})") from None
    if survey.iterations > ITERATIONS_MAX:
        raise StoreError(
            f"asks for {survey.iterations} iterations to be opened; at most {ITERATIONS_MAX} are allowed. "
            "Make it again with keytool -importkeystore"
        )
    return survey


def _loaded(data: bytes, password: str | None, *, has_key: bool) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 - an extra
    except ImportError:
        raise StoreError(
            "is a PKCS12 store, which needs the package 'cryptography' (penstock's extra 'pkcs12') on driver "
            "and executors. Install it, or give a store in JKS or PEM, which need no package"
        ) from None
    try:
        data = _without_hidden_work(data, password, has_key=has_key)
        return pkcs12.load_pkcs12(data, None if password is None else password.encode("utf-8"))
    except Exception:  # noqa: BLE001  # what it raises for hostile bytes is not documented, and may show them
        raise _refused(password) from None


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
