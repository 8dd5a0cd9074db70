"""One batch of changes: the last row of each key, and a digest by which a repeated batch is recognised.

`LastRows` runs on executors, the rest on the driver. Invariant: the digest does not depend on the order of
rows, and not on what a deleted row held.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.changelog.row_kinds import INSERT, ROW_KIND, UPDATE_AFTER, Kinds, has_row_kind, kinds_of
from penstock.errors import RowError, SchemaError
from penstock.state.columns import hash_columns, is_hashable, one_array
from penstock.targets.change import NO_CHANGE, ColumnChange

DELETED = "#deleted"
"""The column that says that a row is deleted. Its other columns are null then, but for the keys."""

_MASK = 2**64 - 1
_ROWS_OUT = 10_000


@dataclass(frozen=True)
class LastRows:
    """Chooses the last row of each key of one task. Pickled to the tasks.

    Attributes:
        keys: the primary key.
        columns: of the result, without `DELETED`.
    """

    keys: tuple[str, ...]
    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.columns.append(pa.field(DELETED, pa.bool_(), nullable=False))

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the last row of each key, in the schema of the result.

        Raises:
            RowError: a row has a null in its key, or its kind is not a row kind.
        """
        received = list(batches)
        if received:
            found = self.last_rows(pa.Table.from_batches(received))
            yield from found.combine_chunks().to_batches(max_chunksize=_ROWS_OUT)

    def last_rows(self, rows: pa.Table) -> pa.Table:
        """Return the last row of each key; see `run`."""
        check_no_null_keys(rows, self.keys)
        last = last_indices(rows, self.keys)
        found = rows.select(self.columns.names).take(last).cast(self.columns)
        kinds = row_kinds(rows)[last.to_numpy()]
        is_deleted = pa.array((kinds != INSERT) & (kinds != UPDATE_AFTER))
        positions = pa.array(np.arange(found.num_rows), pa.int64())
        kept = pc.if_else(is_deleted, pa.scalar(None, pa.int64()), positions)
        columns = [
            column if name in self.keys else column.take(kept)
            for name, column in zip(self.columns.names, found.columns, strict=True)
        ]
        return pa.Table.from_arrays([*columns, is_deleted], schema=self.schema)


def last_indices(rows: pa.Table, keys: Sequence[str]) -> pa.Array:
    """Return the indices of the last row of each key, in order."""
    names = [f"key {i}" for i in range(len(keys))]  # a key may be named index
    indices = pa.array(np.arange(rows.num_rows), pa.int64())
    numbered = pa.table([*(rows.column(key) for key in keys), indices], [*names, "index"])
    found = numbered.group_by(names).aggregate([("index", "max")])
    return one_array(found.column("index_max")).sort()


def check_no_null_keys(rows: pa.Table, keys: Sequence[str]) -> None:
    """Raise RowError if a row has a null in its key."""
    for name in keys:
        if rows.column(name).null_count:
            raise RowError(
                f"Expected a value in column '{name}', which is in the primary key, got null. Nothing of "
                "this batch was written. Fill the column, or filter the row out.",
                column=name,
            )


def check_no_floats(columns: pa.Schema, keys: Sequence[str]) -> None:
    """Raise SchemaError if a key is a floating-point number."""
    for key in keys:
        if pa.types.is_floating(columns.field(key).type):
            raise SchemaError(
                f"Column '{key}' of type {columns.field(key).type} cannot be in the primary key, because "
                "databases compare NaN and -0.0 in different ways. Cast it, for example to a decimal.",
                column=key,
            )


class Changes(Protocol):
    """The changes of a micro-batch, wherever its rows are: a `Batch`, or a `Staged` one."""

    @property
    def query_id(self) -> str:
        """Of the streaming query."""

    @property
    def batch_id(self) -> int:
        """Spark's number of the batch."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The primary key."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table."""

    @property
    def change(self) -> ColumnChange:
        """What is different in them since the batch before."""

    def digest(self) -> str:
        """Return a digest of the rows."""


class ChangesOver(Changes, Protocol):
    """Changes of a micro-batch that depend on rows which the table has."""

    @property
    def key_rows(self) -> pa.Table:
        """Some key columns, with the values of the rows that have to be read. Each row once."""

    def over(self, rows: pa.Table) -> Batch:
        """Return the changes of rows.

        Args:
            rows: those of the table with `key_rows`, with its columns.
        """


