"""Check the options of a read or a write without making it, as the processes that plan it will check them.

Runs on the driver, or in the program of a client of Spark Connect. Invariant: no broker and no registry is
asked, and no secret is looked up. The process that plans logs the warnings.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from penstock.client.settings import check_connection
from penstock.options.parse import parse_read, parse_write
from penstock.options.properties.references import REFERENCE
from penstock.options.warn import said_elsewhere
from penstock.spark._tables import table_sink, table_source
from penstock.spark.versions import PLANS_WITH_LIMITS


def check_read(
    options: Mapping[str, str], schema: StructType, *, streaming: bool, is_planned_here: bool
) -> None:
    """Check the options of a read and its columns.

    Args:
        options: with keys in any case.
        schema: of the read.
        streaming: whether the read is a stream.
        is_planned_here: whether Spark plans on this machine, which then has the packages and files.

    Raises:
        OptionError: the message names the option.
        SchemaError: a column cannot be read.
    """
    with said_elsewhere():
        config = parse_read(options, streaming=streaming)
        if streaming and is_planned_here and config.source.metrics is not None:
            from penstock.observe.serve.start import check_installed  # noqa: PLC0415 - only with metrics

            check_installed()
        if streaming and is_planned_here and not PLANS_WITH_LIMITS:
            from penstock.spark._older_stream_reader import check_limits  # noqa: PLC0415 - older Spark

            check_limits(config.source)
        if is_planned_here and not _has_secrets(options):
            check_connection(config.source.properties)
            if config.table is not None:
                table_source(schema, config.table)


def check_write(options: Mapping[str, str], schema: StructType, *, is_planned_here: bool) -> None:
    """Check the options of a write and its columns; see `check_read`."""
    with said_elsewhere():
        config = parse_write(options)
        if is_planned_here and not _has_secrets(options):
            check_connection(config.sink.properties)
            if config.table is not None:
                table_sink(schema, config.table, config.sink.topic)


def _has_secrets(options: Mapping[str, str]) -> bool:
    """Return whether an option refers to a secret. Logins and decoders cannot be made without it."""
    return any(REFERENCE.search(text) for text in options.values())
