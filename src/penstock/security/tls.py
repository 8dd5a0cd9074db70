"""TLS settings from `ssl.*`, and the `SSLContext` made of them where a socket is opened.

Runs on driver and executors. Settings hold PEM text and no paths. Invariants: hashable, and neither `repr`
nor an error shows a key, a password or a certificate. No cipher suite that was not named is ever used.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import property_value
from penstock.security._stores import identity_pem, trusted_pem

_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CIPHERS = "ssl.cipher.suites"
TLS_1_3_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_SUITE = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(AES_128|AES_256|CHACHA20_POLY1305)(?:_(GCM|CBC|CCM|CCM_8))?"
    r"(?:_(SHA|SHA256|SHA384))?"
)
_ALLOWED = (
    "names of cipher suites as Java has them, e.g. TLS_AES_256_GCM_SHA384 or "
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, separated by commas"
)


@dataclass(frozen=True)
class TlsSettings:
    """What a TLS connection trusts and presents. PEM text, never a path.

    `trusted_certificates` None means the system's certificate authorities. `identity` is a private key
    and its certificate chain. `ciphers` are OpenSSL's names for TLS 1.2; empty means OpenSSL's choice.
    """

    trusted_certificates: str | None = field(default=None, repr=False)
    identity: str | None = field(default=None, repr=False)
    private_key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    minimum_version: str = "TLSv1.2"
    maximum_version: str = "TLSv1.3"
    ciphers: tuple[str, ...] = ()
    prefix: str = field(default="", compare=False)
    """What the user writes before the names of these properties; for messages."""

    def ssl_context(self) -> ssl.SSLContext:
        """Build the context that every TLS connection with these settings uses.

        Raises:
            OptionError: a certificate or key is not what it should be.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.check_hostname
        context.minimum_version = _TLS_VERSIONS[self.minimum_version]
        context.maximum_version = _TLS_VERSIONS[self.maximum_version]
        self._load_trust(context)
        if self.identity is not None:
            self._load_identity(context, self.identity)
        if self.ciphers:
            self._choose_ciphers(context)
        return context

    def _load_trust(self, context: ssl.SSLContext) -> None:
        if self.trusted_certificates is None:
            context.load_default_certs()
            return
        # As in Java, each certificate of the trust store is an anchor, even one that another signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=self.trusted_certificates)
        except (ssl.SSLError, ValueError):
            raise OptionError(
                f"The trusted certificates ('{self.prefix}ssl.truststore.certificates', or the file of "
                f"'{self.prefix}ssl.truststore.location') hold no certificate that OpenSSL can read. Give "
                "one or more blocks from '-----BEGIN CERTIFICATE-----' to '-----END CERTIFICATE-----'.",
                option=f"{self.prefix}ssl.truststore.certificates",
            ) from None

    def _load_identity(self, context: ssl.SSLContext, identity: str) -> None:
        with private_file(identity) as path:
            try:
                # An empty password where none is given: OpenSSL would ask the terminal for one.
                context.load_cert_chain(path, password=self.private_key_password or "")
            except (ssl.SSLError, ValueError):
                raise OptionError(
                    f"The client certificate and key ('{self.prefix}ssl.keystore.certificate.chain' and "
                    f"'{self.prefix}ssl.keystore.key', or the file of '{self.prefix}ssl.keystore.location') "
                    "cannot be used: they do not belong together, OpenSSL cannot read them, or the password "
                    f"('{self.prefix}ssl.key.password' or '{self.prefix}ssl.keystore.password') does not "
                    "open the key.",
                    option=f"{self.prefix}ssl.keystore.key",
                ) from None

    def _choose_ciphers(self, context: ssl.SSLContext) -> None:
        try:
            context.set_ciphers(":".join(self.ciphers))
        except ssl.SSLError:
            key = self.prefix + _CIPHERS
            raise OptionError(
                f"Option '{key}' names no cipher suite that this machine's OpenSSL ({ssl.OPENSSL_VERSION}) "
                "allows. Name others, or leave it out.",
                option=key,
            ) from None


def tls_settings(properties: KafkaProperties) -> TlsSettings:
    """Make TLS settings from `ssl.*`.

    Raises:
        OptionError: stores are contradictory, incomplete or unreadable, or a password is wrong.
        UnsupportedOptionError: a choice of cipher suites that Python cannot tell OpenSSL.
    """
    versions = property_value(properties, "ssl.enabled.protocols")
    ciphers, versions = _ciphers(properties, versions)
    return TlsSettings(
        trusted_certificates=trusted_pem(properties),
        identity=identity_pem(properties),
        private_key_password=properties.get("ssl.key.password") or properties.get("ssl.keystore.password"),
        check_hostname=property_value(properties, "ssl.endpoint.identification.algorithm"),
        minimum_version=versions[0],
        maximum_version=versions[-1],
        ciphers=ciphers,
        prefix=properties.prefix,
    )


def _ciphers(
    properties: KafkaProperties, versions: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return OpenSSL's names of the suites for TLS 1.2, and the TLS versions that have a suite."""
    suites = property_value(properties, _CIPHERS)
    key = properties.spelled(_CIPHERS)
    if not suites:
        return (), versions
    new = [suite for suite in suites if suite in TLS_1_3_SUITES]
    try:
        old = tuple(openssl_name(suite) for suite in suites if suite not in TLS_1_3_SUITES)
    except ValueError as error:
        raise OptionError(f"Option '{key}' has an unknown name. Allowed: {error}.", option=key) from None
    if new and "TLSv1.3" in versions and len(set(new)) < len(TLS_1_3_SUITES):
        raise UnsupportedOptionError(
            f"Option '{key}': Python's ssl cannot choose among the cipher suites of TLS 1.3. Name all three "
            f"({', '.join(TLS_1_3_SUITES)}), or none of them, which turns TLS 1.3 off.",
            option=key,
        )
    usable = {"TLSv1.2": bool(old), "TLSv1.3": bool(new)}
    left = tuple(version for version in versions if usable[version])
    if not left:
        raise OptionError(
            f"Option '{key}' has no cipher suite for '{properties.spelled('ssl.enabled.protocols')}' = "
            f"'{','.join(versions)}'. Add a suite for one of these versions, or leave the option out.",
            option=key,
        )
    return old, left


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2. Raises ValueError if it is not the name of one."""
    match = _SUITE.fullmatch(suite)
    if match is None:
        raise ValueError(_ALLOWED)
    exchange, signature, cipher, mode, digest = match.groups()
    # What uses a CBC cipher has no mode in its OpenSSL name; what uses CCM or ChaCha20 no digest.
    words = [exchange, signature if exchange else None, cipher.replace("AES_", "AES").replace("_", "-")]
    words.append({None: None, "CBC": None, "CCM_8": "CCM8"}.get(mode, mode))
    words.append(None if mode in ("CCM", "CCM_8") or cipher.startswith("CHACHA") else digest)
    return "-".join(word for word in words if word)


@contextmanager
def private_file(text: str) -> Iterator[str]:
    """Give the path of a private file that holds the text, until the block ends.

    Python's `ssl` opens keys from files only. No other user of the machine can read this one, and nothing of
    it is left behind. On Linux it is in memory and has no name. Elsewhere it is removed at once.
    """
    data = text.encode("utf-8")
    if not hasattr(os, "memfd_create") or not Path("/proc/self/fd").is_dir():
        with _file_on_disk(data) as path:
            yield path
        return
    number = os.memfd_create("penstock-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(number, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


@contextmanager
def _file_on_disk(data: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="penstock-tls-") as folder:
        path = Path(folder) / "identity.pem"
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
        yield str(path)
