"""A batch whose rows executors have written into a folder, because they are too many for the driver.

`Stage` runs on executors, `Staged` on the driver and on executors. Invariants: the digest is the one that
the same rows have in a `Batch`, so a batch may be applied in one way and repeated in the other; only the
files that the tasks of Spark's result name are read.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa

from penstock.errors import StagedRowsError
from penstock.state.files import TEMPORARY, open_files
from penstock.targets.batch import (
    Batch,
    Changes,
    ChangesOver,
    LastRows,
    Sums,
    check_keys,
    columns_of,
    digest_of,
    sums_of,
)
from penstock.targets.change import NO_CHANGE, ColumnChange

RECEIPTS = (
    "path STRING, rows BINARY, row_count BIGINT, high DECIMAL(20, 0), low DECIMAL(20, 0), byte_count BIGINT"
)
"""The columns of what a task says. `rows` are those of a task with few rows, and `path` is null then."""
_RECEIPTS = pa.schema(
    [
        ("path", pa.string()),
        ("rows", pa.binary()),
        ("row_count", pa.int64()),
        ("high", pa.decimal128(20, 0)),
        ("low", pa.decimal128(20, 0)),
        ("byte_count", pa.int64()),
    ]
)
FEW_BYTES = 1 << 20
"""Rows of a task that are not more go to the driver."""
_SUFFIX = ".ipc"
"""Not that of a state, whose files are kept on each machine that reads them."""
_NAME = re.compile(rf"(\d+)-[0-9a-f]{{32}}\.ipc({re.escape(TEMPORARY)}.*)?")


class Runner(Protocol):
    """Runs a function over items in tasks of Spark."""

    def __call__(self, function: Any, items: Sequence[Any]) -> list[Any]:
        """Return what the function returns for each item. Function and items are pickled."""


@runtime_checkable
class AppliesStaged(Protocol):
    """A target whose files can be written by tasks."""

    def apply_staged(self, batch: Any, run: Runner) -> bool:
        """Apply a batch whose rows are in files; return False if it was applied before."""


class ReadsRows(Protocol):
    """Reads rows of a table in a task. Pickled to it."""

    def __call__(self, item: Any, key_rows: pa.Table) -> pa.Table:
        """Return the rows of some files of the table that have one of the keys."""


class StagedOver(Changes, Protocol):
    """Changes of a micro-batch in files that depend on rows which the table has."""

    @property
    def key_rows(self) -> pa.Table:
        """Some key columns, with the values of the rows that have to be read. Each row once."""

    @property
    def byte_count(self) -> int:
        """Of the changes in memory."""

    def on_driver(self) -> ChangesOver:
        """Return the changes with all rows."""

    def in_tasks(self, items: Sequence[Any], read: ReadsRows, run: Runner) -> Staged:
        """Let tasks compute the changes of rows.

        Args:
            items: the files of the table that may have rows with `key_rows`.
            read: reads the rows of an item.
            run: runs tasks.
        """


@dataclass(frozen=True)
class StagingFolder:
    """Where rows of a batch are written. Pickled to the tasks.

    Attributes:
        location: of the folder for all queries, a path or a URI as of a state.
        folder: in it, of this query.
        batch_id: begins the names of files.
    """

    location: str = field(repr=False)
    folder: str
    batch_id: int

    def write(self, rows: pa.Table) -> str:
        """Write rows into a new file, and return its path in the location."""
        path = f"{self.folder}/{self.batch_id}-{uuid.uuid4().hex}{_SUFFIX}"
        with open_files(self.location).create(path) as target:
            target.write(_as_ipc(rows))
        return path

    def sweep(self) -> None:
        """Delete the files of this batch and of earlier ones. The tables have them.

        A writer that was killed leaves an incomplete file. One of this batch may still be written, by an
        attempt that Spark has not stopped yet, so the sweep of a later batch deletes it.
        """
        files = open_files(self.location)
        for name in files.names(self.folder):
            found = _NAME.fullmatch(name)
            if found is not None and int(found[1]) + bool(found[2]) <= self.batch_id:
                files.delete(f"{self.folder}/{name}")


def receipt_of(rows: pa.Table, sums: Sums, files: StagingFolder) -> pa.RecordBatch:
    """Return what a task says of its rows. Many rows are written into a file."""
    few = _as_ipc(rows).to_pybytes() if rows.nbytes <= FEW_BYTES else None
    path = None if few is not None else files.write(rows)
    values = (path, few, sums.row_count, sums.high, sums.low, rows.nbytes)
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind.type) for value, kind in zip(values, _RECEIPTS, strict=True)],
        schema=_RECEIPTS,
    )


class Received(NamedTuple):
    """What all tasks said.

    Attributes:
        rows: of the tasks that wrote no file.
        paths: of the files.
        counts: of the rows in each file.
        sums: of the rows of each task.
        byte_count: of all rows in memory.
    """

    rows: pa.Table
    paths: tuple[str, ...]
    counts: tuple[int, ...]
    sums: tuple[Sums, ...]
    byte_count: int


def received(receipts: pa.Table, schema: pa.Schema, files: StagingFolder) -> Received:
    """Return what tasks said. Rows of tasks without a file join the files, if there is one."""
    said = receipts.to_pylist()
    few = [_from_ipc(each["rows"]).read_all() for each in said if each["rows"] is not None]
    rows = pa.concat_tables([schema.empty_table(), *few])
    written = [(each["path"], each["row_count"]) for each in said if each["path"] is not None]
    if written and rows.num_rows:
        written.append((files.write(rows), rows.num_rows))
    return Received(
        rows,
        tuple(path for path, _ in written),
        tuple(count for _, count in written),
        tuple(Sums(each["row_count"], int(each["high"]), int(each["low"])) for each in said),
        sum(each["byte_count"] for each in said),
    )


@dataclass(frozen=True)
class Stage:
    """Writes the last rows of a task. Pickled to the tasks.

    Attributes:
        last_rows: chooses them.
        files: where the rows are written.
    """

    last_rows: LastRows
    files: StagingFolder

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the receipt of a task; nothing if it has no rows."""
        found = list(batches)
        if found:
            rows = self.last_rows.last_rows(pa.Table.from_batches(found)).combine_chunks()
            yield receipt_of(rows, sums_of(rows), self.files)

    def batch(self, query_id: str, receipts: pa.Table) -> Batch | Staged:
        """Return the batch of what all tasks said: rows on the driver, or in files if a task wrote one."""
        schema, keys, batch_id = self.last_rows.schema, self.last_rows.keys, self.files.batch_id
        found = received(receipts, schema, self.files)
        if not found.paths:
            return Batch(query_id, batch_id, keys, found.rows)
        location = self.files.location
        return Staged(query_id, batch_id, keys, schema, location, found.paths, found.sums, found.byte_count)


