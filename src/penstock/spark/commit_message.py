"""What a write task tells the driver, and the check that both kinds of writers do first.

Made on the executor, read on the driver. Invariant: small and picklable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import OptionError
from penstock.options.config import SinkConfig
from penstock.sink.rows import check_write_schema
from penstock.spark.tables import TableSink


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
    """
    if table is None:
        check_write_schema(to_arrow_schema(schema, timezone="UTC"), config)


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
