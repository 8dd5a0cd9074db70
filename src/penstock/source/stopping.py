"""Where a bounded stream ends, and that it has ended.

Runs on the driver. Invariants: a stopping point is resolved to numbers once in the life of a query, at its
first planning, and carried by every offset from then on, so a restart ends where the first run would have;
it is reached by position, so what lies in the log there (control records, gaps) makes no difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.options.config import SourceConfig
from penstock.source.look_ups import OffsetLookUps
from penstock.source.offsets_initializer import resolve_offsets
from penstock.source.offsets_json import Positions, SourceOffset
from penstock.types import TopicPartition


class StoppingPoint:
    """The end of a stream, if it has one.

    A bounded stream reads the topic partitions that exist when its end is resolved, and no later ones.
    """

    def __init__(self, config: SourceConfig, look_ups: OffsetLookUps) -> None:
        self._spec = config.stopping
        self._look_ups = look_ups
        self._resolved: Positions | None = None
        self._is_announced = False

    def of(self, start: SourceOffset | None, existing: Collection[TopicPartition]) -> Positions | None:
        """The stopping offsets: those that `start` carries, else resolved for `existing`; None for no end."""
        if self._spec is None:
            return None
        if start is not None and start.stops is not None:
            return start.stops
        if self._resolved is None:
            self._resolved = resolve_offsets(self._spec, existing, self._look_ups)
        return self._resolved

    def announce(self, start: SourceOffset, end: SourceOffset, *, ends_by_itself: bool) -> SourceOffset:
        """`end`; or once a run, when `start` is at the end, an offset that differs from it in its text only.

        Spark reports the offsets of a source only with a batch. So this makes an empty one, which says: the
        end was in the checkpoint when this was planned (so its commit to the group is under way), also in a
        restarted query that has nothing left to read. `run_until_bounded` waits for it.
        """
        if end is not start or self._is_announced or ends_by_itself or self._spec is None:
            return end
        if not is_reached(start):
            return end
        self._is_announced = True
        return replace(start, whole_start=None, partial_start={}, ended_runs=start.ended_runs + 1)


def cap(ends: Mapping[TopicPartition, int], stops: Positions | None) -> dict[TopicPartition, int]:
    """Ends of logs, none of them behind where reading stops."""
    if stops is None:
        return dict(ends)
    return {tp: min(end, stops.get(tp, end)) for tp, end in ends.items()}


def is_reached(offset: SourceOffset) -> bool:
    """Whether the stream has an end and every position has reached it; what left is not waited for."""
    if offset.stops is None:
        return False
    return all(
        offset.positions.get(tp, 0) >= stop for tp, stop in offset.stops.items() if tp not in offset.left
    )
