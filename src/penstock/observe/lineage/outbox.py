"""Send events on a thread of its own, one after the other.

Runs in the user's program. Invariants: `put` never waits and never fails; memory is bounded; the interpreter
ends only after the last events are sent or have failed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import Any

_log = logging.getLogger(__name__)

_WAITING_MAX = 100


class Outbox:
    """Events that wait to be sent.

    Args:
        send: sends one; may take seconds, and may fail.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._waiting: set[Any] = set()
        # Its thread ends with the interpreter, after the events that wait.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-lineage")

    def put(self, make: Callable[[], Any], *, is_needed: bool) -> None:
        """Send the event that `make` returns. One that is not needed is left out while many wait."""
        with self._lock:
            if len(self._waiting) >= _WAITING_MAX and not is_needed:
                return
            try:
                future = self._thread.submit(self._try, make)
            except RuntimeError:  # closed
                return
            self._waiting.add(future)
        future.add_done_callback(self._forget)

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything is sent. Return whether it is."""
        with self._lock:
            waiting = set(self._waiting)
        return not wait_for(waiting, timeout_s).not_done

    def close(self) -> None:
        """Send what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    def _forget(self, future: Any) -> None:
        with self._lock:
            self._waiting.discard(future)

    def _try(self, make: Callable[[], Any]) -> None:
        try:
            self._send(make())
        except Exception as error:  # noqa: BLE001 - lineage is for watching: the query goes on
            _log.warning("Cannot send an event of OpenLineage: %s. The query is not affected.", error)
