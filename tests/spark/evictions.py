"""Streams of SQL whose micro-batches a test cuts, and restarts between any two of them.

Runs in tests only. Invariant: a query reads the files of one step as one micro-batch, and continues from its
checkpoint after a restart. Two sessions never run a query at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.run.session import Session
from penstock.testing.tables import rows_left
from tests.spark.queries import RowsOfBatches

Event = tuple[str, dict[str, Any]]
"""A row, and its table."""
Table = Counter[tuple[Any, ...]]


def at(seconds: float | None) -> str | None:
    """Return a time as a row has it."""
    if seconds is None:
        return None
    return f"2026-01-01 {seconds // 3_600:02.0f}:{seconds // 60 % 60:02.0f}:{seconds % 60:06.3f}"


def declare(session: Session, folder: Path, tables: Mapping[str, str]) -> None:
    """Make tables of files that are read as streams, by their names and columns."""
    for name, columns in tables.items():
        (folder / name).mkdir(parents=True)
        session.execute(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'format' = 'json', "
            f"'path' = '{folder / name}', 'source.monitor-interval' = '1 s')"
        )


def steps_of(events: list[Event], size: int) -> list[list[Event]]:
    """Return events in micro-batches of so many."""
    return [events[start : start + size] for start in range(0, len(events), size)]


def tables_left(
    session: Session,
    folder: Path,
    queries: Mapping[str, str],
    steps: Iterable[list[Event]],
    restarts: Collection[int] = (),
    inserts: Collection[str] = (),
) -> dict[str, Table]:
    """Return the table that each query leaves.

    Args:
        session: with the tables of `declare`.
        folder: that of the tables, which also gets the checkpoints.
        queries: by their names.
        steps: the rows of each micro-batch. Spark may add micro-batches without rows.
        restarts: the numbers of steps after which each query is stopped and continues from its checkpoint.
        inserts: the names of the queries that are planned as those of INSERT.
    """
    running = {
        name: _Running(
            _frame_of_insert(session, query) if name in inserts else session.sql(query), folder / f"of-{name}"
        )
        for name, query in queries.items()
    }
    with ExitStack() as stack:
        for each in running.values():
            each.start()
            stack.callback(each.stop)
        for number, step in enumerate(steps):
            _write(folder, number, step)
            for each in running.values():
                each.query.processAllAvailable()
            for each in running.values() if number in restarts else ():
                each.stop()
                each.start()
    return {name: each.table() for name, each in running.items()}


def _frame_of_insert(session: Session, query: str) -> DataFrame:
    planned = partial(session._queries.query, Fragment(query), Source(query), is_insert=True)
    frame: DataFrame = session._for_user(session._queries.in_its_zone(planned))
    return frame


class _Running:
    """A query, and the rows of its micro-batches."""

    query: StreamingQuery

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self._frame, self._checkpoint = frame, checkpoint
        self._rows = RowsOfBatches()

    def start(self) -> None:
        writer = self._frame.writeStream.outputMode("append").foreachBatch(self._rows.take)
        self.query = writer.option("checkpointLocation", str(self._checkpoint)).start()

    def stop(self) -> None:
        self.query.stop()

    def table(self) -> Table:
        """Return the rows that the changes leave."""
        return Counter(rows_left(self._rows.rows()))


def _write(folder: Path, number: int, step: list[Event]) -> None:
    for name in dict.fromkeys(name for name, _ in step):
        waiting = folder / f".{name}"
        waiting.write_text("\n".join(json.dumps(row) for of, row in step if of == name))
        waiting.rename(folder / name / f"{number:05d}.json")
