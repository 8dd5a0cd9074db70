"""Rows on their way into a table, for each connector: a batch at once, a stream as a query of Spark.

Runs on the driver. Invariant: the rows are already those that the table takes, in an order that it can take.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock.spark.process.short_errors import short_errors_of_batches
from penstock.sql.connectors.described import Blackhole, Files, Jdbc, Print
from penstock.sql.connectors.files import written_with
from penstock.sql.connectors.jdbc import frames as jdbc
from penstock.sql.functions.zones import local_rows
from penstock.sql.plan.hidden import KIND
from penstock.sql.run._lines import line
from penstock.sql.run.catalog import Table

Emit = Callable[[str], None]
"""Takes the lines of tables with the connector `print`."""
_SHOWN_KIND = "+I"


def write_batch(rows: Any, table: Table, emit: Emit, *, overwrites: bool) -> None:
    """Write the rows of a batch. With `overwrites`, files replace those that are there."""
    connector = table.connector
    if isinstance(connector, Print):
        for row in local_rows(rows).toLocalIterator():
            emit(_shown(row))
        return
    writer = rows.write.mode("overwrite" if overwrites else "append")
    if isinstance(connector, Blackhole):
        writer.format("noop").mode("overwrite").save()
    elif isinstance(connector, Files):
        of_partitions = table.definition.partitioned_by
        writer = writer.partitionBy(*of_partitions).option("partitionOverwriteMode", "dynamic")
        writer.format(connector.format).options(**written_with(connector)).save(connector.path)
    elif isinstance(connector, Jdbc):
        jdbc.write_batch(connector.settings, table.definition.primary_key, rows)
    else:
        writer.format("penstock").options(**connector.options).save()


def start_stream(rows: Any, table: Table, emit: Emit, folder: str | None, interval_ms: int | None) -> Any:
    """Start the query that writes a stream, and return it. Without a folder its checkpoints are temporary.

    `interval_ms` is between micro-batches; None for one after another.
    """
    connector = table.connector
    if isinstance(connector, Jdbc):
        writer = jdbc.stream_writer(connector.settings, table.definition.primary_key, rows)
    else:
        writer = rows.writeStream
    writer = writer.outputMode("append")
    if folder is not None:
        writer = writer.option("checkpointLocation", folder)
    if interval_ms is not None:
        writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
    if isinstance(connector, Print):
        printed = short_errors_of_batches(lambda batch, _: _print(batch, emit))
        return writer.foreachBatch(printed).start()
    if isinstance(connector, Blackhole):
        return writer.format("noop").start()
    if isinstance(connector, Jdbc):
        return writer.start()
    if isinstance(connector, Files):
        writer = writer.partitionBy(*table.definition.partitioned_by)
        return writer.format(connector.format).options(**written_with(connector)).start(connector.path)
    return writer.format("penstock").options(**connector.options).start()


def _print(batch: Any, emit: Emit) -> None:
    for row in local_rows(batch).collect():
        emit(_shown(row))


def _shown(row: Any) -> str:
    values = row.asDict()
    kind = values.pop(KIND, _SHOWN_KIND)
    return line(tuple(values.values()), kind)


def print_line(line: str) -> None:
    """Write a line to standard output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
