"""Rows of equal slices of time put together, before they go into windows that overlap.

Runs on executors. Invariants: it keeps nothing between micro-batches; aggregates of its rows are those of the
rows that it took, whatever rows came together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.calls import Call
from penstock.changelog.operators.sums import sum_type

_MOST_ROWS = 1_000_000
_MOST_BYTES = 64 << 20
"""What a task holds before it gives rows away."""
_SUMMED = ("count", "sum")


@dataclass(frozen=True)
class Slices:
    """One row for the rows of a task with equal slice and keys.

    Attributes:
        columns: of the rows.
        time: the column of their times. It gets the start of the slice.
        length_us: of a slice.
        offset_us: by which slices begin later than 1970.
        keys: the other columns that are equal.
        calls: the partial aggregates: count, sum, min and max.
    """

    columns: pa.Schema
    time: str
    length_us: int
    offset_us: int
    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def out_columns(self) -> pa.Schema:
        kept = [self.columns.field(name) for name in (self.time, *self.keys)]
        return pa.schema([*kept, *(pa.field(each.name, self._type_of(each)) for each in self.calls)])

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(each.num_rows for each in held) >= _MOST_ROWS or sum(map(_size, held)) >= _MOST_BYTES:
                yield from self.together(pa.Table.from_batches(held)).to_batches()
                held = []
        if held:
            yield from self.together(pa.Table.from_batches(held)).to_batches()

    def together(self, rows: pa.Table) -> pa.Table:
        """Return the rows put together. Rows without a time are in no window, and are left out."""
        rows = rows.select(self.columns.names).cast(self.columns)
        rows = rows.filter(pc.is_valid(rows.column(self.time)))
        names = (self.time, *self.keys)
        arrays = [self._starts(rows), *(rows.column(name) for name in self.keys)]
        table = pa.table([*arrays, *(self._value(each, rows) for each in self.calls)], self.out_columns)
        if not all(self._fits(each, table) for each in self.calls):
            return table  # each row stands for itself, and Spark says if a sum does not fit
        how = [(each.name, "sum" if each.function in _SUMMED else each.function) for each in self.calls]
        found = table.group_by(names, use_threads=False).aggregate(how)
        made = [*names, *(f"{name}_{function}" for name, function in how)]
        return found.select(made).rename_columns(table.schema.names).cast(self.out_columns)

    def _type_of(self, call: Call) -> pa.DataType:
        if call.function == "count":
            return pa.int64()
        kind = self.columns.field(call.column).type
        return sum_type(kind) if call.function == "sum" else kind

    def _starts(self, rows: pa.Table) -> pa.Array:
        kind = self.columns.field(self.time).type
        micros = rows.column(self.time).cast(pa.int64()).to_numpy()
        return pa.array(micros - np.mod(micros - self.offset_us, self.length_us)).cast(kind)

    def _value(self, call: Call, rows: pa.Table) -> pa.Array | pa.ChunkedArray:
        """Return what each row alone is for an aggregate."""
        if call.column is None:
            return pa.array(np.ones(rows.num_rows, np.int64))
        values = rows.column(call.column)
        return (pc.is_valid(values) if call.function == "count" else values).cast(self._type_of(call))

    def _fits(self, call: Call, table: pa.Table) -> bool:
        """Return whether the sums of a column surely fit into their type."""
        values = table.column(call.name)
        if call.function != "sum" or values.type != pa.int64():
            return True
        bounds = pc.min_max(values)
        most = max(abs(each.as_py() or 0) for each in bounds.values())
        return bool(most * table.num_rows < 1 << 63)


def _size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes)
