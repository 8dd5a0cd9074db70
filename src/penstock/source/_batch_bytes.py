"""How far a batch may go for a number of bytes, judged by the average size of a record in each log.

Runs on the driver, in planning. Kafka cannot say how many bytes lie between two offsets, only how many a log
has. Invariants: a few requests a batch, however many topic partitions; a size that nobody knows is guessed
and never holds a topic partition up.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.errors import AuthorizationError
from penstock.options.config import IsolationLevel
from penstock.source._limits import cap_bytes
from penstock.source._lookup import OffsetAdmin, Wait
from penstock.source._window import Window
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger(__name__)

GUESSED_RECORD_BYTES = 1 << 10
"""For one whose log does not say, until it does."""


class BatchBytes:
    """Caps the ends of batches by bytes; one for a running query."""

    def __init__(self, admin: OffsetAdmin) -> None:
        self._admin = admin
        self._known: dict[TopicPartition, float] = {}

    def cap(self, window: Window) -> Window:
        """End the window after about `max_bytes`; each backlog gets on by a record at least.

        Raises:
            AuthorizationError: the user may not know how large logs are.
        """
        backlogs = window.backlogs
        if window.max_bytes is None or not backlogs:
            return window
        self._known |= self._averages({tp: window.ends[tp] for tp in backlogs})
        averages = {tp: self._known.get(tp, GUESSED_RECORD_BYTES) for tp in backlogs}
        return window.ending_at(cap_bytes(window.begin, window.ends, averages, window.max_bytes))

    def _averages(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        sizes = self._admin.log_sizes(ends.keys())
        for tp, error in sorted(sizes.errors.items()):
            if isinstance(error, AuthorizationError):
                raise error
            _log.warning("The size of %s is not known now, so it is guessed: %s", tp, error)
        level = IsolationLevel.READ_UNCOMMITTED
        starts = self._admin.list_offsets(ends.keys(), LogEnd.EARLIEST, level, wait=Wait.FOR_NONE).values
        return {
            tp: size / (ends[tp] - starts[tp])
            for tp, size in sizes.values.items()
            if starts.get(tp, ends[tp]) < ends[tp]
        }
