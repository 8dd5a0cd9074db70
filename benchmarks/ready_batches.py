"""A yardstick: a Python data source that gives ready Arrow batches to Spark, and drops the batches it gets.

Spark's workers import it, so it imports little. Invariants: its rows have the same columns and sizes as the
rows that penstock reads from the topic `orders`. Each task makes its one batch before the first row leaves.
Its tasks avoid the same waits as penstock's (penstock.spark.process).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.spark.process.begin import begin_task

BATCH_ROWS = 10_000
_TASKS = 4
_SCHEMA = """
    key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT,
    timestamp TIMESTAMP, timestampType INT
"""


class ReadyBatches(DataSource):
    """The data source `format("ready-batches")`, with the option `records`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "ready-batches"

    def schema(self) -> str:
        """Return the columns of a topic."""
        return _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of as many rows as the option says."""
        return _Reader(int(self.options["records"]), schema.names)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer that drops all rows."""
        return _Writer(int(self.options["records"]))


class _Reader(DataSourceReader):
    def __init__(self, record_count: int, columns: Sequence[str]) -> None:
        self._record_count = record_count
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        share, rest = divmod(self._record_count, _TASKS)
        return [InputPartition(share + (number < rest)) for number in range(_TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begin_task()
        batch = _batch().select(self._columns)
        for first in range(0, partition.value, BATCH_ROWS):
            yield batch.slice(0, min(BATCH_ROWS, partition.value - first))


@dataclass
class _Dropped(WriterCommitMessage):
    record_count: int


class _Writer(DataSourceArrowWriter):
    def __init__(self, record_count: int) -> None:
        self._record_count = record_count

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        begin_task()
        return _Dropped(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        count = sum(each.record_count for each in messages if isinstance(each, _Dropped))
        assert count == self._record_count, f"{count} rows came instead of {self._record_count}"


def _batch() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([b"12345678"] * BATCH_ROWS, pa.binary()),
            "value": pa.array([b"v" * 107] * BATCH_ROWS, pa.binary()),
            "topic": pa.array(["orders"] * BATCH_ROWS),
            "partition": pa.array([0] * BATCH_ROWS, pa.int32()),
            "offset": pa.array(range(BATCH_ROWS), pa.int64()),
            "timestamp": pa.array([0] * BATCH_ROWS, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * BATCH_ROWS, pa.int32()),
        }
    )
