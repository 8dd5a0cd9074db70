"""`penstock.cdc.replicate`: keep many tables equal to those of a database, in one query.

Runs in the user's program and in `foreachBatch`, on Spark classic and Connect. Invariant: the stream has raw
records, so its own columns never change. The columns of each table are decided by the driver for each batch,
and written down before a task makes rows with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.cdc.batch import Kept, OnTableError, Plan, ReplicatedBatch, SourceTopic
from penstock.cdc.commits import Target
from penstock.cdc.gather import RAW, RECEIPTS, Reader
from penstock.cdc.in_files import Staging
from penstock.cdc.journal import Journal
from penstock.cdc.messages import message_format
from penstock.errors import MissingOptionError, OptionError
from penstock.spark._declared_columns import check_declared, declared_columns
from penstock.spark._task_context import QUERY_ID_PROPERTY, driver_property
from penstock.spark.map_rows import map_rows
from penstock.spark.merging import binder
from penstock.spark.process.short_errors import short_errors_of_batches
from penstock.spark.staging import folder_of, runner_of, sweep
from penstock.spark.stream_writer import writer_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

PLACEHOLDER = "__debezium_unavailable_value"
"""What Debezium writes by default for a value that it does not know."""
_FORMATS = ("format", "value.format")
_SPARK_DIALECT = ("subscribe", "subscribepattern", "assign")
_STARTS = "starting"


def replicate(  # noqa: PLR0913 - each is a keyword of its own
    spark: SparkSession,
    options: Mapping[str, str],
    tables: Callable[[SourceTopic], Target],
    *,
    state: str,
    keys: Mapping[str, Sequence[str]] | None = None,
    evolve: Kept = "lenient",
    on_table_error: OnTableError = "stop",
    threads: int = 8,
    query_id: str | None = None,
    staging: str | None = None,
    unavailable_value: str = PLACEHOLDER,
    columns: Mapping[str, str | StructType] | None = None,
    rest: str | None = None,
) -> DataStreamWriter:
    """Return a writer that keeps tables equal to those of a database. Set its checkpoint and start it.

    One query reads the topics of all tables, and one Spark job of each micro-batch makes the rows of all.
    Each table gets a batch once, as a whole, together with its marker. Tables of a batch are not changed at
    the same moment. A new topic of the pattern becomes a new table, and a new column of the source a new
    column.

    Args:
        spark: the session.
        options: of a read, in either dialect, such as `topic-pattern` and `properties.bootstrap.servers`. The
            option `format` is `debezium-json` (with `debezium-json.schema-include`, or with `columns`) or
            `debezium-avro-confluent`. Without a start the stream begins at the first record.
        tables: returns the table for one of the source, such as
            `lambda source: DeltaTable(f"s3://lake/{source.table}")`. It is called in each batch.
        state: a folder that the driver reaches, as a path or URI. It belongs to the checkpoint.
        keys: the primary key of tables whose records have none, by topic.
        evolve: what happens if the columns of the source change: `exception`, `ignore` or `lenient`.
        on_table_error: `stop` ends the query if a table fails; `leave-out` continues without the table, and
            logs an error that names it.
        threads: how many tables are changed at a time.
        query_id: of the query, which changes only with the checkpoint. Only Spark Connect needs it.
        staging: a folder that the driver and all executors reach, a path or a URI as of a state. Executors
            write the rows of large batches there, and the files of Delta, Iceberg and Parquet tables. For
            Delta and Iceberg they then need the extra, too. A MERGE of Spark reads the rows there. None if
            the driver gets all rows.
        unavailable_value: the connector's `unavailable.value.placeholder`. A message with it ends in an error
            that names the column, because penstock does not know the value.
        columns: for messages without schemas, the columns of the tables as text such as
            `id BIGINT, name STRING`, by topic. A new column comes into the table at the next start, but not
            with `evolve="ignore"`.
        rest: for the same, the name of a column (STRING) that gets the fields that are not declared, as one
            JSON object. Read it with `parse_json`. A table of Spark can keep it as VARIANT (`variants`).
            Without `rest`, `evolve` has to be `ignore`, because they would be left out.

    Returns:
        A `DataStreamWriter` with its `foreachBatch` set.

    Raises:
        OptionError: an option or argument has a value that is not allowed.
    """
    if evolve not in get_args(Kept):
        raise OptionError(
            f"Expected one of {', '.join(get_args(Kept))} for `evolve`, got {evolve!r}. Columns are never "
            "dropped, because a topic partition that is behind may still bring their values.",
            option="evolve",
        )
    if on_table_error not in get_args(OnTableError):
        raise OptionError(
            f"Expected one of {', '.join(get_args(OnTableError))} for `on_table_error`, got "
            f"{on_table_error!r}.",
            option="on_table_error",
        )
    if threads < 1:
        raise OptionError(f"Expected `threads` of 1 or more, got {threads}.", option="threads")
    declared = None if columns is None else declared_columns(spark, columns, rest)
    messages = message_format(options, declared=declared, rest=rest, placeholder=unavailable_value)
    if not messages.has_schemas:
        check_declared(declared, rest, evolve, messages)
    plan = Plan(
        messages,
        tables,
        Journal(state),
        {topic: tuple(names) for topic, names in (keys or {}).items()},
        evolve,
        on_table_error,
        threads,
    )
    records = spark.readStream.format("penstock").options(**_read_options(options)).load()
    return writer_of(records.select(*RAW)).foreachBatch(Replicator(plan, query_id, staging))


def _read_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the read of raw records."""
    formats = [value for name, value in options.items() if name.lower() in _FORMATS]
    prefixes = tuple(f"{side}{one}." for one in formats for side in ("", "value."))
    found = {
        name: value
        for name, value in options.items()
        if name.lower() not in _FORMATS and not name.lower().startswith(prefixes)
    }
    names = [name.lower() for name in found]
    if any(name in _SPARK_DIALECT for name in names) and not any(one.startswith(_STARTS) for one in names):
        found["startingOffsets"] = "earliest"
    return found


@dataclass(frozen=True)
class Replicator:
    """A function for `foreachBatch` that gives each batch to all tables. Pickles if `tables` does."""

    plan: Plan
    query_id: str | None = None
    staging: str | None = field(default=None, repr=False)

    @short_errors_of_batches
    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Apply one batch to all tables.

        Raises:
            MaterializeError: a table does not follow, or tables failed.
            StateError: the folder of the state is not that of the query and the batch before.
        """
        query_id = driver_property(records, QUERY_ID_PROPERTY) or self.query_id
        if query_id is None:
            raise MissingOptionError(
                f"The query of batch {batch_id} is unknown, so the batch would not be recognised if Spark "
                "repeats it. Nothing was written. Spark Connect does not tell the id of the query: pass "
                "query_id to replicate.",
                option="query_id",
            )

        bound = binder(records)
        plan = replace(self.plan, tables=lambda source: bound(self.plan.tables(source)))

        def read(reader: Reader) -> pa.Table:
            receipts: Any = map_rows(records, reader.run, RECEIPTS).toArrow()
            return receipts

        if self.staging is None:
            ReplicatedBatch(plan, read, query_id, batch_id).run()
            return
        folder = folder_of(self.staging, query_id, batch_id)
        ReplicatedBatch(plan, read, query_id, batch_id, Staging(folder, runner_of(records))).run()
        sweep(folder)
