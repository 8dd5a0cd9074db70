"""One HTTP request: bounded in time and size, and sent to the named server only."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from penstock.options.config import KafkaProperties
from penstock.security import http
from penstock.security.http import http_request, safe_url
from penstock.security.tls import tls_settings
from tests.registry_server import running_registry
from tests.waiting import PATIENCE_S

DATA = Path(__file__).parents[2] / "data" / "tls"
OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def answering(content: bytes, *, then_drips: bool = False) -> Iterator[str]:
    """A server that answers one request, and may go on with a byte now and then for ever."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(content)
                with suppress(OSError):
                    while then_drips and not is_over.wait(0.05):
                        client.sendall(b"x")

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/path"
        finally:
            is_over.set()
            thread.join(PATIENCE_S)


@pytest.mark.parametrize("content", [OK, OK + b"A: ", OK + b"Content-Length: 1000000\r\n\r\n", OK + b"\r\n"])
def test_a_server_that_drips_is_cut_off(content: bytes) -> None:
    start = time.monotonic()
    with answering(content, then_drips=True) as url, pytest.raises((OSError, HTTPException)):
        http_request("GET", url, headers={}, timeout_ms=500)
    assert time.monotonic() - start < 10


def test_a_large_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_BYTES_MAX", 1_000)
    with (
        answering(OK + b"\r\n" + b"x" * 1_001) as url,
        pytest.raises(ValueError, match="larger than 1000 bytes"),
    ):
        http_request("GET", url, headers={})


def test_a_redirect_is_not_followed() -> None:
    content = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    with answering(content) as url:
        assert http_request("GET", url, headers={"Authorization": "Basic x"}) == (302, b"")


@pytest.mark.parametrize("anchor", ["ca", "broker"])
def test_each_certificate_of_a_trust_store_is_an_anchor(anchor: str) -> None:
    """As in Java: also one that another authority has signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "broker.pem", DATA / "broker-key.pem")
    trust = KafkaProperties((("ssl.truststore.location", str(DATA / f"{anchor}.pem")),))
    with running_registry(context) as registry:
        tls = tls_settings(trust).ssl_context()
        status, _ = http_request("GET", f"{registry.url}/schemas/ids/1", headers={}, tls=tls)
    assert status == 404


def test_a_url_is_shown_without_secrets() -> None:
    assert safe_url("https://alice:horse@host:8081/a?token=horse#horse") == "https://host:8081/a"
    assert safe_url("http://[::1]:8081/a?token=b@horse") == "http://[::1]:8081/a"
    assert safe_url("host:8081/a?token=horse") == "host:8081/a"


@pytest.mark.parametrize("password", ["ho/rse", "ho?rse", "ho#rse", "ho@rse", "h/o?r#se"])
def test_a_password_that_is_not_escaped_is_not_shown(password: str) -> None:
    assert safe_url(f"https://alice:{password}@host:8081/a") == "https://host:8081/a"
    assert safe_url(f"https://alice:{password}@host/a?token=b@horse") == "https://host/a"
