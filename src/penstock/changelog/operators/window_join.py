"""Pairs of rows of windows that are over, of the rows of one micro-batch.

Runs on executors. Invariants: it keeps nothing, because all rows of a window come in the micro-batch in which
the watermark passes its end; a row with a null in its keys has no partner. Rows that are too many for one
array are joined in parts, each with whole keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.base import check_collisions, with_nullable
from penstock.changelog.operators.join import SIDE, How, Names, keys_in, paired
from penstock.errors import RowError
from penstock.state.columns import Integers, hash_columns, mask_of, one_array

_MOST_BYTES = 256 << 20
"""What the rows of one part have, about."""
_MOST_PAIRS = 50_000
"""What one Arrow batch has, if no row has more partners."""


@dataclass(frozen=True)
class WindowJoin:
    """The pairs with equal keys, and the rows that an outer join keeps without a partner.

    Attributes:
        columns: as those of `Join`.
        how: the kind of join: inner, left, right or full.
        names: as those of `Join`, one at least, because a batch without a column has no number of rows.
    """

    columns: pa.Schema
    how: How
    names: Names

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("a join of windows has to show a column.")

    @property
    def keys(self) -> tuple[str, ...]:
        return keys_in(self.columns)

    @property
    def out_columns(self) -> pa.Schema:
        return pa.schema([(name, self.columns.field(sources[0]).type) for name, sources in self.names])

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task. Raises RowError if one key has more than 2 GB in one column."""
        try:
            for part in self._parts([each.select(self.columns.names) for each in batches]):
                yield from self._joined(part.cast(with_nullable(self.columns)).combine_chunks())
        except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
            if "overflow" not in str(error) and not isinstance(error, pa.ArrowCapacityError):
                raise
            raise RowError(
                f"One task of a join of windows has more than 2 GB in one column ({error}). Nothing of this "
                "batch was written. Read fewer records in a batch, or use more partitions."
            ) from error

    def _parts(self, received: list[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Yield the rows, those with equal keys together."""
        count = 1 + sum(int(each.nbytes) for each in received) // _MOST_BYTES
        if count == 1:
            yield from [pa.Table.from_batches(received)] if received else []
            return
        hashes = (hash_columns(pa.Table.from_batches([each]), self.keys).low for each in received)
        numbered = [(each, low % np.uint64(count)) for each, low in zip(received, hashes, strict=True)]
        for number in range(count):
            yield pa.Table.from_batches([each.filter(pa.array(of == number)) for each, of in numbered])

    def _joined(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        group, sides = self._groups(rows), one_array(rows.column(SIDE)).to_numpy()
        left, right = (np.flatnonzero(sides == side) for side in (0, 1))
        right = right[np.argsort(group[right], kind="stable")]
        start, stop = (np.searchsorted(group[right], group[left], side) for side in ("left", "right"))
        counts = np.where(group[left] < 0, 0, stop - start)
        yield from self._pairs(rows, left, right, start, counts)
        if self.how in ("left", "full"):
            alone = left[counts == 0]
            yield from self._named(rows, alone, np.full(len(alone), -1))
        if self.how in ("right", "full"):
            alone = right[(group[right] < 0) | ~np.isin(group[right], group[left])]
            yield from self._named(rows, np.full(len(alone), -1), alone)

    def _groups(self, rows: pa.Table) -> Integers:
        """Return the number of the key of each row; -1 for a row with a null in its keys."""
        has_key = np.ones(rows.num_rows, bool)
        for name in self.keys:
            has_key &= mask_of(pc.is_valid(rows.column(name)))
        keyed = np.flatnonzero(has_key)
        keys = rows.select(self.keys).take(pa.array(keyed))
        hashes = hash_columns(keys, self.keys)
        order = hashes.order()
        starts = hashes.take(order).starts()
        check_collisions(keys.take(pa.array(order)), self.keys, ~starts)
        found = np.full(rows.num_rows, -1, np.int64)
        found[keyed[order]] = np.cumsum(starts) - 1
        return found

    def _pairs(
        self, rows: pa.Table, left: Integers, right: Integers, start: Integers, counts: Integers
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of left rows, each with `counts` right rows from `start` on."""
        ends = np.cumsum(counts)
        first = 0
        while first < len(left) and ends[-1]:
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + _MOST_PAIRS, "right")))
            many = counts[first:last]
            within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
            partners = right[np.repeat(start[first:last], many) + within]
            yield from self._named(rows, np.repeat(left[first:last], many), partners)
            first = last

    def _named(self, rows: pa.Table, left: Integers, right: Integers) -> Iterator[pa.RecordBatch]:
        for at in range(0, len(left), _MOST_PAIRS):
            part = slice(at, at + _MOST_PAIRS)
            arrays = paired(rows, self.names, left[part], right[part])
            yield pa.RecordBatch.from_arrays(arrays, schema=self.out_columns)
