"""`penstock.changelog.materialize`: keep a table outside of Kafka equal to a changelog.

Runs in the user's program and in `foreachBatch`, on Spark classic and Connect. Invariant: the last row of
each key is chosen in the tasks, and the target gets the changes of a micro-batch as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.errors import MissingOptionError, OptionError
from penstock.spark._arguments import check_names, columns_without_kind
from penstock.spark._task_context import QUERY_ID_PROPERTY, driver_property
from penstock.spark.connect import is_connect
from penstock.spark.in_order import in_order
from penstock.spark.map_rows import map_rows
from penstock.spark.merging import with_spark
from penstock.spark.process.short_errors import short_errors_of_batches
from penstock.spark.staging import runner_of, stage_of, staged_batch, sweep
from penstock.spark.stream_writer import writer_of
from penstock.spark.versions import to_arrow_schema
from penstock.state.columns import check_columns
from penstock.targets.all_rows import AllChanges, AllRows, TakesAllRows
from penstock.targets.batch import Batch, LastRows, check_no_floats
from penstock.targets.delta import DeltaTable
from penstock.targets.iceberg import IcebergTable
from penstock.targets.staged import AppliesStaged, Stage
from penstock.targets.staged_changes import StageChanges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Target(Protocol):
    """A table that can apply batches: see `penstock.targets`."""

    def check(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Raise an error if the table cannot hold these columns."""

    def apply(self, batch: Any) -> bool:
        """Apply a batch as a whole; return False if it was applied before."""


@runtime_checkable
class ComparesColumns(Protocol):
    """A target that can compare its columns with those of a query before it starts."""

    def check_existing(self, columns: pa.Schema, keys: Sequence[str]) -> None:
        """Raise MaterializeError if the table exists and has other columns."""


def materialize(
    df: DataFrame,
    keys: Sequence[str],
    target: Target,
    *,
    order_by: Sequence[str] | None = None,
    query_id: str | None = None,
    staging: str | None = None,
) -> DataStreamWriter:
    """Return a writer that keeps a table equal to a changelog. Set its checkpoint and trigger, and start it.

    Each micro-batch is applied once, as a whole: the target remembers the query, the number and a digest of
    the last batch. +I and +U insert or update the row with their key, -D and -U delete it; the last row of
    a key in a batch counts. The driver collects the last rows of a batch, so limit the size of batches. With
    `staging` the executors write the rows of large batches, and the files of the table.

    Args:
        df: a streaming changelog, such as that of `normalize`; without `row_kind` every row is +I.
        keys: the primary key.
        target: the table, such as `penstock.targets.SqlTable`.
        order_by: brings rows together with `in_order` first; without it the rows of each key have to be in
            one partition and in order.
        query_id: of the query, which changes only with the checkpoint. Only Spark Connect needs it.
        staging: a folder that the driver and all executors reach, a path or a URI as of a state; None without
            one. `DeltaTable`, `IcebergTable` and `ParquetTable` take it, both tables of Spark, an `SqlTable`
            with `executors_copy`, and a `HistoryTable` or a `ChangeLogTable` in one of the first two.
            Executors need their extras then.

    Returns:
        A `DataStreamWriter` with its `foreachBatch` set.

    Raises:
        SchemaError: a column does not exist, or the table cannot hold it.
        MaterializeError: the table exists and has other columns. On Spark Connect the first batch finds this.
        OptionError: `df` is not a stream, no key is named, or the target does not take `staging`.
    """
    if not df.isStreaming:
        raise OptionError(
            "materialize needs a streaming DataFrame, because its batches have numbers. Read with "
            "readStream, and use the trigger availableNow to stop at the end.",
            option="df",
        )
    check_names("keys", keys)
    if staging is not None and not _applies_staged(target):
        raise OptionError(
            "`staging` is for a DeltaTable, an IcebergTable, a ParquetTable, a SparkDeltaTable, a "
            f"SparkIcebergTable, or an SqlTable with `executors_copy`, and not for {target}. Nothing was "
            "started. Leave it out.",
            option="staging",
        )
    last_rows: LastRows | AllRows = last_rows_of(df, target, keys)
    if isinstance(target, TakesAllRows):
        last_rows = target.all_rows(last_rows.columns, keys)
    checked = with_spark(target, df)
    if isinstance(checked, ComparesColumns) and not is_connect(df):  # a client may not reach the table
        checked.check_existing(last_rows.columns, keys)
    function = Materializer(target, last_rows, tuple(order_by or ()), query_id, staging)
    return writer_of(df).foreachBatch(function)


