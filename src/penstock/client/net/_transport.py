"""kafka-python's connection manager with our sockets: frames are read straight into one buffer.

Runs wherever a `KafkaConnections` is open, on its IO thread only. Invariant: every wait has a deadline
(connect, TLS handshake), and a response that cannot be parsed closes its connection instead of leaving
it silent. Nothing outside `client.connection` imports this module.

kafka-python reads 4 KiB at a time and copies a response four times before it is parsed; a Fetch of some
megabytes would spend more time there than in the codec. It copies a Produce request twice (see `_frames`).
`tests/contract/test_kafka_python.py` tests the parts of kafka-python that these subclasses rely on.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from kafka import errors as kafka_errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import ProduceRequest

from penstock.client.net._frames import FetchHeader, Piece, is_served, produce_frame
from penstock.client.net._relogin import as_ours, wait_for_token
from penstock.codec import Block

_CERTIFICATE_ALERTS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")
_READ_AT_ONCE_BYTES = 4 << 20
"""After this many bytes the other tasks of the IO thread get a turn."""
_PIECES_AT_ONCE = 64
"""Of a request, for the socket. Systems take 1,024 at most."""


class TlsHandshakeError(kafka_errors.KafkaConnectionError):  # type: ignore[misc]  # kafka-python is untyped
    """The TLS handshake failed, and another attempt would fail too."""


class FrameReader:
    """One received frame with the file-like interface that kafka-python's parser asks for."""

    def __init__(self, frame: Block) -> None:
        self._view = memoryview(frame)
        self._position = 0

    def read(self, size: int | None = None) -> bytes | memoryview:
        """Return the next `size` bytes; without a size the rest, as a view without a copy."""
        start = self._position
        if size is None:
            self._position = len(self._view)
            return self._view[start:]
        self._position = min(start + size, len(self._view))
        return bytes(self._view[start : self._position])

    def seek(self, position: int) -> None:
        self._position = position

    def tell(self) -> int:
        return self._position


class FrameParser(KafkaProtocol):  # type: ignore[misc]  # kafka-python is untyped
    """The request and response parser of one connection, fed by `wanted()` and `advance()`.

    The transport asks for the memory of the next bytes, receives into it, and reports how many bytes came.
    """

    def __init__(self, parser: KafkaProtocol) -> None:
        # Takes over a parser in use, with its correlation ids and its requests in flight.
        self.__dict__.update(vars(parser))
        self.bytes_to_send: list[Piece] = list(parser.bytes_to_send)
        self._length = bytearray(4)
        self._frame: Block | None = None
        self._filled = 0
        self._parsed: list[tuple[int, Any]] = []

    def wanted(self) -> memoryview:
        """Return the buffer for the next bytes from the socket; never empty."""
        target = self._length if self._frame is None else self._frame
        return memoryview(target)[self._filled :]

    def advance(self, count: int) -> None:
        """Note that `count` bytes were received into `wanted()`.

        Raises:
            KafkaProtocolError: the bytes are not a Kafka response to the request.
        """
        self._filled += count
        if self._frame is None and self._filled == len(self._length):
            size = int.from_bytes(self._length, "big", signed=True)
            self._validate_frame_size(size)
            self._frame, self._filled = Block(size), 0
        if self._frame is not None and self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._parsed.append(self._process_response(FrameReader(frame)))

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Queue a request. Record batches are not copied, and neither are those of its response."""
        if not isinstance(request, ProduceRequest) or not is_served(request):
            correlation_id = int(super().send_request(request, correlation_id))
            if isinstance(request, FetchRequest):
                self.in_flight_requests.append(FetchHeader(self.in_flight_requests.pop()))
            return correlation_id
        correlation_id = self._next_correlation_id() if correlation_id is None else correlation_id
        request.with_header(correlation_id=correlation_id, client_id=self._client_id)
        self.bytes_to_send += produce_frame(request)
        if request.expect_response():
            self.in_flight_requests.append(request.header)
        return correlation_id

    def send_bytes(self) -> list[Piece]:
        """Return the pieces of the requests that are queued. The transport takes a list of them."""
        pieces = self.bytes_to_send
        self.bytes_to_send = []
        return pieces

    @property
    def has_responses(self) -> bool:
        return bool(self._parsed)

    def receive_bytes(self, data: bytes) -> list[tuple[int, Any]]:
        """Return the responses parsed so far; bytes come through `advance()` only."""
        if data:
            raise kafka_errors.KafkaProtocolError("bytes reached the parser without its transport")
        responses, self._parsed = self._parsed, []
        return responses


async def _read_frames(transport: Any, receive: Callable[[memoryview], int | None]) -> None:
    """Run a transport's read loop: receive until the socket is empty, then hand the responses over.

    `receive` returns the number of bytes, 0 at the end of the stream, None when it would block.
    """
    connection = transport.get_protocol()
    parser = connection.parser = FrameParser(connection.parser)
    while transport.is_reading() and not transport.is_closing():
        await transport.wait_readable()
        error = _receive_responses(connection, parser, receive)
        if error is not None:
            transport.abort(error=error)


def _receive_responses(
    connection: Any, parser: FrameParser, receive: Callable[[memoryview], int | None]
) -> Exception | None:
    """Receive what is there, hand over whole responses; return the connection's fatal error, or None."""
    try:
        is_open = _receive_available(parser, receive)
        if parser.has_responses:
            connection.data_received(b"")
            # Callers must get these responses (a refused login, say) before the connection is closed. If
            # the stream ended after them, the next turn sees the end again.
            return None
    except kafka_errors.KafkaProtocolError as error:
        return error  # type: ignore[no-any-return]  # kafka-python is untyped
    except OSError as error:
        return _broken_by(error)
    except Exception as error:  # noqa: BLE001  # a crash in here must not leave a connection that never answers
        return kafka_errors.KafkaProtocolError(f"response is not readable: {error!r}")  # type: ignore[no-any-return]  # kafka-python is untyped
    if not is_open:
        return kafka_errors.KafkaConnectionError("the broker closed the connection")  # type: ignore[no-any-return]  # kafka-python is untyped
    return None


