"""Add the clocks of a task to its rows: the latest times that it has seen, for all partitions of a state.

Runs on executors, inside `mapInArrow`, before the rows are divided among the partitions. Invariant: the
latest of all clocks of a batch depends on its rows only, and each partition gets the clocks of all tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.operators.join import SIDE
from penstock.changelog.operators.temporal_join import CLOCK, ROW_CLOCK
from penstock.changelog.row_kinds import ROW_KIND
from penstock.spark._keyed_task import NOW_MS, PARTITION


@dataclass(frozen=True)
class Clocks:
    """The columns with the times of each side, and the number of partitions. Pickled to the tasks."""

    times: tuple[str, ...]
    partition_count: int

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows of one task and its clocks."""
        latest: dict[int, int] = {}
        schema: pa.Schema | None = None
        now_ms = 0
        for batch in batches:
            schema = pa.schema([field.with_nullable(True) for field in batch.schema])
            if batch.num_rows:
                now_ms = batch.column(NOW_MS)[0].as_py()
                for side, name in enumerate(self.times):
                    found = pc.max(batch.column(name)).cast(pa.int64()).as_py()
                    if found is not None:
                        latest[side] = max(found, latest.get(side, found))
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        if schema is not None:
            for side, clock in latest.items():
                yield self._clocks(schema, side, clock, now_ms)

    def _clocks(self, schema: pa.Schema, side: int, clock: int, now_ms: int) -> pa.RecordBatch:
        count = self.partition_count
        values = {
            SIDE: np.full(count, ROW_CLOCK + side),
            CLOCK: np.full(count, clock),
            NOW_MS: np.full(count, now_ms),
            PARTITION: np.arange(count),
            ROW_KIND: ["+I"] * count,
        }
        arrays = [
            pa.array(values[field.name]).cast(field.type)
            if field.name in values
            else pa.nulls(count, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
