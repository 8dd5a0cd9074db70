"""A streaming query without Spark: it makes Spark's calls to a reader, in Spark's order.

Runs in tests only. Invariant: a run leaves only the text of the offsets to the next run, as a checkpoint
does.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.spark._stream_reader import PenstockStreamReader
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.schema import source_schema

BATCHES_AT_MOST = 50


class Row(NamedTuple):
    partition: int
    offset: int
    value: bytes


def read_batch(options: dict[str, str]) -> list[Row]:
    """The rows of a batch read."""
    reader = PenstockDataSource(options).reader(source_schema(include_headers=False))
    return sorted(row for split in reader.partitions() for row in _rows(reader.read(split)))


class Query:
    """A query with a checkpoint. Each `run` starts its driver.

    Attributes:
        checkpoint: the end offset of each batch that was finished.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.checkpoint: list[dict[str, Any]] = []

    def run(self, *, available_now: bool = False, **changed: str) -> list[Row]:
        """Make batches until nothing is new, stop in order, and return the rows."""
        with self.running(available_now=available_now, **changed) as reader:
            return self.catch_up(reader)

    @contextlib.contextmanager
    def running(self, *, available_now: bool = False, **changed: str) -> Iterator[PenstockStreamReader]:
        """A running driver; `catch_up` makes its batches."""
        self.options = {**self.options, **changed}
        reader = PenstockDataSource(self.options).streamReader(source_schema(include_headers=False))
        try:
            if available_now:
                reader.prepareForTriggerAvailableNow()
            yield reader
        finally:
            reader.stop()

    def catch_up(self, reader: PenstockStreamReader) -> list[Row]:
        """Make batches until there are no new records."""
        rows: list[Row] = []
        for _ in range(BATCHES_AT_MOST):
            found = self.trigger(reader)
            if found is None:
                return sorted(rows)
            rows += found
        raise AssertionError(f"still new offsets after {BATCHES_AT_MOST} batches: {self.checkpoint[-2:]}")

    def trigger(self, reader: PenstockStreamReader) -> list[Row] | None:
        """Make one batch and return its rows; None without new offsets."""
        start = self.checkpoint[-1] if self.checkpoint else _through_text(reader.initialOffset())
        end = _through_text(reader.latestOffset(start, reader.getDefaultReadLimit()))
        if json.dumps(end) == json.dumps(start):
            return None
        rows = [row for split in reader.partitions(start, end) for row in _rows(reader.read(split))]
        self.checkpoint.append(end)
        return rows


def _through_text(offset: dict[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(json.dumps(offset))
    return parsed


def _rows(batches: Iterator[Any]) -> list[Row]:
    return [
        Row(row["partition"], row["offset"], row["value"]) for batch in batches for row in batch.to_pylist()
    ]
