"""Histories and logs of changes, and the batches that each release has applied to them.

Invariant: the batches never change. A release has recorded what the first two make, in SQLite.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.targets import ChangeLogTable, HistoryTable, SqlTable
from penstock.targets.all_rows import AllChanges, AllRows

_COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
_ROWS = AllRows(("id",), _COLUMNS)
_BATCHES: tuple[list[tuple[int, str | None, int, str]], ...] = (
    [(1, "a", 1, "+I"), (2, "b", 2, "+I"), (1, "a", 3, "-U"), (1, "é", 3, "+U")],
    [(2, "b", 4, "-D"), (3, None, 5, "+I")],
    [(1, "é", 6, "-D"), (3, "c", 7, "+U"), (2, "d", 8, "+I")],
)
RECORDED = 2
"""The number of batches that a release has applied."""
VERSIONS = {
    (1, "a", 1, 3, False),
    (1, "é", 3, 6, False),
    (2, "b", 2, 4, False),
    (3, None, 5, 7, False),
    (3, "c", 7, None, True),
    (2, "d", 8, None, True),
}
"""The history after all batches: key, name, the days from and to which a version is valid, is it current."""


def batch_of(number: int) -> AllChanges:
    """Return a batch of the changelog."""
    changes = [
        {"id": key, "name": name, "at": datetime(2026, 1, day, tzinfo=UTC), "row_kind": kind}
        for key, name, day, kind in _BATCHES[number]
    ]
    rows = pa.Table.from_pylist(changes, schema=_COLUMNS.append(pa.field("row_kind", pa.string())))
    received = pa.Table.from_batches(list(_ROWS.run(rows.to_batches())), _ROWS.schema)
    return AllChanges("8c19773b-93ee-4f08-a627-63d7f625a574", number, ("id",), received)


def opened(folder: Path) -> tuple[HistoryTable, ChangeLogTable]:
    """Return the history and the log in a folder."""
    folder.mkdir(parents=True, exist_ok=True)

    def table(name: str) -> SqlTable:
        return SqlTable(name, lambda: sqlite3.connect(folder / "shop.db"), "sqlite")

    return HistoryTable(table("versions"), time="at"), ChangeLogTable(table("changes"))


def versions(folder: Path) -> set[tuple[Any, ...]]:
    """Return the rows of the history, as `VERSIONS` has them."""
    found = _select(folder, "SELECT id, name, valid_from, valid_to, is_current FROM versions")
    return {
        (key, name, _day(begin), None if end is None else _day(end), bool(is_current))
        for key, name, begin, end, is_current in found
    }


def changes(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of the log: key, name, day, kind, number of the batch, in the order of each key."""
    found = _select(
        folder,
        "SELECT id, name, at, row_kind, change_batch FROM changes ORDER BY id, change_batch, change_number",
    )
    return [(key, name, _day(at), kind, number) for key, name, at, kind, number in found]


def true_changes() -> list[tuple[Any, ...]]:
    """Return what `changes` has to be after all batches."""
    found = [(*each, number) for number, batch in enumerate(_BATCHES) for each in batch]
    return sorted(found, key=lambda row: row[0])


def marker_of(folder: Path) -> list[tuple[Any, ...]]:
    """Return the tables with their definitions, and the markers."""
    made = _select(folder, "SELECT name, sql FROM sqlite_master ORDER BY name")
    return [*made, *_select(folder, "SELECT * FROM penstock_batches ORDER BY 1")]


def _select(folder: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        return connection.execute(text).fetchall()


def _day(text: str) -> int:
    return datetime.fromisoformat(text).day
