"""Old and new rows of changes, brought into their order.

Runs on executors; pure functions on Arrow. Invariant: rows leave in the order of their changes, and the old
row of a change stands directly before its new row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.base import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


class Change(IntEnum):
    """What a message says about its rows."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    NOTHING = 3
    """The message gives no rows."""


OLD_KINDS = (INSERT, UPDATE_BEFORE, DELETE)
"""The row kind of an old row, by its change. An insert has no old row."""

NEW_KINDS = (INSERT, UPDATE_AFTER, DELETE)
"""The row kind of a new row, by its change."""


@dataclass(frozen=True)
class Rows:
    """Rows of changes.

    `positions` has the change of each row, ascending (int64). `kinds` has the row kinds.
    """

    columns: Sequence[pa.Array]
    positions: pa.Array
    kinds: pa.Array


def changes_of(operations: pa.Array, known: Mapping[str, Change]) -> pa.Array:
    """Return the change of each operation as a number (int8); null for unknown operations."""
    codes = pa.array(list(known.values()), pa.int8())
    return codes.take(pc.index_in(operations, value_set=pa.array(list(known), pa.string())))


def having(changes: pa.Array, *wanted: Change) -> pa.Array:
    return pc.is_in(changes, value_set=pa.array(wanted, pa.int8()))


def positions_of(mask: pa.Array) -> pa.Array:
    return pc.indices_nonzero(mask).cast(pa.int64())


def rows_at(
    columns: Sequence[pa.Array], changes: pa.Array, positions: pa.Array, kinds: Sequence[str]
) -> Rows:
    is_all = len(positions) == len(changes)
    taken = list(columns) if is_all else [column.take(positions) for column in columns]
    return Rows(taken, positions, kinds_of(changes.take(positions), kinds))


def kinds_of(changes: pa.Array, kinds: Sequence[str]) -> pa.Array:
    return pa.array(kinds, pa.string()).take(changes)


def in_order(old: Rows, new: Rows) -> Rows:
    """Put each old row directly before the new row of its change."""
    if not len(old.positions):
        return new
    if not len(new.positions):
        return old
    ranks = [pc.multiply(old.positions, 2), pc.add(pc.multiply(new.positions, 2), 1)]
    order = pc.array_sort_indices(pa.concat_arrays(ranks))

    def merged(first: pa.Array, second: pa.Array) -> pa.Array:
        return pa.concat_arrays([first, second]).take(order)

    columns = [merged(a, b) for a, b in zip(old.columns, new.columns, strict=True)]
    return Rows(columns, merged(old.positions, new.positions), merged(old.kinds, new.kinds))
