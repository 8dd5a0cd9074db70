"""Write a DataFrame without a data source, for Spark 3.5: its tasks are those of `mapInArrow`.

Runs on the driver, and the function of `mapInArrow` on executors. The driver does what Spark does with a data
source: it makes the writer, sends it to the tasks, and commits or aborts with their messages. Invariant: each
task returns one message, and only the messages of the attempts that Spark takes reach the commit. If a task
fails, the messages of the others are lost, so the driver asks the cluster for their transactions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark._exactly_once import ExactlyOnceWriter
from penstock.spark._writes import batch_write, check_target
from penstock.spark.map_rows import map_rows
from penstock.spark.versions import to_arrow_schema

_COLUMN = "message"


def save(rows: Any, options: Mapping[str, str]) -> None:
    """Write a DataFrame like `rows.write.format("penstock")` with the mode append."""
    check_target(options)
    writer = batch_write(options, rows.schema, overwrite=False)
    task = _task(writer.write, to_arrow_schema(rows.schema))
    try:
        found = map_rows(rows, task, f"{_COLUMN} BINARY").collect()
        writer.commit([pickle.loads(bytes(row[0])) for row in found])  # noqa: S301 - of our own tasks
    except BaseException:
        if isinstance(writer, ExactlyOnceWriter):
            with suppress(PenstockError):  # the next batch aborts what stays open
                writer.abandon()
        raise


def _task(
    write: Callable[[Iterator[pa.RecordBatch]], Any], schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of a task, which also carries the writer."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark gives the times the zone of the session. A data source gets UTC.
        message = write(batch.cast(schema) for batch in batches)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], [_COLUMN])

    return run
