"""A TCP proxy before a broker. A test tells it to refuse, hold, delay, slow down and cut connections.

Runs in tests only. Kafka's clients connect to the addresses that brokers advertise. `route()` makes
penstock's connections in this process use the proxy instead.

Invariant: `close()` ends all threads and sockets. All waiting has an end.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest

from penstock.client.net import _transport as _network
from tests.waiting import PATIENCE_S

_CHUNK_BYTES = 64 << 10
_POLL_S = 0.05


class FaultProxy:
    """Forwards connections to `host:port`, until a test tells it to do something else."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL_S)
        self.port: int = self._listener.getsockname()[1]
        self.accepted_count = 0
        self._is_refusing = False
        self._may_forward = threading.Event()
        self._may_forward.set()
        self._delay_s = 0.0
        self._bytes_per_second: float | None = None
        self._response_bytes_left: int | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept, name="fault-proxy", daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> FaultProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self) -> None:
        """Break all connections that are open now, as a reset would."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def cut_after(self, response_bytes: int) -> None:
        """Break all connections once, when so many more bytes came from the broker."""
        with self._lock:
            self._response_bytes_left = response_bytes

    @property
    def is_cut_pending(self) -> bool:
        """Return whether the cut of `cut_after()` has not happened yet."""
        return self._response_bytes_left is not None

    def refuse(self) -> None:
        """Break open connections, and close new ones at once."""
        self._is_refusing = True
        self.cut()

    def accept(self) -> None:
        """End `refuse()`."""
        self._is_refusing = False

    def hold(self) -> None:
        """Keep connections open, but forward nothing."""
        self._may_forward.clear()

    def release(self) -> None:
        """Forward the bytes that were held."""
        self._may_forward.set()

    def delay(self, seconds: float) -> None:
        """Delay each piece by this time."""
        self._delay_s = seconds

    def throttle(self, bytes_per_second: float) -> None:
        """Limit the bytes a second that each connection sends to the broker."""
        self._bytes_per_second = bytes_per_second

    def close(self) -> None:
        """End everything."""
        self._closed.set()
        self._may_forward.set()
        self.cut()
        self._listener.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a thread of the fault proxy does not end"

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self.accepted_count += 1
            self._open(client)

    def _open(self, client: socket.socket) -> None:
        if self._is_refusing:
            client.close()
            return
        try:
            broker = socket.create_connection(self.target, timeout=PATIENCE_S)
        except OSError:
            client.close()
            return
        pair = (client, broker)
        for end in pair:
            end.settimeout(_POLL_S)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._pairs.append(pair)
        pumps = [threading.Thread(target=self._pump, args=(pair, up), daemon=True) for up in (True, False)]
        self._threads += pumps
        for pump in pumps:
            pump.start()

    def _pump(self, pair: tuple[socket.socket, socket.socket], is_up: bool) -> None:
        source, sink = pair if is_up else (pair[1], pair[0])
        try:
            while not self._closed.is_set():
                data = self._receive(source)
                if data is None:
                    continue
                if not data:
                    break
                self._may_forward.wait()
                self._closed.wait(self._delay_s)
                if is_up and self._bytes_per_second is not None:
                    self._closed.wait(len(data) / self._bytes_per_second)
                if not is_up and self._is_cut_due(len(data)):
                    self.cut()
                    break
                self._send_all(sink, data)
        except OSError:
            pass
        finally:
            self._drop(pair)

    @staticmethod
    def _receive(source: socket.socket) -> bytes | None:
        try:
            return source.recv(_CHUNK_BYTES)
        except TimeoutError:
            return None

    def _send_all(self, sink: socket.socket, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                view = view[sink.send(view) :]

    def _is_cut_due(self, byte_count: int) -> bool:
        with self._lock:
            if self._response_bytes_left is None:
                return False
            self._response_bytes_left -= byte_count
            if self._response_bytes_left >= 0:
                return False
            self._response_bytes_left = None
            return True

    def _drop(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._lock:
            if pair in self._pairs:
                self._pairs.remove(pair)
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def route(*proxies: FaultProxy) -> Iterator[None]:
    """Let penstock's new connections to the proxies' targets go through the proxies."""
    ports = {proxy.target: proxy.port for proxy in proxies}
    original = _network.ConnectionManager._open_socket

    async def through_proxy(manager: Any, host: str, port: int, timeout_at: float | None) -> socket.socket:
        return await original(manager, host, ports.get((host, port), port), timeout_at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_network.ConnectionManager, "_open_socket", through_proxy)
        yield


def proxies_for(bootstrap_servers: str) -> list[FaultProxy]:
    """A proxy for each `host:port`; close each, or use them as context managers."""
    addresses = (server.rsplit(":", 1) for server in bootstrap_servers.split(","))
    return [FaultProxy(host, int(port)) for host, port in addresses]
