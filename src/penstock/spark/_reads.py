"""Make the reads of the data source from its options.

Runs on the driver, in the processes that plan reads. Invariant: everything that can be wrong with the options
is found here, before a task starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from pyspark.sql.types import StructType

from penstock.client.settings import check_connection
from penstock.options.config import SourceConfig
from penstock.options.parse import ReadConfig, parse_columns, parse_read
from penstock.options.warn import said_elsewhere
from penstock.spark._batch_reader import PenstockReader
from penstock.spark._stream_reader import PenstockStreamReader, import_planning_meanwhile
from penstock.spark._tables import TableSource, missing_schema, table_source
from penstock.spark.process.kind import is_stream_planner, repeats_parsing
from penstock.spark.process.short_errors import short_errors
from penstock.spark.schema import source_schema
from penstock.spark.versions import PLANS_WITH_LIMITS


def schema_of(options: Mapping[str, str]) -> StructType:
    """Return the columns of a read for which the user gives no schema.

    Raises:
        SchemaError: the options describe a table, whose columns only the user knows.
    """
    with said_elsewhere():  # by the reader
        columns = parse_columns(options)
    if columns.has_table:
        raise missing_schema()
    return source_schema(include_headers=columns.include_headers)


def batch_read(options: Mapping[str, str], schema: StructType) -> PenstockReader:
    config = _read_config(options, streaming=False)
    return PenstockReader(config.source, schema, _table_source(config, schema))


def streaming_read(options: Mapping[str, str], schema: StructType) -> PenstockStreamReader:
    """Return a streaming read. Where Spark would hide an error, return a read that raises it."""
    try:
        with said_elsewhere(repeats_parsing()):
            config = _read_config(options, streaming=True)
            reader = _stream_reader(config.source, schema, _table_source(config, schema))
    except Exception as error:
        if not is_stream_planner():
            raise
        return FailedStreamReader(error)
    if is_stream_planner():
        import_planning_meanwhile()
    return reader


def _read_config(options: Mapping[str, str], *, streaming: bool) -> ReadConfig:
    config = parse_read(options, streaming=streaming)
    check_connection(config.source.properties)
    return config


def _table_source(config: ReadConfig, schema: StructType) -> TableSource | None:
    return None if config.table is None else table_source(schema, config.table)


def _stream_reader(
    config: SourceConfig, schema: StructType, table: TableSource | None
) -> PenstockStreamReader:
    if PLANS_WITH_LIMITS:
        return PenstockStreamReader(config, schema, table)
    from penstock.spark._older_stream_reader import OlderStreamReader, check_limits  # noqa: PLC0415 - older Spark

    check_limits(config)
    return OlderStreamReader(config, schema, table)


class FailedStreamReader(PenstockStreamReader):
    """A read that cannot begin. Each call but `stop` raises the reason.

    The process that plans a stream always calls `stop` on its reader. If `streamReader` raised, that process
    would have no reader, and Spark would show the `UnboundLocalError` of that call.
    """

    def __init__(self, error: Exception) -> None:  # without a config, because that is what failed
        self._error = error

    @short_errors
    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise self._error

    prepareForTriggerAvailableNow = _fail
    getDefaultReadLimit = _fail
    initialOffset = _fail
    latestOffset = _fail
    reportLatestOffset = _fail
    partitions = _fail
    read = _fail

    def stop(self) -> None:
        """Do nothing: nothing was opened."""
