"""The different values of a column in each group, with the number of times that each is there.

Runs on executors. Invariant: values are sorted by group, sort key and value, so the order in which a shuffle
delivered the rows does not change a result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.changelog.operators.base import check_not_null
from penstock.changelog.operators.calls import ARRIVED, Call
from penstock.changelog.operators.ordering import groups_of, rank, sort
from penstock.changelog.operators.sums import sums_of
from penstock.state.columns import Hashes, Integers, Mask, hash_columns, keys_of, one_array, parts_of

Column = TypeVar("Column", pa.Array, pa.ChunkedArray)

VALUE, SORT_KEY = "#value ", "#place "
"""Before the names of columns in the state, so these texts stay: a value, and the sort key that orders it."""


@dataclass(frozen=True)
class Slot:
    """A column whose values are kept.

    Attributes:
        number: of the slot in the state.
        column: the name of the column.
        order: the column that orders the values, if it is another one.
        arrived: one of ARRIVED, if only that value of each group is kept; else None.
    """

    number: int
    column: str
    order: str | None
    arrived: str | None = None

    def fields(self, columns: pa.Schema) -> dict[str, pa.DataType]:
        """Return the columns that it keeps."""
        kept = {VALUE + self.column: columns.field(self.column).type}
        if self.order is not None:
            kept[SORT_KEY + self.order] = columns.field(self.order).type
        return kept


@dataclass(frozen=True)
class Values:
    """The values of one slot in all groups of a batch, each once.

    Attributes:
        groups: the number of the group of each.
        values: the values.
        sort_keys: what orders them; `values` itself if nothing else does.
        parts: their hashes.
        before: how often each was there before the batch.
        after: how often each is there after it.
    """

    groups: Integers
    values: pa.Array
    sort_keys: pa.Array
    parts: Hashes
    before: Integers
    after: Integers

    @property
    def changed(self) -> Integers:
        """Return the indices of the values whose number has changed."""
        return np.flatnonzero(self.before != self.after)

    def columns(self, slot: Slot, at: Integers) -> dict[str, pa.Array]:
        """Return some of the values as columns of the state."""
        found = {VALUE + slot.column: self.values.take(pa.array(at))}
        if slot.order is not None:
            found[SORT_KEY + slot.order] = self.sort_keys.take(pa.array(at))
        return found

    def result(self, call: Call, counts: Integers, group_count: int) -> pa.Array:
        """Return the aggregate of each group; `counts` is `before` or `after`."""
        there = np.flatnonzero(counts > 0)
        groups = self.groups[there]
        if call.function == "count_distinct":
            return pa.array(np.bincount(groups, minlength=group_count))
        if call.function == "sum_distinct":
            return sums_of(self.values.take(pa.array(there)), groups, group_count)
        if call.function == "listagg":
            return self._joined(call.separator, there, counts, group_count)
        index = np.full(group_count, -1, np.int64)
        if call.function in ("min", "first"):
            groups, there = groups[::-1], there[::-1]
        index[groups] = there  # the last one stays
        return self.values.take(pa.array(index, mask=index < 0))

    def arrived(self, function: str) -> Values:
        """Return the values, of which one stays in each group: the first or the last to arrive.

        Values that were kept have arrived before those of the batch, which are ordered by sort key.
        """
        is_old, is_new = self.before > 0, self.after > self.before
        wanted, other = (is_old, is_new) if function == ARRIVED[0] else (is_new, is_old)
        group_count = int(self.groups.max(initial=-1)) + 1
        has_wanted = np.bincount(self.groups[wanted], minlength=group_count) > 0
        there = np.flatnonzero(np.where(has_wanted[self.groups], wanted, other))
        if function == ARRIVED[0]:
            there = there[::-1]
        index = np.full(group_count, -1, np.int64)
        index[self.groups[there]] = there  # the last one stays
        after = np.zeros(len(self.after), np.int64)
        after[index[index >= 0]] = 1
        return replace(self, after=after)

    def _joined(self, separator: str, there: Integers, counts: Integers, group_count: int) -> pa.Array:
        each = np.repeat(there, counts[there])
        sizes = np.bincount(self.groups[each], minlength=group_count)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        texts = self.values.take(pa.array(each)).cast(pa.string())
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
        return pc.if_else(pa.array(sizes > 0), pc.binary_join(lists, separator), None)


def values_of(
    slot: Slot, kept: pa.Table, batch: pa.Table, signs: Integers, groups: Integers, keys: Hashes
) -> Values:
    """Return the values that were kept and those of the batch, with their counts.

    Args:
        slot: the column.
        kept: the rows of the slot in the state.
        batch: the rows of the batch. Null values count as nothing.
        signs: 1 for a row that comes, -1 for one that goes.
        groups: the number of the group of each row of the batch.
        keys: the hashes of the groups.

    Raises:
        RowError: a value has no sort key.
    """
    is_valid = pc.is_valid(one_array(batch.column(slot.column))).to_numpy(zero_copy_only=False)
    rows = batch.filter(pa.array(is_valid))
    new = {VALUE + slot.column: one_array(rows.column(slot.column))}
    if slot.order is not None:
        check_not_null(rows, [slot.order], "in the order of an aggregate")
        new[SORT_KEY + slot.order] = one_array(rows.column(slot.order))
    hashed = pa.table({"slot": pa.array(np.full(rows.num_rows, slot.number, np.int32)), **new})
    parts = Hashes.joined(parts_of(kept), hash_columns(hashed, hashed.column_names))
    found = {
        name: one_zero(pa.concat_arrays([one_array(kept.column(name)), array])) for name, array in new.items()
    }
    values, sort_keys = next(iter(found.values())), list(found.values())[-1]
    numbers = np.concatenate([numbers_of(keys_of(kept), keys), groups[is_valid]])
    before = np.concatenate([one_array(kept.column("#count")).to_numpy(), np.zeros(rows.num_rows, np.int64)])
    change = np.concatenate([np.zeros(kept.num_rows, np.int64), signs[is_valid]])
    ranked = [rank(values)] if slot.order is None else [rank(values), rank(sort_keys)]
    order = sort(numbers, ranked[::-1])  # equal ones have one hash
    firsts = np.flatnonzero(_starts(parts.take(order), numbers[order]))
    before, change = (
        np.add.reduceat(each[order], firsts) if len(firsts) else each for each in (before, change)
    )
    at = order[firsts]
    taken = pa.array(at)
    made = Values(
        numbers[at],
        values.take(taken),
        sort_keys.take(taken),
        parts.take(at),
        before,
        before + change,
    )
    return made if slot.arrived is None else made.arrived(slot.arrived)


def _starts(parts: Hashes, numbers: Integers) -> Mask:
    starts = parts.starts()
    starts[1:] |= numbers[1:] != numbers[:-1]
    return starts


def one_zero(array: Column) -> Column:
    """Return the array with 0.0 for -0.0, which equals it. So each -U is what was emitted before."""
    return pc.add(array, pa.scalar(0, array.type)) if kinds.is_floating(array.type) else array


def numbers_of(found: Hashes, keys: Hashes) -> Integers:
    """Return the number of the group of each hash. `keys` ascends and has all of them."""
    groups, _ = groups_of(Hashes.joined(keys, found))
    return groups[len(keys) :]
