"""Which files of an Iceberg table a batch removes, adds and deletes rows from.

Runs on the driver. A large file stays, and gets a file with the positions of its deleted rows. A small one,
or one with many deleted rows, is written again without them, together with the new rows: so the files of
many small batches become few, and readers skip few rows. Invariant: after the batch only the files with its
new rows have rows of its keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.extras import import_extra
from penstock.state.columns import one_array
from penstock.targets._iceberg_nulls import check_nulls
from penstock.targets._iceberg_rows import deleted_positions, positions_file, positions_of
from penstock.targets._keys import Keys, Positions
from penstock.targets.batch import Batch, python_values

SMALL_BYTES = 8 << 20
"""A smaller data file is written again."""
_DELETED_AT_MOST = 0.5
"""A data file in which more of the rows are deleted is written again."""
_WRITTEN_AT_ONCE_BYTES = 256 << 20
_DICTIONARY = "write.parquet.dict-size-bytes"
"""A property of Iceberg's tables: a column whose dictionary becomes larger is written without one."""
_DICTIONARY_AT_MOST_BYTES = 2 << 20
"""As pyiceberg does for a table without the property."""
_DICTIONARY_SHARE = 32
"""A larger part of all values is not a dictionary that is worth its time."""
_WITH_DELETES = 2
"""The version of Iceberg's format from which on a table has position deletes."""


@dataclass(frozen=True)
class FileChanges:
    """The files that the snapshot of a batch changes; see `_iceberg_deletes.Replaced`."""

    removed: list[Any] = field(default_factory=list)
    added: list[Any] = field(default_factory=list)
    deletes: list[Any] = field(default_factory=list)

    def commit(self, transaction: Any, properties: Mapping[str, str]) -> None:
        """Add the snapshot to a transaction.

        Args:
            transaction: of pyiceberg.
            properties: of the snapshot.
        """
        from penstock.targets._iceberg_deletes import Replaced  # noqa: PLC0415 - imports pyiceberg

        found = {"removed": self.removed, "added": self.added, "deletes": self.deletes}
        Replaced(transaction, properties, **found).commit()


def library(module: str) -> Any:
    """Return a module of the package `pyiceberg`.

    Raises:
        MissingExtraError: it is not installed.
    """
    return import_extra("iceberg", f"pyiceberg.{module}", "An Iceberg table", option="target")


def changes_of(table: Any, batch: Batch, target: str) -> FileChanges:
    """Write the files of a batch, and return what a snapshot has to change.

    Args:
        table: of pyiceberg, as it was loaded.
        batch: with the columns of the table.
        target: names the table in messages.

    Raises:
        RowError: pyiceberg would change a null of a row.
    """
    # No file has to be searched for a row that is only appended.
    rows = batch.rows.slice(0, 0) if batch.is_append else batch.rows
    work = Work(table, keys_of(table, batch.keys, rows))
    upserted = batch.upserted()
    check_nulls(upserted, target)
    for task in touched_files(table, work.keys, batch.keys):
        work.change(task)
    work.add(upserted)
    work.write()
    return work.changes


def keys_of(table: Any, names: Sequence[str], rows: pa.Table) -> Keys:
    """Return the keys of rows as the table has them."""
    found, schema = table.schema(), table.schema().as_arrow()
    stored = pa.schema([schema.field(name) for name in names])
    return Keys(as_stored(rows, stored), [found.find_field(name).field_id for name in names])


def touched_files(table: Any, keys: Keys, names: Sequence[str]) -> list[Any]:
    """Return a task of pyiceberg for each data file that may have rows with the keys."""
    if not keys.rows.num_rows:
        return []
    return list(table.scan(row_filter=_range_of(keys, names)).plan_files())


