"""The rows of an upsert table (`upsert-kafka`) to the columns that a sink writes: values and tombstones.

Runs on executors. The driver makes an encoder once, to find mistakes in the schema. Invariant: after the
records of a task, the topic holds for each key what the last row of the key says. +I and +U are written
with their values, -D as a null value (a tombstone). A -U is left out if its +U with the same key follows
directly. Otherwise it is a tombstone, because its row has left the table: its key has changed, or a filter
has removed the +U.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RowError
from penstock.formats.base import INSERT, ROW_KINDS, UPDATE_AFTER, UPDATE_BEFORE
from penstock.table._encode import TableEncoder, column_of

_KEY = "\x01key"
"""The column with the encoded key of each row. Two rows with equal bytes here are the same row of the
table."""


class UpsertEncoder(TableEncoder):
    """Encodes the rows of one upsert table."""

    @property
    def _max_rows(self) -> int:
        return 0 if self._table.upsert is None else self._table.upsert.flush_max_rows

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode the rows of one task.

        Args:
            batches: with the table's columns, in any order.

        Raises:
            RowError: a row cannot be written in its format, has a null in its primary key, or has no row
            kind.
        """
        for rows in self.last_rows(batches):
            yield self.encode(rows)

    def last_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the rows that are written, with their encoded keys; see `records`.

        Batches are never put together, because a column of Arrow cannot hold more than 2 GiB.
        """
        keyed = (self._keyed(batch) for batch in batches if batch.num_rows)
        return (rows for rows in self._buffered(self._without_old_rows(keyed)) if rows.num_rows)

    def _keyed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the encoded keys."""
        for name in self._table.key_names:
            column = column_of(batch, name)
            if column.null_count:
                row = pc.index(column.is_null(), pa.scalar(True)).as_py()
                raise RowError(
                    f"Expected a value in column '{name}' of row {row} of the batch, got null. The column is "
                    "in the primary key, and a row without its key cannot be updated or deleted. The batch "
                    "was not written. Fill the column, or filter the row out.",
                    column=name,
                    row=row,
                )
        if self._table.row_kind is not None:
            _check_kinds(column_of(batch, self._table.row_kind), self._table.row_kind)
        return batch.append_column(_KEY, super()._keys(batch))

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        return column_of(rows if _KEY in rows.schema.names else self._keyed(rows), _KEY)

    def _values(self, rows: pa.RecordBatch) -> pa.Array:
        if self._table.row_kind is None:
            return self._checked(self._value.encode(rows.select(self._table.value_schema.names)))
        new = pa.array([INSERT, UPDATE_AFTER], pa.string())
        is_upsert = pc.is_in(column_of(rows, self._table.row_kind), value_set=new)
        upserts = rows.select(self._table.value_schema.names).filter(is_upsert)
        indices = pc.subtract(pc.cumulative_sum(is_upsert.cast(pa.int32())), pa.scalar(1, pa.int32()))
        indices = pc.if_else(is_upsert, indices, pa.scalar(None, pa.int32()))
        return self._checked(self._value.encode(upserts)).take(indices)

    def _checked(self, values: pa.Array) -> pa.Array:
        if values.null_count:
            raise RowError(
                f"Format '{self._table.value_format.name}' writes a row of this batch as a null value, which "
                "would delete the row. The batch was not written. Fill the column, or use a format such as "
                "'json'.",
                format=self._table.value_format.name,
            )
        return values

    def _without_old_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Leave out each -U whose +U with the same key follows directly, also in the next batch."""
        name = self._table.row_kind
        if name is None:
            yield from batches
            return
        waiting: pa.RecordBatch | None = None
        for batch in batches:
            if waiting is not None and not self._is_update(waiting, batch, name):
                yield waiting
            is_waiting = column_of(batch, name)[-1].as_py() == UPDATE_BEFORE
            waiting = batch.slice(batch.num_rows - 1) if is_waiting else None
            yield self._without_paired(batch.slice(0, batch.num_rows - is_waiting), name)
        if waiting is not None:
            yield waiting

    def _is_update(self, old: pa.RecordBatch, new: pa.RecordBatch, name: str) -> bool:
        """Return whether the first row of `new` is the +U of the -U `old`."""
        if column_of(new, name)[0].as_py() != UPDATE_AFTER:
            return False
        pairs = zip(self._identity(old), self._identity(new), strict=True)
        return all(pc.equal(one[0], other[0]).as_py() for one, other in pairs)

    def _without_paired(self, rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
        kinds = column_of(rows, name)
        is_old = pc.equal(kinds, UPDATE_BEFORE)
        if rows.num_rows < 2 or not pc.any(is_old).as_py():
            return rows
        following = pc.equal(kinds.slice(1), UPDATE_AFTER)
        for column in self._identity(rows):
            same = pc.equal(column.slice(0, rows.num_rows - 1), column.slice(1))
            following = pc.and_(following, pc.fill_null(same, False))
        is_paired = pc.and_(is_old.slice(0, rows.num_rows - 1), following)
        return rows.filter(pa.concat_arrays([pc.invert(is_paired), pa.array([True])]))

    def _identity(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns that say which row of which topic a row is."""
        topics = [column for column, key in self._table.metadata.items() if key == "topic"]
        return [column_of(rows, name) for name in (_KEY, *topics)]

    def _buffered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Keep rows back and give only the last one of each key, if the table has a buffer."""
        if self._max_rows == 0:
            yield from batches
            return
        for rows in _parts(batches, self._max_rows):
            yield from self._last_of_each_key(rows)

    def _last_of_each_key(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = zip(*map(self._identity, batches), strict=True)
        columns = [pa.chunked_array(list(each)) for each in chunks]
        names = [f"key {i}" for i in range(len(columns))]
        row_count = sum(rows.num_rows for rows in batches)
        numbered = pa.table([*columns, pa.array(range(row_count), pa.int64())], [*names, "row"])
        is_last = np.zeros(row_count, bool)
        is_last[numbered.group_by(names).aggregate([("row", "max")]).column("row_max").to_numpy()] = True
        start = 0
        for rows in batches:
            keeps = is_last[start : start + rows.num_rows]
            start += rows.num_rows
            yield rows if keeps.all() else rows.filter(pa.array(keeps))


def _parts(batches: Iterable[pa.RecordBatch], row_count: int) -> Iterator[list[pa.RecordBatch]]:
    """Divide rows into parts of `row_count`.

    The parts must not depend on how Spark divides the rows into batches.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, row_count - count)
            start, count = start + part.num_rows, count + part.num_rows
            held.append(part)
            if count == row_count:
                yield held
                held, count = [], 0
    if held:
        yield held


def _check_kinds(kinds: pa.Array, name: str) -> None:
    is_bad = pc.invert(pc.is_in(kinds, value_set=pa.array(ROW_KINDS, pa.string())))
    if pc.any(is_bad).as_py():
        row = pc.index(is_bad, pa.scalar(True)).as_py()
        raise RowError(
            f"Expected a row kind ({', '.join(ROW_KINDS)}) in column '{name}' of row {row} of the batch, got "
            f"{kinds[row].as_py()!r}. The batch was not written. Correct the column.",
            row=row,
            column=name,
        )
