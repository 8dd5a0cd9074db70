"""A processor of `transformWithState` that counts the rows of each key. Workers import it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

SETTING = "spark.sql.streaming.stateStore.providerClass"
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""`transformWithState` works with this provider only."""


class RunningCount(StatefulProcessor):
    """Gives the number of all rows of a key, after each batch that has some. `place` grows with it."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        old = self._count.get()
        count = (0 if old is None else old[0]) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(k=key[0], n=count, place=count)

    def close(self) -> None:
        pass


def running_counts(rows: DataFrame) -> DataFrame:
    """Return the counts, in the output mode update."""
    return rows.groupBy("k").transformWithState(
        RunningCount(), "k STRING, n BIGINT, place BIGINT", "update", "none"
    )
