"""Wait for a condition, with a limit. No test has to wait for a fixed time.

Runs in tests only. A slow machine does not fail a test, because a wait continues while it sees progress. The
limits only end a test that hangs, so they cost no time in a good run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""The longest time that a wait lasts without progress."""
_POLL_INTERVAL_S = 0.05


class Patience:
    """The end of a wait that watches progress.

    Args:
        what: what is waited for, for the message.
        timeout_s: how long without progress.
    """

    def __init__(self, what: str, timeout_s: float = PATIENCE_S) -> None:
        self._what = what
        self._timeout_s = timeout_s
        self._progress: object = None
        self._deadline_s = time.monotonic() + timeout_s

    def check(self, progress: object = None) -> None:
        """Begin again if `progress` has changed.

        Raises:
            AssertionError: it has not changed for too long.
        """
        now_s = time.monotonic()
        if progress != self._progress:
            self._progress, self._deadline_s = progress, now_s + self._timeout_s
        if now_s >= self._deadline_s:
            raise AssertionError(
                f"after {self._timeout_s} s without progress still not: {self._what} (at {progress!r})"
            )


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Return when `condition()` is true.

    Args:
        condition: asked again and again.
        what: what is waited for, for the message.
        timeout_s: how long without progress.
        progress: a value that changes while there is progress.

    Raises:
        AssertionError: there was no progress for too long.
    """
    patience = Patience(what, timeout_s)
    while not condition():
        patience.check(progress())
        threading.Event().wait(_POLL_INTERVAL_S)
