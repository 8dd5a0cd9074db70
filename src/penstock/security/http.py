"""One HTTP request, bounded in time and size: for the Schema Registry and for token endpoints.

Runs on driver and executors, never on an IO thread of connections. Invariants: redirects are not followed, so
that credentials stay with the host that they are for; the whole request takes no longer than its time limit.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from contextlib import suppress

ANSWER_BYTES_MAX = 16 << 20


def http_request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    timeout_ms: int = 10_000,
) -> tuple[int, bytes]:
    """Make a request and return status and content of the answer.

    Args:
        method: GET or POST.
        url: http: or https:, without user and password.
        headers: of the request.
        body: content of a POST.
        tls: for https; None: the system's authorities.
        timeout_ms: for the whole request.

    Raises:
        OSError: the server could not be reached, is not trusted, or took too long.
        http.client.HTTPException: the answer is not HTTP.
        ValueError: the answer is larger than `ANSWER_BYTES_MAX`, or the URL is malformed.
    """
    connection = _connection(urllib.parse.urlsplit(url), tls, timeout_ms / 1000)
    sockets: list[socket.socket] = []
    is_late = threading.Event()
    watch = threading.Timer(timeout_ms / 1000, _cut, (sockets, is_late))
    watch.daemon = True
    watch.start()
    try:
        connection.connect()
        # http.client forgets the socket of an answer without a length while its content is still read.
        sockets.append(connection.sock)
        parts = urllib.parse.urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, dict(headers))
        response = connection.getresponse()
        content = response.read(ANSWER_BYTES_MAX + 1)
    finally:
        watch.cancel()
        connection.close()
    if is_late.is_set():
        raise TimeoutError(f"no whole answer within {timeout_ms} ms")
    if len(content) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    return response.status, content


def _connection(
    parts: urllib.parse.SplitResult, tls: ssl.SSLContext | None, timeout_s: float
) -> http.client.HTTPConnection:
    if parts.scheme == "https":
        context = tls if tls is not None else ssl.create_default_context()
        return http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=context
        )
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)


def _cut(sockets: list[socket.socket], is_late: threading.Event) -> None:
    """End a request whose time is over: a server that sends a byte now and then would never time out."""
    is_late.set()
    for sock in sockets:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def safe_url(url: str) -> str:
    """Return a URL without user, password and query."""
    scheme, mark, rest = url.partition("://")
    shown = f"{scheme}{mark}{without_user(rest)}" if mark else url
    parts = urllib.parse.urlsplit(shown)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))


def without_user(rest: str) -> str:
    """Return what stands behind the `://` of a URI, without user and password.

    A password may hold `/`, `?` or `#` although they should be escaped. Then the text behind the first `:` is
    not a port, and everything up to an `@` is left out: the last one before the query, else the first one.
    """
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    _, at, host = authority.rpartition("@")
    if at:
        return host + rest[len(authority) :]
    port = authority.rpartition("]")[2].partition(":")[2]
    if not port or port.isdigit():
        return rest
    before_query = rest.partition("?")[0]
    if "@" in before_query:
        return before_query.rpartition("@")[2]
    return rest.partition("@")[2] or rest
