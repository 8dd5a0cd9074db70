"""Sockets: every address of a host gets its chance, and what is sent is not copied."""

from __future__ import annotations

import random
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.inet import KafkaNetSocket

from penstock.client.net._transport import TcpTransport, TlsTransport
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings

NO_SUCH_FAMILY = 77


@pytest.fixture
def connections() -> Iterator[KafkaConnections]:
    opened = KafkaConnections(ConnectionSettings(("127.0.0.1:1",), "network"))
    yield opened
    opened.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def silent_address() -> Iterator[Any]:
    """Of a server that is too busy to take another connection, nor refuses one."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = []
        for _ in range(3):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(server.getsockname())
            waiting.append(client)
        yield server.getsockname()
        for client in waiting:
            client.close()


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[int, Any]) -> None:
    found = [(family, socket.SOCK_STREAM, 0, "", address) for family, address in addresses]
    monkeypatch.setattr(KafkaNetSocket, "dns_lookup", lambda *_, **__: found)


def open_socket(connections: KafkaConnections, seconds: float) -> socket.socket:
    deadline = time.monotonic() + seconds
    opened = connections._net.run(connections._manager._open_socket, "broker", 9092, deadline)
    assert isinstance(opened, socket.socket)
    return opened


def test_a_silent_address_leaves_time_for_the_next(
    connections: KafkaConnections,
    listener: socket.socket,
    silent_address: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, (socket.AF_INET, silent_address), (socket.AF_INET, listener.getsockname()))
    with open_socket(connections, 2) as opened:
        assert opened.getpeername() == listener.getsockname()


def test_a_family_that_this_machine_does_not_have_is_passed_over(
    connections: KafkaConnections, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As IPv6 where the kernel was told to do without."""
    resolve_to(monkeypatch, (NO_SUCH_FAMILY, ("::1", 1, 0, 0)), (socket.AF_INET, listener.getsockname()))
    with open_socket(connections, 2) as opened:
        assert opened.getpeername() == listener.getsockname()


def test_no_address_that_answers_is_an_error_in_time(
    connections: KafkaConnections, silent_address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, (socket.AF_INET, silent_address), (socket.AF_INET, silent_address))
    started = time.monotonic()
    with pytest.raises(KafkaConnectionError, match="broker:9092"):
        open_socket(connections, 0.4)
    assert time.monotonic() - started < 20


class TlsSocket:
    """Takes one TLS record at a time."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def send(self, data: Any) -> int:
        self.received.append(data)
        return min(len(data), 16 << 10)


def opened_transport(kind: Any, with_socket: Any) -> Any:
    """Return a transport of a socket, without a selector: its writes wait in its buffer."""
    transport = kind.__new__(kind)
    transport._write, transport._closed, transport._writing = True, False, False
    transport._write_buffer, transport._sock = deque(), with_socket
    transport._net = SimpleNamespace(call_soon=lambda task: task)
    return transport


def test_a_large_request_goes_through_tls_without_copies_of_its_rest() -> None:
    request, tls_socket = bytes(range(256)) * 1024, TlsSocket()
    transport = opened_transport(TlsTransport, tls_socket)
    transport.write(request)
    assert transport._sock_send() == (len(request), None)
    assert len(tls_socket.received) == 16
    assert all(isinstance(part, memoryview) and part.obj is request for part in tls_socket.received)
    assert b"".join(part[: 16 << 10] for part in tls_socket.received) == request


def test_the_pieces_of_a_request_are_sent_whole_and_in_order_however_little_the_socket_takes() -> None:
    chance = random.Random(3)
    pieces: list[Any] = [
        chance.randbytes(size) for size in (1, 5, 300_000, 2, 0, 70_000, *[9] * 200, 1 << 20)
    ]
    pieces[2] = memoryview(pieces[2])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
        transport = opened_transport(TcpTransport, ours)
        transport.write(pieces)
        transport.write([b"the next request", b""])
        sent, received, calls = 0, bytearray(), 0
        while transport._write_buffer:
            count, error = transport._sock_send()
            assert error is None
            sent, calls = sent + count, calls + 1
            with suppress(BlockingIOError):
                while True:
                    received += theirs.recv(1 << 16)
    assert calls > 2  # the socket was full
    assert bytes(received) == b"".join([*pieces, b"the next request"])
    assert sent == len(received)


def test_the_pieces_of_a_request_go_through_tls_in_order() -> None:
    tls_socket = TlsSocket()
    transport = opened_transport(TlsTransport, tls_socket)
    pieces: list[Any] = [bytearray(b"head"), memoryview(bytes(range(256)) * 200), bytearray(b"tail")]
    transport.write(pieces)
    assert transport._sock_send() == (sum(map(len, pieces)), None)
    assert b"".join(part[: 16 << 10] for part in tls_socket.received) == b"".join(pieces)


def test_a_socket_that_breaks_while_it_is_written_to_is_an_error_of_the_connection() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        transport = opened_transport(TcpTransport, ours)
        transport.write(b"x")
        count, error = transport._sock_send()
    assert count == 0
    assert isinstance(error, KafkaConnectionError)
    transport._sock = None  # closed meanwhile
    assert isinstance(transport._sock_send()[1], KafkaConnectionError)
