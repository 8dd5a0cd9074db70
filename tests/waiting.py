"""Waiting for a condition, with an end. Runs in tests only; nothing waits for a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_POLL_INTERVAL_S = 0.05


def wait_until(condition: Callable[[], object], what: str, *, timeout_s: float = 30.0) -> None:
    """Return as soon as `condition()` is true; AssertionError naming `what` when it is not in time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"after {timeout_s} s still not: {what}"
        threading.Event().wait(_POLL_INTERVAL_S)