@dataclass(frozen=True)
class Batch:
    """The changes of one micro-batch, to be applied to a target.

    Attributes:
        query_id: of the streaming query; it changes only with the checkpoint.
        batch_id: Spark's number of the batch.
        keys: the primary key.
        rows: of all tasks, as `LastRows` gives them.
        change: of the columns, since the batch before.
    """

    query_id: str
    batch_id: int
    keys: tuple[str, ...]
    rows: pa.Table
    change: ColumnChange = NO_CHANGE

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table."""
        return columns_of(self.rows.schema)

    @property
    def is_append(self) -> bool:
        """Whether no row of the table can have a key of the batch, so that none has to be searched for."""
        return False

    def check_keys(self) -> None:
        """Raise RowError if two tasks gave a row of the same key, because their order is unknown."""
        check_keys(self.rows.select(self.keys), self.batch_id)

    def digest(self) -> str:
        """Return a digest of the rows."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return digest_of([sums_of(self.rows)])

    def upserted(self) -> pa.Table:
        """Return the rows to insert or update."""
        return self.rows.filter(pc.invert(self.rows.column(DELETED))).drop_columns([DELETED])

    def deleted(self) -> pa.Table:
        """Return the keys of the rows to delete."""
        return self.rows.filter(self.rows.column(DELETED)).select(list(self.keys))


def columns_of(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table, for the schema of rows of `LastRows`."""
    return pa.schema([field for field in schema if field.name != DELETED])


def check_keys(keys: pa.Table, batch_id: int) -> None:
    """Raise RowError if two tasks gave a row of the same key, because their order is unknown.

    Args:
        keys: the key columns of the rows of all tasks.
        batch_id: for the message.
    """
    names = [f"key {i}" for i in range(keys.num_columns)]  # a key may be named count_all
    counted = keys.rename_columns(names).group_by(names).aggregate([([], "count_all")])
    count = pc.sum(pc.greater(counted.column("count_all"), 1)).as_py()
    if count:
        raise not_in_order(count, batch_id)


def not_in_order(key_count: int, batch_id: int) -> RowError:
    """Return the error of rows of a key that came from several tasks."""
    return RowError(
        f"Rows of {key_count} keys of batch {batch_id} came from more than one task. Spark does not order "
        "tasks, so it is unknown which row of a key is the newest. Nothing of the batch was written. "
        "Bring the rows of each key together in their order before: "
        "penstock.changelog.in_order(rows, <primary key>, order_by=[...]), for example with the "
        "offset of the record.",
        key_count=key_count,
        batch_id=batch_id,
    )


class Sums(NamedTuple):
    """What a digest says of some rows of a batch. Those of other rows add to it."""

    row_count: int
    high: int
    low: int


def sums_of(rows: pa.Table) -> Sums:
    """Return the sums of some rows, which do not depend on their order."""
    row_count = rows.num_rows
    for index, field in enumerate(rows.schema):
        if pa.types.is_nested(field.type):
            rows = rows.set_column(index, field.name, _texts(rows.column(index), field.name))
    hashes = hash_columns(rows, [field.name for field in rows.schema if is_hashable(field.type)])
    return Sums(row_count, int(hashes.high.sum()) & _MASK, int(hashes.low.sum()) & _MASK)


def digest_of(parts: Iterable[Sums]) -> str:
    """Return the digest of a batch by the sums of its parts."""
    counts, highs, lows = zip(*parts, strict=True)
    return f"{sum(counts)}-{sum(highs) & _MASK:016x}-{sum(lows) & _MASK:016x}"


def python_values(column: pa.Array | pa.ChunkedArray, name: str) -> list[Any]:
    """Return the values of a column as objects of Python.

    Raises:
        RowError: Python has no such value.
    """
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError) as error:
        raise RowError(
            f"Column '{name}' has a value that Python cannot hold: a date or time before the year 1 or after "
            f"9999, or text that is not UTF-8 ({type(error).__name__}). Nothing of the batch was written. "
            "Replace it, or cast the column to text.",
            column=name,
        ) from error


def _texts(column: pa.ChunkedArray, name: str) -> pa.Array:
    """Return nested values as texts that do not depend on the versions of libraries."""
    values = python_values(column, name)
    texts = (None if one is None else json.dumps(one, default=_text) for one in values)
    return pa.array(texts, pa.large_string())


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, (date, time)) else str(value)


def row_kinds(rows: pa.Table) -> Kinds:
    """Return the kinds of rows; +I without a column of them."""
    if not has_row_kind(rows.column_names):
        return np.full(rows.num_rows, INSERT, np.int8)
    return kinds_of(one_array(rows.column(ROW_KIND)))
