"""Check the options of a read or a write without making it, as the processes that plan it will check them.

Runs on the driver, or in the program of a client of Spark Connect. Invariant: no broker and no registry is
asked, and no secret is looked up. The process that plans logs the warnings.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from penstock.client.settings import check_connection
from penstock.errors import OptionError
from penstock.options.config import SinkConfig
from penstock.options.parse import ReadConfig, WriteConfig
from penstock.options.properties.references import REFERENCE
from penstock.options.warn import said_elsewhere
from penstock.spark._tables import table_sink, table_source
from penstock.spark._write_task import check_rows_fit
from penstock.spark.schema import check_read_schema
from penstock.spark.versions import PLANS_WITH_LIMITS


def check_read(
    config: ReadConfig,
    options: Mapping[str, str],
    schema: StructType,
    *,
    streaming: bool,
    is_planned_here: bool,
) -> None:
    """Check the options of a read and its columns.

    Args:
        config: what `parse_read` has made of the options.
        options: with keys in any case.
        schema: of the read.
        streaming: whether the read is a stream.
        is_planned_here: whether Spark plans on this machine, which then has the packages and files.

    Raises:
        OptionError: the message names the option.
        SchemaError: a column cannot be read.
    """
    with said_elsewhere():
        if streaming and is_planned_here and config.source.metrics is not None:
            from penstock.observe.serve.start import check_installed  # noqa: PLC0415 - only with metrics

            check_installed()
        if streaming and is_planned_here and not PLANS_WITH_LIMITS:
            from penstock.spark._older_stream_reader import check_limits  # noqa: PLC0415 - older Spark

            check_limits(config.source)
        if config.table is None:
            check_read_schema(schema)
        if is_planned_here and not _has_secrets(options):
            check_connection(config.source.properties)
            if config.table is not None:
                table_source(schema, config.table)


def check_write(
    config: WriteConfig,
    options: Mapping[str, str],
    schema: StructType,
    *,
    streaming: bool,
    is_planned_here: bool,
) -> None:
    """Check the options of a write and its columns; see `check_read`.

    Raises:
        RowError: a column cannot become a part of a record.
    """
    with said_elsewhere():
        if streaming:
            check_stream_write(config.sink)
        if is_planned_here and not _has_secrets(options):
            check_connection(config.sink.properties)
            sink = None if config.table is None else table_sink(schema, config.table, config.sink.topic)
            check_rows_fit(schema, config.sink, sink)


def check_stream_write(config: SinkConfig) -> None:
    """Refuse what only a batch write has.

    Raises:
        OptionError: an option is for batch writes only.
    """
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


def _has_secrets(options: Mapping[str, str]) -> bool:
    """Return whether an option refers to a secret. Logins and decoders cannot be made without it."""
    return any(REFERENCE.search(text) for text in options.values())
