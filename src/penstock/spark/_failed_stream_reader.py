"""A streaming read that cannot begin, so that Spark shows the reason.

Runs on the driver, in the process that plans the batches of one query. That process always calls `stop` on
its reader. If `streamReader` raises, the process has no reader. Its error is an `UnboundLocalError` then.
Invariant: each call but `stop` raises the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import InputPartition

from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark.process.short_errors import short_errors
from penstock.spark.versions import ReadLimit


class FailedStreamReader(PenstockStreamReader):
    """Raises the error that prevented the read, as soon as Spark asks for anything."""

    def __init__(self, error: Exception) -> None:  # without a config, because that is what failed
        self._error = error

    @short_errors
    def _fail(self) -> NoReturn:
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Raise the error."""
        self._fail()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error."""
        self._fail()

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        self._fail()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raise the error."""
        self._fail()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Raise the error."""
        self._fail()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        self._fail()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        self._fail()

    def stop(self) -> None:
        """Do nothing: nothing was opened."""
