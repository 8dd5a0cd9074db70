"""The writer of a stream that `materialize` and `replicate` return.

Runs in the user's program, on Spark classic and Connect. Invariant: it is Spark's writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def writer_of(rows: DataFrame) -> DataStreamWriter:
    """Return the writer of a stream, whose query starts in `local_checkpoints.quick_local_checkpoints`."""
    if is_connect(rows):
        return rows.writeStream
    from penstock.spark._quick_writer import QuickWriter  # noqa: PLC0415 - the thin client does not have its base

    return QuickWriter(rows)
