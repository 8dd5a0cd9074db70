"""Rows of a table of customers, and batches of changes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("city", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)
PART = 312_500
"""Rows of a data file of the table that is built."""
_START_US = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_BATCH_US = 3_600_000_000
_NOTE_BYTES = 28
UPDATED, DELETED = 0.7, 0.1


def rows_of(ids: npt.NDArray[np.int64], number: int) -> pa.Table:
    """Return rows of these ids as a batch writes them. Their times rise from batch to batch."""
    random, keys = np.random.default_rng(number), pa.array(ids)
    texts = keys.cast(pa.string())
    cents = pa.array(ids % 100_000, pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    notes = random.bytes(_NOTE_BYTES * len(ids)).hex()
    width = 2 * _NOTE_BYTES
    note = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(ids), [None, pa.py_buffer(notes.encode())]
    )
    columns = [
        keys,
        pc.binary_join_element_wise(f"customer {number}", texts, "-"),
        pc.binary_join_element_wise("city", pa.array(ids % 1000).cast(pa.string()), "-"),
        cents.cast(pa.decimal128(12, 2)),
        pa.array(_START_US + number * _BATCH_US + np.arange(len(ids))).cast(pa.timestamp("us", "UTC")),
        note.cast(pa.binary()).cast(pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=COLUMNS)


class Changes:
    """The changes of a batch.

    Args:
        row_count: of the table before its first batch.
        change_count: of a batch.
        number: of the batch, from 1.
        done: how many old keys the batches before have updated or deleted. This one takes others.
    """

    def __init__(self, row_count: int, change_count: int, number: int, done: int) -> None:
        self.updated, self.deleted = int(change_count * UPDATED), int(change_count * DELETED)
        self.inserted = change_count - self.updated - self.deleted
        old = self.updated + self.deleted
        if done + old > row_count:
            raise ValueError(f"the table has had changes of {done} keys: delete its folder, and begin again")
        steps = np.arange(old, dtype=np.int64) + done
        # A step that has no factor of the number of rows visits every id once, and far from the one before.
        ids = steps * _step(row_count) % row_count
        new = row_count + (number * 10_000_000 + np.arange(self.inserted, dtype=np.int64))
        ids = np.concatenate([ids, new])
        kinds = np.array(["+U", "-D", "+I"]).repeat([self.updated, self.deleted, self.inserted])
        order = np.random.default_rng(number).permutation(change_count)
        rows = rows_of(ids[order], number)
        self.rows = rows.append_column("row_kind", pa.array(kinds[order]))

    def write(self, folder: Path, file_count: int) -> list[str]:
        """Write the changes into files, which become one task each."""
        folder.mkdir(parents=True, exist_ok=True)
        size, paths = -(-self.rows.num_rows // file_count), []
        for number in range(file_count):
            path = folder / f"{number}.parquet"
            pq.write_table(self.rows.slice(number * size, size), path)
            paths.append(str(path))
        return paths


def _step(row_count: int) -> int:
    step = int(row_count * 0.618) | 1
    while np.gcd(step, row_count) > 1:
        step += 2
    return step
