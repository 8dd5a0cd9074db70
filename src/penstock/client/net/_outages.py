"""Log that a broker cannot be reached, long before the time-out: once, then from time to time.

Runs wherever a `KafkaConnections` is open. The IO thread reports the outcome of each request; a caller that
pauses before another attempt reports how long it will try. Invariants: a broker that is back within
`FIRST_AFTER_S` is not logged; one process logs the same broker at most every `AGAIN_AFTER_S`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger("penstock.client")

FIRST_AFTER_S = 2.0
"""A broker that restarts, or a connection that broke, is usually back by then."""
AGAIN_AFTER_S = 30.0

_said_at_s: dict[str, float] = {}
"""When each broker was last logged in this process, over all connections. Needs no lock of its own."""


class Outages:
    """The brokers that cannot be reached now. Thread-safe."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._away: dict[str, tuple[float, str]] = {}
        self._named: set[str] = set()

    def failed(self, broker: str, reason: str) -> None:
        """Note that a request did not reach `broker`. `reason` is empty when it says nothing new."""
        with self._lock:
            since_s, before = self._away.get(broker, (self._clock_s(), ""))
            self._away[broker] = (since_s, reason or before)

    def answered(self, broker: str) -> None:
        """`broker` answered."""
        if broker not in self._away:  # without the lock, because this runs for each response
            return
        with self._lock:
            since_s, _ = self._away.pop(broker, (self._clock_s(), ""))
            was_named = broker in self._named
            self._named.discard(broker)
        if was_named:
            _log.warning("%s answers again, after %.0f s.", broker, self._clock_s() - since_s)

    def trying_until(self, deadline_s: float) -> None:
        """Note that a caller tries again until `deadline_s` on the clock of `time.monotonic()`."""
        if not self._away:
            return
        now_s = self._clock_s()
        with self._lock:
            due = [
                (broker, reason)
                for broker, (since_s, reason) in self._away.items()
                if now_s - since_s >= FIRST_AFTER_S
                and now_s - _said_at_s.get(broker, -AGAIN_AFTER_S) >= AGAIN_AFTER_S
            ]
            self._named.update(broker for broker, _ in due)
            _said_at_s.update({broker: now_s for broker, _ in due})
        for broker, reason in due:
            left_s = max(0.0, deadline_s - now_s)
            _log.warning("Cannot reach %s (%s); trying for another %.0f s.", broker, reason or "?", left_s)

    def silent(self, what: str, broker: str, waited_s: float, left_s: float) -> None:
        """Log that a request has waited `waited_s` for its answer."""
        now_s = self._clock_s()
        if now_s - _said_at_s.get(broker, -AGAIN_AFTER_S) < AGAIN_AFTER_S:
            return
        _said_at_s[broker] = now_s
        _log.warning("%s: no answer for %.0f s; waiting for another %.0f s.", what, waited_s, left_s)
