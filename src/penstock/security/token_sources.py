"""Getting one token: from a token endpoint, a file, a function of the user, or made here for development.

Runs in the process that connects, on the thread of `tokens.py`. Invariant: an error shows neither token nor
secret. What another attempt may cure is a `BrokerUnavailableError`, anything else an `AuthenticationError`.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import importlib
import json
import os
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import AuthenticationError, BrokerUnavailableError, OptionError
from penstock.extras import import_extra
from penstock.security.files import read_file
from penstock.security.http import http_request, safe_url
from penstock.security.oauth import (
    AwsToken,
    PythonToken,
    TokenEndpoint,
    TokenFile,
    TokenSource,
    UnsecuredToken,
)
from penstock.security.references import resolved
from penstock.security.tls import tls_settings

_UNKNOWN_LIFETIME_S = 60.0
"""Of a token that does not tell when it ends."""
_SERVER_ERROR, _TOO_MANY = 500, 429
_SHOWN_MAX = 200
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_SIGNS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")


@dataclass(frozen=True)
class Token:
    """A token, and for how long it is good from the moment that it was given."""

    text: str = field(repr=False)
    lifetime_s: float


def fetch_token(source: TokenSource, now: Callable[[], float] = time.time) -> Token:
    """Get a token.

    Raises:
        AuthenticationError: it is refused, or is not a token.
        BrokerUnavailableError: there is none at the moment.
        OptionError: a file or a function of the options is not there.
    """
    if isinstance(source, TokenEndpoint):
        return _from_endpoint(source, now())
    if isinstance(source, TokenFile):
        text = read_file(source.path, source.key).decode("ascii", errors="replace").strip()
        return _checked(text, None, now(), f"the file '{source.path}'")
    if isinstance(source, UnsecuredToken):
        return _unsecured(source, now())
    if isinstance(source, AwsToken):
        return _of_aws(source, now())
    return _from_function(source, now())


def _of_aws(source: AwsToken, now: float) -> Token:
    signer = import_extra(
        "aws", "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", "A login with IAM to Amazon MSK"
    )
    region = source.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise OptionError(
            "The region of Amazon MSK is not known: 'bootstrap.servers' does not have it. Set AWS_REGION "
            "for the driver, and spark.executorEnv.AWS_REGION."
        )
    try:
        if source.role_arn:
            session = [source.role_session] if source.role_session else []
            text, ends_at_ms = signer.generate_auth_token_from_role_arn(region, source.role_arn, *session)
        elif source.profile:
            text, ends_at_ms = signer.generate_auth_token_from_profile(region, source.profile)
        else:
            text, ends_at_ms = signer.generate_auth_token(region)
    except Exception as error:
        raise AuthenticationError(
            f"AWS's signer gives no token ({type(error).__name__}). Check the AWS credentials of this "
            "process."
        ) from error
    return _checked(text, ends_at_ms / 1000 - now, now, "AWS's signer")


def _from_endpoint(source: TokenEndpoint, now: float) -> Token:
    shown_url = safe_url(source.url)
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    form = {"grant_type": "client_credentials"}
    if source.assertion_file is not None:
        assertion = read_file(source.assertion_file, "sasl.oauthbearer.assertion.file")
        form = {"grant_type": _JWT_BEARER, "assertion": assertion.decode("ascii", errors="replace").strip()}
    else:
        headers["Authorization"] = _basic(source)
    if source.scope:
        form["scope"] = source.scope
    body = urllib.parse.urlencode(form).encode()
    status, content = _asked(source, shown_url, headers, body)
    answer = _json(content)
    if status >= http.client.MULTIPLE_CHOICES:
        told = " ".join(str(answer.get(name, "")) for name in ("error", "error_description")).strip()
        raise AuthenticationError(
            f"The token endpoint {shown_url} refuses this client ({status}{_shown(told, source)}). Check "
            f"{source.check}.",
            status=status,
        )
    text = answer.get("access_token") or answer.get("id_token")
    if not isinstance(text, str):
        raise AuthenticationError(
            f"Expected an access_token from the token endpoint {shown_url}, got {status} without one."
        )
    return _checked(text, answer.get("expires_in"), now, f"the token endpoint {shown_url}")


def _asked(source: TokenEndpoint, shown_url: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    """Ask, and again while the endpoint cannot be reached, for as long as Java does."""
    gives_up_at = time.monotonic() + source.retry_max_ms / 1000
    pause_s = source.retry_ms / 1000
    tls = tls_settings(resolved(source.tls)).ssl_context() if source.url.startswith("https:") else None
    while True:
        try:
            status, content = http_request(
                "POST", source.url, headers=headers, body=body, tls=tls, timeout_ms=source.timeout_ms
            )
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
        else:
            if status < _SERVER_ERROR and status != _TOO_MANY:
                return status, content
            reason = f"it answers {status}"
        if time.monotonic() + pause_s >= gives_up_at:
            raise BrokerUnavailableError(
                f"The token endpoint {shown_url} gives no token ({reason}). Check that the endpoint runs and "
                f"that its URL is right: {source.check}."
            )
        time.sleep(pause_s)
        pause_s = min(2 * pause_s + 0.01, source.retry_max_ms / 1000)


def _basic(source: TokenEndpoint) -> str:
    pair = (source.client_id, source.client_secret)
    if source.encodes_header:
        pair = (urllib.parse.quote_plus(pair[0]), urllib.parse.quote_plus(pair[1]))
    return "Basic " + base64.b64encode(":".join(pair).encode()).decode()


def _shown(told: str, source: TokenEndpoint) -> str:
    if not told or (source.client_secret and source.client_secret in told):
        return ""
    printable = "".join(sign if sign.isprintable() else " " for sign in told)
    return f": {printable[:_SHOWN_MAX]}"


def _json(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _from_function(source: PythonToken, now: float) -> Token:
    function = load_function(source)
    try:
        given = function()
    except Exception as error:
        # The text of the error is the user's and may hold a secret.
        raise AuthenticationError(
            f"The function '{source.name}' of option '{source.key}' raised {type(error).__name__}, so "
            "there is no token for the login. Correct the function."
        ) from error
    ends_at: object = None
    if isinstance(given, tuple) and len(given) >= 2:
        given, ends_at = given[0], given[1]
    if not isinstance(given, str) or not (ends_at is None or isinstance(ends_at, (int, float))):
        raise AuthenticationError(
            f"The function '{source.name}' of option '{source.key}' returned {type(given).__name__}: "
            "expected a text, or a text and the time in seconds since 1970 when the token ends."
        )
    lifetime_s = None if ends_at is None else ends_at - now
    return _checked(given, lifetime_s, now, f"the function '{source.name}'")


def load_function(source: PythonToken) -> Callable[[], object]:
    """Return the user's function. Raises OptionError if there is none of this name here."""
    module_name, _, name = source.name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError, TypeError):
        found = None
    if not callable(found):
        raise OptionError(
            f"Option '{source.key}' = '{source.name}': this is not a function that Python can import here. "
            "Java classes do not run here, except for the names of Kafka's own "
            "OAuthBearerLoginCallbackHandler and OAuthBearerUnsecuredLoginCallbackHandler. Give the dotted "
            "name of a function in Python that returns a token, and install its module on the driver and "
            "on the executors.",
            option=source.key,
        )
    function: Callable[[], object] = found
    return function


