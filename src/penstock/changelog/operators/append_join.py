"""`append_join`: the combinations of rows with equal keys, one of each input, of inputs whose rows never go.

Runs on executors; made on the driver. Invariants: each combination comes once, in the batch of its latest
row; a batch has those of its new rows with each other and with the rows that were kept before it.

All inputs come as one, as those of `join`: SIDE is the number of the input. A row is kept by its key and its
side. A batch reads the kept rows of the other sides of its rows, and never those of their own side: many rows
with a key cost nothing until rows of the other sides have it. So equal rows are not counted. Each is kept for
itself, and its part says which row of which batch it is. A row with a null in its keys has no partner, so it
is not kept.

The rows of the batch are in memory. Kept rows are read in chunks while the combinations leave the task, so a
key may have more of them than memory has room for, or than 2 GB in a column. With more than two inputs, the
kept rows of a side are read again for each chunk of another side, but only for the keys of that chunk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.base import Find, KeptRows, Step, check_collisions, collision, with_nullable
from penstock.changelog.operators.join import LEFT, RIGHT, SIDE, Names, keys_in
from penstock.changelog.operators.ordering import groups_of_kept
from penstock.errors import RowError
from penstock.state.columns import (
    FIXED_BYTES,
    Hashes,
    Integers,
    Mask,
    equal_columns,
    has_lengths,
    hash_columns,
    keys_of,
    one_array,
    state_rows,
)

_MOST_ROWS, _MOST_BYTES = 50_000, 64 << 20
"""What one Arrow batch has at most, unless a single row has more."""
_BYTES_OF_CHUNK = 64 << 20
"""What the kept rows of all sides have, about, that are in memory at a time, unless a single row has more."""
_MOST_COMBINATIONS = 10**18
"""More have no numbers of 64 bits."""
_BATCH_BITS = np.uint64(32)


@dataclass(frozen=True)
class AppendJoin:
    """The operator.

    Attributes:
        columns: SIDE, the keys, and the columns of each side. Columns of other sides are null.
        names: the names of the output, one at least, each with the column that gives it.
        on: the name of each key on each side.
        prefixes: before the names of the columns of each side.
        batch_id: the number of the batch that `step` is for.
    """

    columns: pa.Schema
    names: Names
    on: tuple[tuple[str, ...], ...] = ()
    prefixes: tuple[str, ...] = (LEFT, RIGHT)
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

    @property
    def _side_bits(self) -> np.uint64:
        """Return how many of the last bits of a hash say the side."""
        return np.uint64((len(self.prefixes) - 1).bit_length())

    def step(self, batch: pa.Table, find: Find, now_ms: int) -> Step:
        """Return the combinations of one batch and the rows to keep."""
        out, kept = self.part(batch, _Found(find), now_ms)
        return Step(pa.Table.from_batches(out, self.out_columns), kept)

    def part(self, batch: pa.Table, kept: KeptRows, now_ms: int) -> tuple[Iterator[pa.RecordBatch], pa.Table]:
        """Return the combinations of all rows of some keys in one batch, and the rows to keep.

        They are made when they are taken, because a key may have more of them than memory has room for. Kept
        rows are read then too, a chunk at a time. Each stands in one chunk, so no combination comes twice.
        """
        new = self._with_keys(batch.select(self.columns.names).cast(self.kept_columns))
        hashes = hash_columns(new, self.keys)
        hashes = self.of_side(self._of_key(hashes), one_array(new.column(SIDE)).to_numpy())
        order = hashes.order()
        new, hashes = new.take(pa.array(order)), hashes.take(order)
        starts = self._of_key(hashes).starts()
        check_collisions(new.select(self.keys), self.keys, ~starts)
        firsts = np.flatnonzero(starts)
        keys = _Keys(self._of_key(hashes).take(firsts), new.select(self.keys).take(pa.array(firsts)))
        combinations = _Combinations(self, keys, self._sides(new, np.cumsum(starts) - 1), kept)
        return combinations.all(), self._to_keep(new, hashes, now_ms)

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

    def _of_key(self, hashes: Hashes) -> Hashes:
        """Return hashes without their sides."""
        return Hashes(hashes.high, hashes.low >> self._side_bits)

    def _sides(self, new: pa.Table, groups: Integers) -> list[_Side]:
        """Return the rows of each side. `groups` are the numbers of their keys, and ascend."""
        sides, rows = one_array(new.column(SIDE)).to_numpy(), np.arange(new.num_rows)
        return [
            self._side(number, new, rows[sides == number], groups[sides == number])
            for number in range(len(self.prefixes))
        ]

    def _side(self, number: int, table: pa.Table, rows: Integers, groups: Integers) -> _Side:
        sources = (source for _, (source, *_) in self.names if source.startswith(self.prefixes[number]))
        return _Side({source: one_array(table.column(source)) for source in sources}, rows, groups)

    def of_side(self, keys: Hashes, side: Integers | int) -> Hashes:
        """Return the hashes of keys with a side, by which rows are kept."""
        return Hashes(keys.high, keys.low << self._side_bits | np.asarray(side).astype(np.uint64))

    def read(self, number: int, keys: _Keys, groups: Integers, rows: KeptRows) -> Iterator[_Side]:
        """Yield the kept rows of a side whose keys have these numbers."""
        wanted = keys.hashes.take(groups)
        most = _BYTES_OF_CHUNK // (len(self.prefixes) - 1)  # a chunk of each other side
        for kept in rows.in_chunks(self.of_side(wanted, number), most):
            found = self._of_key(keys_of(kept))
            order = found.order()
            of_kept = groups[groups_of_kept(found.take(order), wanted)]
            own = kept.select(self.keys).take(pa.array(order))
            if not equal_columns(own, keys.values.take(pa.array(of_kept)), self.keys).all():
                raise collision(self.keys)
            yield self._side(number, kept, order, of_kept)

    def joined(self, sides: Sequence[_Side], groups: Integers) -> Iterator[pa.RecordBatch]:
        """Yield the combinations of the rows of all sides with these keys, which each side has."""
        numbers = {name: number for number, each in enumerate(sides) for name in each.columns}
        columns = [
            (numbers[source], sides[numbers[source]].columns[source]) for _, (source, *_) in self.names
        ]
        most = max(1, min(_MOST_ROWS, _MOST_BYTES // sum(_widest(column) for _, column in columns)))
        for rows in _combined(sides, groups, most):
            indices = list(map(pa.array, rows))
            arrays = [column.take(indices[number]) for number, column in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.out_columns)


@dataclass(frozen=True)
class _Found:
    """Kept rows that are found all at once."""

    find: Find

    def has(self, keys: Hashes) -> Mask:
        return np.ones(len(keys), bool)

    def in_chunks(self, keys: Hashes, _most_bytes: int) -> Iterator[pa.Table]:
        yield self.find(keys)


@dataclass(frozen=True)
class _Keys:
    """The keys of the new rows, each once.

    Attributes:
        hashes: ascend.
        values: of the key columns.
    """

    hashes: Hashes
    values: pa.Table


@dataclass(frozen=True)
class _Side:
    """Rows of one side.

    Attributes:
        columns: that the output has. They may have other rows, too.
        rows: the indices of the rows, in the order of their keys.
        groups: the number of the key of each of them.
    """

    columns: Mapping[str, pa.Array]
    rows: Integers
    groups: Integers

    def places(self, groups: Integers) -> tuple[Integers, Integers]:
        """Return where the rows of each of these keys start, and how many there are."""
        start, stop = (np.searchsorted(self.groups, groups, side) for side in ("left", "right"))
        return start, stop - start


@dataclass(frozen=True)
class _Combinations:
    """The combinations that a batch has.

    Attributes:
        join: the operator.
        keys: of the new rows.
        new: the new rows of each side.
        kept: the kept rows.
    """

    join: AppendJoin
    keys: _Keys
    new: Sequence[_Side]
    kept: KeptRows

    def all(self) -> Iterator[pa.RecordBatch]:
        """Yield each combination once: by the first side of which it has a new row."""
        is_whole = self._is_whole()
        for number, side in enumerate(self.new):
            groups = side.groups[np.flatnonzero(np.diff(side.groups, prepend=-1))]
            groups = groups[is_whole[groups]]
            if len(groups):
                yield from self._with({number: side}, number, groups)

    def _is_whole(self) -> Mask:
        """Return which keys have rows of each side. Kept rows of the others have no partner."""
        count = len(self.keys.hashes)
        is_whole = np.ones(count, bool)
        if len(self.new) == 2:  # the rows of the other side are all that is read
            return is_whole
        for number, side in enumerate(self.new):
            is_there = self.kept.has(self.join.of_side(self.keys.hashes, number))
            is_there[side.groups] = True
            is_whole &= is_there
        return is_whole

    def _with(self, chosen: Mapping[int, _Side], first: int, groups: Integers) -> Iterator[pa.RecordBatch]:
        """Yield the combinations of chosen rows with those of the sides that are left.

        Args:
            chosen: rows of some sides.
            first: the first side whose rows are new. Those of the sides before it are kept ones.
            groups: the numbers of the keys that all chosen sides have, which ascend.
        """
        number = next((each for each in range(len(self.new)) if each not in chosen), None)
        if number is None:
            yield from self.join.joined([chosen[each] for each in range(len(self.new))], groups)
            return
        kept = self.join.read(number, self.keys, groups, self.kept)
        for side in kept if number < first else chain([self.new[number]], kept):
            common = groups[side.places(groups)[1] > 0]
            if len(common):
                yield from self._with({**chosen, number: side}, first, common)


def _combined(sides: Sequence[_Side], groups: Integers, most: int) -> Iterator[list[Integers]]:
    """Yield the indices of the rows of combinations, one array for each side, at most so many at a time.

    The combinations of a key are counted as numbers whose digits are the places of its rows on each side.
    """
    places = [each.places(groups) for each in sides]
    if np.prod([count.astype(float) for _, count in places], axis=0).sum() > _MOST_COMBINATIONS:
        raise RowError(
            f"A join of {len(sides)} inputs has more than {_MOST_COMBINATIONS:.0e} rows in one batch. "
            "Nothing of this batch was written. Compare more columns in its ON."
        )
    counts = np.prod([count for _, count in places], axis=0)
    stops = np.cumsum(counts)
    before = stops - counts
    for at in range(0, int(stops[-1]), most):
        numbers = np.arange(at, min(at + most, stops[-1]))
        keys = np.searchsorted(stops, numbers, "right")
        left, rows = numbers - before[keys], []
        for side, (start, count) in zip(reversed(sides), reversed(places), strict=True):
            left, digit = np.divmod(left, count[keys])
            rows.append(side.rows[start[keys] + digit])
        yield rows[::-1]


def _widest(column: pa.Array) -> int:
    """Return how many bytes the longest value of a column has."""
    if has_lengths(column.type):
        return FIXED_BYTES + int(pc.max(pc.binary_length(column)).as_py() or 0)
    return FIXED_BYTES
