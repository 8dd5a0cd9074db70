"""SASL PLAIN: SaslHandshake and SaslAuthenticate."""

from __future__ import annotations

import hmac

from penstock.client.net import error_codes as codes
from penstock.testing.fake._state import Call
from penstock.testing.fake._wire import Fields

PLAIN = "PLAIN"


def sasl_handshake(call: Call) -> Fields:
    """Agree on the mechanism. The only one is PLAIN."""
    is_known = call.body.mechanism == PLAIN
    code = call.refused_with or (codes.NO_ERROR if is_known else codes.UNSUPPORTED_SASL_MECHANISM)
    return {"error_code": code, "mechanisms": [PLAIN]}


def sasl_authenticate(call: Call) -> Fields:
    """Check the password."""
    code = call.refused_with
    if not code and user_of(call, bytes(call.body.auth_bytes)) is None:
        code = codes.SASL_AUTHENTICATION_FAILED
    text = "Authentication failed: Invalid username or password" if code else None
    return {"error_code": code, "error_message": text, "auth_bytes": b"", "session_lifetime_ms": 0}


def user_of(call: Call, auth_bytes: bytes) -> str | None:
    """Return the user of a login with PLAIN; None if it is wrong."""
    parts = auth_bytes.decode("utf-8", errors="replace").split("\0")
    if len(parts) != 3:
        return None
    _, user, password = parts
    expected = call.state.rights.passwords.get(user)
    is_right = expected is not None and hmac.compare_digest(expected.encode(), password.encode())
    return user if is_right else None
