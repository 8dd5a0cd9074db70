"""`append_join`: the pairs of rows with equal keys of two inputs whose rows never go.

Runs on executors; made on the driver. Invariants: each pair comes once, in the batch of its later row; new
rows are joined with each other and with the rows that were kept before the batch, each of which is read once.

Both inputs come as one, as those of `join`. A row is kept by its key and its side. A batch reads the kept
rows of the other side of its rows, and never those of their own side: many rows with a key cost nothing until
a row of the other side has it. So equal rows are not counted. Each is kept for itself, and its part says
which row of which batch it is. A row with a null in its keys has no partner, so it is not kept.

The rows of the batch are in memory. Kept rows are read in chunks while the pairs leave the task, so a key may
have more of them than memory has room for, or than 2 GB in a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.base import Chunks, Find, Step, check_collisions, collision, with_nullable
from penstock.changelog.operators.join import LEFT, SIDE, Names, On, keys_in
from penstock.changelog.operators.ordering import groups_of_kept
from penstock.state.columns import (
    FIXED_BYTES,
    Hashes,
    Integers,
    equal_columns,
    has_lengths,
    hash_columns,
    keys_of,
    one_array,
    state_rows,
)

_MOST_PAIRS, _MOST_BYTES = 50_000, 64 << 20
"""What one Arrow batch has at most, unless a single pair has more."""
_BYTES_OF_CHUNK = 64 << 20
"""What the kept rows have, about, that are in memory at a time, unless a single row has more."""
_SIDE_BIT, _BATCH_BITS = np.uint64(1), np.uint64(32)


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
        out, kept = self.part(batch, lambda keys, _: iter([find(keys)]), now_ms)
        return Step(pa.Table.from_batches(out, self.out_columns), kept)

    def part(self, batch: pa.Table, chunks: Chunks, now_ms: int) -> tuple[Iterator[pa.RecordBatch], pa.Table]:
        """Return the pairs of all rows of some keys in one batch, and the rows to keep.

        The pairs are made when they are taken, because a key may have more of them than memory has room for.
        Kept rows are read then too, a chunk at a time. Each stands in one chunk, so no pair comes twice.
        """
        new = self._with_keys(batch.select(self.columns.names).cast(self.kept_columns))
        hashes = hash_columns(new, self.keys)
        sides = one_array(new.column(SIDE)).to_numpy().astype(np.uint64)
        hashes = Hashes(hashes.high, hashes.low & ~_SIDE_BIT | sides)
        order = hashes.order()
        new, hashes = new.take(pa.array(order)), hashes.take(order)
        check_collisions(new.select(self.keys), self.keys, ~_without_side(hashes).starts())
        return self._pairs(new, hashes, chunks), self._to_keep(new, hashes, now_ms)

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

    def _pairs(self, new: pa.Table, hashes: Hashes, chunks: Chunks) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of new rows, then those of new and kept ones. New rows ascend by their keys."""
        own = _without_side(hashes)
        starts = own.starts()
        firsts = np.flatnonzero(starts)
        groups = np.cumsum(starts) - 1
        left, right = _sides(new, groups)
        yield from self._named(left, right)
        ones = hashes.take(hashes.starts())
        wanted = Hashes(ones.high, ones.low ^ _SIDE_BIT)
        for kept in chunks(wanted.take(wanted.order()), _BYTES_OF_CHUNK):
            others = _without_side(keys_of(kept))
            order = others.order()
            of_kept = groups_of_kept(others.take(order), own.take(firsts))
            keys = new.select(self.keys).take(pa.array(firsts[of_kept]))
            if not equal_columns(kept.select(self.keys).take(pa.array(order)), keys, self.keys).all():
                raise collision(self.keys)
            old_left, old_right = _sides(kept, of_kept, order)
            yield from self._named(left, old_right)
            yield from self._named(old_left, right)

    def _named(self, left: _Side, right: _Side) -> Iterator[pa.RecordBatch]:
        pairs = _Pairs.of(left, right)
        if not pairs.count:
            return
        is_left = [source.startswith(LEFT) for _, (source, *_) in self.names]
        columns = [
            one_array((left if of_left else right).table.column(source))
            for of_left, (_, (source, *_)) in zip(is_left, self.names, strict=True)
        ]
        most = max(1, min(_MOST_PAIRS, _MOST_BYTES // sum(map(_widest, columns))))
        for lefts, rights in pairs.slices(most):
            ones, others = pa.array(lefts), pa.array(rights)
            arrays = [
                column.take(ones if of_left else others)
                for column, of_left in zip(columns, is_left, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.out_columns)


@dataclass(frozen=True)
class _Side:
    """Rows of one side.

    Attributes:
        table: has them, and may have others.
        rows: their indices, in the order of their keys.
        groups: the number of the key of each of them.
    """

    table: pa.Table
    rows: Integers
    groups: Integers

    def between(self, first: int, last: int) -> _Side:
        """Return the rows whose keys have these numbers."""
        start, stop = np.searchsorted(self.groups, first, "left"), np.searchsorted(self.groups, last, "right")
        return _Side(self.table, self.rows[start:stop], self.groups[start:stop])


def _sides(table: pa.Table, groups: Integers, order: Integers | None = None) -> tuple[_Side, _Side]:
    """Return the left and the right rows of a table. `groups` are those of its rows in this order."""
    order = np.arange(table.num_rows) if order is None else order
    sides = one_array(table.column(SIDE)).to_numpy()[order]
    left, right = (_Side(table, order[sides == side], groups[sides == side]) for side in (0, 1))
    return left, right


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
    def of(left: _Side, right: _Side) -> _Pairs:
        """Return the pairs of rows with equal keys."""
        if len(left.rows) and len(right.rows):  # a chunk has few of the keys
            left = left.between(right.groups[0], right.groups[-1])
        start, stop = (np.searchsorted(right.groups, left.groups, side) for side in ("left", "right"))
        has_partner = np.flatnonzero(stop > start)
        counts = (stop - start)[has_partner]
        return _Pairs(left.rows[has_partner], right.rows, start[has_partner], np.cumsum(counts))

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
    if has_lengths(column.type):
        return FIXED_BYTES + int(pc.max(pc.binary_length(column)).as_py() or 0)
    return FIXED_BYTES
