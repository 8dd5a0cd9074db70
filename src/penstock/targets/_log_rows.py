"""The rows of a table of all changes: on the driver, or in files that tasks read.

Runs on the driver and in tasks. Invariant: each row has another pair of batch and number, and the changes of
a key have numbers in their order. So no row of the table has the key of a new one, and rows are only
appended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.changelog.row_kinds import ROW_KIND, kind_column
from penstock.targets.all_rows import AllChanges
from penstock.targets.batch import DELETED, Batch
from penstock.targets.staged import Staged
from penstock.targets.staged_changes import StagedChanges


@dataclass(frozen=True)
class LogNames:
    """The columns that a log adds to those of the changelog, in their order behind `row_kind`.

    Attributes:
        batch: has the number of the batch.
        number: has the number of the change in its batch.
    """

    batch: str
    number: str

    @property
    def keys(self) -> tuple[str, str]:
        """The primary key of the table."""
        return self.batch, self.number

    def columns(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns of the table."""
        extra = [(ROW_KIND, pa.string()), (self.batch, pa.int64()), (self.number, pa.int64())]
        return pa.schema([*columns, *(pa.field(*each) for each in extra)])

    def schema(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns of the rows of a batch."""
        return self.columns(columns).append(pa.field(DELETED, pa.bool_(), nullable=False))

    def rows(self, changes: AllChanges, first: int = 0) -> pa.Table:
        """Return the rows of changes.

        Args:
            changes: all of a batch, or a part of them.
            first: the number of the first one in its batch.
        """
        count = changes.rows.num_rows
        extra: list[Any] = [
            kind_column(changes.kinds),
            pa.array(np.full(count, changes.batch_id, np.int64)),
            pa.array(np.arange(first, first + count, dtype=np.int64)),
            pa.array(np.zeros(count, bool)),
        ]
        schema = self.schema(changes.rows.schema)
        return pa.Table.from_arrays([*changes.rows.columns, *extra], names=schema.names).cast(schema)


@dataclass(frozen=True)
class Appended(Batch):
    """Rows of a log, with the digest of the changes: a repeated batch may have other numbers."""

    of_changes: str = field(kw_only=True)

    @property
    def is_append(self) -> bool:
        return True

    def digest(self) -> str:
        return self.of_changes


@dataclass(frozen=True)
class StagedLog(Staged):
    """Rows of a log, made of files with changes when they are read.

    Attributes:
        changes: of the batch.
        names: of the columns.
    """

    changes: StagedChanges = field(kw_only=True)
    names: LogNames = field(kw_only=True)

    @cached_property
    def key_rows(self) -> pa.Table:
        """No rows: none of the table has a key of the batch, so none has to be searched for."""
        return self.columns.empty_table().select(list(self.keys))

    def rows(self, path: str) -> pa.Table:
        return self.names.rows(self.changes.changes([path]), self._firsts[path])

    def on_driver(self) -> Batch:
        rows = pa.concat_tables([self.rows(path) for path in self.paths])
        return Appended(self.query_id, self.batch_id, self.keys, rows, of_changes=self.digest())

    @property
    def _firsts(self) -> dict[str, int]:
        """The number of the first change of each file."""
        return dict(zip(self.paths, accumulate(self.changes.counts, initial=0), strict=False))


def staged_log(changes: StagedChanges, names: LogNames) -> StagedLog:
    """Return the rows of the log for the changes of a batch."""
    return StagedLog(
        changes.query_id,
        changes.batch_id,
        names.keys,
        names.schema(changes.columns),
        changes.files.location,
        changes.paths,
        changes.sums,
        changes.byte_count,
        changes=changes,
        names=names,
    )