def _unsecured(source: UnsecuredToken, now: float) -> Token:
    claims = dict(source.claims) | {"iat": now, "exp": now + source.lifetime_s}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    ]
    return Token(".".join([*parts, ""]), source.lifetime_s)


def _checked(text: str, lifetime_s: object, now: float, shown_url: str) -> Token:
    if not text or not set(text) <= _SIGNS:
        raise AuthenticationError(
            f"Expected a token from {shown_url}, got a text that is empty or has characters that a token "
            "cannot have."
        )
    if not isinstance(lifetime_s, (int, float)) or isinstance(lifetime_s, bool):
        ends_at = _end_of(text)
        lifetime_s = _UNKNOWN_LIFETIME_S if ends_at is None else ends_at - now
    if not lifetime_s > 0:
        raise AuthenticationError(
            f"The token of {shown_url} expired {-lifetime_s:.0f} s ago. Check where the token comes from, "
            "and the clock of this machine."
        )
    return Token(text, float(lifetime_s))


def _end_of(text: str) -> float | None:
    """Return when a token ends, in seconds since 1970; None where it is not a JWT or does not say it."""
    parts = text.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    ends_at = claims.get("exp") if isinstance(claims, dict) else None
    return float(ends_at) if isinstance(ends_at, (int, float)) and not isinstance(ends_at, bool) else None
