"""A stateless query as a function of Arrow batches.

Made on the driver by `arrow`, runs on executors. Invariant: a step sees only the rows that the steps before
it have left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.row_kinds import INSERT, NAMES, ROW_KIND
from penstock.sql.emit import arrow_values as values
from penstock.sql.emit.arrow_values import Applied, Value

Step = tuple[Value, ...] | tuple[tuple[str, Value], ...]
"""Conditions that rows have to fulfil, or columns that replace all others."""


@dataclass(frozen=True)
class ArrowQuery:
    """The rows of a stateless query.

    Attributes:
        steps: in their order.
        fields: the columns that are read.
    """

    steps: tuple[Step, ...]
    fields: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Return what the steps do, in their order, for EXPLAIN."""
        yield f"reads the columns {', '.join(self.fields) or 'none'}"
        for step in self.steps[1:]:
            columns = [each[0] for each in step if isinstance(each, tuple)]
            conditions = f"keeps rows by {len(step)} condition{'s' if len(step) > 1 else ''}"
            if any(isinstance(each, Applied) and isinstance(each.function, values.HasTime) for each in step):
                conditions = "checks that each row has the time of the WATERMARK"
            yield f"computes {', '.join(columns)} over Arrow batches" if columns else conditions

    def values(self) -> Iterator[Value]:
        """Return all expressions and their parts."""
        for step in self.steps:
            for each in step:
                yield from values.parts_of(each[1] if isinstance(each, tuple) else each)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that the query makes of those of a batch."""
        # A batch without columns has no number of rows, so one is kept in any case.
        batch = batch.select(list(self.fields) or batch.schema.names[:1])
        for step in self.steps:
            batch = _stepped(batch, step)
        return batch


def _stepped(batch: pa.RecordBatch, step: Step) -> pa.RecordBatch:
    columns = [each for each in step if isinstance(each, tuple)]
    if not columns:
        return values.kept(batch, [each for each in step if not isinstance(each, tuple)])
    arrays = [value.of(batch) for _, value in columns]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in columns])


@dataclass(frozen=True)
class OfInserts:
    """Makes rows of the +I rows of an operator."""

    query: ArrowQuery

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self.query(rows.filter(pc.equal(rows.column(ROW_KIND), NAMES[INSERT])))
