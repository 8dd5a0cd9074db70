"""PenstockDataSource: what `format("penstock")` means to Spark.

Runs on the driver, in pooled planner processes, many times for one query. Invariant: constructing it costs
nothing and cannot fail; options are parsed when Spark says whether it wants to read or write.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from penstock.client.properties import check_connection
from penstock.errors import OptionError
from penstock.options.config import DeliveryGuarantee, SinkConfig, SourceConfig
from penstock.options.sink import parse_sink_options
from penstock.options.source import parse_source_options, wants_headers
from penstock.options.warn import said_elsewhere
from penstock.spark.batch_reader import PenstockReader
from penstock.spark.batch_writer import PenstockWriter
from penstock.spark.exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
from penstock.spark.schema import source_schema
from penstock.spark.stream_reader import PenstockStreamReader
from penstock.spark.stream_writer import PenstockStreamWriter
from penstock.spark.tables import refuse_missing_schema, table_sink, table_source
from penstock.spark.target_topics import check_target_topic
from penstock.spark.worker import begin_task, is_spark_worker, repeats_parsing


class PenstockDataSource(DataSource):
    """Kafka for PySpark: batch and streaming reads and writes, in Flink's or Spark's own option dialect."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        begin_task()
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The name for `format()`."""
        return "penstock"

    def schema(self) -> StructType:
        """The columns of a read, where the user gives no schema."""
        refuse_missing_schema(self.options)
        with said_elsewhere():  # by the reader
            return source_schema(include_headers=wants_headers(self.options))

    def reader(self, schema: StructType) -> PenstockReader:
        """A batch read."""
        config = self._source_config(streaming=False)
        return PenstockReader(config, schema, table_source(schema, self.options, config))

    def streamReader(self, schema: StructType) -> PenstockStreamReader:
        """A streaming read."""
        with said_elsewhere(repeats_parsing()):
            config = self._source_config(streaming=True)
            return PenstockStreamReader(config, schema, table_source(schema, self.options, config))

    def writer(self, schema: StructType, overwrite: bool) -> PenstockWriter | ExactlyOnceWriter:
        """A batch write."""
        config = self._sink_config()
        table = table_sink(schema, self.options, config)
        _check_target(config)
        if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return ExactlyOnceWriter(config, schema, table, overwrite=overwrite)
        return PenstockWriter(config, schema, table, overwrite=overwrite)

    def streamWriter(
        self, schema: StructType, overwrite: bool
    ) -> PenstockStreamWriter | ExactlyOnceStreamWriter:
        """A streaming write."""
        with said_elsewhere(repeats_parsing()):
            config = self._sink_config()
        if config.query_id is not None:
            raise OptionError(
                "Options 'sink.query-id' and 'sink.batch-id' are for batch writes in foreachBatch; a "
                "streaming write knows its query and batch from Spark: leave them out.",
                option="sink.query-id",
            )
        if config.write_id is not None:
            raise OptionError(
                "Option 'sink.write-id' names a batch write; a streaming write is known by its checkpoint: "
                "leave it out.",
                option="sink.write-id",
            )
        table = table_sink(schema, self.options, config)
        _check_target(config)
        if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return ExactlyOnceStreamWriter(config, schema, table)
        return PenstockStreamWriter(config, schema, table)

    def _source_config(self, *, streaming: bool) -> SourceConfig:
        config = parse_source_options(self.options, streaming=streaming)
        check_connection(config.properties)
        return config

    def _sink_config(self) -> SinkConfig:
        config = parse_sink_options(self.options)
        check_connection(config.properties)  # a sink connects in its tasks only: too late for bad logins
        return config


def _check_target(config: SinkConfig) -> None:
    """Only in Spark's planner processes: elsewhere nothing is written, and a broker need not be there."""
    if is_spark_worker():
        check_target_topic(config, "topic")