@dataclass(frozen=True)
class Staged:
    """The changes of one micro-batch in files, to be applied to a target.

    Attributes:
        query_id: as in `Batch`, like the next two.
        batch_id: see there.
        keys: see there.
        schema: of the rows, as `LastRows` gives them.
        location: of the folder.
        paths: of the files in it.
        sums: of the rows of each task.
        byte_count: of the rows in memory.
        change: as in `Batch`.
    """

    query_id: str
    batch_id: int
    keys: tuple[str, ...]
    schema: pa.Schema
    location: str = field(repr=False)
    paths: tuple[str, ...]
    sums: tuple[Sums, ...]
    byte_count: int
    change: ColumnChange = NO_CHANGE

    @property
    def columns(self) -> pa.Schema:
        """The columns of the table."""
        return columns_of(self.schema)

    def digest(self) -> str:
        """Return the digest of the rows."""
        return digest_of(self.sums)

    def check_keys(self) -> None:
        """Raise RowError if two tasks gave a row of the same key, because their order is unknown."""
        check_keys(self.key_rows, self.batch_id)

    @cached_property
    def key_rows(self) -> pa.Table:
        """The key columns of all rows."""
        none = self.schema.empty_table().select(list(self.keys))
        return pa.concat_tables([none, *(self.keys_in(path) for path in self.paths)])

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read the keys from the files: a plan of Spark Connect may not be large.
        return {name: value for name, value in self.__dict__.items() if name != "key_rows"}

    def rows(self, path: str) -> pa.Table:
        """Return the rows of a file."""
        return self._read(path, None)

    def keys_in(self, path: str) -> pa.Table:
        """Return the key columns of the rows of a file."""
        indices = [self.schema.get_field_index(key) for key in self.keys]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(indices))
        return self._read(path, options).select(list(self.keys))

    def on_driver(self) -> Batch:
        """Return the batch with all rows."""
        rows = pa.concat_tables([self.schema.empty_table(), *(self.rows(path) for path in self.paths)])
        return Batch(self.query_id, self.batch_id, self.keys, rows, self.change)

    def _read(self, path: str, options: Any) -> pa.Table:
        return read_file(self.location, path, options, query_id=self.query_id, batch_id=self.batch_id)


def read_file(location: str, path: str, options: Any, *, query_id: str, batch_id: int) -> pa.Table:
    """Return the rows of a file.

    Args:
        location: of the folder for all queries.
        path: in it.
        options: of pyarrow, about the columns to read; None for all.
        query_id: for the message.
        batch_id: for the message.

    Raises:
        StagedRowsError: the file cannot be read.
    """
    try:
        content = open_files(location).read(path)
    except FileNotFoundError as error:
        raise StagedRowsError(
            f"The file {path} with rows of batch {batch_id} of query {query_id} is not in the "
            "staging folder any more. Another driver of the query has applied this batch or a later one "
            "and has deleted the files, or a program has emptied the folder. This driver wrote nothing "
            "of the batch into the table, and it stops. If another driver runs, let it run alone. "
            "Otherwise start the query again: Spark repeats the batch, and the marker of the table says "
            "if it was applied.",
            query_id=query_id,
            batch_id=batch_id,
        ) from error
    except Exception as error:  # each library of a store has its own
        raise StagedRowsError(
            f"The file {path} with rows of batch {batch_id} of query {query_id} cannot be read "
            f"from the staging folder: {error}. This driver wrote nothing of the batch into the table, "
            "and it stops. See that the folder can be reached and that its credentials are valid. Then "
            "start the query again: Spark repeats the batch.",
            query_id=query_id,
            batch_id=batch_id,
        ) from error
    return _from_ipc(content, options).read_all()


def _as_ipc(rows: pa.Table) -> pa.Buffer:
    with pa.BufferOutputStream() as stream:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(stream, rows.schema, options=options) as writer:
            writer.write_table(rows)
        return stream.getvalue()


def _from_ipc(content: Any, options: Any = None) -> Any:
    return pa.ipc.open_file(pa.BufferReader(content), options=options)
