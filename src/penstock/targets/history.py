"""Tables that keep every change of a changelog: the versions of each row, or the changes themselves.

Runs on the driver, and with `staging` in tasks. Each keeps its rows in another target, whose marker has the
digest of all changes of the batch. Invariants: a log has every change once. The versions of a history depend
on the changes, and not on how Spark divided them into batches, but for the three cases that `_versions.py`
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock.changelog.row_kinds import ROW_KIND
from penstock.errors import OptionError, SchemaError
from penstock.targets._history_rows import Shape, StagedVersions, Versions
from penstock.targets._log_rows import Appended, LogNames, staged_log
from penstock.targets._versions import Names
from penstock.targets.all_rows import AllChanges, AllRows
from penstock.targets.delta import DeltaTable
from penstock.targets.iceberg import IcebergTable
from penstock.targets.sql import SqlTable
from penstock.targets.staged import Runner
from penstock.targets.staged_changes import StagedChanges


@dataclass(frozen=True)
class HistoryTable:
    """A table with the versions of each row, and when they were valid ("slowly changing dimension, type 2").

    Attributes:
        table: keeps the rows: a `DeltaTable`, an `IcebergTable` or an `SqlTable`.
        time: the column of the changelog with the time of a change: a time, a date or an integer. Of several
            changes of a key with one time the last one counts, and the others make no version.
        valid_from: the name of the column with the time at which a version begins.
        valid_to: the name of the column with the time at which it ends; null if it is current.
        is_current: the name of the column that says whether a version is current.
    """

    table: DeltaTable | IcebergTable | SqlTable
    time: str
    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"

    def __str__(self) -> str:
        return f"the history in {self.table}"

    def all_rows(self, columns: pa.Schema, keys: Sequence[str]) -> AllRows:
        """Return how tasks give all rows of a batch."""
        return AllRows(tuple(keys), columns)

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table can hold these columns and those of the versions.

        Raises:
            OptionError: the table is not one that can keep a history.
            SchemaError: a column of the changelog is missing, or has a name or type that is not allowed.
        """
        _check_kept(self.table)
        _check_names(columns, (self.valid_from, self.valid_to, self.is_current))
        if self.time not in columns.names or self.time in keys:
            raise SchemaError(
                f"Expected a column of the changelog that is not a key as `time`, got '{self.time}'. The "
                f"columns are {', '.join(columns.names)}.",
                column=self.time,
            )
        kind = columns.field(self.time).type
        if not (kinds.is_timestamp(kind) or kinds.is_date32(kind) or kinds.is_signed_integer(kind)):
            raise SchemaError(
                f"Expected a time, a date or an integer as `time`, but column '{self.time}' has type {kind}. "
                "Cast it.",
                column=self.time,
            )
        self.table.check(*self._shape(columns, keys))

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has the columns of this history, if it exists.

        Raises:
            MaterializeError: it has other columns.
        """
        self.table.check_existing(*self._shape(columns, keys))

    def apply(self, batch: AllChanges) -> bool:
        """Apply all changes of a batch in one step; return False if they were applied before.

        Raises:
            MaterializeError: as of the table.
            RowError: a change has no time, or a delete has the time of the row that it deletes.
        """
        return self.table.apply_over(Versions(batch, self._in_table(batch.rows.schema, batch.keys)))

    def apply_staged(self, batch: StagedChanges, run: Runner) -> bool:
        """Apply all changes of a batch that are in files, with tasks.

        Tasks find the versions of the keys of the batch, compute those that change, and write the files of
        the table.

        Args:
            batch: the changes.
            run: runs tasks.

        Raises:
            MaterializeError: as of the table.
            RowError: as of `apply`.
        """
        versions = StagedVersions(batch, self._in_table(batch.columns, batch.keys))
        return in_files(self.table).apply_staged_over(versions, run)

    def _in_table(self, columns: pa.Schema, keys: Sequence[str]) -> Shape:
        names = Names(tuple(keys), self.time, self.valid_from, self.valid_to, self.is_current)
        return Shape(names, *self._shape(columns, keys), str(self))

    def _shape(self, columns: pa.Schema, keys: Sequence[str]) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the columns and the primary key of the table."""
        time = columns.field(self.time).type
        extra = [(self.valid_from, time), (self.valid_to, time), (self.is_current, pa.bool_())]
        return pa.schema([*columns, *(pa.field(*each) for each in extra)]), (*keys, self.valid_from)


