"""Send events on a thread of its own, one after the other.

Runs in the user's program. Invariants: `put` never waits and never fails; memory is bounded; `close` waits
for a time at most, and says in the log how many events are dropped.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

_WAITING_MAX = 100
_NEEDED_MAX = 1_000


class Outbox:
    """Events that wait to be sent. Its thread does not keep the interpreter alive.

    Args:
        send: sends one; may take seconds, and may fail.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], Any]] = deque()  # the first one is being sent
        self._put_count = self._done_count = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="penstock-lineage", daemon=True)
        self._thread.start()

    def put(self, make: Callable[[], Any], *, is_needed: bool) -> None:
        """Send the event that `make` returns. One that is not needed is left out while many wait."""
        most = _NEEDED_MAX if is_needed else _WAITING_MAX
        with self._changed:
            is_taken = not self._is_closed and len(self._waiting) < most
            if is_taken:
                self._waiting.append(make)
                self._put_count += 1
                self._changed.notify_all()
        if is_needed and not is_taken:
            _log.warning("An event of OpenLineage is dropped: the listener is closed, or too many wait.")

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything that waits now is sent. Return whether it is."""
        with self._changed:
            last = self._put_count
            return self._changed.wait_for(lambda: self._done_count >= last, timeout_s)

    def close(self, timeout_s: float = 10.0) -> None:
        """Take no more events, send what waits, and end the thread.

        Args:
            timeout_s: for all of it. What is not sent then is dropped.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self.flush(timeout_s):
            self._thread.join(timeout_s)
            return
        with self._changed:
            dropped = len(self._waiting)
            self._waiting.clear()
        _log.warning(
            "%d events of OpenLineage are dropped: they could not be sent in %.1f s. The lineage may miss "
            "the end of a run. The query is not affected.",
            dropped,
            timeout_s,
        )

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                make = self._waiting[0]
            self._try(make)
            with self._changed:
                if self._waiting:  # not dropped meanwhile
                    self._waiting.popleft()
                self._done_count += 1
                self._changed.notify_all()

    def _try(self, make: Callable[[], Any]) -> None:
        try:
            self._send(make())
        except Exception as error:  # noqa: BLE001 - lineage is for watching: the query goes on
            _log.warning("Cannot send an event of OpenLineage: %s. The query is not affected.", error)
