"""The sockets of one broker: a thread that accepts, and one for each connection.

Runs in tests only. Invariant: `stop` returns when every thread and every socket of the broker is gone.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

_LONGEST_FRAME = 256 << 20
_HOST = "127.0.0.1"


class Connection:
    """A client's connection. Only its own thread reads; any thread may send."""

    def __init__(self, sock: socket.socket, node_id: int) -> None:
        self.node_id = node_id
        self.user: str | None = None
        """The user that has logged in; None: none yet."""
        self.is_mute = False
        """Whether it answers nothing any more."""
        self._sock = sock
        self._send_lock = threading.Lock()

    def receive(self) -> bytes | None:
        """Return the next request; None when the connection is closed."""
        prefix = self._exactly(4)
        if prefix is None:
            return None
        (size,) = struct.unpack(">i", prefix)
        return self._exactly(size) if 0 <= size <= _LONGEST_FRAME else None

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self._sock.recv(min(size - len(data), 1 << 20))
            except OSError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def send(self, data: bytes | bytearray) -> None:
        """Send an answer, if the client is still there."""
        with self._send_lock, contextlib.suppress(OSError):
            if not self.is_mute:
                self._sock.sendall(data)

    def close(self) -> None:
        """Close the socket, which also ends a wait in `receive`."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


class BrokerServer:
    """The listener of one broker.

    Args:
        node_id: of the broker.
        serve: handles one request of a connection; called on the connection's thread.
        port: 0: a free one.
    """

    def __init__(self, node_id: int, serve: Callable[[Connection, bytes], None], port: int = 0) -> None:
        self.node_id = node_id
        self._serve = serve
        self._listener = socket.create_server((_HOST, port), backlog=128)
        self.host, self.port = _HOST, int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._is_stopped = False
        self._acceptor = threading.Thread(target=self._accept, name=f"fake-kafka-{node_id}", daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, self.node_id)
            name = f"fake-kafka-{self.node_id}-connection"
            thread = threading.Thread(target=self._run, args=(connection,), name=name, daemon=True)
            with self._lock:
                if self._is_stopped:
                    connection.close()
                    return
                self._connections[connection] = thread
            thread.start()

    def _run(self, connection: Connection) -> None:
        try:
            while (frame := connection.receive()) is not None:
                if not connection.is_mute:
                    self._serve(connection, frame)
        finally:
            connection.close()
            with self._lock:
                self._connections.pop(connection, None)

    def stop(self) -> None:
        """Close everything, and wait for the threads."""
        with self._lock:
            self._is_stopped = True
            threads = dict(self._connections)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in threads:
            connection.close()
        for thread in (self._acceptor, *threads.values()):
            if thread is not threading.current_thread():
                thread.join()
