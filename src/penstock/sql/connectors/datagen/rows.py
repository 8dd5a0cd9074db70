"""Make rows by their numbers.

Runs in tasks. Invariant: the rows `first` to `stop` of a seed are the same whichever batch or task makes
them, because random numbers are drawn for whole blocks of rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.sql.connectors.datagen.plan import Plan
from penstock.sql.connectors.datagen.values import Draw

_BLOCK_ROWS, _BLOCK_BYTES = 4_096, 16 << 20


def block_rows(plan: Plan) -> int:
    """Return the rows of a block: fewer if rows are large."""
    size_bytes = sum(maker.size_bytes for _, maker in plan.columns)
    return max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // max(1, size_bytes)))


def generate(plan: Plan, schema: pa.Schema, seed: int, rows: range, now_us: int) -> Iterator[pa.RecordBatch]:
    """Return rows as Arrow batches.

    Args:
        plan: the columns.
        schema: of the batches.
        seed: of the query, at least 0.
        rows: the numbers of the rows.
        now_us: the time that is "now" for them, microseconds since 1970.
    """
    size = block_rows(plan)
    for block in range(rows.start // size, -(-rows.stop // size)):
        first = block * size
        start, stop = max(rows.start, first), min(rows.stop, first + size)
        arrays = []
        for place, (name, maker) in enumerate(plan.columns):
            random = np.random.Generator(np.random.PCG64([seed, place, block]))
            made = maker.make(Draw(random, first, size, now_us), schema.field(name).type)
            arrays.append(made.slice(start - first, stop - start))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
