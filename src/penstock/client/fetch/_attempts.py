"""How long a range may go without progress, and when it is asked for again.

Runs on the executor. Pure but for the clock. Invariant: the time that the reader's caller takes between two
responses does not count; each progress gives new time.
"""

from __future__ import annotations

import time

from penstock.client.net.backoff import Backoff
from penstock.client.net.connection import KafkaConnections
from penstock.errors import PenstockError


class TryAgain(Exception):  # not an error: it never leaves this folder
    """This request brought no records, for a temporary reason.

    Args:
        cause: for the error, when the time is up.
        is_urgent: whether the next attempt needs no pause.
        keeps_turn: whether the range goes first in the next request.
    """

    def __init__(
        self, cause: PenstockError | None, *, is_urgent: bool = False, keeps_turn: bool = False
    ) -> None:
        super().__init__()
        self.cause = cause
        self.is_urgent = is_urgent
        self.keeps_turn = keeps_turn


class CallersTime:
    """The time that the caller of a reader took so far: all that is outside of its `with` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._left_at = time.monotonic()

    def __enter__(self) -> CallersTime:
        self.seconds += time.monotonic() - self._left_at
        return self

    def __exit__(self, *args: object) -> None:
        self._left_at = time.monotonic()


class Attempts:
    """The attempts to read on from one position.

    Args:
        connections: make the pauses.
        timeout_ms: how long there may be no progress.
        callers_time: does not count.
    """

    def __init__(self, connections: KafkaConnections, timeout_ms: int, callers_time: CallersTime) -> None:
        self.cause: PenstockError | None = None
        self.again_at: float | None = None
        """When the next attempt is due; None: now."""
        self._pause_s = 0.0
        self._connections = connections
        self._timeout_s = timeout_ms / 1000
        self._callers_time = callers_time
        self._expires_at_s: float | None = None
        """In time without the caller's; None before the first attempt."""
        self._backoff: Backoff | None = None

    def succeeded(self) -> None:
        """Note progress: the next attempt is the first one of the next position."""
        self.cause, self.again_at, self._expires_at_s, self._backoff = None, None, None, None

    def begin(self) -> None:
        if self._expires_at_s is None:
            self._expires_at_s = time.monotonic() - self._callers_time.seconds + self._timeout_s

    @property
    def deadline(self) -> float:
        """Return until when there must be progress, on the clock of `time.monotonic()`."""
        self.begin()
        assert self._expires_at_s is not None  # noqa: S101  # for mypy
        return self._expires_at_s + self._callers_time.seconds

    def failed(self, again: TryAgain, now: float) -> bool:
        """Note a failed attempt and set the time of the next one; return False if the time is up.

        `now` is the same for ranges that fail together, so that they are asked for again together.
        """
        self.cause = again.cause or self.cause
        deadline = self.deadline
        if now >= deadline:
            return False
        if not again.is_urgent:
            if self._backoff is None:
                self._backoff = self._connections.new_backoff()
            self._pause_s = self._backoff.next_seconds(deadline)
            self.again_at = min(now + self._pause_s, deadline)
        return True

    def is_nearly_due(self, now: float) -> bool:
        """Return whether so much of the pause is over that the next attempt can go along with others."""
        return self.again_at is not None and self.again_at - self._pause_s / 2 <= now

    def end_pause(self, now: float) -> bool:
        """Make the next attempt due; return False if the time is up."""
        self.again_at = None
        return now < self.deadline
