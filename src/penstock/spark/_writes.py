"""Make the writes of the data source from its options.

Runs on the driver, in the processes that plan writes. Invariant: everything that can be wrong with the
options is found here, before a task starts.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from penstock.client.settings import check_connection
from penstock.options.config import DeliveryGuarantee, SinkConfig
from penstock.options.parse import parse_write
from penstock.options.warn import said_elsewhere
from penstock.spark._at_least_once import PenstockStreamWriter, PenstockWriter
from penstock.spark._exactly_once import ExactlyOnceStreamWriter, ExactlyOnceWriter
from penstock.spark._shadow import as_shadow
from penstock.spark._tables import TableSink, table_sink
from penstock.spark._target_topics import check_target_topic
from penstock.spark.check_options import check_stream_write
from penstock.spark.process.kind import is_spark_worker, repeats_parsing


def batch_write(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> PenstockWriter | ExactlyOnceWriter:
    config, table = _sink(options, schema)
    _check_target(config)
    if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        return ExactlyOnceWriter(config, schema, table, overwrite=overwrite)
    return PenstockWriter(config, schema, table, overwrite=overwrite)


def streaming_write(
    options: Mapping[str, str], schema: StructType
) -> PenstockStreamWriter | ExactlyOnceStreamWriter:
    """Return a streaming write. Raises OptionError if an option is for batch writes only."""
    with said_elsewhere(repeats_parsing()):
        config, table = _sink(options, schema)
    config = as_shadow(config)  # after the table, whose schemas keep the names of the running job's topic
    check_stream_write(config)
    _check_target(config)
    if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        return ExactlyOnceStreamWriter(config, schema, table)
    return PenstockStreamWriter(config, schema, table)


def _sink(options: Mapping[str, str], schema: StructType) -> tuple[SinkConfig, TableSink | None]:
    config = parse_write(options)
    sink, table = config.sink, config.table
    check_connection(sink.properties)  # a sink connects in its tasks only: too late for bad logins
    return sink, None if table is None else table_sink(schema, table, sink.topic)


def check_target(options: Mapping[str, str]) -> None:
    """Check that a write's topic exists, in the user's program: Spark 3.5 plans there."""
    check_target_topic(parse_write(options).sink, "topic")


def _check_target(config: SinkConfig) -> None:
    """Check that a write's topic exists, in Spark's planner processes only: elsewhere nothing is written."""
    if is_spark_worker():
        check_target_topic(config, "topic")