def _broken_by(error: OSError) -> Exception:
    """Return what ends a connection: with TLS 1.3 a broker refuses our certificate after the handshake."""
    reason = str(getattr(error, "reason", ""))
    if "ALERT" in reason and any(word in reason for word in _CERTIFICATE_ALERTS):
        return TlsHandshakeError(f"the broker refused the client's certificate: {error}")
    return kafka_errors.KafkaConnectionError(str(error))  # type: ignore[no-any-return]  # kafka-python is untyped


def _receive_available(parser: FrameParser, receive: Callable[[memoryview], int | None]) -> bool:
    """Receive what is there, up to a limit at a frame's end. Return False when the stream ended."""
    total = 0
    while True:
        count = receive(parser.wanted())
        if count is None:
            return True
        if count == 0:
            return False
        parser.advance(count)
        total += count
        if total >= _READ_AT_ONCE_BYTES:
            return True


class TcpTransport(KafkaTCPTransport):  # type: ignore[misc]  # kafka-python is untyped
    """A plain socket."""

    def write(self, data: Piece | list[Piece]) -> None:
        """Send a piece, or the pieces of `FrameParser.send_bytes`."""
        self.writelines(data if isinstance(data, list) else [data])

    def _sock_send(self) -> tuple[int, Exception | None]:
        """Send what the socket takes. Return how many bytes it took, and what broke the connection."""
        total_bytes = 0
        while self._sock is not None and self._write_buffer:
            try:
                sent = self._sock.sendmsg(list(islice(self._write_buffer, _PIECES_AT_ONCE)))
            except (BlockingIOError, InterruptedError):
                return total_bytes, None
            except OSError as error:
                return total_bytes, kafka_errors.KafkaConnectionError(str(error))
            total_bytes += sent
            _forget(self._write_buffer, sent)
        closed = None if self._sock is not None else "Connection closed during send"
        return total_bytes, None if closed is None else kafka_errors.KafkaConnectionError(closed)

    async def wait_readable(self) -> None:
        await self._net.wait_read(self._sock)
        self.last_read = time.monotonic()

    async def _read_from_sock(self) -> None:
        await _read_frames(self, self._receive)

    def _receive(self, into: memoryview) -> int | None:
        try:
            return int(self._sock.recv_into(into))
        except (BlockingIOError, InterruptedError):
            return None


