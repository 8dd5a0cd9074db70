"""Carry the figures of source tasks to the process that plans the query, in datagrams.

`Sender` runs on executors, `Receiver` in the planning process (docs/decisions/0009-metrics-of-tasks.md). For
`penstock.batch_progress` the receiver is in the user's program, and `tell_plan` in the process that plans.
Invariants: sending never waits, not even for a name server, and never fails a task; a datagram that is lost,
late or comes twice never makes a total wrong for good; memory is bounded, whatever arrives.
"""

from __future__ import annotations

import errno
import hmac
import json
import secrets
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

_DATAGRAM_MAX_BYTES = 4_096
_REPORT_EVERY_S = 1.0
_LISTEN_S = 1.0
_TASKS_KEPT = 10_000
_TOTALS = (
    "numRecordsIn",
    "numBytesIn",
    "decodeErrors.failed",
    "decodeErrors.skipped",
    "decodeErrors.deadLetters",
    "decodeErrors.ignored",
    "offsetsDone",
)
"""Flink's names where there are some. `offsetsDone`: the sizes of the splits that were read to their ends."""
_GAUGE = "currentEmitEventTimeLag"


def nothing_yet() -> dict[str, int]:
    """Return the totals of tasks before the first report."""
    return dict.fromkeys(_TOTALS, 0)


@dataclass(frozen=True, slots=True)
class ReportAddress:
    """Where tasks send their figures. It travels in each split, so it pickles small.

    Attributes:
        host: the numeric address of the planning process.
        port: of its socket.
        token: without it a datagram is ignored.
    """

    host: str
    port: int
    token: str


class Sender:
    """Sends the totals of one task. Not thread-safe; a task has one thread."""

    def __init__(self, address: ReportAddress, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._clock_s = clock_s
        self._task = secrets.token_hex(8)
        self._socket: socket.socket | None = None
        self._to: Any = None
        self._sent_at_s = clock_s()

    def report(self, values: Mapping[str, int], *, is_last: bool = False) -> None:
        """Send the totals, unless the last report is younger than a second. Raises nothing."""
        now_s = self._clock_s()
        if not is_last and now_s - self._sent_at_s < _REPORT_EVERY_S:
            return
        self._sent_at_s = now_s
        message = {"token": self._address.token, "task": self._task, "last": is_last, **values}
        with suppress(OSError):
            if self._socket is None:
                self._socket, self._to = datagrams_to(self._address)
            self._socket.sendto(json.dumps(message).encode(), self._to)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Receiver:
    """Adds up what tasks send. Thread-safe. It has a thread until `close`.

    Args:
        host: of the interface to listen on; an address that executors reach. A name is looked up here, once.
        on_other: gets each message with the token that is not of a task.

    Raises:
        OSError: this machine does not have the address, or the address stands for all interfaces.
    """

    def __init__(
        self, host: str, on_other: Callable[[Mapping[str, Any]], None] = lambda message: None
    ) -> None:
        self._on_other = on_other
        family, _, _, _, bound_to = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        _check_can_be_sent_to(host, str(bound_to[0]))
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.bind(bound_to)
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(_LISTEN_S)
        port = self._socket.getsockname()[1]
        self.address = ReportAddress(str(bound_to[0]), port, secrets.token_hex(16))
        self._lock = threading.Lock()
        self._tasks: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._forgotten = nothing_yet()
        self._event_time_lag_ms: int | None = None
        self._is_closed = False
        self._has_caught_up = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="penstock-task-reports", daemon=True)
        self._thread.start()

    def snapshot(self) -> dict[str, int]:
        """Return the totals by Flink's names; the lag of the last emitted record only if a task knew it."""
        with self._lock:
            values = {
                name: self._forgotten[name] + sum(of[name] for of in self._tasks.values()) for name in _TOTALS
            }
            if self._event_time_lag_ms is not None:
                values[_GAUGE] = self._event_time_lag_ms
        return values

    def catch_up(self) -> None:
        """Wait until the datagrams that have come so far are counted, a second at most."""
        self._has_caught_up.clear()
        self._send_nothing()
        self._has_caught_up.wait(_LISTEN_S)

    def _send_nothing(self) -> None:
        """Send this socket an empty datagram, which is read after those that came before it."""
        with suppress(OSError), socket.socket(self._socket.family, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self._socket.getsockname()[:2])

    def close(self) -> None:
        """Stop listening. It takes a second at most, even if the datagram that wakes the thread is lost."""
        self._is_closed = True
        self._send_nothing()
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while not self._is_closed:
            try:
                datagram = self._socket.recv(_DATAGRAM_MAX_BYTES)
            except OSError:  # the time is over, or e.g. a refused datagram of ours
                continue
            if not datagram:
                self._has_caught_up.set()
            message = _read(datagram, self.address.token)
            if message is None:
                continue
            if isinstance(message.get("task"), str):
                self._add(message["task"], _values(message))
            else:
                self._on_other(message)

    def _add(self, task: str, values: dict[str, int]) -> None:
        with self._lock:
            known = self._tasks.pop(task, None)
            # Totals only grow, so an older datagram that comes late changes nothing.
            self._tasks[task] = {
                name: max(values.get(name, 0), known[name] if known else 0) for name in _TOTALS
            }
            if _GAUGE in values:
                self._event_time_lag_ms = values[_GAUGE]
            while len(self._tasks) > _TASKS_KEPT:
                _, oldest = self._tasks.popitem(last=False)
                for name in _TOTALS:
                    self._forgotten[name] += oldest[name]


def datagrams_to(address: ReportAddress) -> tuple[socket.socket, Any]:
    """Return a socket that does not wait, and the target for its `sendto`. The caller closes the socket.

    Raises:
        OSError: there is no socket left, or the host is a name. A name is not looked up here.
    """
    family, _, _, _, to = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
    )[0]
    sender = socket.socket(family, socket.SOCK_DGRAM)
    sender.setblocking(False)
    return sender, to


def tell_plan(address: ReportAddress, offsets: int) -> None:
    """Tell a progress bar how many offsets a batch read will pass. Raise nothing, and do not wait."""
    message = json.dumps({"token": address.token, "planned": offsets}).encode()
    with suppress(OSError):
        sender, to = datagrams_to(address)
        with sender:
            sender.sendto(message, to)


def _check_can_be_sent_to(host: str, numeric: str) -> None:
    if ip_address(numeric).is_unspecified:
        raise OSError(
            errno.EADDRNOTAVAIL,
            f"Expected an address of this machine that tasks can send to, got {host}, which stands for all",
        )


def _read(datagram: bytes, token: str) -> dict[str, Any] | None:
    """Return a message; None without the token of this query."""
    try:
        message = json.loads(datagram)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    given = message.get("token")
    if not isinstance(given, str) or not hmac.compare_digest(_bytes(given), _bytes(token)):
        return None
    return message


def _bytes(token: str) -> bytes:
    """Return bytes, because `compare_digest` refuses text that is not ASCII."""
    return token.encode("utf-8", "surrogatepass")


def _values(message: Mapping[str, Any]) -> dict[str, int]:
    return {name: message[name] for name in (*_TOTALS, _GAUGE) if type(message.get(name)) is int}
