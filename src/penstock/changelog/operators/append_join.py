"""`append_join`: the pairs of rows with equal keys of two inputs whose rows never go.

Runs on executors; made on the driver. Invariant: each pair comes once, in the batch of its later row.

Both inputs come as one, as those of `join`. A row is kept by its key and its side. A batch reads the kept
rows of the other side of its rows, and never those of their own side: many rows with a key cost nothing until
a row of the other side has it. So equal rows are not counted. Each is kept for itself, and its part says
which row of which batch it is. A row with a null in its keys has no partner, so it is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.changelog.operators.base import Find, Step, check_collisions, collision, with_nullable
from penstock.changelog.operators.join import LEFT, SIDE, Names, On, keys_in
from penstock.changelog.operators.ordering import groups_of_kept
from penstock.state.columns import (
    Hashes,
    Integers,
    equal_columns,
    hash_columns,
    keys_of,
    one_array,
    state_rows,
)

_MOST_PAIRS, _MOST_BYTES = 50_000, 64 << 20
"""What one Arrow batch has at most, unless a single pair has more."""
_SIDE_BIT, _BATCH_BITS = np.uint64(1), np.uint64(32)
_WIDTH_BYTES = 16
"""What a value has at most whose type says how long it is."""


@dataclass(frozen=True)
class AppendJoin:
    """The operator.

    Attributes:
        columns: SIDE, the keys, the columns of the left side and those of the right side. Columns of the
            other side are null.
        names: the names of the output, one at least, each with the column that gives it.
        on: the left and the right name of each key.
        batch_id: the number of the batch that `step` is for.
    """

    columns: pa.Schema
    names: Names
    on: On = ()
    batch_id: int = 0
    name: str = "append_join"
    version: int = 1
    has_parts: bool = True
    remembers_deleted: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return keys_in(self.columns)

    @property
    def arguments(self) -> str:
        """Return the arguments that decide what it keeps."""
        return json.dumps({"keys": self.keys, "on": self.on})

    @property
    def kept_columns(self) -> pa.Schema:
        return with_nullable(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        return pa.schema([(name, self.columns.field(source).type) for name, (source, *_) in self.names])

    def of_batch(self, batch_id: int) -> AppendJoin:
        return replace(self, batch_id=batch_id)

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the pairs of one batch and the rows to keep."""
        out, kept = self.part(batch, find, now_ms)
        return Step(pa.Table.from_batches(out, self.out_columns), kept)

    def part(self, batch: pa.Table, find: Find, now_ms: int) -> tuple[Iterator[pa.RecordBatch], pa.Table]:
        """Return the pairs of all rows of some keys in one batch, and the rows to keep.

        The pairs are made when they are taken, because a key may have more of them than memory has room for.
        """
        new = self._with_keys(batch.select(self.columns.names).cast(self.kept_columns))
        hashes = hash_columns(new, self.keys)
        sides = one_array(new.column(SIDE)).to_numpy().astype(np.uint64)
        hashes = Hashes(hashes.high, hashes.low & ~_SIDE_BIT | sides)
        order = hashes.order()
        new, hashes = new.take(pa.array(order)), hashes.take(order)
        firsts = hashes.take(hashes.starts())
        wanted = Hashes(firsts.high, firsts.low ^ _SIDE_BIT)
        kept = find(wanted.take(wanted.order()))
        return self._pairs(new, hashes, kept), self._to_keep(new, hashes, now_ms)

    def _with_keys(self, rows: pa.Table) -> pa.Table:
        for name in self.keys:
            if rows.column(name).null_count:
                rows = rows.filter(pc.is_valid(rows.column(name)))
        return rows

    def _to_keep(self, new: pa.Table, hashes: Hashes, now_ms: int) -> pa.Table:
        """Return rows of the state. The part of a row is its batch and its number there: no two have one."""
        numbers = np.arange(len(hashes), dtype=np.uint64) | np.uint64(self.batch_id) << _BATCH_BITS
        parts = Hashes(numbers, np.zeros(len(hashes), np.uint64))
        return state_rows(new, hashes, np.zeros(len(hashes), bool), now_ms, parts)

    def _pairs(self, new: pa.Table, hashes: Hashes, kept: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return the pairs of new rows, and those of new and kept ones. Both ascend by their keys."""
        own, others = _without_side(hashes), _without_side(keys_of(kept))
        starts = own.starts()
        keys = new.select(self.keys)
        check_collisions(keys, self.keys, ~starts)
        firsts = np.flatnonzero(starts)
        of_kept = groups_of_kept(others, own.take(firsts))
        wanted = keys.take(pa.array(firsts[of_kept]))
        if not equal_columns(kept.select(self.keys), wanted, self.keys).all():
            raise collision(self.keys)
        group = np.concatenate([np.cumsum(starts) - 1, of_kept])
        rows = pa.concat_tables([new, kept.select(new.column_names)]) if kept.num_rows else new
        is_new = np.arange(len(group)) < new.num_rows
        is_left = one_array(rows.column(SIDE)).to_numpy() == 0
        left, right = np.flatnonzero(is_new & is_left), np.flatnonzero(is_new & ~is_left)
        old_left, old_right = np.flatnonzero(~is_new & is_left), np.flatnonzero(~is_new & ~is_left)
        sides = ((left, right), (left, old_right), (old_left, right))
        return self._named(rows, [_Pairs.of(group, ones, others) for ones, others in sides])

    def _named(self, rows: pa.Table, found: list[_Pairs]) -> Iterator[pa.RecordBatch]:
        if not any(each.count for each in found):
            return
        columns = [one_array(rows.column(source)) for _, (source, *_) in self.names]
        is_left = [source.startswith(LEFT) for _, (source, *_) in self.names]
        most = max(1, min(_MOST_PAIRS, _MOST_BYTES // sum(map(_widest, columns))))
        for each in found:
            for left, right in each.slices(most):
                ones, others = pa.array(left), pa.array(right)
                arrays = [
                    column.take(ones if of_left else others)
                    for column, of_left in zip(columns, is_left, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.out_columns)


@dataclass(frozen=True)
class _Pairs:
    """The pairs of left rows with right rows of their keys.

    Attributes:
        left: the indices of left rows that have a partner.
        right: the indices of right rows, in the order of their keys.
        start: for each left row, which right row is its first partner.
        stop: for each left row, how many pairs there are up to its last one.
    """

    left: Integers
    right: Integers
    start: Integers
    stop: Integers

    @staticmethod
    def of(group: Integers, left: Integers, right: Integers) -> _Pairs:
        """Return the pairs of equal groups. The groups of both sides ascend."""
        start, stop = (np.searchsorted(group[right], group[left], side) for side in ("left", "right"))
        has_partner = np.flatnonzero(stop > start)
        counts = (stop - start)[has_partner]
        return _Pairs(left[has_partner], right, start[has_partner], np.cumsum(counts))

    @property
    def count(self) -> int:
        return int(self.stop[-1]) if len(self.stop) else 0

    def slices(self, most: int) -> Iterator[tuple[Integers, Integers]]:
        """Yield the indices of the left and the right rows of pairs, at most so many at a time."""
        before = np.concatenate([np.zeros(1, np.int64), self.stop[:-1]])
        for at in range(0, self.count, most):
            numbers = np.arange(at, min(at + most, self.count))
            rows = np.searchsorted(self.stop, numbers, "right")
            yield self.left[rows], self.right[self.start[rows] + numbers - before[rows]]


def _without_side(hashes: Hashes) -> Hashes:
    return Hashes(hashes.high, hashes.low >> _SIDE_BIT)


def _widest(column: pa.Array) -> int:
    """Return how many bytes the longest value of a column has."""
    kind = column.type
    if (
        kinds.is_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_string(kind)
        or kinds.is_large_binary(kind)
    ):
        return _WIDTH_BYTES + int(pc.max(pc.binary_length(column)).as_py() or 0)
    return _WIDTH_BYTES
