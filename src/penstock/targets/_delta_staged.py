"""The files of a Delta table that a batch in files changes, read and written by tasks.

`staged_actions` runs on the driver, `TaskWork` in tasks. Invariants: after the batch only the files with its
new rows have rows of its keys. The files that the commit removes are those of the version that was read, and
the commit fails if that is not the newest one, because deltalake takes a removal of any path.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
import pyarrow.types as kinds

from penstock.errors import MaterializeError
from penstock.extras import import_extra
from penstock.targets._delta_files import check_features, check_not_null, statistics_of
from penstock.targets._keys import Keys, positions_in
from penstock.targets.batch import DELETED
from penstock.targets.staged import Runner, Staged, StagedOver

DRIVER_BYTES = 128 << 20
"""With fewer bytes of rows and of files to write again the driver is quicker than tasks."""
_SMALL_BYTES = 8 << 20
_SMALL_TOGETHER_BYTES = 64 << 20


class DataFile(NamedTuple):
    """A data file of a version of the table."""

    path: str
    size_bytes: int


class Added(NamedTuple):
    """A data file that a task has written."""

    path: str
    size_bytes: int
    statistics: str


@dataclass(frozen=True)
class Item:
    """What one call does: write some data files again, and write the new rows of some files of the batch."""

    files: tuple[DataFile, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """What one call has done."""

    removed: tuple[DataFile, ...]
    added: tuple[Added, ...]


@dataclass(frozen=True)
class TaskWork:
    """Writes data files in a task. Pickled to it.

    Attributes:
        uri: of the table.
        storage_options: of the package `deltalake`.
        schema: of the table.
        staged: the batch.
    """

    uri: str = field(repr=False)
    storage_options: Mapping[str, str] | None = field(repr=False)
    schema: pa.Schema
    staged: Staged

    def __call__(self, item: Item) -> Written:
        """Write the files of an item. Files without a key of the batch stay."""
        removed, parts = [], list[pa.Table]()
        for each in item.files:
            rows = self._kept(each.path)
            if rows is not None:
                removed.append(each)
                parts.append(rows)
        for path in item.paths:
            rows = self.staged.rows(path)
            upserted = rows.filter(pc.invert(rows.column(DELETED))).drop_columns([DELETED])
            check_not_null(upserted, self.schema)
            parts.append(upserted.select(self.schema.names).cast(self.schema))
        found = [each for each in parts if each.num_rows]
        return Written(tuple(removed), (self._write(found),) if found else ())

    def _kept(self, path: str) -> pa.Table | None:
        """Return the rows of a data file that the batch leaves; None if it leaves all."""
        rows, is_found = _rows_of(self._handler, path, self._keys, self.schema)
        return rows.filter(pa.array(~is_found)) if is_found.any() else None

    def _write(self, parts: Sequence[pa.Table]) -> Added:
        # A file that is older than a column does not have it, and its rows have null there.
        rows = pa.concat_tables(parts, promote_options="default")
        rows = rows.select([name for name in self.schema.names if name in rows.column_names])
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="snappy")
        content = sink.getvalue().to_pybytes()
        path = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        # The stream that deltalake gives to pyarrow takes no buffers of pyarrow.
        stream = self._handler._handler.open_output_stream(path)  # noqa: SLF001 - the version is bounded
        stream.write(content)
        stream.close()
        return Added(path, len(content), statistics_of(rows))

    @cached_property
    def _handler(self) -> Any:
        return _storage_of(self.uri, self.storage_options)

    @cached_property
    def _keys(self) -> Keys:
        return _keys_of(self.staged, self.schema)


def _storage_of(uri: str, storage_options: Mapping[str, str] | None) -> Any:
    """Return the files of a table, as deltalake opens them."""
    library = import_extra("delta", "deltalake.fs", "A Delta table", option="target")
    return library.DeltaStorageHandler(uri, None if storage_options is None else dict(storage_options))


def _rows_of(
    storage: Any, path: str, keys: Keys, schema: pa.Schema
) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
    """Return the rows of a data file, and which of them have one of the keys; no rows if none has one."""
    with pa.fs.PyFileSystem(storage).open_input_file(path) as source:
        # Spark may write times in 96 bits when it compacts the table.
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        positions = positions_in(file, keys.rows.column_names, keys)
        if not positions.size:
            return schema.empty_table(), np.zeros(0, bool)
        rows = file.read()
    names = [name for name in schema.names if name in rows.column_names]
    is_found = np.zeros(rows.num_rows, bool)
    is_found[positions] = True
    return rows.select(names).cast(pa.schema([schema.field(name) for name in names])), is_found


@dataclass(frozen=True)
class ReadRows:
    """Reads rows of a version of the table. Pickled to tasks.

    Attributes:
        uri: of the table.
        storage_options: of the package `deltalake`.
        schema: of the table.
    """

    uri: str = field(repr=False)
    storage_options: Mapping[str, str] | None = field(repr=False)
    schema: pa.Schema

    def __call__(self, item: Item, key_rows: pa.Table) -> pa.Table:
        """Return the rows of the files of an item that have one of some keys."""
        keys = _keys_in(self.schema, key_rows)
        storage, parts = _storage_of(self.uri, self.storage_options), [self.schema.empty_table()]
        for each in item.files:
            rows, is_found = _rows_of(storage, each.path, keys, self.schema)
            parts.append(rows.filter(pa.array(is_found)))
        return pa.concat_tables(parts, promote_options="default")


def rows_with(
    table: Any, key_rows: pa.Table, target: str, storage_options: Mapping[str, str] | None
) -> pa.Table:
    """Return the rows of a version that have one of some keys.

    Args:
        table: of deltalake, as it was loaded.
        key_rows: the keys, in some columns of the table.
        target: names the table in messages.
        storage_options: of the package `deltalake`.

    Raises:
        MaterializeError: the table has a feature that own files cannot serve.
    """
    check_features(table, target)
    schema = pa.schema(pa.schema(table.schema().to_arrow()))
    files = touched_files(table, _keys_in(schema, key_rows), target)
    return ReadRows(table.table_uri, storage_options, schema)(Item(files=tuple(files)), key_rows)


def staged_over(
    table: Any, batch: StagedOver, target: str, run: Runner, storage_options: Mapping[str, str] | None
) -> Staged | None:
    """Let tasks compute the changes of rows of a version.

    Args:
        table: of deltalake, as it was loaded.
        batch: the changes.
        target: names the table in messages.
        run: runs tasks.
        storage_options: of the package `deltalake`.

    Returns:
        None if the driver is quicker.

    Raises:
        MaterializeError: the table has a feature that own files cannot serve.
    """
    check_features(table, target)
    schema = pa.schema(pa.schema(table.schema().to_arrow()))
    files = list(touched_files(table, _keys_in(schema, batch.key_rows), target))
    if batch.byte_count + sum(each.size_bytes for each in files) < DRIVER_BYTES:
        return None
    read = ReadRows(table.table_uri, storage_options, schema)
    return batch.in_tasks(items_of(files, ()), read, run)


def staged_actions(
    table: Any, staged: Staged, target: str, run: Runner, storage_options: Mapping[str, str] | None
) -> list[Any] | None:
    """Let tasks write the files of a batch, and return the actions of the commit.

    Args:
        table: of deltalake, as it was loaded.
        staged: the batch, whose columns the table has.
        target: names the table in messages.
        run: runs tasks.
        storage_options: of the package `deltalake`.

    Returns:
        None if the driver has to apply the batch: it is quicker, or the table has more columns, of which an
        updated row keeps its values.

    Raises:
        MaterializeError: the table has a feature that files of tasks cannot serve.
    """
    check_features(table, target)
    schema = pa.schema(pa.schema(table.schema().to_arrow()))
    files = list(touched_files(table, _keys_of(staged, schema), target))
    if set(schema.names) != set(staged.columns.names):
        return None
    if staged.byte_count + sum(each.size_bytes for each in files) < DRIVER_BYTES:
        return None
    work = TaskWork(table.table_uri, storage_options, schema, staged)
    return _actions_of(run(work, items_of(files, staged.paths)))


def _actions_of(found: Iterable[Written]) -> list[Any]:
    library = import_extra("delta", "deltalake.transaction", "A Delta table", option="target")
    now = int(time.time() * 1000)
    actions = []
    for each in found:
        for one in each.removed:
            removed = library.RemoveAction(one.path, True, now, size=one.size_bytes, partition_values={})
            actions.append(removed)
        actions += [
            library.AddAction(new.path, new.size_bytes, {}, now, True, new.statistics) for new in each.added
        ]
    return actions


def _keys_of(staged: Staged, schema: pa.Schema) -> Keys:
    """Return the keys of a batch in the types of the table."""
    return _keys_in(schema, staged.key_rows)


def _keys_in(schema: pa.Schema, key_rows: pa.Table) -> Keys:
    return Keys(key_rows.cast(pa.schema([schema.field(name) for name in key_rows.column_names])))


def touched_files(table: Any, keys: Keys, target: str) -> Iterable[DataFile]:
    """Yield the data files of a version that may have rows with the keys, by the statistics of the log.

    Only integers and texts are compared: the log may have times, decimals and other numbers that are rounded.
    """
    if not keys.rows.num_rows:
        return
    found = pa.table(table.get_add_actions(flatten=False))
    paths, sizes = (found.column(name).to_pylist() for name in ("path", "size_bytes"))
    ends = [_ends_of(found, name, len(paths)) for name in keys.rows.column_names]
    for index, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        if "://" in path or path.startswith("/") or "%" in path:
            raise MaterializeError(
                f"{target} has the data file {path!r}, whose path executors cannot read. Nothing of the "
                "batch was written. Leave out `staging`.",
                path=path,
            )
        if all(keys.may_be_between(*of_column[index], at) for at, of_column in enumerate(ends)):
            yield DataFile(path, size)


def _ends_of(actions: pa.Table, name: str, count: int) -> list[tuple[Any, Any]]:
    """Return the smallest and the largest value of a column in each file; None for those that are unknown."""
    ends = []
    for end in ("min", "max"):
        values = actions.column(end).combine_chunks() if end in actions.column_names else None
        is_known = values is not None and values.type.get_field_index(name) >= 0
        kind = values.type.field(name).type if values is not None and is_known else None
        if values is None or kind is None or not _is_exact(kind):
            return [(None, None)] * count
        ends.append(pc.struct_field(values, name).to_pylist())
    return list(zip(*ends, strict=True))


def _is_exact(kind: pa.DataType) -> bool:
    return any(one(kind) for one in (kinds.is_integer, kinds.is_string, kinds.is_large_string))


def items_of(files: Iterable[DataFile], paths: Sequence[str]) -> list[Item]:
    """Divide the work: a large file alone, small ones together, because they become one."""
    items, small, small_bytes = [Item(paths=(path,)) for path in paths], list[DataFile](), 0
    for each in files:
        if each.size_bytes >= _SMALL_BYTES:
            items.append(Item(files=(each,)))
            continue
        small.append(each)
        small_bytes += each.size_bytes
        if small_bytes > _SMALL_TOGETHER_BYTES:
            items.append(Item(files=tuple(small)))
            small, small_bytes = [], 0
    return [*items, Item(files=tuple(small))] if small else items
