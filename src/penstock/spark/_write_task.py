"""Check a write on the driver, and run its tasks on executors: for batch and stream writers.

Guarantee: when `write_task` returns, Kafka has acknowledged every row of the task (at-least-once).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.client.produce.figures import NO_FIGURES, ProduceFigures
from penstock.errors import OptionError
from penstock.options.config import SinkConfig
from penstock.sink.custom_partitioner import check_partitioner
from penstock.sink.rows import check_placing, check_write_schema
from penstock.sink.writer import write_rows
from penstock.spark._task_context import turn_of_task
from penstock.spark.process.begin import begin_task

if TYPE_CHECKING:  # a task without a table loads nothing of tables
    from penstock.spark._tables import TableSink


@dataclass
class Written(WriterCommitMessage):
    """The message of one task to the driver, which only shows its figures."""

    figures: ProduceFigures


def check_rows_fit(schema: StructType, config: SinkConfig, table: TableSink | None) -> None:
    """Refuse a DataFrame that cannot become Kafka records, before a task starts.

    The columns of a table were checked when the table was made.

    Raises:
        RowError: naming the column.
        OptionError: the user's partitioner cannot be loaded.
    """
    check_partitioner(config.partitioner)
    if table is None:
        arrow_schema = to_arrow_schema(schema, timezone="UTC")
        check_write_schema(arrow_schema, config)
        check_placing(arrow_schema, config)


def refuse_overwrite(overwrite: bool) -> None:
    """Raise an error for mode("overwrite"), which Kafka cannot do."""
    if overwrite:
        raise OptionError(
            "A Kafka topic can only be appended to, so it cannot be overwritten. Nothing was written. "
            'Use mode("append") or INSERT INTO; to replace the records, delete the topic first.',
            option="mode",
            value="overwrite",
        )


def records_of(batches: Iterator[pa.RecordBatch], table: TableSink | None) -> Iterator[pa.RecordBatch]:
    """Return the rows of one task with the columns of Kafka records, encoded if there is a table."""
    return batches if table is None else table.records(batches)


def write_task(
    config: SinkConfig, table: TableSink | None, batches: Iterator[pa.RecordBatch]
) -> WriterCommitMessage:
    """Write the rows of one task at-least-once; return when all are acknowledged."""
    begin_task()
    turn, records = turn_of_task(), records_of(batches, table)
    found: list[ProduceFigures] = []
    write_rows(
        config,
        records,
        spark_partition_id=turn.spark_partition_id,
        batch_id=turn.batch_id,
        on_figures=found.append,
    )
    return Written(sum(found, NO_FIGURES))


def figures_of(messages: Sequence[WriterCommitMessage | None]) -> ProduceFigures:
    """Return the figures of all tasks of a batch."""
    found = (message.figures for message in messages if isinstance(message, Written))
    return sum(found, NO_FIGURES)
