"""Splits on their way from the driver to the tasks.

Planned on the driver, unpickled on the executor. Invariant: small and free of secrets; the configuration
travels once, with the reader.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock.options.config import SourceConfig
from penstock.source.split_reader import read_split
from penstock.source.splits import Split
from penstock.spark.process.begin import begin_task
from penstock.spark.process.short_errors import short_errors_of_rows
from penstock.spark.schema import RowSchema

if TYPE_CHECKING:  # a task without a table loads nothing of tables
    from penstock.spark._tables import TableSource
    from penstock.table.read import RecordsToRows


class SplitPartition(InputPartition):
    """A split as Spark's partition of the input."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)

    @property
    def split(self) -> Split:
        """Return the split."""
        split: Split = self.value
        return split


@short_errors_of_rows
def read_rows(
    config: SourceConfig, schema: StructType, partition: InputPartition, table: TableSource | None = None
) -> Generator[Any, None, None]:
    """Return the rows of one split as Arrow batches for Spark; decoded if there is a table."""
    if not isinstance(partition, SplitPartition):
        return  # Spark passes another, empty partition to a batch read without splits
    begin_task()
    row_maker: RecordsToRows = RowSchema(schema) if table is None else table.open()
    for records in read_split(config, partition.split, row_maker.columns):
        rows = row_maker.rows(records)
        if rows.num_rows:
            yield rows
