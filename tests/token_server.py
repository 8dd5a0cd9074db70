"""A token endpoint over HTTP for tests: client credentials, and tokens without a signature that end soon."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from tests.http_server import QuietHandler, serving


def unsecured_token(user: str, lifetime_s: float) -> str:
    """Return a JWT without a signature, as a broker for development takes it."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + lifetime_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join([*encoded, ""])


@dataclass
class TokenServer:
    """What the server gives, and what it was asked."""

    url: str = ""
    client: str = "penstock:client-horse"
    lifetime_s: float = 4.0
    user: str = "alice"
    failures_to_come: int = 0
    answer: bytes | None = None
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    def reply(self, authorization: str | None, form: dict[str, list[str]]) -> tuple[int, bytes]:
        """Return status and content of the answer."""
        self.forms.append(form)
        if self.failures_to_come:
            self.failures_to_come -= 1
            return 503, b""
        if self.answer is not None:
            return 200, self.answer
        is_known = authorization == "Basic " + base64.b64encode(self.client.encode()).decode()
        if not is_known and "assertion" not in form:
            return 401, json.dumps(
                {"error": "invalid_client", "error_description": "no such client"}
            ).encode()
        self.tokens.append(unsecured_token(self.user, self.lifetime_s))
        return 200, json.dumps({"access_token": self.tokens[-1], "expires_in": self.lifetime_s}).encode()


@contextmanager
def running_token_server(tls: ssl.SSLContext | None = None, **settings: Any) -> Iterator[TokenServer]:
    """Run a token endpoint until the block ends."""
    state = TokenServer(**settings)

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send(*state.reply(self.headers.get("Authorization"), form))

    with serving(Handler, tls) as url:
        state.url = f"{url}/token"
        yield state
