"""Rows of windows that are over, each with aggregates of all rows of one micro-batch that have its keys.

Runs on executors. Invariants: it keeps nothing, because all rows of a window come in one micro-batch; a row
with a null in its keys is left out, as a join leaves it out. No array has all rows of a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.base import with_nullable
from penstock.changelog.operators.calls import Call

_MOST_BYTES = 64 << 20
"""What a table has whose rows get their aggregates at once."""
_MERGED = {"count": "sum", "min": "min", "max": "max"}


@dataclass(frozen=True)
class WindowTotals:
    """The columns `shown` of rows, and aggregates.

    Attributes:
        columns: of the rows.
        shown: those that stay.
        keys: those that are equal.
        calls: the aggregates: count, min and max.
    """

    columns: pa.Schema
    shown: tuple[str, ...]
    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    @property
    def out_columns(self) -> pa.Schema:
        kept = [self.columns.field(name).with_nullable(True) for name in self.shown]
        return pa.schema([*kept, *(pa.field(each.name, self._type_of(each)) for each in self.calls)])

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        held = [
            each.select(self.columns.names).cast(with_nullable(self.columns)) for each in _tables(batches)
        ]
        if not held:
            return
        how = [(each.name, _MERGED[each.function]) for each in self.calls]
        parts = [self._grouped(self._alone(each), how) for each in held]
        totals = self._grouped(pa.concat_tables(parts), how)
        for rows in held:
            found = rows.join(totals, list(self.keys), join_type="inner", use_threads=False)
            yield from found.select(self.out_columns.names).cast(self.out_columns).to_batches()

    def _alone(self, rows: pa.Table) -> pa.Table:
        """Return the keys of rows, and what each row alone is for an aggregate."""
        values = [rows.column(name) for name in self.keys]
        for each in self.calls:
            value = rows.column(self.keys[0] if each.column is None else each.column)
            if each.function == "count":
                value = pc.is_valid(value).cast(pa.int64())
            values.append(value)
        return pa.table(values, [*self.keys, *(each.name for each in self.calls)])

    def _grouped(self, rows: pa.Table, how: list[tuple[str, str]]) -> pa.Table:
        found = rows.group_by(list(self.keys), use_threads=False).aggregate(how)
        names = [*self.keys, *(f"{name}_{function}" for name, function in how)]
        return found.select(names).rename_columns(rows.column_names)

    def _type_of(self, call: Call) -> pa.DataType:
        is_count = call.column is None or call.function == "count"
        return pa.int64() if is_count else self.columns.field(call.column).type


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in tables of some size, because each of them is joined with all aggregates."""
    held: list[pa.RecordBatch] = []
    size = 0
    for each in batches:
        held.append(each)
        size += int(each.nbytes)
        if size >= _MOST_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
