"""The rows that a changelog leaves, for a table that follows it.

Runs on the driver. Pure. Invariant: after each change the rows are those of the query's result, as long as
no more than `limit` rows were kept at once; older rows are dropped then, and `dropped` counts them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from penstock.changelog.row_kinds import DELETE, NAMES, UPDATE_AFTER, UPDATE_BEFORE

Cells = tuple[str, ...]
_BEFORE, _AFTER, _DELETED = NAMES[UPDATE_BEFORE], NAMES[UPDATE_AFTER], NAMES[DELETE]


class FollowedRows:
    """Rows to which changes are applied. A row that replaces another one gets its number."""

    def __init__(self, limit: int) -> None:
        """Make an empty table that keeps at most `limit` rows."""
        self._limit = limit
        self._rows: dict[int, Cells] = {}
        self._numbers: dict[Cells, list[int]] = {}
        self._free: int | None = None
        self._next = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, kind: str, cells: Cells) -> None:
        """Apply one change."""
        if kind in (_BEFORE, _DELETED):
            number = self._remove(cells)
            self._free = number if kind == _BEFORE else None
            return
        number, self._free = self._free, None
        if kind != _AFTER or number is None:
            number, self._next = self._next, self._next + 1
        self._rows[number] = cells
        self._numbers.setdefault(cells, []).append(number)
        if len(self._rows) > self._limit:
            self._remove(self._rows[min(self._rows)])
            self.dropped += 1

    def last(self, count: int) -> Sequence[Cells]:
        """Return at most the last `count` rows, in their order."""
        numbers = heapq.nlargest(count, self._rows)
        return [self._rows[number] for number in reversed(numbers)]

    def _remove(self, cells: Cells) -> int | None:
        numbers = self._numbers.get(cells)
        if not numbers:
            return None  # it was dropped before
        number = numbers.pop()
        if not numbers:
            del self._numbers[cells]
        del self._rows[number]
        return number
