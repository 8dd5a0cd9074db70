"""Decide when a failed job of a query is started again, and with how many tasks. Runs on the driver. Pure."""

from __future__ import annotations

from penstock.client.net.backoff import doubled

_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000
FAILURES_MAX = 10


class Restarts:
    """Counts the failures of a query in a row, without a committed transaction between them."""

    def __init__(self) -> None:
        self._count = 0
        self._progress = -1

    def pause_ms(self, progress: int) -> int | None:
        """Return how long to wait after a failure before the next start. None: give up.

        Args:
            progress: a number that grows with each committed transaction.
        """
        if progress > self._progress:
            self._progress, self._count = progress, 0
        self._count += 1
        if self._count > FAILURES_MAX:
            return None
        return doubled(_FIRST_PAUSE_MS, self._count - 1, _LONGEST_PAUSE_MS)


class Slots:
    """Finds out that Spark has no slot for some tasks of a plan.

    Spark says nothing then: it starts the first tasks, and the others wait for ever, because none ends.

    Args:
        planned: how many tasks there are.
        patience_ms: how long the others may begin after the first.
    """

    def __init__(self, planned: int, patience_ms: int) -> None:
        self.begun = 0
        self._planned = planned
        self._patience_ms = patience_ms
        self._since_ms: int | None = None

    @property
    def are_enough(self) -> bool:
        """Return whether every task has begun."""
        return self.begun >= self._planned

    def see(self, begun: int, now_ms: int) -> int | None:
        """Take how many tasks have begun. Return how many another plan may have; None: this one goes on."""
        if begun > self.begun:
            self.begun, self._since_ms = begun, now_ms
        if self.are_enough or self._since_ms is None or now_ms - self._since_ms < self._patience_ms:
            return None
        return self.begun
