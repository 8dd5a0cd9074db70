"""How a connection proves who we are and checks who the broker is: TLS from PEM, SASL/PLAIN and SCRAM.

Settings are made from Java-style properties (driver or executor), and become an `SSLContext` only where
a socket is opened. Invariant: hashable, and neither `repr` nor an error shows a secret.
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import OptionError

_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True)
class TlsSettings:
    """What a TLS connection trusts and presents. PEM text, never a path.

    `trusted_certificates` None means the system's certificate authorities.
    """

    trusted_certificates: str | None = field(default=None, repr=False)
    certificate_chain: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    private_key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    minimum_version: str = "TLSv1.2"
    maximum_version: str = "TLSv1.3"

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
        if self.certificate_chain is not None:
            self._load_identity(context, self.certificate_chain)
        return context

    def _load_trust(self, context: ssl.SSLContext) -> None:
        if self.trusted_certificates is None:
            context.load_default_certs()
            return
        try:
            context.load_verify_locations(cadata=self.trusted_certificates)
        except (ssl.SSLError, ValueError):
            raise OptionError(
                "The trusted certificates (ssl.truststore.certificates, or the file of "
                "ssl.truststore.location) are not PEM certificates that OpenSSL can read. Give one or "
                "more blocks from '-----BEGIN CERTIFICATE-----' to '-----END CERTIFICATE-----'.",
                option="ssl.truststore.certificates",
            ) from None

    def _load_identity(self, context: ssl.SSLContext, chain: str) -> None:
        # OpenSSL's Python face reads a key only from a file; this one is ours alone and gone at once.
        with tempfile.TemporaryDirectory(prefix="penstock-tls-") as folder:
            path = Path(folder) / "identity.pem"
            path.touch(mode=0o600)
            path.write_text(f"{self.private_key or ''}\n{chain}\n", encoding="utf-8")
            try:
                # An empty password where none is given: OpenSSL would ask the terminal for one.
                context.load_cert_chain(path, password=self.private_key_password or "")
            except (ssl.SSLError, ValueError):
                raise OptionError(
                    "The client certificate and key (ssl.keystore.certificate.chain and "
                    "ssl.keystore.key, or the file of ssl.keystore.location) cannot be used: they are "
                    "not PEM, do not belong together, or ssl.key.password does not open the key.",
                    option="ssl.keystore.key",
                ) from None


@dataclass(frozen=True)
class SecuritySettings:
    """Protocol, TLS and SASL of a connection."""

    protocol: str = "PLAINTEXT"
    tls: TlsSettings | None = None
    sasl_mechanism: str | None = None
    sasl_username: str | None = field(default=None, repr=False)
    sasl_password: str | None = field(default=None, repr=False)
