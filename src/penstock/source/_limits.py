"""Limit a batch to a number of records or bytes, divided among its topic partitions.

Runs on the driver. Pure, except for the clock of `MinBatchSize` and the questions of `BatchBytes`.
Invariants: no topic partition gets more than its backlog; each one with a backlog gets at least one record,
so a big one cannot starve the others; the order of a mapping does not change the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.errors import AuthorizationError
from penstock.options.config import IsolationLevel
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source._window import Window
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger(__name__)


class MinBatchSize:
    """Puts batches off until they are large enough, like Spark's `minOffsetsPerTrigger`.

    A running query has one.

    Args:
        min_records: the size; None for no minimum.
        max_delay_ms: a batch that comes this long after the last one is not put off, however small it is.
        clock_ms: a monotonic clock.
    """

    def __init__(self, min_records: int | None, max_delay_ms: int, clock_ms: Callable[[], int]) -> None:
        self._min_records = min_records
        self._max_delay_ms = max_delay_ms
        self._clock_ms = clock_ms
        self._last_batch_at_ms: int | None = None

    def cap(self, window: Window) -> Window:
        """Put the batch off if it is too small, except the first batch of a run and the last records."""
        if self._min_records is None or not window.may_wait or window.is_last or window.reaches_stops:
            return window
        now_ms, last_ms = self._clock_ms(), self._last_batch_at_ms
        is_over = last_ms is None or now_ms - last_ms >= self._max_delay_ms
        backlog = sum(window.backlogs.values())
        if not is_over and backlog < self._min_records:
            return replace(window, is_put_off=True)
        if backlog:
            self._last_batch_at_ms = now_ms
        return window


def cap_records(window: Window) -> Window:
    """End the window after about `max_records` records."""
    if window.max_records is None:
        return window
    shares = share_records(window.backlogs, window.max_records)
    return window.ending_at({tp: window.begin[tp] + share for tp, share in shares.items()})


def cap_bytes(
    begin: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    bytes_per_offset: Mapping[TopicPartition, float],
    max_bytes: int,
) -> dict[TopicPartition, int]:
    """Return earlier ends, so that about `max_bytes` lie before them, divided in proportion to the backlogs.

    Args:
        begin: the positions.
        ends: the ends of the logs; a topic partition without an end stays without one.
        bytes_per_offset: the average of each log, for all topic partitions with an end.
        max_bytes: the limit for all together.
    """
    backlogs = {tp: end - begin[tp] for tp, end in ends.items() if tp in begin and end > begin[tp]}
    sizes = {tp: max(1, round(backlog * bytes_per_offset[tp])) for tp, backlog in backlogs.items()}
    shares = share_records(sizes, max_bytes)
    cut = {
        tp: begin[tp] + max(1, backlogs[tp] * shares[tp] // size)
        for tp, size in sizes.items()
        if shares[tp] < size
    }
    return {**ends, **cut}


def share_records(
    backlogs: Mapping[TopicPartition, int], max_records: int | None
) -> dict[TopicPartition, int]:
    """Divide `max_records` in proportion to the backlogs, like Spark's `maxOffsetsPerTrigger`.

    Shares are rounded down, but a share is at least one record. So the sum may exceed the limit by up to one
    record for each topic partition. Spark has the same rule.

    Args:
        backlogs: the number of offsets between position and end; values <= 0 get no share.
        max_records: the limit for all together; None for no limit.

    Returns:
        How many offsets each topic partition with a backlog may advance, at least 1.
    """
    waiting = {topic_partition: backlog for topic_partition, backlog in backlogs.items() if backlog > 0}
    total = sum(waiting.values())
    if max_records is None or total <= max_records:
        return waiting
    # Whole numbers only, because offsets may exceed 2**53, where floating point loses digits.
    return {
        topic_partition: max(1, backlog * max_records // total)
        for topic_partition, backlog in waiting.items()
    }


GUESSED_RECORD_BYTES = 1 << 10
"""The size of a record in a log that does not tell its size."""


class BatchBytes:
    """Ends batches after a number of bytes; one object for a running query.

    Kafka cannot say how many bytes lie between two offsets, only how many a log has. So they are estimated
    from the average size of a record in each log. Planning a batch takes a few requests, however many topic
    partitions there are. An unknown size is guessed and never holds a topic partition up.
    """

    def __init__(self, lookup: OffsetLookup) -> None:
        self._lookup = lookup
        self._known: dict[TopicPartition, float] = {}

    def cap(self, window: Window) -> Window:
        """End the window after about `max_bytes`, but not before one record of each topic partition.

        Raises:
            AuthorizationError: the user may not look up the sizes of logs.
        """
        backlogs = window.backlogs
        if window.max_bytes is None or not backlogs:
            return window
        self._known |= self._averages({tp: window.ends[tp] for tp in backlogs})
        averages = {tp: self._known.get(tp, GUESSED_RECORD_BYTES) for tp in backlogs}
        return window.ending_at(cap_bytes(window.begin, window.ends, averages, window.max_bytes))

    def _averages(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        sizes = self._lookup.log_sizes(ends.keys())
        for tp, error in sorted(sizes.errors.items()):
            if isinstance(error, AuthorizationError):
                raise error
            _log.warning("The size of %s could not be looked up, so it is estimated: %s", tp, error)
        level = IsolationLevel.READ_UNCOMMITTED
        starts = self._lookup.list_offsets(ends.keys(), LogEnd.EARLIEST, level, wait=Wait.FOR_NONE).values
        return {
            tp: size / (ends[tp] - starts[tp])
            for tp, size in sizes.values.items()
            if starts.get(tp, ends[tp]) < ends[tp]
        }
