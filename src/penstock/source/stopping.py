"""Where a bounded stream ends, and that it has ended.

Runs on the driver. Invariants: a stopping point is resolved to numbers once in the life of a query, at its
first planning, and carried by every offset from then on, so a restart ends where the first run would have;
it is reached by position, so what lies in the log there (control records, gaps) makes no difference.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.options.config import SourceConfig
from penstock.source._configured_lookup import OffsetLookUps
from penstock.source._resolve_offsets import resolve_offsets
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import TopicPartition


class StoppingPoint:
    """The end of a stream, if it has one.

    A bounded stream reads the topic partitions that exist when its end is resolved, and no later ones.
    """

    def __init__(self, config: SourceConfig) -> None:
        self._spec = config.stopping
        self._resolved: Positions | None = None
        self._is_marked = False

    def of(
        self, start: SourceOffset | None, existing: Collection[TopicPartition], look_ups: OffsetLookUps
    ) -> Positions | None:
        """The stopping offsets: those that `start` carries, else resolved for `existing`; None for no end."""
        if self._spec is None:
            return None
        if start is not None and start.markers.stops is not None:
            return start.markers.stops
        if self._resolved is None:
            self._resolved = resolve_offsets(self._spec, existing, look_ups)
        return self._resolved

    def with_end_marker(
        self, start: SourceOffset, end: SourceOffset, *, ends_by_itself: bool
    ) -> SourceOffset:
        """`end`; or once a run, when `start` is at the end, an offset that differs from it in its text only.

        Spark reports the offsets of a source only with a batch. So this makes an empty one, which says: the
        end was in the checkpoint when this was planned (so its commit to the group is under way), also in a
        restarted query that has nothing left to read. `run_until_bounded` waits for it.
        """
        if end is not start or self._is_marked or ends_by_itself or self._spec is None:
            return end
        if not is_reached(start):
            return end
        self._is_marked = True
        markers = replace(
            start.markers, whole_start=None, partial_start={}, ended_runs=start.markers.ended_runs + 1
        )
        return replace(start, markers=markers)


def is_reached(offset: SourceOffset) -> bool:
    """Whether the stream has an end and every position has reached it; what left is not waited for."""
    if offset.markers.stops is None:
        return False
    return all(
        offset.positions.get(tp, 0) >= stop
        for tp, stop in offset.markers.stops.items()
        if tp not in offset.markers.left
    )
