"""Each task of `mapInArrow` prepares its process, because Spark may give it one that never reads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.spark.map_rows import map_rows


class Given:
    """A DataFrame that keeps the function that it is given."""

    function: Any = None

    def mapInArrow(self, function: Any, columns: str) -> None:
        self.function = function


def test_a_task_prepares_its_process_before_it_takes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def received() -> Iterator[pa.RecordBatch]:
        seen.append("rows")
        yield pa.record_batch({"n": [1]})

    def function(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    module = sys.modules["penstock.spark.map_rows"]
    monkeypatch.setattr(module, "begin_task", lambda: seen.append("begun"))
    rows: Any = Given()
    map_rows(rows, function, "n BIGINT")
    assert seen == [], "the driver is not a task"
    assert [batch.num_rows for batch in rows.function(received())] == [1]
    assert seen == ["begun", "rows"]