def as_stored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the order of columns and the types of the table."""
    return rows.select(schema.names).cast(schema)


def rows_with(table: Any, key_rows: pa.Table) -> pa.Table:
    """Return the rows of a table that have one of some keys.

    Args:
        table: of pyiceberg, as it was loaded.
        key_rows: the keys, in some columns of the table.
    """
    names = key_rows.column_names
    return rows_of(table, touched_files(table, keys_of(table, names, key_rows), names), key_rows)


def rows_of(table: Any, tasks: Iterable[Any], key_rows: pa.Table) -> pa.Table:
    """Return the rows of some files of a table that have one of some keys.

    Args:
        table: of pyiceberg, as it was loaded.
        tasks: of pyiceberg, one for each file.
        key_rows: the keys, in some columns of the table.
    """
    names = key_rows.column_names
    keys, parts = keys_of(table, names, key_rows), [table.schema().as_arrow().empty_table()]
    for task in tasks:
        rows = _read(table, task)
        parts.append(rows.take(pa.array(keys.found_in(rows.select(names)))))
    return pa.concat_tables(parts)


def _read(table: Any, task: Any) -> pa.Table:
    """Return the rows of the data file of a task, without those that are deleted."""
    scan = library("io.pyarrow").ArrowScan(
        table.metadata, table.io, table.schema(), library("expressions").AlwaysTrue()
    )
    return as_stored(scan.to_table([task]), table.schema().as_arrow())


def _range_of(keys: Keys, names: Sequence[str]) -> Any:
    """Return a condition that is true for all keys of the batch, so that other files need not be opened."""
    found = library("expressions")
    conditions = [found.AlwaysTrue()]
    for name, column in zip(names, keys.rows.columns, strict=True):
        if not kinds.is_boolean(column.type):
            ends = pc.min_max(one_array(column))
            smallest, largest = (python_values(pa.array([ends[end]]), name)[0] for end in ("min", "max"))
            conditions += [found.GreaterThanOrEqual(name, smallest), found.LessThanOrEqual(name, largest)]
    return reduce(found.And, conditions)


def _with_dictionaries_for(rows: pa.Table, metadata: Any) -> Any:
    """Return the metadata of a table, by which pyiceberg gives up a large dictionary of a column.

    A column of values that all differ has no use of a dictionary, and half of the time that it takes to write
    it went into one. Text of few values keeps its dictionary. What the table says itself counts.
    """
    limit_bytes = min(_DICTIONARY_AT_MOST_BYTES, rows.nbytes // _DICTIONARY_SHARE)
    properties = {_DICTIONARY: str(limit_bytes), **metadata.properties}
    return metadata.model_copy(update={"properties": properties})


class Work:
    """What becomes of the files of a table.

    Args:
        table: of pyiceberg.
        keys: of the batch; None if no file is changed.
    """

    def __init__(self, table: Any, keys: Keys | None) -> None:
        self.keys = keys or Keys(pa.table({}))
        self.changes = FileChanges()
        self._schema: pa.Schema = table.schema().as_arrow()
        self._table = table
        self._rows: list[pa.Table] = []

    def change(self, task: Any) -> None:
        """Delete the rows of the keys from the data file of a task."""
        found = self._positions(task)
        if found is None:
            self._write_again(task)
            return
        before = self._deleted(task)
        deleted = np.union1d(before, found)
        if len(deleted) == len(before):
            return
        is_small = task.file.file_size_in_bytes < SMALL_BYTES
        if is_small or len(deleted) > _DELETED_AT_MOST * task.file.record_count or not self._has_deletes():
            self._write_again(task)
        else:
            self._delete(task.file, deleted)

    def add(self, rows: pa.Table) -> None:
        """Write rows into the table, now or with the next ones."""
        if rows.num_rows:
            self._rows.append(as_stored(rows, self._schema))
        if sum(each.nbytes for each in self._rows) > _WRITTEN_AT_ONCE_BYTES:
            self.write()

    def write(self) -> None:
        """Write the rows that were added."""
        if self._rows:
            write = library("io.pyarrow")._dataframe_to_data_files  # noqa: SLF001 - the version is bounded
            rows = pa.concat_tables(self._rows)
            metadata = _with_dictionaries_for(rows, self._table.metadata)
            self.changes.added.extend(write(table_metadata=metadata, df=rows, io=self._table.io))
            self._rows.clear()

    def _has_deletes(self) -> bool:
        return int(self._table.metadata.format_version) == _WITH_DELETES

    def _positions(self, task: Any) -> Positions | None:
        """Return the positions of the keys; None if only pyiceberg can read the file."""
        parquet = library("manifest").FileFormat.PARQUET
        if any(each.file_format != parquet for each in (task.file, *task.delete_files)):
            return None
        with self._table.io.new_input(task.file.file_path).open() as source:
            return positions_of(source, self.keys)

    def _deleted(self, task: Any) -> Positions:
        """Return the positions that are deleted already, in order."""
        found = [np.zeros(0, np.int64)]
        for each in task.delete_files:
            with self._table.io.new_input(each.file_path).open() as source:
                found.append(deleted_positions(source, task.file.file_path))
        return np.unique(np.concatenate(found))

    def _write_again(self, task: Any) -> None:
        rows = _read(self._table, task)
        stays = np.ones(rows.num_rows, bool)
        stays[self.keys.found_in(rows.select(self.keys.rows.column_names))] = False
        if not stays.all():
            self.changes.removed.append(task.file)
            self.add(rows.filter(pa.array(stays)))

    def _delete(self, data_file: Any, positions: Positions) -> None:
        from penstock.targets._iceberg_deletes import position_deletes  # noqa: PLC0415 - imports pyiceberg

        path = self._table.location_provider().new_data_location(f"{uuid.uuid4()}-deletes.parquet")
        content = positions_file(data_file.file_path, positions)
        with self._table.io.new_output(path).create() as target:
            target.write(content)
        self.changes.deletes.append(position_deletes(data_file, path, content.size, len(positions)))
