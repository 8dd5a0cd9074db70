"""Functions of all rows of one task.

Runs on executors, inside `mapInArrow`. Invariant: a task without rows gives none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import pyarrow as pa

_ROWS_OUT = 50_000


class WholeTask(ABC):
    """A function of all rows of one task. Pickled to the tasks."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return what `rows` makes of all batches."""
        received = list(batches)
        if received:
            rows = pa.Table.from_batches(received).combine_chunks()
            yield from self.rows(rows).to_batches(max_chunksize=_ROWS_OUT)

    @abstractmethod
    def rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows out; `rows` has one chunk."""