@dataclass(frozen=True)
class ChangeLogTable:
    """A table to which every change is appended, with its row kind.

    Attributes:
        table: keeps the rows: a `DeltaTable`, an `IcebergTable` or an `SqlTable`.
        batch: the name of the column with the number of the batch.
        number: the name of the column with the number of the change in the batch. The changes of a key are
            in the order of both.
    """

    table: DeltaTable | IcebergTable | SqlTable
    batch: str = "change_batch"
    number: str = "change_number"

    def __str__(self) -> str:
        return f"the log of changes in {self.table}"

    def all_rows(self, columns: pa.Schema, keys: Sequence[str]) -> AllRows:
        """Return how tasks give all rows of a batch."""
        return AllRows(tuple(keys), columns)

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table can hold these columns and those of the log.

        Raises:
            OptionError: the table is not one that can keep a log of changes.
            SchemaError: a column has a name or type that is not allowed.
        """
        _check_kept(self.table)
        _check_names(columns, (ROW_KIND, self.batch, self.number))
        self.table.check(*self._shape(columns))

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has the columns of this log, if it exists.

        Raises:
            MaterializeError: it has other columns.
        """
        self.table.check_existing(*self._shape(columns))

    def apply(self, batch: AllChanges) -> bool:
        """Append all changes of a batch in one step; return False if they were appended before.

        Raises:
            MaterializeError: as of the table.
        """
        names, digest = self._names, batch.digest()
        rows = names.rows(batch)
        return self.table.apply(Appended(batch.query_id, batch.batch_id, names.keys, rows, of_changes=digest))

    def apply_staged(self, batch: StagedChanges, run: Runner) -> bool:
        """Append all changes of a batch that are in files, with tasks that write the files of the table.

        Args:
            batch: the changes.
            run: runs tasks.

        Raises:
            MaterializeError: as of the table.
        """
        return in_files(self.table).apply_staged(staged_log(batch, self._names), run)

    @property
    def _names(self) -> LogNames:
        return LogNames(self.batch, self.number)

    def _shape(self, columns: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the columns and the primary key of the table."""
        return self._names.columns(columns), self._names.keys


def in_files(table: DeltaTable | IcebergTable | SqlTable) -> DeltaTable | IcebergTable:
    """Return a table whose files tasks can write.

    Raises:
        OptionError: they cannot.
    """
    if isinstance(table, SqlTable):
        raise OptionError(
            f"`staging` is not for {table}. Nothing was written. Leave it out.", option="staging"
        )
    return table


def _check_kept(table: Any) -> None:
    if not isinstance(table, DeltaTable | IcebergTable | SqlTable):
        raise OptionError(
            f"Expected a DeltaTable, an IcebergTable or an SqlTable for `table`, got {table}. Nothing was "
            "started. Another target would write all of its rows again for each batch.",
            option="table",
        )


def _check_names(columns: pa.Schema, names: Sequence[str]) -> None:
    known = [name.lower() for name in columns.names]
    if taken := [name for name in names if name.lower() in known]:
        raise SchemaError(
            f"Column '{taken[0]}' of the changelog has the name of a column that the table adds. Rename it, "
            "or give the added one another name.",
            column=taken[0],
        )
    if len({name.lower() for name in names}) < len(names):
        raise OptionError(
            f"Expected different names for the added columns, got {', '.join(names)}.", option="table"
        )
