"""Wait between attempts (with jitter, never past a deadline), and tell how long a problem may last.

Runs on driver and executor. Invariants: a pause ends early when the connections are closed; a missing topic
is an error after a short grace, because each broker takes a moment to learn of a new topic; a temporary
problem is waited out until the deadline.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from penstock.client.settings import ConnectionSettings
from penstock.errors import PenstockError


class Backoff:
    """The pauses of one series of attempts."""

    def __init__(
        self,
        initial_ms: int,
        max_ms: int,
        wait: Callable[[float], bool],
        *,
        jitter: float = 0.2,
        on_pause: Callable[[float], None] = lambda deadline: None,
    ) -> None:
        """Make a series.

        Args:
            initial_ms: the first pause.
            max_ms: no pause is longer, apart from jitter.
            wait: sleeps for some seconds; returns True when the connections are closing.
            jitter: random part of a pause, longer or shorter.
            on_pause: called before each pause, with the deadline.
        """
        self._on_pause = on_pause
        self._max_ms = max_ms
        self._wait = wait
        self._jitter = jitter
        self._next_ms = initial_ms

    def pause(self, deadline: float) -> bool:
        """Sleep before the next attempt; `deadline` is on the clock of `time.monotonic()`.

        Returns:
            True if another attempt may be made; False after the deadline or when closing.
        """
        left_seconds = deadline - time.monotonic()
        if left_seconds <= 0:
            return False
        pause_seconds = self.next_seconds(deadline)
        # An attempt without time left would only replace the last error by one that says less.
        return not self.sleep(min(left_seconds, pause_seconds)) and pause_seconds < left_seconds

    def next_seconds(self, deadline: float) -> float:
        """Return how long the next pause is, for a caller that waits for other things meanwhile."""
        self._on_pause(deadline)
        jitter = random.uniform(1 - self._jitter, 1 + self._jitter)  # noqa: S311  # jitter needs no secrecy
        pause_seconds = self._next_ms / 1000 * jitter
        self._next_ms = min(2 * self._next_ms, self._max_ms)
        return pause_seconds

    def sleep(self, seconds: float) -> bool:
        """Sleep; return True when the connections are closing."""
        return self._wait(seconds)


def doubled(first_ms: int, failure_count: int, max_ms: int) -> int:
    """Return the pause that is doubled after each failure, for a caller that has its own clock and jitter."""
    return min(max_ms, first_ms << min(failure_count, 16))


def left_ms(deadline: float) -> int:
    """Return the milliseconds until a deadline on the clock of `time.monotonic()`; at least 1."""
    return max(1, int((deadline - time.monotonic()) * 1000))


UNKNOWN_TOPIC_GRACE_MS = 5_000
"""How long a topic may be unknown before that is an error."""

_NEVER = float("-inf")


class ProblemKind(IntEnum):
    """How long a problem may last before it is an error, the worst first."""

    FINAL = 0
    UNKNOWN = 1
    PASSING = 2


class Problem(NamedTuple):
    """The reason why a question has no answer yet."""

    kind: ProblemKind
    error: PenstockError


class Patience(NamedTuple):
    """The deadline of each kind of problem, on the clock of `time.monotonic()`."""

    deadline: float
    grace_ends: float

    @classmethod
    def from_now(cls, settings: ConnectionSettings, timeout_ms: int | None) -> Patience:
        """Return a patience of `timeout_ms` (default `default_api_timeout_ms`), less for unknown topics."""
        if timeout_ms is None:
            timeout_ms = settings.default_api_timeout_ms
        now = time.monotonic()
        return cls(now + timeout_ms / 1000, now + min(timeout_ms, UNKNOWN_TOPIC_GRACE_MS) / 1000)

    def ends_for(self, problem: Problem) -> float:
        if problem.kind is ProblemKind.FINAL:
            return _NEVER
        return self.grace_ends if problem.kind is ProblemKind.UNKNOWN else self.deadline
