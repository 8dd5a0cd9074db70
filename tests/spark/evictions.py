"""Streams of SQL whose micro-batches a test cuts, and restarts between any two of them.

Runs in tests only. Invariant: a query reads the files of one step as one micro-batch, and continues from its
checkpoint after a restart. Two sessions never run a query at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from penstock.sql.run.session import Session

Event = tuple[str, dict[str, Any]]
"""A row, and its table."""
Table = Counter[tuple[Any, ...]]
KIND = "row_kind"


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
) -> dict[str, Table]:
    """Return the table that each query leaves.

    Args:
        session: with the tables of `declare`.
        folder: that of the tables, which also gets the checkpoints.
        queries: by their names.
        steps: the rows of each micro-batch. Spark may add micro-batches without rows.
        restarts: the numbers of steps after which each query is stopped and continues from its checkpoint.
    """
    running = {name: _Running(session.sql(query), folder / f"of-{name}") for name, query in queries.items()}
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


class _Running:
    """A query, and the rows of each of its micro-batches. One that runs again replaces its rows."""

    query: StreamingQuery

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self._frame, self._checkpoint = frame, checkpoint
        self._batches: dict[int, list[dict[str, Any]]] = {}

    def start(self) -> None:
        def take(batch: DataFrame, number: int) -> None:
            names = [f"c{place}" for place in range(len(batch.columns) - (KIND in batch.columns))]
            shown = batch.toDF(*names, *([KIND] if KIND in batch.columns else []))
            self._batches[number] = [row.asDict() for row in shown.collect()]

        writer = self._frame.writeStream.outputMode("append").foreachBatch(take)
        self.query = writer.option("checkpointLocation", str(self._checkpoint)).start()

    def stop(self) -> None:
        self.query.stop()

    def table(self) -> Table:
        """Return the rows that the changes leave."""
        found: Table = Counter()
        for _, rows in sorted(self._batches.items()):
            for row in rows:
                kind = row.pop(KIND, "+I")
                found[tuple(row.values())] += 1 if kind in ("+I", "+U") else -1
        assert min(found.values(), default=0) >= 0, "a row was taken back that was not there"
        return +found


def _write(folder: Path, number: int, step: list[Event]) -> None:
    for name in dict.fromkeys(name for name, _ in step):
        waiting = folder / f".{name}"
        waiting.write_text("\n".join(json.dumps(row) for of, row in step if of == name))
        waiting.rename(folder / name / f"{number:05d}.json")
