"""Streaming queries whose batches a test sees one by one.

Runs in tests only. Invariant: a query is stopped, also when its test fails.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.types import ROW_KIND

QUERY_TIMEOUT_S = 300


def read_batch(spark: SparkSession, source: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format(source).options(**options).load()


def read_stream(spark: SparkSession, source: str, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format(source).options(**options).load()


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.topic, row.partition, row.offset))


def positions(rows: list[Row]) -> list[tuple[str, int, int]]:
    return [(row.topic, row.partition, row.offset) for row in in_order(rows)]


def run_available_now(stream: DataFrame, checkpoint: Path) -> list[list[Row]]:
    """Run a query over what is there now, and return the rows of each batch that is not empty."""
    batches: list[list[Row]] = []

    def take(batch: DataFrame, _: int) -> None:
        batches.append(in_order(batch.collect()))

    start = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    query = start.trigger(availableNow=True).start()
    with stopped(query):
        assert query.awaitTermination(QUERY_TIMEOUT_S), "the query did not end by itself"
    return [batch for batch in batches if batch]


class RowsOfBatches:
    """The rows of each micro-batch of a query, for `foreachBatch`. One that runs again replaces its rows.

    Two columns of a query may have one name, so all but the row kind have others here: `c0`, `c1` and so on.
    """

    def __init__(self) -> None:
        self._batches: dict[int, list[Row]] = {}

    def take(self, batch: DataFrame, number: int) -> None:
        names = [name if name == ROW_KIND else f"c{index}" for index, name in enumerate(batch.columns)]
        self._batches[number] = batch.toDF(*names).collect()

    @property
    def count(self) -> int:
        """How many micro-batches have come."""
        return len(self._batches)

    def rows(self) -> list[Row]:
        """Return all rows, in the order of their micro-batches."""
        return [row for _, rows in sorted(self._batches.items()) for row in rows]


@contextlib.contextmanager
def stopped(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def logged_offsets(checkpoint: Path) -> list[Any]:
    """The offsets of the (single) source as Spark logged them, batch by batch."""
    batches = sorted(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()),
        key=lambda f: int(f.name),
    )
    return [json.loads(file.read_text().splitlines()[2]) for file in batches]
