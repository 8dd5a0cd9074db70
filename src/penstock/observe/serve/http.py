"""The HTTP end of a source: the page, `/metrics`, `/lag`, `/healthz`, `/readyz`.

Runs in the process that plans a stream, on threads of its own. Invariants: it answers GET and HEAD and
changes nothing; a failing answer is a status of 500 and never an error of the query.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, ClassVar

from penstock.observe.monitor import report_to_json
from penstock.observe.serve.page.data import CONTENT_SECURITY_POLICY, page_data, page_file, sinks_to_json
from penstock.observe.serve.prometheus import prometheus_text
from penstock.observe.serve.view import SourceView
from penstock.options.config import MetricsSettings, SourceConfig

_log = logging.getLogger(__name__)

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_IDLE_TIMEOUT_S = 30.0
_Answer = tuple[HTTPStatus, str, bytes]


class MetricsServer:
    """Serves one source until `close`.

    Raises:
        OSError: the port is in use, or this machine does not have the address.
    """

    def __init__(self, view: SourceView, settings: MetricsSettings, config: SourceConfig) -> None:
        handler = type("_Handler", (_Handler,), {"view": view, "settings": settings, "config": config})
        family = _Server6 if ":" in settings.http_host else _Server
        self._server = family((settings.http_host, settings.http_port), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.1},
            name="penstock-metrics",
            daemon=True,
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def server_bind(self) -> None:
        """Bind the port. HTTPServer then asks a name server for its own name, and may wait for seconds."""
        TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a connection that broke, instead of printing a traceback."""
        _log.debug("A connection to the metrics port broke", exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    view: ClassVar[SourceView]
    settings: ClassVar[MetricsSettings]
    config: ClassVar[SourceConfig]
    timeout = _IDLE_TIMEOUT_S
    server_version = "penstock"
    sys_version = ""

    def do_GET(self) -> None:
        try:
            status, kind, body = self._answer(self.path.partition("?")[0])
        except Exception as error:  # noqa: BLE001 - the client gets it, not the query
            _log.warning("Cannot answer %s of the metrics port: %s", self.path, error)
            status, kind, body = HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"see the log of the driver\n"
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self, path: str) -> _Answer:
        answers: dict[str, Callable[[], _Answer]] = {
            "/metrics": self._metrics,
            "/lag": self._lag,
            "/healthz": lambda: (HTTPStatus.OK, _TEXT, b"ok\n"),
            "/readyz": self._ready,
            "/page.json": self._page,
        }
        if path in answers:
            return answers[path]()
        if (found := page_file(path)) is not None:
            return HTTPStatus.OK, *found
        return HTTPStatus.NOT_FOUND, _TEXT, b"/ /metrics /lag /healthz /readyz\n"

    def _metrics(self) -> _Answer:
        text = prometheus_text(self.view, self.settings.topic_partitions_max, self.settings.aliases)
        return HTTPStatus.OK, _PROMETHEUS, text

    def _page(self) -> _Answer:
        data = page_data(self.view, self.config, self.settings.topic_partitions_max, _now_ms())
        return HTTPStatus.OK, _JSON, _json(data)

    def _lag(self) -> _Answer:
        report = self.view.report()
        if report is None:
            return HTTPStatus.SERVICE_UNAVAILABLE, _JSON, _json({"error": self.view.not_ready})
        sinks = sinks_to_json(self.view.sinks(), _now_ms())
        batches = self.view.batch_times()
        last_batch = asdict(batches[-1]) if batches else None
        found = {**report_to_json(report), "sinks": sinks, "last_batch": last_batch}
        return HTTPStatus.OK, _JSON, _json(found)

    def _ready(self) -> _Answer:
        """Return 200 if the query reads, and some topic partition answers."""
        if why := self.view.not_ready:
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{why}\n".encode()
        report = self.view.report()
        if report is not None and report.errors and not report.rows:
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"no topic partition answers\n"
        return HTTPStatus.OK, _TEXT, b"ok\n"

    def log_message(self, format: str, *args: Any) -> None:
        """Log a request only for debugging."""
        _log.debug(format, *args)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
