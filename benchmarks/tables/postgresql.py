"""A batch of changes in a table of PostgreSQL: rows that a driver sends by INSERT, and by COPY.

`before` is the way that penstock had at first: rows by INSERT, and a merge in the order in which they came.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import psycopg
from tests.postgresql import running_postgresql

from benchmarks import usage
from benchmarks.tables.rows import COLUMNS, PART, Changes, rows_of
from penstock.targets import SqlTable
from penstock.targets.batch import Batch, LastRows

_LAST_ROWS = LastRows(("id",), COLUMNS)
_QUERY = "benchmark"
_SHARED_BUFFERS = "128MB"
"""PostgreSQL's default."""
_MERGES, _IN_ORDER = 'ON CONFLICT ("id")', ' ORDER BY "id"'
"""What is only in the statement that merges rows; how penstock orders the rows in it."""


class _WithoutCopy:
    """A connection of a driver that has no COPY. penstock sends rows by INSERT then.

    Args:
        inner: the connection.
        left_out: is left out of the statement that merges rows.
    """

    def __init__(self, inner: Any, left_out: str = "") -> None:
        self._inner = inner
        self._left_out = left_out

    def cursor(self) -> Any:
        return _CursorWithoutCopy(self._inner.cursor(), self._left_out)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _CursorWithoutCopy:
    def __init__(self, inner: Any, left_out: str) -> None:
        self._inner = inner
        self._left_out = left_out

    def execute(self, statement: str, *values: Any) -> None:
        if self._left_out and _MERGES in statement:
            if self._left_out not in statement:
                raise AssertionError(f"expected {self._left_out!r} in {statement!r}")
            statement = statement.replace(self._left_out, "")
        self._inner.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        if name == "copy":
            raise AttributeError(name)
        return getattr(self._inner, name)


def measure(row_count: int, change_count: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each way, in turn."""
    with running_postgresql(shared_buffers=_SHARED_BUFFERS) as server:
        ways: dict[str, Callable[[], Any]] = {
            "COPY": lambda: psycopg.connect(server),
            "INSERT": lambda: _WithoutCopy(psycopg.connect(server)),
            "before": lambda: _WithoutCopy(psycopg.connect(server), _IN_ORDER),
        }
        starts = range(0, row_count, PART)
        for number, start in enumerate(starts):
            rows = rows_of(np.arange(start, min(start + PART, row_count)), 0)
            SqlTable("customers", ways["COPY"]).apply(_batch(rows, number))
        number, done, expected = len(starts), 0, row_count
        with closing(psycopg.connect(server, autocommit=True)) as connection:
            connection.execute("VACUUM ANALYZE customers")
        for round_, way in ((one, way) for one in range(rounds) for way in ways):
            changes = Changes(row_count, change_count, number, done)
            done += changes.updated + changes.deleted
            figures = _timed(SqlTable("customers", ways[way]), _batch(changes.rows, number))
            number, expected = number + 1, expected + changes.inserted - changes.deleted
            with closing(psycopg.connect(server)) as connection:
                found = connection.execute("SELECT count(*) FROM customers").fetchone()
            if found != (expected,):
                raise AssertionError(f"expected {expected} rows, got {found}")
            yield {"way": way, "round": round_, "rows": row_count, "changes": change_count, **figures}


def _batch(rows: Any, number: int) -> Batch:
    return Batch(_QUERY, number, ("id",), _LAST_ROWS.last_rows(rows))


def _timed(target: SqlTable, batch: Batch) -> dict[str, float]:
    """Return the seconds of a batch, and the processor time of the driver."""
    before, began = usage.snapshot(), time.monotonic()
    target.apply(batch)
    seconds = time.monotonic() - began
    cpu_s = usage.spent(before, usage.snapshot(), {usage.DRIVER}).cpu_s
    return {"seconds": round(seconds, 2), "driver_cpu_s": round(cpu_s[usage.DRIVER], 2)}
