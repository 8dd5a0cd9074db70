"""The time of a fake cluster: it runs like the real one, or stands still. A test may move it forward.

Runs in tests only. Invariant: everything in the fake that depends on time asks the cluster's clock: the wait
of a Fetch, the time-outs of transactions, the expiry of producers.
"""

from __future__ import annotations

import threading
import time
import weakref


class Clock:
    """A clock that runs like that of the machine, and jumps with `advance`."""

    def __init__(self) -> None:
        self._shift_ms = 0
        self._conditions: weakref.WeakSet[threading.Condition] = weakref.WeakSet()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._shift_ms

    def advance(self, ms: int) -> None:
        """Move the time forward, and wake everything that waits for it."""
        self._shift_ms += ms
        for condition in list(self._conditions):
            with condition:
                condition.notify_all()

    def attach(self, condition: threading.Condition) -> None:
        """Take note of a condition on which threads wait for this clock."""
        self._conditions.add(condition)

    def wait(self, condition: threading.Condition, until_ms: int) -> None:
        """Wait until the condition is notified or the time has come. The caller holds the condition."""
        condition.wait(max(0, until_ms - self.now_ms()) / 1000)


class VirtualClock(Clock):
    """A clock that stands still until `advance`."""

    def __init__(self, now_ms: int | None = None) -> None:
        super().__init__()
        self._began_ms = super().now_ms() if now_ms is None else now_ms

    def now_ms(self) -> int:
        """Return the milliseconds since 1970 to which a test has set this clock."""
        return self._began_ms + self._shift_ms

    def wait(self, condition: threading.Condition, until_ms: int) -> None:
        """Wait until the condition is notified, also by `advance`. The caller holds the condition."""
        if self.now_ms() < until_ms:
            condition.wait()
