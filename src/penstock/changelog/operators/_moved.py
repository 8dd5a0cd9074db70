"""Find the -D and -U of rows that another row has already replaced: two rows exchange their keys.

A database may change the keys of several rows in one statement or transaction: row 1 becomes row 2, and row 2
becomes row 1. Its log has one row after another: -D 1, +I 2, -D 2, +I 1. The -D of key 2 belongs to the row
that had the key before, so key 2 stays. Such a -D holds the old row, which tells it apart.

Runs on executors. Invariants: a -D or -U is left out only if its values equal those of a row that was
replaced, and differ from those of the row that is there; one whose values are all null (a tombstone) always
deletes. A -D of an upsert stream always deletes, because there +U replaces rows and +I does not.

The state has the hash of the replaced row as the part of the key, because the two halves of an exchange may
be in two batches. Its lowest bit says whether a +I has replaced the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.changelog.operators.ordering import same_as_before
from penstock.state.columns import Hashes, Mask, Places, hash_values, no_parts, one_array, parts_of

Signs = npt.NDArray[np.int8]
FREE, INSERTED = 1, 2
"""How a row takes a key that another row may have: as a +U without its -U, and as a +I."""
_MARK = np.uint64(1)


@dataclass(frozen=True)
class Moved:
    """Rows by key and in order; in each group the row that was kept is first.

    Attributes:
        content: the values that are compared.
        groups: the number of the key of each row.
        is_old: whether the row was kept.
        deleted: whether it is a -D, a -U, or a key that was deleted.
        is_before: whether it is a -U.
        taking: FREE, INSERTED, or 0 for a row that belongs to the row before it.
        replaced: of rows that were kept, the hash of the row that had the key before; else 0.
    """

    content: pa.Table
    groups: Places
    is_old: Mask
    deleted: Mask
    is_before: Mask
    taking: Signs
    replaced: Hashes


def hash_of_kept(old: pa.Table, count: int) -> Hashes:
    """Return the hashes of replaced rows in the state, and 0 for the rows after them.

    Args:
        old: the rows of the state.
        count: of all rows.
    """
    return Hashes.joined(parts_of(old), no_parts(count - old.num_rows))


def moved_rows(rows: Moved) -> tuple[Mask, Hashes] | None:
    """Return which rows to leave out, and the hash of the replaced row after each row; None for no change."""
    count = len(rows.groups)
    before = np.maximum(np.arange(count) - 1, 0)
    follows = same_as_before([rows.groups]) & ~rows.deleted[before]
    takes = follows & ~rows.deleted & ~rows.is_old & (rows.taking > 0)
    was_replaced = (rows.replaced.high | rows.replaced.low) != 0
    if not (takes.any() or was_replaced.any()) or not rows.content.num_columns:
        return None
    hashes = hash_values(rows.content)
    hashes = Hashes(hashes.high, hashes.low & ~_MARK)
    is_empty = np.ones(count, bool)
    for column in rows.content.columns:
        is_empty &= one_array(column).is_null().to_numpy(zero_copy_only=False)
    differs = (hashes.high != hashes.high[before]) | (hashes.low != hashes.low[before])
    takes &= differs & ~is_empty[before]
    marks = (rows.taking == INSERTED).astype(np.uint64)
    own = Hashes(
        np.where(takes, hashes.high[before], rows.replaced.high),
        np.where(takes, hashes.low[before] | marks, rows.replaced.low),
    )
    # A row that takes nothing stays what it was, until it is deleted.
    is_new = takes | rows.is_old | rows.deleted | ~same_as_before([rows.groups])
    replaced = own.take(np.maximum.accumulate(np.where(is_new, np.arange(count), 0)))
    is_moved = np.zeros(count, bool)
    asked = follows & rows.deleted & ~rows.is_old & differs
    known = np.unique(own.high[takes | was_replaced])
    asked &= np.isin(hashes.high, known)
    for group in np.unique(rows.groups[asked]):
        start, stop = np.searchsorted(rows.groups, [group, group + 1])
        for place, is_it, (high, low) in _of_key(rows, hashes, is_empty, int(start), int(stop)):
            is_moved[place] = is_it
            replaced.high[place], replaced.low[place] = high, low
    return is_moved, replaced


def _of_key(
    rows: Moved, hashes: Hashes, is_empty: Mask, start: int, stop: int
) -> list[tuple[int, bool, tuple[int, int]]]:
    """Return for each row of a key whether to leave it out, and the hash of the replaced row after it."""
    found = []
    current: int | None = None  # the place of the row that is there
    replaced: list[tuple[int, int]] = []
    for place in range(start, stop):
        own = (int(hashes.high[place]), int(hashes.low[place]))
        there = None if current is None else (int(hashes.high[current]), int(hashes.low[current]))
        is_moved = False
        if rows.is_old[place]:
            kept = (int(rows.replaced.high[place]), int(rows.replaced.low[place]))
            replaced = [kept] if kept != (0, 0) else []
            current = None if rows.deleted[place] else place
        elif not rows.deleted[place]:
            is_taken = rows.taking[place] and current is not None and not is_empty[current]
            if there is not None and is_taken and there != own:
                replaced.append((there[0], there[1] | int(rows.taking[place] == INSERTED)))
            current = place
        else:
            marked = (own[0], own[1] | 1)
            is_moved = there not in (None, own) and (
                marked in replaced or (bool(rows.is_before[place]) and own in replaced)
            )
            if not is_moved:
                current, replaced = None, []
        found.append((place, is_moved, replaced[-1] if replaced else (0, 0)))
    return found
