"""The same as `normalize` with Spark's `transformWithState`: a state for each key, in RocksDB.

Runs on executors, so it stands in a module of its own that a worker imports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"
CHANGES = "row_kind STRING, k BIGINT, v BIGINT, s STRING, at BIGINT"


class KeepNewest(StatefulProcessor):
    """Keeps the newest row of each key, and gives what changed."""

    def init(self, handle: Any) -> None:
        self._newest = handle.getValueState("newest", "v BIGINT, s STRING, at BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        old = self._newest.get()
        for row in sorted(rows, key=lambda each: each.at):
            new = (row.v, row.s, row.at)
            if old is None:
                yield _change("+I", key[0], new)
            elif old[2] < new[2] and old[:2] != new[:2]:
                yield _change("-U", key[0], old)
                yield _change("+U", key[0], new)
            old = new
        self._newest.update(old)

    def close(self) -> None:
        pass


def _change(kind: str, key: int, row: Any) -> Row:
    return Row(row_kind=kind, k=key, v=row[0], s=row[1], at=row[2])


def changes(rows: DataFrame) -> DataFrame:
    """Return the changelog of rows of `queries.COLUMNS`."""
    return rows.groupBy("k").transformWithState(KeepNewest(), CHANGES, "update", "none")
