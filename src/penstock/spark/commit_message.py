"""What a write task tells the driver, and what both kinds of writers do: the check first, then the task.

Messages are made on the executor and read on the driver. Invariant: they are small and picklable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.options.config import SinkConfig
from penstock.sink.custom_partitioner import check_partitioner
from penstock.sink.rows import check_placing, check_write_schema
from penstock.sink.writer import write_rows
from penstock.spark.worker import begin_task

if TYPE_CHECKING:  # a task without a table loads nothing of tables
    from penstock.spark.tables import TableSink

BATCH_ID_PROPERTY = "streaming.sql.batchId"
"""The local property in which Spark tells the tasks of a stream their micro-batch."""


@dataclass
class Written(WriterCommitMessage):
    """All rows of one task are acknowledged; how many they were."""

    record_count: int
    byte_count: int


def check_rows_fit(schema: StructType, config: SinkConfig, table: TableSink | None) -> None:
    """Refuse a DataFrame that cannot become Kafka records before a task starts.

    That of a table was checked when the table was made.

    Raises:
        RowError: naming the column.
        OptionError: the user's partitioner cannot be loaded.
    """
    check_partitioner(config.partitioner)
    if table is None:
        arrow_schema = to_arrow_schema(schema, timezone="UTC")
        check_write_schema(arrow_schema, config)
        check_placing(arrow_schema, config)


def records_of(batches: Iterator[pa.RecordBatch], table: TableSink | None) -> Iterator[pa.RecordBatch]:
    """The rows of one task with the columns of Kafka records: as they are, or encoded as a table says."""
    return batches if table is None else table.records(batches)


def refuse_overwrite(overwrite: bool) -> None:
    """Refuse mode("overwrite"), which Kafka cannot do."""
    if overwrite:
        raise OptionError(
            "A Kafka topic can only be appended to, so it cannot be overwritten. Nothing was written. "
            'Use mode("append") or INSERT INTO; to replace the records, delete the topic first.',
            option="mode",
            value="overwrite",
        )


@dataclass(frozen=True)
class Turn:
    """Which task of which micro-batch this is, for partitioners that deal rows out in turn."""

    spark_partition_id: int = 0
    batch_id: int = 0


def turn_of_task() -> Turn:
    """That of the Spark task that this runs in."""
    context = TaskContext.get()
    if context is None:
        return Turn()
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY)
    return Turn(context.partitionId(), int(batch_id) if batch_id else 0)


def write_task(config: SinkConfig, table: TableSink | None, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write the rows of one task at-least-once; returns when all are acknowledged."""
    begin_task()
    turn, records = turn_of_task(), records_of(batches, table)
    summary = write_rows(config, records, spark_partition_id=turn.spark_partition_id, batch_id=turn.batch_id)
    return Written(summary.record_count, summary.byte_count)
