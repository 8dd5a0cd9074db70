"""Ignore timestamps that are too far in the future: a wrong clock must not hold a query for a year.

Runs on the driver, in planning. Invariants: within one planning the answer for a timestamp does not change;
each record with an ignored timestamp is counted once in a run of the query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

LOG_INTERVAL_MS = 60_000
"""The shortest time between two messages."""


def wall_clock_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class FutureTimes:
    """The bound on timestamps of one running query, and the count of what it ignored.

    Args:
        max_skew_ms: how far a timestamp may be ahead of the clock of the driver; 0 for no limit.
        clock_ms: milliseconds since 1970.
    """

    def __init__(self, max_skew_ms: int = 0, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self.ignored_count = 0
        self._max_skew_ms = max_skew_ms
        self._clock_ms = clock_ms
        self._now_ms = clock_ms()
        self._counted_to: dict[TopicPartition, int] = {}
        self._logged_count = 0
        self._logged_at_ms: int | None = None
        self._last: tuple[TopicPartition, int, int] | None = None

    def begin(self, new_starts: Collection[TopicPartition]) -> None:
        """Begin one planning. `new_starts` may have other records at the same offsets now."""
        self._now_ms = self._clock_ms()
        for tp in new_starts:
            self._counted_to.pop(tp, None)

    def is_ignored(self, time_ms: int) -> bool:
        return bool(self._max_skew_ms) and time_ms > self._now_ms + self._max_skew_ms

    def count(self, tp: TopicPartition, offsets: Collection[int], times_ms: Collection[int]) -> None:
        """Count the records with an ignored timestamp that were not counted before."""
        counted_to = self._counted_to.get(tp, 0)
        for offset, time_ms in zip(offsets, times_ms, strict=True):
            if offset >= counted_to and self.is_ignored(time_ms):
                self.ignored_count += 1
                self._counted_to[tp] = offset + 1
                self._last = (tp, offset, time_ms)

    def log(self) -> None:
        """Log what was ignored since the last message, if the last message is old enough."""
        if self._last is None or self.ignored_count == self._logged_count:
            return
        if self._logged_at_ms is not None and 0 <= self._now_ms - self._logged_at_ms < LOG_INTERVAL_MS:
            return
        self._logged_at_ms, self._logged_count = self._now_ms, self.ignored_count
        tp, offset, time_ms = self._last
        _log.warning(
            "Ignored timestamps that are too far in the future: %d in this run. The last one is of offset %d "
            "of %s: %d ms since 1970, more than 'scan.watermark.alignment.max-future-skew' (%d ms) ahead of "
            "the clock here. The records are read; only their timestamps do not count for the alignment. "
            "Check the clock of their producer.",
            self.ignored_count,
            offset,
            tp,
            time_ms,
            self._max_skew_ms,
        )
