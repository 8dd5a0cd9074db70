"""The one small interface over kafka-python's internals: send a request to a broker, get its response.

Runs on driver and executor; one `KafkaConnections` per process and settings (`connections_for`), with an
IO thread of its own, so that the next response arrives while the codec works without the GIL.

Invariants:
- Every `PendingResponse` completes: with a response, or with an error of `penstock.errors`, in bounded time.
- Requests to one broker are written in the order of their `send` calls while the connection lives. When
  the connection breaks, every request on it fails, and none is repeated without the caller.
- All code that touches kafka-python's manager or connections runs on the IO thread.
- Sockets and the IO thread are never shared with a forked child.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataResponse

from penstock.client.net._kafka_logs import IO_THREAD_MARK, move_kafka_python_logs
from penstock.client.net._outages import Outages
from penstock.client.net._selector import EventLoop
from penstock.client.net._transport import ConnectionManager
from penstock.client.net.backoff import Backoff
from penstock.client.net.broker_errors import error_from_exception, is_retriable, reason_of
from penstock.client.settings import ConnectionSettings
from penstock.errors import BrokerUnavailableError, PenstockError, RequestTimeoutError
from penstock.switches import Switch, is_on

_log = logging.getLogger(__name__)

NodeId = int | str
"""A broker's id from cluster metadata, or kafka-python's name for a bootstrap server."""

_THROTTLE_POLL_SECONDS = 0.02
_CLOSE_TIMEOUT_MS = 5_000
_SILENCE_MS = 5_000
"""After this time without an answer a waiting caller logs a warning and goes on waiting."""


class PendingResponse:
    """A response that will come. Thread-safe."""

    def __init__(
        self,
        what: str,
        timeout_ms: int,
        property_prefix: str = "",
        on_silence: Callable[[float, float], None] | None = None,
    ) -> None:
        self._what = what
        self._property_prefix = property_prefix
        self._timeout_ms = timeout_ms
        self._on_silence = on_silence
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[PendingResponse], None]] = []
        self._response: Any = None
        self._error: PenstockError | None = None

    @property
    def is_done(self) -> bool:
        """Return whether `result()` returns or raises at once."""
        return self._done.is_set()

    def result(self, timeout_ms: int | None = None) -> Any:
        """Wait for the response.

        Raises:
            BrokerUnavailableError: the broker could not be reached, or the connection broke.
            RequestTimeoutError: no answer in time.
            AuthenticationError: the broker refused the login.
        """
        wait_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        if not self._wait(max(0, wait_ms) / 1000):
            raise RequestTimeoutError(f"{self._what}: no answer within {wait_ms} ms.", timeout_ms=wait_ms)
        if self._error is not None:
            # A copy for each caller, because a raised exception carries a traceback.
            raise type(self._error)(self._error.message, **self._error.facts)
        return self._response

    def _wait(self, wait_s: float) -> bool:
        """Wait until done; log a long silence once."""
        first_s = min(wait_s, _SILENCE_MS / 1000)
        if self._done.wait(first_s):
            return True
        if wait_s > first_s:
            self.log_silence(first_s, wait_s - first_s)
        return self._done.wait(wait_s - first_s)

    def log_silence(self, waited_s: float, left_s: float) -> None:
        if self._on_silence is not None:
            self._on_silence(waited_s, left_s)

    def add_done_callback(self, callback: Callable[[PendingResponse], None]) -> None:
        """Call `callback(self)` when done: on the IO thread, or here and now if it is done already.

        An error of the callback is logged in both cases. Which one comes is a matter of time.
        """
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def succeed(self, response: Any) -> None:
        """Complete with a response. For `KafkaConnections`; the first completion counts."""
        self._complete(response, None)

    def fail(self, error: BaseException) -> None:
        """Complete with an error. For `KafkaConnections`; the first completion counts."""
        self._complete(None, error_from_exception(error, self._what, property_prefix=self._property_prefix))

    def _complete(self, response: Any, error: PenstockError | None) -> None:
        with self._lock:
            if self._done.is_set():
                return
            self._response, self._error = response, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[PendingResponse], None]) -> None:
        try:
            callback(self)
        except Exception:  # noqa: BLE001  # one caller's error must not end the IO thread that all share, nor the caller
            _log.exception("%s: a callback failed", self._what)


class KafkaConnections:
    """Connections of one process to the brokers of one cluster. Thread-safe."""

    def __init__(self, settings: ConnectionSettings) -> None:
        move_kafka_python_logs()
        self.settings = settings
        self._net = EventLoop(client_id=f"{IO_THREAD_MARK}-{settings.client_id}", slow_task_threshold_secs=0)
        try:
            self._manager = ConnectionManager(self._net, **settings.kafka_python_kwargs())
        except BaseException:
            self._net.close()
            raise
        self._throttled: dict[NodeId, deque[_QueuedRequest]] = {}
        self._last_good_node_id: NodeId | None = None
        self._open_sends: set[PendingResponse] = set()
        self._outages = Outages()
        self._closed = threading.Event()
        self._close_lock = threading.Lock()
        self._pid = os.getpid()
        self._net.start()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return f"<KafkaConnections {','.join(self.settings.bootstrap_servers)} ({state})>"

    def send(self, request: Any, node_id: NodeId, timeout_ms: int | None = None) -> PendingResponse:
        """Send a request (of `kafka.protocol`) to a broker; does not block.

        A broker that cannot be reached right now fails the response at once with a retriable
        `BrokerUnavailableError`. While a broker throttles us, requests to it wait in order.

        Args:
            request: an instance of a request class; its version is chosen for the broker.
            node_id: a broker from the metadata that was fetched through these connections.
            timeout_ms: how long the broker may take; default `request_timeout_ms`.
        """
        timeout_ms = self.settings.request_timeout_ms if timeout_ms is None else timeout_ms
        # The time limit of setting up the connection comes on top.
        patience_ms = timeout_ms + 2 * self.settings.socket_connection_setup_timeout_max_ms
        address = self._address(node_id)
        what = f"{type(request).__name__} to {address}"
        pending = PendingResponse(
            what, patience_ms, self.settings.property_prefix, partial(self._outages.silent, what, address)
        )
        send = _QueuedRequest(request, node_id, timeout_ms, pending, address)

        def on_io_thread() -> None:
            self._open_sends.add(pending)
            pending.add_done_callback(self._open_sends.discard)
            self._start(send)

        try:
            if self._closed.is_set():
                raise kafka_errors.KafkaConnectionError("connections are closed")
            self._net.call_soon_threadsafe(on_io_thread)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            pending.fail(kafka_errors.KafkaConnectionError(str(error)))
        return pending

    def request(self, request: Any, *, node_id: NodeId | None = None, timeout_ms: int | None = None) -> Any:
        """Send a request and wait for its response.

        Args:
            request: must be safe to repeat when `node_id` is None.
            node_id: a broker, which is asked once. None: all brokers and bootstrap servers are tried with
                back-off until one answers or the time is up.
            timeout_ms: default: `request_timeout_ms` with a node id, else `default_api_timeout_ms`.

        Raises:
            BrokerUnavailableError: no broker could be reached in time.
            RequestTimeoutError: the broker was reached but did not answer in time.
            AuthenticationError: at once.
        """
        if node_id is not None:
            return self.send(request, node_id, timeout_ms).result(timeout_ms)
        timeout_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + timeout_ms / 1000
        cause: PenstockError | None = None
        most_told = 0
        for candidate in self._candidates(deadline):
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                break
            try:
                attempt_ms = min(left_ms, self.settings.request_timeout_ms)
                # A copy, because kafka-python stores the first broker's version in the request, and the
                # next broker may be older.
                response = self.send(copy.copy(request), candidate, attempt_ms).result(left_ms)
            except PenstockError as error:
                if not is_retriable(error):
                    raise
                told = _told_by(error, attempt_ms < self.settings.request_timeout_ms)
                if told >= most_told:
                    cause, most_told = error, told
            else:
                self._last_good_node_id = candidate
                return response
        raise self._no_broker(request, timeout_ms, cause)

    def learn_brokers(self, metadata_response: Any) -> None:
        """Take the brokers' addresses from a MetadataResponse; block until that is done."""
        if not metadata_response.brokers:
            return
        brokers_only = MetadataResponse(
            version=metadata_response.API_VERSION,
            brokers=metadata_response.brokers,
            cluster_id=metadata_response.cluster_id,
            controller_id=metadata_response.controller_id,
            topics=[],  # leaders are kept by `client.metadata`
        )
        self._on_io_thread(self._manager.cluster.update_metadata, brokers_only)

    def knows_broker(self, node_id: NodeId) -> bool:
        return self._manager.cluster.broker_metadata(node_id) is not None

    def new_backoff(self) -> Backoff:
        """Return the pauses between attempts that the settings ask for; `close()` ends them."""
        settings = self.settings
        return Backoff(
            settings.retry_backoff_ms,
            settings.retry_backoff_max_ms,
            self._closed.wait,
            on_pause=self._outages.trying_until,
        )

    def close(self) -> None:
        """Close the sockets, fail the requests in flight, end the IO thread. A second call does nothing."""
        with self._close_lock:
            if self._closed.is_set() or self._pid != os.getpid():
                # In a forked child the sockets belong to the parent; closing them would cut its connections.
                return
            self._closed.set()
            try:
                self._on_io_thread(self._shut_down)
            except PenstockError as error:
                _log.debug("closing connections: %s", error)
            self._net.stop(timeout_ms=_CLOSE_TIMEOUT_MS)
            self._net.close()
            self._manager.end_login()
            for pending in list(self._open_sends):
                pending.fail(kafka_errors.KafkaConnectionError("connections were closed"))

    # ----- on the IO thread

    def _shut_down(self) -> None:
        self._manager.close()
        self._throttled.clear()

    def _start(self, send: _QueuedRequest) -> None:
        queue = self._throttled.get(send.node_id)
        if queue is not None:
            queue.append(send)
            return
        try:
            # kafka-python would start a bootstrap and metadata loop of its own, which creates topics.
            connection = self._manager.get_connection(send.node_id, refresh_metadata_on_err=False)
            if connection.initializing:
                self._net.call_later(send.timeout_ms / 1000, lambda: self._give_up_connecting(send))
            if connection.connected and connection.paused:
                self._throttled[send.node_id] = deque([send])
                self._net.call_later(
                    _THROTTLE_POLL_SECONDS, lambda: self._send_throttled(send.node_id, connection)
                )
                return
            future = connection.send_request(send.request, request_timeout_ms=send.timeout_ms)
        except Exception as error:  # noqa: BLE001  # any error of kafka-python must reach the waiting caller
            self._fail(send, error)
            return
        future.add_callback(lambda response: self._succeed(send, response))
        future.add_errback(lambda error: self._fail(send, error))

    def _succeed(self, send: _QueuedRequest, response: Any) -> None:
        self._outages.answered(send.address)
        send.pending.succeed(response)

    def _fail(self, send: _QueuedRequest, error: BaseException) -> None:
        if isinstance(error, kafka_errors.NodeNotReadyError):
            self._outages.failed(send.address, "")  # only says that an earlier attempt failed
        elif isinstance(error, kafka_errors.KafkaConnectionError) and not self.is_closed:
            self._outages.failed(send.address, reason_of(error, send.address))
        send.pending.fail(error)

    def _give_up_connecting(self, send: _QueuedRequest) -> None:
        """Fail a request whose connection took too long; kafka-python counts from the write only."""
        if not send.pending.is_done:
            text = f"no answer within {send.timeout_ms} ms on a new connection"
            send.pending.fail(kafka_errors.KafkaTimeoutError(text))

    def _send_throttled(self, node_id: NodeId, connection: Any) -> None:
        """Send the requests that waited for a broker's quota, in order, once the connection is free again."""
        if connection.closed:
            for send in self._throttled.pop(node_id, ()):
                send.pending.fail(kafka_errors.KafkaConnectionError("connection lost while throttled"))
        elif connection.paused:
            self._net.call_later(_THROTTLE_POLL_SECONDS, lambda: self._send_throttled(node_id, connection))
        else:
            for send in self._throttled.pop(node_id, ()):
                self._start(send)

    # ----- on the caller's thread

    def _on_io_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return self._net.run(function, *args)
        except (RuntimeError, kafka_errors.KafkaError) as error:
            raise error_from_exception(
                kafka_errors.KafkaConnectionError(str(error)), f"using {self!r}"
            ) from error

    def _candidates(self, deadline: float) -> Iterator[NodeId]:
        """Yield brokers to ask, round after round with back-off, until the deadline."""
        backoff = self.new_backoff()
        while True:
            yield from self._known_nodes()
            if not backoff.pause(deadline):
                return

    def _known_nodes(self) -> list[NodeId]:
        """Return the known brokers (first the last one that answered), then the bootstrap servers."""
        cluster = self._manager.cluster
        brokers = [broker.node_id for broker in cluster.brokers()]
        bootstrap = [broker.node_id for broker in cluster.bootstrap_brokers()]
        random.shuffle(brokers)
        random.shuffle(bootstrap)
        return sorted(brokers, key=lambda node_id: node_id != self._last_good_node_id) + bootstrap

    def _address(self, node_id: NodeId) -> str:
        known = self._manager.cluster.broker_metadata(node_id)
        return f"{known.host}:{known.port}" if known is not None else f"broker {node_id}"

    def _no_broker(self, request: Any, timeout_ms: int, cause: PenstockError | None) -> PenstockError:
        servers, prefix = ", ".join(self.settings.bootstrap_servers), self.settings.property_prefix
        if self.is_closed:
            return BrokerUnavailableError(f"Connections to {servers} are closed.")
        return BrokerUnavailableError(
            f"No Kafka broker answered within {timeout_ms} ms ('{prefix}bootstrap.servers': {servers}). "
            f"{cause if cause is not None else 'No attempt was finished in that time.'} "
            "Check that the brokers run, that host and port are right, and that "
            f"'{prefix}security.protocol' matches the listener (now {self.settings.security.protocol}).",
            bootstrap_servers=servers,
            timeout_ms=timeout_ms,
            request=type(request).__name__,
        )


