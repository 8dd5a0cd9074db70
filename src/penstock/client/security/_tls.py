"""TLS settings from PEM, and the `SSLContext` made of them where a socket is opened.

Settings hold PEM text and no paths. Invariant: hashable, and neither `repr` nor an error shows a key, a
password or a certificate.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from penstock.errors import MissingOptionError, OptionError, UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import property_value

_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_LINE_LENGTH = 64


@dataclass(frozen=True)
class TlsSettings:
    """What a TLS connection trusts and presents. PEM text, never a path.

    `trusted_certificates` None means the system's certificate authorities. `identity` is a private key
    and its certificate chain.
    """

    trusted_certificates: str | None = field(default=None, repr=False)
    identity: str | None = field(default=None, repr=False)
    private_key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    minimum_version: str = "TLSv1.2"
    maximum_version: str = "TLSv1.3"
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
        return context

    def _load_trust(self, context: ssl.SSLContext) -> None:
        if self.trusted_certificates is None:
            context.load_default_certs()
            return
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
        # Python's ssl reads a key only from a file; this one is ours alone and gone at once.
        with tempfile.TemporaryDirectory(prefix="penstock-tls-") as folder:
            path = Path(folder) / "identity.pem"
            path.touch(mode=0o600)
            path.write_text(identity, encoding="utf-8")
            try:
                # An empty password where none is given: OpenSSL would ask the terminal for one.
                context.load_cert_chain(path, password=self.private_key_password or "")
            except (ssl.SSLError, ValueError):
                raise OptionError(
                    f"The client certificate and key ('{self.prefix}ssl.keystore.certificate.chain' and "
                    f"'{self.prefix}ssl.keystore.key', or the file of '{self.prefix}ssl.keystore.location') "
                    "cannot be used: they do not belong together, OpenSSL cannot read them, or "
                    f"'{self.prefix}ssl.key.password' does not open the key.",
                    option=f"{self.prefix}ssl.keystore.key",
                ) from None


def tls_settings(properties: KafkaProperties) -> TlsSettings:
    """Make TLS settings from `ssl.*`.

    Raises:
        OptionError: stores are contradictory, incomplete or unreadable.
        UnsupportedOptionError: a store is not PEM.
    """
    versions = property_value(properties, "ssl.enabled.protocols")
    return TlsSettings(
        trusted_certificates=_store(properties, "truststore", inline=("ssl.truststore.certificates",)),
        identity=_store(
            properties, "keystore", inline=("ssl.keystore.key", "ssl.keystore.certificate.chain")
        ),
        private_key_password=properties.get("ssl.key.password"),
        check_hostname=property_value(properties, "ssl.endpoint.identification.algorithm"),
        minimum_version=versions[0],
        maximum_version=versions[-1],
        prefix=properties.prefix,
    )


def _store(properties: KafkaProperties, store: str, *, inline: tuple[str, ...]) -> str | None:
    """Return a store as PEM text, from its file or from the properties that hold it inline."""
    key = properties.spelled
    location_key = key(f"ssl.{store}.location")
    location = properties.get(f"ssl.{store}.location")
    texts = {name: properties.get(name) for name in inline}
    given = [name for name, text in texts.items() if text is not None]
    if location is None and not given:
        return None
    _require_pem(properties, f"ssl.{store}.type")
    if location is not None and given:
        raise OptionError(
            f"Options '{location_key}' and '{key(given[0])}' exclude each other: set one of them.",
            option=location_key,
        )
    if location is not None:
        return _read_pem_file(location_key, location)
    missing = [name for name, text in texts.items() if text is None]
    if missing:
        raise MissingOptionError(
            f"Option '{key(missing[0])}' is required with '{key(given[0])}'.", option=key(missing[0])
        )
    return "".join(normalised_pem(key(name), text) for name, text in texts.items() if text is not None)


def _require_pem(properties: KafkaProperties, name: str) -> None:
    kind, key = property_value(properties, name), properties.spelled(name)
    if kind != "PEM":
        raise UnsupportedOptionError(
            f"Option '{key}' is {'not set, which means JKS' if kind is None else repr(kind)}: Java key "
            f"stores are not supported yet. Give PEM and set '{key}' = 'PEM'.",
            option=key,
        )


def _read_pem_file(name: str, location: str) -> str:
    try:
        text = Path(location).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise OptionError(
            f"Option '{name}': the file '{location}' cannot be read here ({error.strerror}). It must exist "
            "on every machine that reads or writes.",
            option=name,
        ) from None
    return normalised_pem(name, text)


def normalised_pem(name: str, text: str) -> str:
    r"""Return the PEM blocks of a text, line breaks as OpenSSL wants them.

    A value that travelled through a command line or a properties file often has its lines joined by
    spaces or by the two characters `\n`.

    Raises:
        OptionError: there is no block.
    """
    blocks = [_block(match[1], match[2].replace("\\n", "\n")) for match in _PEM_BLOCK.finditer(text)]
    if not blocks:
        raise OptionError(
            f"Option '{name}' holds no PEM block, from '-----BEGIN ...-----' to '-----END ...-----'.",
            option=name,
        )
    return "".join(blocks)


def _block(label: str, body: str) -> str:
    # The headers of an old-style encrypted key ("Proc-Type: ...") have to keep their lines.
    if ":" not in body:
        base64 = "".join(body.split())
        starts = range(0, len(base64), _PEM_LINE_LENGTH)
        body = "\n".join(["", *(base64[start : start + _PEM_LINE_LENGTH] for start in starts), ""])
    return f"-----BEGIN {label}-----{body}-----END {label}-----\n"