class TlsTransport(KafkaSSLTransport):  # type: ignore[misc]  # kafka-python is untyped
    """A TLS socket. Its handshake has a deadline and tells permanent errors from temporary ones."""

    def __init__(  # the base class takes other arguments in each version of kafka-python
        self, net: Any, sock: socket.socket, context: ssl.SSLContext, *, host: str, timeout_at: float | None
    ) -> None:
        tls = context.wrap_socket(sock, server_hostname=host.rstrip("."), do_handshake_on_connect=False)
        KafkaTCPTransport.__init__(self, net, tls, host=host)
        self._handshake_timeout_at = timeout_at

    async def handshake(self) -> None:
        """Shake hands.

        Raises:
            TlsHandshakeError: certificates or protocols do not match; another attempt would fail too.
            KafkaConnectionError: the connection broke or took too long.
        """
        try:
            while (wait := self._shake()) is not None:
                await wait(self._sock, timeout_at=self._handshake_timeout_at)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, ConnectionError) as error:
            raise kafka_errors.KafkaConnectionError(
                f"TLS handshake with {self.host} was cut off ({error}); is this port a TLS listener?"
            ) from error
        except ssl.SSLError as error:
            raise TlsHandshakeError(f"TLS handshake with {self.host} failed: {error}") from error

    def _shake(self) -> Callable[..., Any] | None:
        """Do one step of the handshake; return what to wait for, or None when it is done."""
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            return self._net.wait_read  # type: ignore[no-any-return]  # kafka-python is untyped
        except ssl.SSLWantWriteError:
            return self._net.wait_write  # type: ignore[no-any-return]  # kafka-python is untyped
        return None

    def write(self, data: Piece | list[Piece]) -> None:
        """Send a piece, or the pieces of `FrameParser.send_bytes`."""
        # TLS takes 16 KiB at a time and kafka-python slices off the rest; each slice of `bytes` is a copy.
        self.writelines([memoryview(each) for each in (data if isinstance(data, list) else [data])])

    async def wait_readable(self) -> None:
        # The TLS layer may hold decrypted bytes while the socket has nothing to read.
        if not self._sock.pending():
            await self._net.wait_read(self._sock)
        self.last_read = time.monotonic()

    async def _read_from_sock(self) -> None:
        await _read_frames(self, self._receive)

    def _receive(self, into: memoryview) -> int | None:
        try:
            return int(self._sock.recv_into(into))
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python is untyped
    """kafka-python's manager, with our transports."""

    def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        return as_ours(super().get_connection(*args, **kwargs))

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        """Raise the error of a refused login during its back-off; then forget it, because rights change."""
        if self.connection_delay(node_id) > 0:
            super().maybe_raise_auth_failure(node_id)
        else:
            self._auth_failures.pop(node_id, None)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        if self.config["sasl_oauth_token_provider"] is not None:
            await wait_for_token(self._net, self.config["sasl_oauth_token_provider"])
        sock = await self._open_socket(node.host, node.port, timeout_at)
        if not self.ssl_enabled:
            return TcpTransport(self._net, sock, host=node.host)
        context = self.config["ssl_context"]
        transport = TlsTransport(self._net, sock, context, host=node.host, timeout_at=timeout_at)
        try:
            await transport.handshake()
        except BaseException:
            transport.abort()
            raise
        return transport

    def end_login(self) -> None:
        """End the thread that renews the token, if there is one. Not for the IO thread."""
        if self.config["sasl_oauth_token_provider"] is not None:
            self.config["sasl_oauth_token_provider"].keeper.close()

    async def _open_socket(self, host: str, port: int, timeout_at: float | None) -> socket.socket:
        """Connect to the first address of the host that answers; each address gets a share of the time."""
        sockets = KafkaNetSocket()
        cause: Exception = kafka_errors.KafkaConnectionError(f"{host} has no address")
        addresses = sockets.dns_lookup(host, port, raise_error=True)
        for tried, address in enumerate(addresses):
            share_ends_at = _share_of_time(timeout_at, len(addresses) - tried)
            try:
                return await self._connect_to(sockets, address, share_ends_at)
            except (kafka_errors.KafkaError, OSError) as error:
                cause = kafka_errors.KafkaConnectionError(f"{host}:{port}: {_reason(error)}")
        raise cause

    async def _connect_to(
        self, sockets: KafkaNetSocket, address: tuple[Any, ...], timeout_at: float | None
    ) -> socket.socket:
        family, kind, protocol, _, target = address
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            for option in self.config["socket_options"]:
                sock.setsockopt(*option)
            await sockets.sock_connect(self._net, sock, target, timeout_at=timeout_at)
        except BaseException:
            # kafka-python forgets such a socket, which is a leak until the garbage collector comes.
            sock.close()
            raise
        return sock


def _forget(pieces: deque[Piece], count: int) -> None:
    """Take the first `count` bytes out, and pieces without bytes."""
    while pieces and count >= len(pieces[0]):
        count -= len(pieces.popleft())
    if count:
        pieces.appendleft(memoryview(pieces.popleft())[count:])


def _share_of_time(timeout_at: float | None, addresses_left: int) -> float | None:
    if timeout_at is None:
        return None
    now = time.monotonic()
    return now + (timeout_at - now) / addresses_left


def _reason(error: Exception) -> str:
    return " ".join(str(argument) for argument in error.args) or type(error).__name__
