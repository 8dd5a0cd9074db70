"""`ssl.cipher.suites`: Java's names of cipher suites in OpenSSL's words.

Pure. Invariant: no suite that was not named is ever used.
"""

from __future__ import annotations

import re

TLS_1_3_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_SUITE = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(AES_128|AES_256|CHACHA20_POLY1305)(?:_(GCM|CBC|CCM|CCM_8))?"
    r"(?:_(SHA|SHA256|SHA384))?"
)
_ALLOWED = (
    "names of cipher suites as Java has them, e.g. TLS_AES_256_GCM_SHA384 or "
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, separated by commas"
)


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2.

    Raises:
        ValueError: it is not the name of one.
    """
    match = _SUITE.fullmatch(suite)
    if match is None:
        raise ValueError(_ALLOWED)
    exchange, signature, cipher, mode, digest = match.groups()
    # What uses a CBC cipher has no mode in its OpenSSL name; what uses CCM or ChaCha20 no digest.
    words = [exchange, signature if exchange else None, cipher.replace("AES_", "AES").replace("_", "-")]
    words.append({None: None, "CBC": None, "CCM_8": "CCM8"}.get(mode, mode))
    words.append(None if mode in ("CCM", "CCM_8") or cipher.startswith("CHACHA") else digest)
    return "-".join(word for word in words if word)
