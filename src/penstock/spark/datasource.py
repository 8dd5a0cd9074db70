"""PenstockDataSource: the data source behind `format("penstock")`.

Runs on the driver, in pooled planner processes, many times for one query. Invariants: constructing it costs
nothing and cannot fail; options are parsed when Spark asks for a reader or a writer. This module imports
little, because Spark starts a process of its own to find the data source, and another one to construct it.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from penstock._pyspark import explain_import_error
from penstock.security.files import search_sent_files
from penstock.spark.process.begin import begin_planning, begin_task
from penstock.spark.process.sent_files import sparks_file_folders
from penstock.spark.process.short_errors import short_errors

try:
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.types import StructType
except ImportError as error:
    explain_import_error(error)
    raise

if TYPE_CHECKING:
    from penstock.spark._at_least_once import PenstockStreamWriter, PenstockWriter
    from penstock.spark._batch_reader import PenstockReader
    from penstock.spark._exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
    from penstock.spark._stream_reader import PenstockStreamReader


class PenstockDataSource(DataSource):
    """Kafka for PySpark: batch and streaming reads and writes, in Flink's or Spark's own option dialect."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        begin_task()
        super().__init__(options)
        # Travels to the process that plans a stream, which is on the same machine.
        self._sent_files = sparks_file_folders()

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "penstock"

    @short_errors
    def schema(self) -> StructType:
        """Return the columns of a read for which the user gives no schema."""
        from penstock.spark._reads import schema_of  # noqa: PLC0415 - see above

        return schema_of(self.options)

    @short_errors
    def reader(self, schema: StructType) -> PenstockReader:
        """Return a batch read."""
        from penstock.spark._reads import batch_read  # noqa: PLC0415 - see above

        self._prepare()
        return batch_read(self.options, schema)

    @short_errors
    def streamReader(self, schema: StructType) -> PenstockStreamReader:
        """Return a streaming read. Where Spark would hide an error, return a read that raises it."""
        from penstock.spark._reads import streaming_read  # noqa: PLC0415 - see above

        self._prepare()
        return streaming_read(self.options, schema)

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> PenstockWriter | ExactlyOnceWriter:
        """Return a batch write."""
        from penstock.spark._writes import batch_write  # noqa: PLC0415 - see above

        self._prepare()
        return batch_write(self.options, schema, overwrite=overwrite)

    @short_errors
    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> PenstockStreamWriter | ExactlyOnceStreamWriter:
        """Return a streaming write."""
        from penstock.spark._writes import streaming_write  # noqa: PLC0415 - see above

        self._prepare()
        return streaming_write(self.options, schema)

    def _prepare(self) -> None:
        # This object was unpickled here: `__init__` has run in another process.
        begin_planning()
        search_sent_files((*sparks_file_folders(), *self._sent_files))
