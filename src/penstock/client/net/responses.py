"""Wait for the first of several responses.

Runs on driver and executor, on one thread. Invariant: a response that was added comes out once, in the order
in which the responses complete; a long silence is logged as by `PendingResponse.result`.
"""

from __future__ import annotations

import queue
import time

from penstock.client.net.connection import PendingResponse

_SILENCE_S = 5.0


class FirstResponse:
    """Responses that will come. Not for several threads."""

    def __init__(self) -> None:
        self._done: queue.SimpleQueue[PendingResponse] = queue.SimpleQueue()
        self._open: dict[PendingResponse, float] = {}
        """The responses that are still awaited, with the time at which their silence is logged."""

    def __len__(self) -> int:
        return len(self._open)

    def add(self, pending: PendingResponse) -> None:
        self._open[pending] = time.monotonic() + _SILENCE_S
        pending.add_done_callback(self._done.put)

    def forget(self, pending: PendingResponse) -> None:
        """Await this response no longer; it never comes out."""
        self._open.pop(pending, None)

    def next(self, until: float) -> PendingResponse | None:
        """Return the next response that completes; None if there is none until then.

        Args:
            until: on the clock of `time.monotonic()`.
        """
        while True:
            wake_at = min([until, *self._open.values()])
            try:
                pending = self._done.get(timeout=max(0.0, wake_at - time.monotonic()))
            except queue.Empty:
                self._log_silence(until)
                if time.monotonic() >= until:
                    return None
                continue
            if self._open.pop(pending, None) is not None:
                return pending

    def _log_silence(self, until: float) -> None:
        now = time.monotonic()
        for pending, log_at in self._open.items():
            if log_at <= now:
                self._open[pending] = float("inf")
                pending.log_silence(_SILENCE_S, max(0.0, until - now))
