"""One TLS handshake with a broker, for its certificate.

Runs on any machine that reaches the brokers. Invariant: sends nothing after the handshake.
"""

from __future__ import annotations

import socket
import ssl
from datetime import datetime, timezone

from penstock.doctor.facts import TlsFacts

_TIMEOUT_S = 10.0


def shake_hands(context: ssl.SSLContext, host: str, port: int) -> TlsFacts:
    """Return what a handshake shows; its error if it fails."""
    try:
        with (
            socket.create_connection((host, port), timeout=_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as sock,
        ):
            shown = sock.getpeercert() or {}
            return TlsFacts(sock.version() or "", _expiry(shown.get("notAfter")))
    except ssl.SSLCertVerificationError as error:
        return TlsFacts(error=f"the broker's certificate is refused: {error.verify_message}.")
    except ssl.SSLError as error:
        return TlsFacts(error=f"the TLS handshake failed: {error.reason or error}.")
    except OSError:
        return TlsFacts()  # the broker's own line says that it cannot be reached


def _expiry(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), timezone.utc)
