"""Tables that keep every change of a changelog: the versions of each row, or the changes themselves.

Runs on the driver. Each keeps its rows in another target, whose marker has the digest of all changes of the
batch. Invariants: a log has every change once. The versions of a history depend on the changes, and not on
how Spark divided them into batches, but for the three cases that `_versions.py` names.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from penstock.changelog.row_kinds import ROW_KIND, kind_column
from penstock.errors import OptionError, SchemaError
from penstock.options.warn import warn_once
from penstock.targets._versions import Names, changed_versions
from penstock.targets.all_rows import AllChanges, AllRows
from penstock.targets.batch import DELETED, Batch
from penstock.targets.change import NO_CHANGE, ColumnChange
from penstock.targets.delta import DeltaTable
from penstock.targets.iceberg import IcebergTable
from penstock.targets.sql import SqlTable

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HistoryTable:
    """A table with the versions of each row, and when they were valid ("slowly changing dimension, type 2").

    Attributes:
        table: keeps the rows: a `DeltaTable`, an `IcebergTable` or an `SqlTable`.
        time: the column of the changelog with the time of a change: a time, a date or an integer. It has to
            differ between the changes of a key.
        valid_from: the name of the column with the time at which a version begins.
        valid_to: of the column with the time at which it ends; null if it is current.
        is_current: of the column that says whether it is.
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
            SchemaError: a column of the changelog is missing or has a name or type that does not serve.
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
            MaterializeError: it has others.
        """
        self.table.check_existing(*self._shape(columns, keys))

    def apply(self, batch: AllChanges) -> bool:
        """Apply all changes of a batch in one step; return False if they were applied before.

        Raises:
            MaterializeError: as of the table.
            RowError: a change has no time, or a delete has the time of the row that it deletes.
        """
        names = Names(batch.keys, self.time, self.valid_from, self.valid_to, self.is_current)
        columns, keys = self._shape(batch.rows.schema, batch.keys)
        return self.table.apply_over(_Versions(batch, names, columns, keys, str(self)))

    def _shape(self, columns: pa.Schema, keys: Sequence[str]) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the columns and the primary key of the table."""
        time = columns.field(self.time).type
        extra = [(self.valid_from, time), (self.valid_to, time), (self.is_current, pa.bool_())]
        return pa.schema([*columns, *(pa.field(*each) for each in extra)]), (*keys, self.valid_from)


@dataclass(frozen=True)
class _Versions:
    """The changes of a batch, which become versions over those that the table has."""

    changes: AllChanges
    names: Names
    columns: pa.Schema
    keys: tuple[str, ...]
    target: str

    @property
    def query_id(self) -> str:
        return self.changes.query_id

    @property
    def batch_id(self) -> int:
        return self.changes.batch_id

    @property
    def change(self) -> ColumnChange:
        return NO_CHANGE

    @property
    def key_rows(self) -> pa.Table:
        keys = list(self.names.keys)
        return self.changes.rows.select(keys).group_by(keys).aggregate([]).select(keys)

    def digest(self) -> str:
        return self.changes.digest()

    def over(self, rows: pa.Table) -> Batch:
        before = rows.select(self.columns.names).cast(self.columns)
        found = changed_versions(before, self.changes.rows, self.changes.kinds, self.names)
        if found.forgotten:
            warn_once(
                _log,
                f"A delete ends no version in {self.target}: no version of its key is valid at its time. The "
                "table keeps nothing of such a delete. If an older row of the key comes in a later batch, "
                "its version stays current. Read the topic from its beginning, and name a column as `time` "
                f"that rises with the changes of a key; now it is '{self.names.time}'. This is logged once, "
                "also if more such deletes follow.",
            )
        schema = self.columns.append(pa.field(DELETED, pa.bool_(), nullable=False))
        versions = found.versions.select(schema.names).cast(schema)
        return Batch(self.query_id, self.batch_id, self.keys, versions)


@dataclass(frozen=True)
class ChangeLogTable:
    """A table to which every change is appended, with its row kind.

    Attributes:
        table: keeps the rows: a `DeltaTable`, an `IcebergTable` or an `SqlTable`.
        batch: the name of the column with the number of the batch.
        number: of the column with the number of the change in the batch. The changes of a key are in the
            order of both.
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
            SchemaError: a column has a name or type that does not serve.
        """
        _check_kept(self.table)
        _check_names(columns, (ROW_KIND, self.batch, self.number))
        self.table.check(*self._shape(columns))

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Check before a query starts that the table has the columns of this log, if it exists.

        Raises:
            MaterializeError: it has others.
        """
        self.table.check_existing(*self._shape(columns))

    def apply(self, batch: AllChanges) -> bool:
        """Append all changes of a batch in one step; return False if they were appended before.

        Raises:
            MaterializeError: as of the table.
        """
        columns, keys = self._shape(batch.rows.schema)
        count = batch.rows.num_rows
        extra: list[Any] = [
            kind_column(batch.kinds),
            pa.array(np.full(count, batch.batch_id, np.int64)),
            pa.array(np.arange(count, dtype=np.int64)),
            pa.array(np.zeros(count, bool)),
        ]
        schema = columns.append(pa.field(DELETED, pa.bool_(), nullable=False))
        rows = pa.Table.from_arrays([*batch.rows.columns, *extra], names=schema.names).cast(schema)
        return self.table.apply(
            _Appended(batch.query_id, batch.batch_id, keys, rows, of_changes=batch.digest())
        )

    def _shape(self, columns: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
        """Return the columns and the primary key of the table."""
        extra = [(ROW_KIND, pa.string()), (self.batch, pa.int64()), (self.number, pa.int64())]
        return pa.schema([*columns, *(pa.field(*each) for each in extra)]), (self.batch, self.number)


@dataclass(frozen=True)
class _Appended(Batch):
    """Rows of a log of changes, with the digest of the changes: a repeated batch may have other numbers."""

    of_changes: str = ""

    def digest(self) -> str:
        return self.of_changes


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
