"""Writes with the guarantee at-least-once: of batches and of streams.

Made on the driver, for a stream once a micro-batch; `write` runs on the executors, on an unpickled copy;
another instance on the driver gets the commit. A write is committed when Kafka has acknowledged every row of
it. When a task fails or a batch is repeated, some rows may come twice; rows of a failed job may stay in
Kafka. So there is nothing to commit or abort.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.options.config import SinkConfig
from penstock.spark._sink_reports import SinkReporter
from penstock.spark._write_task import (
    check_keys,
    check_rows_fit,
    figures_of,
    refuse_overwrite,
    write_task,
)
from penstock.spark.process.begin import begin_task
from penstock.spark.process.short_errors import short_errors
from penstock.spark.versions import ArrowWriter, StreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:  # a task without a table loads nothing of tables
    from penstock.spark._tables import TableSink


class PenstockWriter(ArrowWriter):
    """Appends the rows of a DataFrame to Kafka."""

    def __init__(
        self, config: SinkConfig, schema: StructType, table: TableSink | None = None, *, overwrite: bool
    ) -> None:
        refuse_overwrite(overwrite)
        check_rows_fit(schema, config, table)
        # Only streams have checkpoints.
        self._config = replace(config, flushes_on_checkpoint=True)
        self._table = table

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; return when all are acknowledged."""
        return write_task(self._config, self._table, iterator)

    @short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Check the order of keys. All rows are acknowledged. Report figures, if metrics are on."""
        SinkReporter(self._config).written(figures_of(messages), len(messages))
        check_keys(messages, is_written=True)


class PenstockStreamWriter(StreamArrowWriter):
    """Appends the rows of each micro-batch to Kafka.

    Complete mode is accepted, as by Spark's own Kafka sink: each batch appends the whole result again.
    """

    def __init__(self, config: SinkConfig, schema: StructType, table: TableSink | None = None) -> None:
        check_rows_fit(schema, config, table)
        self._config = config
        self._table = table

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task; return when all are acknowledged."""
        return write_task(self._config, self._table, iterator)

    @short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Check the order of keys. All rows are acknowledged. Report figures, if metrics are on."""
        begin_task()
        SinkReporter(self._config).written(figures_of(messages), len(messages))
        check_keys(messages, is_written=True)
