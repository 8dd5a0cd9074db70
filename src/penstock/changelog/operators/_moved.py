"""Find the -D and -U of rows that another row has already replaced: two rows exchange their keys.

A database may change the keys of several rows in one statement or transaction. Key 1 has the values A and
key 2 has B. They exchange their keys, and the log has four rows:

    -D 1 A    deletes key 1
    +I 2 A    key 2 has A. B is replaced, so its hash is kept
    -D 2 B    is left out: it equals the replaced B, and differs from A, which is there
    +I 1 B    key 1 has B

Without this the third row would delete A, which is the row that key 2 has from then on.

Runs on executors. Invariants: a -D or -U is left out only if its values equal those of a row that was
replaced, once for each such row. A -D is left out only if its values also differ from those of the row that
is there, because a snapshot may have given this row as +I again. A -U may equal the row that is there: in a
stream with -U, a +U without one comes from another key only, so there were two rows. A -D whose values are
all null (a tombstone) always deletes. A -D of an upsert stream always deletes, because there +U replaces rows
and +I does not.

The state has the hash of the replaced row as the part of the key, because the two halves of an exchange may
be in two batches. Its lowest two bits say how the row was replaced. Only its sort key tells the -U that
ends such a row from a later one. So this -U moves the sort key that is kept, and the hash says that the row
is GONE. With that, the same -U is recognised if it comes again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from penstock.changelog.operators.ordering import same_as_before
from penstock.state.columns import Hashes, Integers, Mask, hash_values, no_parts, one_array, parts_of

Signs = npt.NDArray[np.int8]
FREE, INSERTED = 1, 2
"""How a row takes a key that another row may have: as a +U without its -U, and as a +I."""
_BITS = np.uint64(3)
_BY_INSERT, _BY_EQUAL, _GONE = 1, 2, 3
"""In the lowest bits of a hash: replaced by a +I, replaced by an equal +U, and not there any more. Else 0."""

Hash = tuple[int, int]


@dataclass(frozen=True)
class KeyRows:
    """Rows by key and in order; in each group the row that was kept is first.

    Attributes:
        content: the values that are compared.
        groups: the number of the key of each row.
        is_old: whether the row was kept.
        deleted: whether it is a -D, a -U, or a key that was deleted.
        is_before: whether it is a -U.
        taking: FREE, INSERTED, or 0 for a row that belongs to the row before it.
        replaced: of rows that were kept, the hash of the row that had the key before; else 0.
        by_name: whether hashes are of names and values, so that a null counts as an absent column.
    """

    content: pa.Table
    groups: Integers
    is_old: Mask
    deleted: Mask
    is_before: Mask
    taking: Signs
    replaced: Hashes
    by_name: bool = False


def hash_of_kept(old: pa.Table, count: int) -> Hashes:
    """Return the hashes of replaced rows in the state, and 0 for the rows after them.

    Args:
        old: the rows of the state.
        count: of all rows.
    """
    return Hashes.joined(parts_of(old), no_parts(count - old.num_rows))


def is_gone(replaced: Hashes) -> Mask:
    """Return whether a hash is that of a replaced row that a -U has ended."""
    gone: Mask = (replaced.low & _BITS) == _GONE
    return gone


def ends_again(content: pa.Table, replaced: Hashes, *, by_name: bool = False) -> Mask:
    """Return for each -U whether its row is the one that is gone."""
    hashes = _hashes(content, len(replaced), by_name)
    same: Mask = (hashes.high == replaced.high) & (hashes.low == replaced.low & ~_BITS)
    return same


@dataclass(frozen=True)
class RowFates:
    """What to do with the rows.

    Attributes:
        is_dropped: whether to leave the row out.
        stays: the index of the row that is there after it: its own, but for a -U that ends a replaced row.
        replaced: the hash of the row that was replaced, after each row.
    """

    is_dropped: Mask
    stays: Integers
    replaced: Hashes


def moved_rows(rows: KeyRows) -> RowFates | None:
    """Return which -D and -U belong to rows that were replaced; None for no change."""
    count = len(rows.groups)
    before = np.maximum(np.arange(count) - 1, 0)
    follows = same_as_before([rows.groups]) & ~rows.deleted[before]
    takes = follows & ~rows.deleted & ~rows.is_old & (rows.taking > 0)
    is_known = ((rows.replaced.high | rows.replaced.low) != 0) & ~is_gone(rows.replaced)
    if not (takes.any() or is_known.any()):
        return None
    hashes = _hashes(rows.content, count, rows.by_name)
    is_empty = np.ones(count, bool)
    for column in rows.content.columns:
        is_empty &= one_array(column).is_null().to_numpy(zero_copy_only=False)
    differs = (hashes.high != hashes.high[before]) | (hashes.low != hashes.low[before])
    takes &= (rows.taking == FREE) | (differs & ~is_empty[before])
    bits = np.where(rows.taking == INSERTED, _BY_INSERT, np.where(differs, 0, _BY_EQUAL)).astype(np.uint64)
    zero = np.uint64(0)
    own = Hashes(
        np.where(takes, hashes.high[before], np.where(is_known, rows.replaced.high, zero)),
        np.where(takes, hashes.low[before] | bits, np.where(is_known, rows.replaced.low, zero)),
    )
    # A row that takes nothing stays what it was, until it is deleted.
    is_new = takes | rows.is_old | rows.deleted | ~same_as_before([rows.groups])
    found = RowFates(
        np.zeros(count, bool),
        np.arange(count),
        own.take(np.maximum.accumulate(np.where(is_new, np.arange(count), 0))),
    )
    asked = follows & rows.deleted & ~rows.is_old & (differs | rows.is_before)
    asked &= np.isin(hashes.high, np.unique(own.high[takes | is_known]))
    for group in np.unique(rows.groups[asked]):
        start, stop = np.searchsorted(rows.groups, [group, group + 1])
        _Key(rows, hashes, is_empty, found).run(int(start), int(stop))
    return found


def _hashes(content: pa.Table, count: int, by_name: bool) -> Hashes:
    """Return the hash of each row with its lowest bits free. It is never 0, which says that there is none."""
    if not content.num_columns:  # such a table does not know how many rows it has
        return Hashes(np.ones(count, np.uint64), np.zeros(count, np.uint64))
    hashes = _by_name(content) if by_name else hash_values(content)
    return Hashes(hashes.high, hashes.low & ~_BITS)


def _by_name(content: pa.Table) -> Hashes:
    """Return hashes that neither columns of nulls change, nor wider types, nor the order of columns."""
    high, low = np.ones(content.num_rows, np.uint64), np.zeros(content.num_rows, np.uint64)
    for name in content.column_names:
        values = _widest(one_array(content.column(name)))
        names = pa.repeat(name, content.num_rows)
        hashes = hash_values(pa.table({"name": names, "value": values}))
        is_there = values.is_valid().to_numpy(zero_copy_only=False)
        high += np.where(is_there, hashes.high, np.uint64(0))
        low += np.where(is_there, hashes.low, np.uint64(0))
    return Hashes(high, low)


def _widest(values: pa.Array) -> pa.Array:
    """Return the same values in the widest type that their column may get."""
    kind = values.type
    if kinds.is_signed_integer(kind):
        return values.cast(pa.int64())
    if kinds.is_floating(kind):
        return values.cast(pa.float64())
    if kinds.is_decimal128(kind):
        # 38 digits before the point and 38 after it: the text of equal numbers is the same.
        return values.cast(pa.decimal256(76, 38)).cast(pa.string())
    return values


@dataclass
class _Key:
    """The rows of one key, one after another, and what is known after each."""

    rows: KeyRows
    hashes: Hashes
    is_empty: Mask
    found: RowFates
    current: int | None = None
    """The index of the row that is there."""
    replaced: list[Hash] = field(default_factory=list)
    """The rows that were replaced and are not gone yet."""

    def run(self, start: int, stop: int) -> None:
        """Write into `found` what to do with each row."""
        for index in range(start, stop):
            last = (0, 0)
            if self.rows.is_old[index]:
                self._begin(index)
            elif self.rows.deleted[index]:
                last = self._end(index)
            else:
                self._take(index)
            high, low = self.replaced[-1] if self.replaced else last
            self.found.replaced.high[index], self.found.replaced.low[index] = high, low

    def _hash(self, index: int) -> Hash:
        return int(self.hashes.high[index]), int(self.hashes.low[index])

    def _begin(self, index: int) -> None:
        kept = self.rows.replaced.take(np.array([index]))
        if kept.high[0] | kept.low[0] and not is_gone(kept)[0]:
            self.replaced = [(int(kept.high[0]), int(kept.low[0]))]
        self.current = None if self.rows.deleted[index] else index

    def _take(self, index: int) -> None:
        """A row comes. It may replace another one."""
        taking = self.rows.taking[index]
        if self.current is not None and taking:
            there = self._hash(self.current)
            differs = there != self._hash(index)
            if taking == FREE:
                self.replaced.append((there[0], there[1] | (0 if differs else _BY_EQUAL)))
            elif differs and not self.is_empty[self.current]:
                self.replaced.append((there[0], there[1] | _BY_INSERT))
        self.current = index

    def _end(self, index: int) -> Hash:
        """A row goes: the one that is there, or a replaced one. Return the hash of a replaced one."""
        high, low = self._hash(index)
        if self.current is None:
            return 0, 0
        differs = self._hash(self.current) != (high, low)
        if self.rows.is_before[index]:
            for ended in ((high, low | _BY_EQUAL), (high, low)):
                if ended in self.replaced and (differs or ended[1] & _BY_EQUAL):
                    self.replaced.remove(ended)
                    self.found.stays[index] = self.current
                    return high, low | _GONE
        if differs and (high, low | _BY_INSERT) in self.replaced:
            self.found.is_dropped[index] = True
        else:
            self.current, self.replaced = None, []
        return 0, 0
