"""The files of an Iceberg table that a batch in files changes, read and written by tasks.

`staged_changes` and `staged_over` run on the driver, `TaskWork` and `ReadRows` in tasks. Invariant: every
task reads one version of the table, the one that the commit requires.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.targets._iceberg_changes import (
    SMALL_BYTES,
    FileChanges,
    Work,
    keys_of,
    library,
    rows_of,
    touched_files,
)
from penstock.targets._iceberg_nulls import check_nulls
from penstock.targets._keys import Keys
from penstock.targets.batch import DELETED
from penstock.targets.staged import Runner, Staged, StagedOver

_SMALL_TOGETHER_BYTES = 64 << 20


@dataclass(frozen=True)
class Item:
    """What one call does: change some data files, and write the new rows of some files of the batch."""

    files: tuple[Any, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskWork:
    """Changes data files in a task. Pickled to it.

    Attributes:
        metadata_location: of the version of the table.
        io_properties: how its files are opened.
        staged: the batch.
        target: names the table in messages.
    """

    metadata_location: str
    io_properties: Mapping[str, str] = field(repr=False)
    staged: Staged
    target: str

    def __call__(self, item: Item) -> FileChanges:
        """Write the files of an item.

        Raises:
            RowError: pyiceberg would change a null of a row.
        """
        # Without a file of the table the keys are not needed, and they are in all files of the batch.
        work = Work(self._table, self._keys if item.files else None)
        for each in item.files:
            work.change(each)
        for path in item.paths:
            rows = self.staged.rows(path)
            upserted = rows.filter(pc.invert(rows.column(DELETED))).drop_columns([DELETED])
            check_nulls(upserted, self.target)
            work.add(upserted)
        work.write()
        return work.changes

    @cached_property
    def _table(self) -> Any:
        return _static(self.metadata_location, self.io_properties)

    @cached_property
    def _keys(self) -> Keys:
        return keys_of(self._table, self.staged.keys, self.staged.key_rows)


@dataclass(frozen=True)
class ReadRows:
    """Reads rows of a version of the table. Pickled to tasks.

    Attributes:
        metadata_location: of the version of the table.
        io_properties: how its files are opened.
    """

    metadata_location: str
    io_properties: Mapping[str, str] = field(repr=False)

    def __call__(self, item: Item, key_rows: pa.Table) -> pa.Table:
        """Return the rows of the files of an item that have one of some keys."""
        return rows_of(_static(self.metadata_location, self.io_properties), item.files, key_rows)


def _static(metadata_location: str, io_properties: Mapping[str, str]) -> Any:
    """Return a version of a table."""
    return library("table").StaticTable.from_metadata(metadata_location, dict(io_properties))


def staged_over(table: Any, batch: StagedOver, run: Runner) -> Staged:
    """Let tasks compute the changes of rows of a version.

    Args:
        table: of pyiceberg, as it was loaded.
        batch: the changes.
        run: runs tasks.
    """
    names = batch.key_rows.column_names
    files = touched_files(table, keys_of(table, names, batch.key_rows), names)
    read = ReadRows(table.metadata_location, dict(table.io.properties))
    return batch.in_tasks(items_of(files, ()), read, run)


def staged_changes(table: Any, staged: Staged, target: str, run: Runner) -> FileChanges:
    """Let tasks write the files of a batch, and return what a snapshot has to change.

    Args:
        table: of pyiceberg, as it was loaded.
        staged: the batch, with the columns of the table.
        target: names the table in messages.
        run: runs tasks.

    Raises:
        RowError: pyiceberg would change a null of a row.
    """
    keys = keys_of(table, staged.keys, staged.key_rows)
    items = items_of(touched_files(table, keys, staged.keys), staged.paths)
    work = TaskWork(table.metadata_location, dict(table.io.properties), staged, target)
    result = FileChanges()
    for each in run(work, items):
        result.removed.extend(each.removed)
        result.added.extend(each.added)
        result.deletes.extend(each.deletes)
    return result


def items_of(files: Iterable[Any], paths: Sequence[str]) -> list[Item]:
    """Divide the work: a large file alone, small ones together, because they are written again as one."""
    items, small, small_bytes = [Item(paths=(path,)) for path in paths], list[Any](), 0
    for each in files:
        if each.file.file_size_in_bytes >= SMALL_BYTES:
            items.append(Item(files=(each,)))
            continue
        small.append(each)
        small_bytes += each.file.file_size_in_bytes
        if small_bytes > _SMALL_TOGETHER_BYTES:
            items.append(Item(files=tuple(small)))
            small, small_bytes = [], 0
    return [*items, Item(files=tuple(small))] if small else items
