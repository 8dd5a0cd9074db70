"""A writer of a stream whose query writes a checkpoint on a local disk without a process for each file.

Runs in the user's program, on Spark classic. Invariant: it is Spark's writer. Only the manager of checkpoints
is another one, and only where `local_checkpoints` takes it.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.spark.local_checkpoints import quick_local_checkpoints

_LOCATION = "checkpointlocation"


class QuickWriter(DataStreamWriter):
    """Spark's writer of a DataFrame."""

    _location: str | None = None

    def option(self, key: str, value: Any) -> DataStreamWriter:
        self._note({key: value})
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamWriter:
        self._note(options)
        return super().options(**options)

    def start(self, *arguments: Any, **named: Any) -> StreamingQuery:
        self._note(named)
        with quick_local_checkpoints(self._spark, self._location):
            return super().start(*arguments, **named)

    def _note(self, options: dict[str, Any]) -> None:
        for key, value in options.items():
            if key.lower() == _LOCATION and value is not None:  # Spark leaves out what is None
                self._location = str(value)
