"""Limit a batch to a number of bytes, estimated from the average size of a record in each log.

Runs on the driver, in planning. Kafka cannot say how many bytes lie between two offsets, only how many a log
has. Invariants: planning a batch takes a few requests, however many topic partitions there are; an unknown
size is guessed and never holds a topic partition up.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.errors import AuthorizationError
from penstock.options.config import IsolationLevel
from penstock.source._limits import cap_bytes
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source._window import Window
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger(__name__)

GUESSED_RECORD_BYTES = 1 << 10
"""The size of a record in a log that does not tell its size."""


class BatchBytes:
    """Ends batches after a number of bytes; one object for a running query."""

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