def last_rows_of(changes: DataFrame, target: Target, keys: Sequence[str]) -> LastRows:
    """Return how the last row of each key is chosen, after checking that the target can hold the columns.

    Raises:
        SchemaError: a column does not exist, or the table cannot hold it.
    """
    columns = _columns(changes)
    check_columns(columns, keys)
    check_no_floats(columns, keys)
    target.check(columns, keys)
    return LastRows(tuple(keys), columns)


class MergeTarget(Target, Protocol):
    """A table that can also take the rows of a batch query."""

    def merge(self, batch: Batch) -> None:
        """Insert, update and delete the rows of a batch as a whole."""


def merge(rows: DataFrame, target: MergeTarget, last_rows: LastRows, query_id: str) -> None:
    """Insert, update and delete the rows of a batch query, as a whole. The table may have other rows.

    Args:
        rows: a DataFrame that is not a stream; without `row_kind` every row is +I.
        target: the table.
        last_rows: of `last_rows_of`.
        query_id: for messages.

    Raises:
        RowError: two tasks gave a row of the same key, or a key is null.
    """
    batch = _collected(rows, last_rows, query_id, 0)
    batch.check_keys()
    target.merge(batch)


def _collected(rows: DataFrame, last_rows: LastRows, query_id: str, batch_id: int) -> Batch:
    return Batch(query_id, batch_id, last_rows.keys, _rows_of_tasks(rows, last_rows))


def _rows_of_tasks(rows: DataFrame, work: LastRows | AllRows) -> pa.Table:
    out = from_arrow_schema(work.schema, prefer_timestamp_ntz=True)
    found: Any = map_rows(rows, work.run, out).toArrow()
    return found.cast(work.schema)


@dataclass(frozen=True)
class Materializer:
    """A function for `foreachBatch` that applies each batch to a target. Pickles if the target does."""

    target: Target
    last_rows: LastRows | AllRows
    order_by: tuple[str, ...]
    query_id: str | None
    staging: str | None = None

    @short_errors_of_batches
    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Apply one batch.

        Raises:
            MaterializeError: the batch does not follow the last one that the target has.
            RowError: two tasks gave a row of the same key, or a key is null.
        """
        keys = self.last_rows.keys
        query_id = driver_property(rows, QUERY_ID_PROPERTY) or self.query_id
        if query_id is None:
            raise MissingOptionError(
                f"The query of batch {batch_id} is unknown, so the batch would not be recognised if Spark "
                "repeats it. Nothing was written. Spark Connect does not tell the id of the query: pass "
                "query_id to materialize.",
                option="query_id",
            )
        if self.order_by:
            rows = in_order(rows, keys, order_by=self.order_by)
        target = with_spark(self.target, rows)
        if self.staging is not None:
            stage = stage_of(self.last_rows, self.staging, query_id, batch_id)
            _apply_staged(target, rows, query_id, stage)
        elif isinstance(self.last_rows, AllRows):
            changes = AllChanges(query_id, batch_id, keys, _rows_of_tasks(rows, self.last_rows))
            changes.check_keys()
            target.apply(changes)
        else:
            batch = _collected(rows, self.last_rows, query_id, batch_id)
            batch.check_keys()
            target.apply(batch)


def _apply_staged(target: Target, rows: DataFrame, query_id: str, stage: Stage | StageChanges) -> None:
    batch = staged_batch(rows, stage, query_id)
    batch.check_keys()
    if isinstance(batch, Batch | AllChanges):
        target.apply(batch)
    else:
        # `materialize` has checked that the target takes it.
        cast("AppliesStaged", target).apply_staged(batch, runner_of(rows))
    sweep(stage.files)


def _applies_staged(target: Target) -> bool:
    """Return whether tasks can write the rows of a target. Those of a history or a log are in files."""
    if isinstance(target, TakesAllRows):
        table = getattr(target, "table", None)
        return isinstance(target, AppliesStaged) and isinstance(table, DeltaTable | IcebergTable)
    return isinstance(target, AppliesStaged) and getattr(target, "takes_staging", True)


def _columns(changes: DataFrame) -> pa.Schema:
    """Return the columns of the table. All may be null, because a deleted row has only its key."""
    found = to_arrow_schema(columns_without_kind(changes))
    return pa.schema([field.with_nullable(True) for field in found])
