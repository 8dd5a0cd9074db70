"""A batch of all changes that executors have written into a folder: they are too many for the driver.

`StageChanges` runs on executors, `StagedChanges` on the driver and on executors. Invariants: the digest is
the one that the same changes have as `AllChanges`, so a batch may be applied in one way and repeated in the
other; the changes of a task are in one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.targets.all_rows import TASK, AllChanges, AllRows
from penstock.targets.batch import Sums, check_keys, digest_of
from penstock.targets.staged import StagingFolder, read_file, receipt_of, received


@dataclass(frozen=True)
class StageChanges:
    """Writes all rows of a task. Pickled to the tasks.

    Attributes:
        all_rows: numbers them.
        files: where the rows are written.
    """

    all_rows: AllRows
    files: StagingFolder

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the receipt of a task; nothing if it has no rows."""
        rows = pa.Table.from_batches(self.all_rows.run(batches), self.all_rows.schema).combine_chunks()
        if rows.num_rows:
            sums = AllChanges("", self.files.batch_id, self.all_rows.keys, rows).sums()
            yield receipt_of(rows, sums, self.files)

    def batch(self, query_id: str, receipts: pa.Table) -> AllChanges | StagedChanges:
        """Return the batch of what all tasks said: rows on the driver, or in files if a task wrote one."""
        schema, keys, batch_id = self.all_rows.schema, self.all_rows.keys, self.files.batch_id
        found = received(receipts, schema, self.files)
        if not found.paths:
            return AllChanges(query_id, batch_id, keys, found.rows)
        return StagedChanges(
            query_id,
            batch_id,
            keys,
            self.all_rows.columns,
            schema,
            self.files,
            found.paths,
            found.counts,
            found.sums,
            found.byte_count,
        )


@dataclass(frozen=True)
class StagedChanges:
    """All changes of one micro-batch, in files.

    Attributes:
        query_id: of the streaming query.
        batch_id: Spark's number of the batch.
        keys: the primary key of the changelog.
        columns: of the changelog, without `row_kind`.
        schema: of the rows, as `AllRows` gives them.
        files: where the files are.
        paths: of the files.
        counts: of the rows in each file.
        sums: of the rows of each task.
        byte_count: of the rows in memory.
    """

    query_id: str
    batch_id: int
    keys: tuple[str, ...]
    columns: pa.Schema
    schema: pa.Schema
    files: StagingFolder = field(repr=False)
    paths: tuple[str, ...]
    counts: tuple[int, ...]
    sums: tuple[Sums, ...]
    byte_count: int

    def digest(self) -> str:
        """Return the digest of the changes and of their order."""
        return digest_of(self.sums)

    def check_keys(self) -> None:
        """Raise RowError if two tasks gave a row of the same key, because their order is unknown."""
        check_keys(self._keys_of_tasks.select(range(len(self.keys))), self.batch_id)

    @cached_property
    def key_rows(self) -> pa.Table:
        """The keys of all changes, each once."""
        return self._without_tasks(self._keys_of_tasks)

    def keys_of(self, paths: Sequence[str]) -> pa.Table:
        """Return the keys of the changes of some files, each once."""
        return self._without_tasks(pa.concat_tables([self._keys_in(path) for path in paths]))

    def _without_tasks(self, keys: pa.Table) -> pa.Table:
        names = keys.column_names[: len(self.keys)]
        return keys.group_by(names).aggregate([]).select(names).rename_columns(list(self.keys))

    def changes(self, paths: Sequence[str]) -> AllChanges:
        """Return the changes of some files."""
        rows = [self._read(path, None) for path in paths]
        return AllChanges(self.query_id, self.batch_id, self.keys, pa.concat_tables(rows))

    def _keys_in(self, path: str) -> pa.Table:
        """Return the keys of the changes of a file, each once for each task."""
        names = [*self.keys, TASK]
        indices = sorted(self.schema.get_field_index(name) for name in names)
        rows = self._read(path, pa.ipc.IpcReadOptions(included_fields=indices)).select(names)
        names = [*(f"key {number}" for number in range(len(self.keys))), TASK]  # a key may have any name
        return rows.rename_columns(names).group_by(names).aggregate([]).select(names)

    @cached_property
    def _keys_of_tasks(self) -> pa.Table:
        return pa.concat_tables([self._keys_in(path) for path in self.paths])

    def __getstate__(self) -> dict[str, Any]:
        # Tasks read the keys from the files: a plan of Spark Connect may not be large.
        read = ("key_rows", "_keys_of_tasks")
        return {name: value for name, value in self.__dict__.items() if name not in read}

    def _read(self, path: str, options: Any) -> pa.Table:
        location = self.files.location
        return read_file(location, path, options, query_id=self.query_id, batch_id=self.batch_id)
