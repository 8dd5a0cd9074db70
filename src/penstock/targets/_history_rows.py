"""The versions of a history that a batch changes: on the driver, or in files that tasks read and write.

Runs on the driver and in tasks. Tasks first read the rows of the table that have a key of the batch. Then a
task for each group of files of the batch computes the versions of its keys. Invariants: no key is in two
groups, because all of its changes are in one file; a group gets every version of its keys from the version of
the table that the commit follows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from penstock.options.warn import warn_once
from penstock.targets._keys import Keys
from penstock.targets._versions import Found, Names, changed_versions
from penstock.targets.all_rows import AllChanges
from penstock.targets.batch import DELETED, Batch
from penstock.targets.change import NO_CHANGE, ColumnChange
from penstock.targets.staged import ReadsRows, Runner, Staged, read_file
from penstock.targets.staged_changes import StagedChanges

_log = logging.getLogger(__name__)
_Changes = TypeVar("_Changes", AllChanges, StagedChanges)
_GROUPS = 16
_GROUP_BYTES = 64 << 20
"""Files of a batch become more groups than `_GROUPS` if a group would have more bytes of changes."""


@dataclass(frozen=True)
class Shape:
    """The table of a history.

    Attributes:
        names: of its columns.
        columns: all of them.
        keys: the primary key.
        target: names the history in messages.
    """

    names: Names
    columns: pa.Schema
    keys: tuple[str, ...]
    target: str

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows of a batch."""
        return self.columns.append(pa.field(DELETED, pa.bool_(), nullable=False))

    def found(self, rows: pa.Table, changes: AllChanges) -> Found:
        """Return the versions that are new or have another end.

        Args:
            rows: all rows of the table with the keys of the changes.
            changes: of a batch, or a part of them.

        Raises:
            RowError: a change has no time, or a delete has the time of the row that it deletes.
        """
        before = rows.select(self.columns.names).cast(self.columns)
        found = changed_versions(before, changes.rows, changes.kinds, self.names)
        return Found(found.versions.select(self.schema.names).cast(self.schema), found.forgotten)

    def warn(self, forgotten: int) -> None:
        """Warn of deletes that end no version."""
        if forgotten:
            warn_once(
                _log,
                f"A delete ends no version in {self.target}: no version of its key is valid at its time. The "
                "table keeps nothing of such a delete. If an older row of the key comes in a later batch, "
                "its version stays current. Read the topic from its beginning, and name a column as `time` "
                f"that rises with the changes of a key; now it is '{self.names.time}'. This is logged once, "
                "also if more such deletes follow.",
            )


@dataclass(frozen=True)
class _Changed(Generic[_Changes]):
    """What a batch is for a table, in both ways."""

    changes: _Changes
    shape: Shape

    @property
    def query_id(self) -> str:
        return self.changes.query_id

    @property
    def batch_id(self) -> int:
        return self.changes.batch_id

    @property
    def keys(self) -> tuple[str, ...]:
        return self.shape.keys

    @property
    def columns(self) -> pa.Schema:
        return self.shape.columns

    @property
    def change(self) -> ColumnChange:
        return NO_CHANGE

    def digest(self) -> str:
        return self.changes.digest()


class Versions(_Changed[AllChanges]):
    """The changes of a batch, which become versions over those that the table has."""

    @property
    def key_rows(self) -> pa.Table:
        keys = list(self.shape.names.keys)
        return self.changes.rows.select(keys).group_by(keys).aggregate([]).select(keys)

    def over(self, rows: pa.Table) -> Batch:
        found = self.shape.found(rows, self.changes)
        self.shape.warn(found.forgotten)
        return Batch(self.query_id, self.batch_id, self.keys, found.versions)


class StagedVersions(_Changed[StagedChanges]):
    """The changes of a batch in files, which become versions over those that the table has."""

    @property
    def key_rows(self) -> pa.Table:
        return self.changes.key_rows

    @property
    def byte_count(self) -> int:
        return self.changes.byte_count

    def on_driver(self) -> Versions:
        return Versions(self.changes.changes(self.changes.paths), self.shape)

    def in_tasks(self, items: Sequence[Any], read: ReadsRows, run: Runner) -> Staged:
        groups = _groups_of(self.changes)
        found: list[dict[int, str]] = run(_Search(read, self.changes, groups), items)
        work = [
            _Group(paths, tuple(each[number] for each in found if number in each))
            for number, paths in enumerate(groups)
        ]
        computed: list[_Computed] = run(_Compute(self.changes, self.shape), work)
        self.shape.warn(sum(each.forgotten for each in computed))
        return Staged(
            self.query_id,
            self.batch_id,
            self.keys,
            self.shape.schema,
            self.changes.files.location,
            tuple(each.path for each in computed if each.path is not None),
            self.changes.sums,
            sum(each.byte_count for each in computed),
        )


class _Group(NamedTuple):
    """Files with changes of some keys, and files with the rows of the table that have these keys."""

    paths: tuple[str, ...]
    before: tuple[str, ...]


class _Computed(NamedTuple):
    """The file with the changed versions of a group, if there are any."""

    path: str | None
    byte_count: int
    forgotten: int


def _groups_of(changes: StagedChanges) -> list[tuple[str, ...]]:
    """Divide the files of a batch."""
    paths = changes.paths
    count = min(len(paths), max(_GROUPS, changes.byte_count // _GROUP_BYTES))
    return [paths[number::count] for number in range(count)]


@dataclass(frozen=True)
class _Search:
    """Finds rows of the table in a task. Pickled to it."""

    read: ReadsRows
    changes: StagedChanges
    groups: list[tuple[str, ...]]

    def __call__(self, item: Any) -> dict[int, str]:
        """Write the rows of an item that have a key of the batch. Return the file of each group."""
        rows, found = self.read(item, pa.concat_tables(self._keys)), dict[int, str]()
        names = list(self.changes.keys)
        stored = pa.schema([rows.schema.field(name) for name in names])
        for number, keys in enumerate(self._keys):
            indices = Keys(keys.cast(stored)).found_in(rows.select(names))
            if indices.size:
                found[number] = self.changes.files.write(rows.take(pa.array(indices)))
        return found

    @cached_property
    def _keys(self) -> list[pa.Table]:
        return [self.changes.keys_of(paths) for paths in self.groups]


@dataclass(frozen=True)
class _Compute:
    """Computes the versions of the keys of a group in a task. Pickled to it."""

    changes: StagedChanges
    shape: Shape

    def __call__(self, group: _Group) -> _Computed:
        rows = [self.shape.columns.empty_table(), *(self._rows(path) for path in group.before)]
        found = self.shape.found(pa.concat_tables(rows), self.changes.changes(group.paths))
        versions = found.versions.combine_chunks()
        path = self.changes.files.write(versions) if versions.num_rows else None
        return _Computed(path, versions.nbytes, found.forgotten)

    def _rows(self, path: str) -> pa.Table:
        changes = self.changes
        rows = read_file(
            changes.files.location, path, None, query_id=changes.query_id, batch_id=changes.batch_id
        )
        return rows.select(self.shape.columns.names).cast(self.shape.columns)
