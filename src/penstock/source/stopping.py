"""Find where a bounded stream ends, and whether it has ended.

Runs on the driver. Invariants: a stopping point is resolved to numbers once in the life of a query, at its
first planning. Every later offset carries it, so a restart ends where the first run would have ended. A
stream is at its end when its positions are, so control records and gaps in the log there do not matter.
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
        self,
        start: SourceOffset | None,
        existing: Collection[TopicPartition],
        look_ups: OffsetLookUps,
        *,
        starts: Positions | None = None,
    ) -> Positions | None:
        """Return the stops in `start`, or resolve them for `existing`; None for a stream without an end.

        `starts` is where reading starts in a query that is first planned now.
        """
        if self._spec is None:
            return None
        if start is not None and start.markers.stops is not None:
            return start.markers.stops
        if self._resolved is None:
            self._resolved = resolve_offsets(self._spec, existing, look_ups, starts=starts)
        return self._resolved

    def with_end_marker(
        self, start: SourceOffset, end: SourceOffset, *, ends_by_itself: bool
    ) -> SourceOffset:
        """Return `end`; or, once a run at the end of the stream, the same positions with another text.

        Spark reports the offsets of a source only with a batch, so this makes an empty batch. It says that
        the end was in the checkpoint when this batch was planned, so the commit to the group is under way. A
        restarted query that has nothing left to read makes one too. `run_until_bounded` waits for it.
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
    """Return whether the stream has an end and every position has reached it, except of what left."""
    if offset.markers.stops is None:
        return False
    return all(
        offset.positions.get(tp, 0) >= stop
        for tp, stop in offset.markers.stops.items()
        if tp not in offset.markers.left
    )
