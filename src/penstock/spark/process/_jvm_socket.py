"""Remove two waits of 40 ms from PySpark's workers, one at each end of a task.

Runs in the processes of PySpark's daemon, on executors and on the driver. Spark's JVM and a Python worker
talk through a TCP socket on this machine, in small messages in a row. The second message waits until the
first is acknowledged (Nagle's algorithm, which neither side turns off), and the other side acknowledges only
after 40 ms (delayed acknowledgement). So each task waited 40 ms before its function arrived, and often as
long after its last rows. docs/performance-parts.md has the figures.

- Our messages are sent at once: TCP_NODELAY, permanently.
- Received messages are acknowledged at once: TCP_QUICKACK (Linux only). The kernel resets that when we send,
  so it is set again between tasks, when all rows are sent and PySpark's daemon collects garbage.

Invariant: changes when bytes are sent and never which bytes. If no TCP socket is found or the system refuses,
nothing changes. Unix sockets (`spark.python.unix.domain.socket.enabled`) do not have these waits.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_OPEN_FILES = Path("/dev/fd")
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)
_OLDEST_GENERATION = 2


class JvmConnection:
    """The connection of this process to Spark's JVM, once `hurry` has found it."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._has_looked = False

    def hurry(self) -> None:
        """Find the connection and set its options; a second call does nothing.

        Call it before this process opens connections of its own, because it takes the first one it finds.
        """
        if self._has_looked:
            return
        self._has_looked = True
        self._socket = connected_socket()
        if self._socket is None:
            return
        with suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _QUICK_ACK is not None:
            gc.callbacks.append(self.after_collection)

    def after_collection(self, phase: str, info: dict[str, int]) -> None:
        """Set TCP_QUICKACK again after a collection; an entry of `gc.callbacks`."""
        is_between_tasks = phase == "stop" and info["generation"] == _OLDEST_GENERATION
        if is_between_tasks and self._socket is not None and _QUICK_ACK is not None:
            with suppress(OSError):
                self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


def connected_socket() -> socket.socket | None:
    """Return a second handle on the first connected TCP socket of this process, None without one."""
    if socket.getdefaulttimeout() is not None:
        return None  # a handle would make the connection itself non-blocking, which PySpark does not expect
    with suppress(OSError):
        for number in sorted(int(each.name) for each in _OPEN_FILES.iterdir()):
            with suppress(OSError):  # the descriptor that listed the folder is closed by now
                found = _as_connected_tcp(number)
                if found is not None:
                    return found
    return None


def _as_connected_tcp(file_number: int) -> socket.socket | None:
    if not stat.S_ISSOCK(os.fstat(file_number).st_mode):
        return None
    found = socket.socket(fileno=os.dup(file_number))
    try:
        is_tcp = found.family in {socket.AF_INET, socket.AF_INET6} and found.type == socket.SOCK_STREAM
        if is_tcp and found.getpeername():
            return found
    except OSError:  # it listens
        pass
    found.close()
    return None
