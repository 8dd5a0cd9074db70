"""What a table must know of the rows of a query: whether they change, their key, and their offsets.

Runs on the driver. Invariant: nothing is said here that the traits of the plan do not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class RowTraits:
    """What is known of the rows of a query.

    Attributes:
        changes: the name of the node that changes rows it gave before; None if rows are append-only.
        keys: columns by which all rows differ, in lower case; None if none are known. () is at most one row.
        is_grouped_in_order: whether the rows of each of `keys` are in one task and in order.
        has_offsets: whether the columns of `hidden.OFFSETS` are there.
        has_place: whether the column `hidden.PLACE` is there.
        millisecond_keys: columns of `keys` that are times of whole milliseconds.
        is_read: whether each task has the rows of one table as it was read, in its order.
        is_mixed: whether a row of a stream may come in a later micro-batch than one whose record is newer,
            because rows of several reads meet.
        is_scattered: whether changes of a row may come from several tasks: those of a join, an operator, the
            sides of a UNION, or the parts of a topic partition.
    """

    changes: str | None = None
    keys: frozenset[str] | None = None
    is_grouped_in_order: bool = False
    has_offsets: bool = False
    has_place: bool = False
    millisecond_keys: frozenset[str] = frozenset()
    is_read: bool = False
    is_mixed: bool = False
    is_scattered: bool = False

    def renamed(self, names: Mapping[str, str]) -> RowTraits:
        """Return what is known after a projection; `names` has the new name of each column that stays."""
        keys = self.keys
        if keys is not None:
            keys = frozenset(names[key] for key in keys) if keys <= names.keys() else None
        millisecond_keys = frozenset(names[each] for each in self.millisecond_keys if each in names)
        return replace(
            self,
            keys=keys,
            is_grouped_in_order=self.is_grouped_in_order and keys is not None,
            millisecond_keys=millisecond_keys,
        )
