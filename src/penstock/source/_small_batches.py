"""Merge small Arrow batches, because Spark takes each one through a pipe and several copies of its own.

Runs on the executor. Pure. Invariants: the rows and their order stay; a large batch is not copied; what waits
to be merged is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

LARGE_ROWS = 4_096
LARGE_BYTES = 1 << 20
"""From here on a batch is large."""


def merge_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches. All batches have one schema, with at least one column."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        batch_bytes = batch.get_total_buffer_size()  # `nbytes` takes 20 us, a tenth of reading a small range
        if batch.num_rows >= LARGE_ROWS or batch_bytes >= LARGE_BYTES:
            if waiting:
                yield _merged(waiting)
                waiting, rows, size_bytes = [], 0, 0
            yield batch
            continue
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch_bytes
        if rows >= LARGE_ROWS or size_bytes >= LARGE_BYTES:
            yield _merged(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _merged(waiting)


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    [merged] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return merged
