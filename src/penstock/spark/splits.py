"""Splits on their way from the driver to the tasks.

Planned on the driver, unpickled on the executor. Invariant: small and free of secrets; the configuration
travels once, with the reader.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock.options.config import SourceConfig
from penstock.source.splits import Split
from penstock.spark.process.begin import begin_task
from penstock.spark.process.short_errors import short_errors_of_rows
from penstock.spark.schema import RowSchema

if TYPE_CHECKING:  # a task without a table loads nothing of tables, and without metrics nothing of them
    from penstock.observe.task_reports import ReportAddress
    from penstock.spark._tables import TableSource
    from penstock.spark.exchange import ReadPacking
    from penstock.table.read import RecordsToRows


class SplitPartition(InputPartition):
    """A split as Spark's partition of the input.

    Args:
        split: what the task reads.
        report_to: where the task sends its figures; None if metrics are off.
    """

    def __init__(self, split: Split, report_to: ReportAddress | None = None) -> None:
        super().__init__(split)
        self.report_to = report_to

    @property
    def split(self) -> Split:
        split: Split = self.value
        return split


@short_errors_of_rows
def read_rows(
    config: SourceConfig,
    schema: StructType,
    partition: InputPartition,
    table: TableSource | None = None,
    packing: ReadPacking | None = None,
) -> Generator[Any, None, None]:
    """Return the rows of one split as Arrow batches for Spark; decoded if there is a table.

    With `packing` these are packages of the rows.
    """
    if not isinstance(partition, SplitPartition):
        return  # Spark passes another, empty partition to a batch read without splits
    from penstock.source.split_reader import read_split  # noqa: PLC0415 - planners do not read

    begin_task()
    row_maker: RecordsToRows = RowSchema(schema) if table is None else table.open()
    batches = read_split(config, partition.split, row_maker.columns)
    if partition.report_to is None:
        yield from _rows(batches, row_maker, packing)
        return
    with closing(_counted(batches, partition, partition.report_to, row_maker)) as counted:
        yield from _rows(counted, row_maker, packing)


def _rows(
    batches: Iterator[pa.RecordBatch], row_maker: RecordsToRows, packing: ReadPacking | None
) -> Iterator[pa.RecordBatch]:
    for records in batches:
        rows = row_maker.rows(records)
        if rows.num_rows:
            yield from [rows] if packing is None else packing.of(rows)


def _counted(
    batches: Iterator[pa.RecordBatch],
    partition: SplitPartition,
    report_to: ReportAddress,
    row_maker: RecordsToRows,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of a task, and send its figures to the driver. Close it after an error."""
    from penstock.observe.task_reports import Sender  # noqa: PLC0415 - only with metrics
    from penstock.source.metrics import SplitMetrics  # noqa: PLC0415 - only with metrics

    counts, sender, offsets_done = SplitMetrics(), Sender(report_to), 0
    try:
        for records in batches:
            counts.emitted(records)
            sender.report({**counts.snapshot(), **row_maker.outcomes()})
            yield records
        offsets_done = partition.split.size
    finally:
        values = {**counts.snapshot(), **row_maker.outcomes(), "offsetsDone": offsets_done}
        sender.report(values, is_last=True)
        sender.close()
