"""Tell the principal by which a broker knows this user, for messages about missing rights.

Runs wherever settings are. Invariant: the principal is a name and never a secret; None where only the broker
knows it (tokens, connections without a login).
"""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.security._der import EXPLICIT_0, INTEGER, OID, SEQUENCE, SET, DerError, DerReader
from penstock.security._pem import CERTIFICATE, der_blocks
from penstock.security.settings import PasswordLogin, SecuritySettings

_UTC_TIME = 0x17
_ATTRIBUTES = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
_SPECIAL = ',+"\\<>;'


def principal_of(security: SecuritySettings) -> str | None:
    """Return the principal as ACLs name it, e.g. "User:alice" or "User:CN=client,O=Shop"; None: unknown."""
    if isinstance(security.sasl, PasswordLogin):
        return f"User:{security.sasl.username}"
    if security.sasl is not None or security.tls is None or security.tls.identity is None:
        return None
    try:
        return f"User:{_subject(security.tls.identity)}"
    except DerError:
        return None


def certificate_expiry(pem_text: str) -> datetime | None:
    """Return when the first certificate of a PEM text expires; None if it cannot be read."""
    try:
        validity = DerReader(_to_be_signed(pem_text)[2])
        validity.any()
        tag, content = validity.any()
        text = content.decode("ascii")
        moment = datetime.strptime(text, "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ")  # noqa: DTZ007 - UTC, see below
    except (DerError, ValueError):
        return None
    return moment.replace(tzinfo=UTC)


def _subject(pem_text: str) -> str:
    """Return the subject of the first certificate in the order of RFC 2253, as Kafka writes it."""
    names = []
    for part in DerReader(_to_be_signed(pem_text)[3]).each(SET):
        attribute = DerReader(DerReader(part).take(SEQUENCE))
        kind = _ATTRIBUTES.get(attribute.take(OID))
        if kind is None:
            raise DerError("has an attribute that has no short name")
        value = attribute.any()[1].decode("utf-8", errors="replace")
        escaped = "".join(f"\\{each}" if each in _SPECIAL else each for each in value)
        names.append(f"{kind}={escaped}")
    return ",".join(reversed(names))


def _to_be_signed(pem_text: str) -> list[bytes]:
    """Return signature algorithm, issuer, validity and subject of the first certificate."""
    blocks = der_blocks(pem_text, CERTIFICATE)
    if not blocks:
        raise DerError("has no certificate")
    reader = DerReader(DerReader(DerReader(blocks[0]).take(SEQUENCE)).take(SEQUENCE))
    if reader.next_tag() == EXPLICIT_0:
        reader.take(EXPLICIT_0)
    reader.take(INTEGER)
    return [reader.take(SEQUENCE) for _ in range(4)]
