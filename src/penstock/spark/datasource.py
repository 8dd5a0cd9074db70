"""PenstockDataSource: the data source behind `format("penstock")`.

Runs on the driver, in pooled planner processes, many times for one query. Invariant: constructing it costs
nothing and cannot fail; options are parsed when Spark asks for a reader or a writer.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from penstock.client.settings import check_connection
from penstock.errors import OptionError
from penstock.options.config import DeliveryGuarantee, SinkConfig
from penstock.options.parse import ReadConfig, parse_columns, parse_read, parse_write
from penstock.options.warn import said_elsewhere
from penstock.security.sent_files import search_sent_files
from penstock.spark._batch_reader import PenstockReader
from penstock.spark._batch_writer import PenstockWriter
from penstock.spark._exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
from penstock.spark._failed_stream_reader import FailedStreamReader
from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark._stream_writer import PenstockStreamWriter
from penstock.spark._tables import TableSink, TableSource, missing_schema, table_sink, table_source
from penstock.spark._target_topics import check_target_topic
from penstock.spark.process.begin import begin_task
from penstock.spark.process.kind import is_spark_worker, is_stream_planner, repeats_parsing
from penstock.spark.process.sent_files import sparks_file_folders
from penstock.spark.process.short_errors import short_errors
from penstock.spark.schema import source_schema


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
        with said_elsewhere():  # by the reader
            columns = parse_columns(self.options)
        if columns.has_table:
            raise missing_schema()
        return source_schema(include_headers=columns.include_headers)

    @short_errors
    def reader(self, schema: StructType) -> PenstockReader:
        """Return a batch read."""
        config = self._read_config(streaming=False)
        return PenstockReader(config.source, schema, _table_source(config, schema))

    @short_errors
    def streamReader(self, schema: StructType) -> PenstockStreamReader:
        """Return a streaming read. Where Spark would hide an error, return a read that raises it."""
        try:
            with said_elsewhere(repeats_parsing()):
                config = self._read_config(streaming=True)
                return PenstockStreamReader(config.source, schema, _table_source(config, schema))
        except Exception as error:
            if not is_stream_planner():
                raise
            return FailedStreamReader(error)

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> PenstockWriter | ExactlyOnceWriter:
        """Return a batch write."""
        config, table = self._sink(schema)
        _check_target(config)
        if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return ExactlyOnceWriter(config, schema, table, overwrite=overwrite)
        return PenstockWriter(config, schema, table, overwrite=overwrite)

    @short_errors
    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> PenstockStreamWriter | ExactlyOnceStreamWriter:
        """Return a streaming write."""
        with said_elsewhere(repeats_parsing()):
            config, table = self._sink(schema)
        if config.query_id is not None:
            raise OptionError(
                "Options 'sink.query-id' and 'sink.batch-id' are for batch writes in foreachBatch. Leave "
                "them out: a streaming write gets its query and batch from Spark.",
                option="sink.query-id",
            )
        if config.write_id is not None:
            raise OptionError(
                "Option 'sink.write-id' names a batch write. Leave it out: a streaming write is identified "
                "by its checkpoint.",
                option="sink.write-id",
            )
        _check_target(config)
        if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return ExactlyOnceStreamWriter(config, schema, table)
        return PenstockStreamWriter(config, schema, table)

    def _read_config(self, *, streaming: bool) -> ReadConfig:
        self._search_sent_files()
        config = parse_read(self.options, streaming=streaming)
        check_connection(config.source.properties)
        return config

    def _sink(self, schema: StructType) -> tuple[SinkConfig, TableSink | None]:
        self._search_sent_files()
        config = parse_write(self.options)
        sink, table = config.sink, config.table
        check_connection(sink.properties)  # a sink connects in its tasks only: too late for bad logins
        return sink, None if table is None else table_sink(schema, table, sink.topic)

    def _search_sent_files(self) -> None:
        search_sent_files((*sparks_file_folders(), *self._sent_files))


def _table_source(config: ReadConfig, schema: StructType) -> TableSource | None:
    return None if config.table is None else table_source(schema, config.table)


def _check_target(config: SinkConfig) -> None:
    """Check that a write's topic exists, in Spark's planner processes only: elsewhere nothing is written."""
    if is_spark_worker():
        check_target_topic(config, "topic")
