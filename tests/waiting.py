"""Waiting for a condition, with an end. Runs in tests only; nothing waits for a fixed time.

A slow machine fails no test: a wait that can see progress goes on as long as there is some. The limits here
only end a test that hangs, so they cost nothing where all is well. pytest's own limit (`timeout` in
pyproject.toml) is the last one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""How long a wait lasts without any progress."""
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
        """Begin again when `progress` has changed; AssertionError when it was not for too long."""
        now_s = time.monotonic()
        if progress != self._progress:
            self._progress, self._deadline_s = progress, now_s + self._timeout_s
        assert now_s < self._deadline_s, (
            f"after {self._timeout_s} s without progress still not: {self._what} (at {progress!r})"
        )


def wait_until(
    condition: Callable[[], object],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Return as soon as `condition()` is true; AssertionError naming `what` when nothing moves too long."""
    patience = Patience(what, timeout_s)
    while not condition():
        patience.check(progress())
        threading.Event().wait(_POLL_INTERVAL_S)