def _told_by(error: PenstockError, is_cut_short: bool) -> int:
    """Rank an attempt's error by how well it explains why no broker answered.

    "Not ready" says only that an earlier attempt failed; a time-out that was cut short says little more.
    """
    if error.facts.get("kafka_error") == "NodeNotReadyError":
        return 0
    return 1 if is_cut_short and isinstance(error, RequestTimeoutError) else 2


class _QueuedRequest:
    """One request on its way to the IO thread."""

    __slots__ = ("address", "node_id", "pending", "request", "timeout_ms")

    def __init__(
        self, request: Any, node_id: NodeId, timeout_ms: int, pending: PendingResponse, address: str
    ) -> None:
        self.request = request
        self.node_id = node_id
        self.timeout_ms = timeout_ms
        self.pending = pending
        self.address = address


_shared: dict[ConnectionSettings, KafkaConnections] = {}
_shared_lock = threading.Lock()
_parents: list[KafkaConnections] = []
"""Connections that a forked child inherited: kept alive, never used, never closed."""


def connections_for(settings: ConnectionSettings) -> KafkaConnections:
    """Return this process's connections for these settings; opened once, closed when the process ends."""
    with _shared_lock:
        connections = _shared.get(settings)
        if connections is None or connections.is_closed:
            connections = _shared[settings] = KafkaConnections(settings)
        return connections


def close_shared_connections() -> None:
    """Close all connections that `connections_for` opened in this process."""
    with _shared_lock:
        opened = list(_shared.values())
        _shared.clear()
    for connections in opened:
        connections.close()


def _forget_after_fork() -> None:
    global _shared_lock  # noqa: PLW0603  # a thread of the parent that is not here may have held the lock
    _shared_lock = threading.Lock()
    _parents.extend(_shared.values())
    _shared.clear()


if is_on(Switch.EXIT_HOOK):
    atexit.register(close_shared_connections)
os.register_at_fork(after_in_child=_forget_after_fork)
