"""The window of one micro-batch, and the caps that narrow it in turn.

Runs on the driver, in planning. Pure. A cap takes a window and returns the same, or one that ends earlier. To
add a limit on batches, add one cap to the list in the split enumerator. Invariants: a cap never moves a
beginning, and never moves an end to a later offset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from penstock.source.checkpoint_offset import Positions
from penstock.types import TopicPartition


@dataclass(frozen=True)
class Window:
    """The records that the next batch may read.

    Attributes:
        begin: where it begins, for every topic partition of the batch.
        ends: the ends of the logs; topic partitions whose log did not answer are left out.
        stops: where a bounded stream ends; None for a stream without an end.
        new_starts: topic partitions that do not go on where the last batch ended: they were found, recreated
            or cut back, or have come back.
        is_last: whether the ends are fixed (AvailableNow), so that waiting brings no further records.
        may_wait: whether the batch may be put off until there is more to read.
        max_records: the limit on records; None for no limit.
        max_bytes: the limit on bytes; None for no limit.
        is_put_off: whether a cap decided to wait for more; then there is no batch now.
    """

    begin: Positions
    ends: Positions
    stops: Positions | None = None
    new_starts: Collection[TopicPartition] = ()
    is_last: bool = False
    may_wait: bool = False
    max_records: int | None = None
    max_bytes: int | None = None
    is_put_off: bool = False

    def ending_at(self, ends: Positions) -> Window:
        return replace(self, ends=ends)

    @property
    def backlogs(self) -> dict[TopicPartition, int]:
        """Return the number of offsets to read, for each topic partition with a backlog."""
        return {tp: end - self.begin[tp] for tp, end in self.ends.items() if end > self.begin.get(tp, end)}

    @property
    def reaches_stops(self) -> bool:
        stops = self.stops
        return stops is not None and all(self.ends.get(tp, 0) >= stop for tp, stop in stops.items())

    @property
    def positions_after(self) -> dict[TopicPartition, int]:
        return {tp: max(offset, self.ends.get(tp, offset)) for tp, offset in self.begin.items()}


Cap: TypeAlias = Callable[[Window], Window]
"""Narrows a window."""


def narrow(window: Window, caps: Iterable[Cap]) -> Window:
    """Apply the caps in turn; stop at a cap that puts the batch off."""
    for cap in caps:
        window = cap(window)
        if window.is_put_off:
            break
    return window


def cap_at_stops(window: Window) -> Window:
    """End no topic partition past the offset where a bounded stream stops."""
    stops = window.stops
    if stops is None:
        return window
    return window.ending_at({tp: min(end, stops.get(tp, end)) for tp, end in window.ends.items()})
