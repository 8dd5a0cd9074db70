"""Tables that follow a changelog, and the batches that each release has applied to them.

Invariant: the batches never change. A release has recorded what the first two make.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.targets import DeltaTable, ParquetTable, SqlTable
from penstock.targets.batch import Batch, LastRows

_COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))])
_ROWS = LastRows(("id",), _COLUMNS)
_BATCHES = (
    [(1, "a", "1.50", "+I"), (2, "b", None, "+I"), (3, "c", "0.10", "+I")],
    [(1, "a", "1.50", "-U"), (1, "é", "2.50", "+U"), (2, "b", None, "-D")],
    [(3, "c", "0.10", "-U"), (3, None, "0.10", "+U"), (4, "d", "7.00", "+I")],
)
RECORDED = 2
"""The number of batches that a release has applied."""
ROWS = {(1, "é", "2.50"), (3, None, "0.10"), (4, "d", "7.00")}
"""The table after all batches."""


def batch_of(number: int) -> Batch:
    """Return a batch of the changelog."""
    changes = [
        {"id": key, "name": name, "price": price and Decimal(price), "row_kind": kind}
        for key, name, price, kind in _BATCHES[number]
    ]
    rows = pa.Table.from_pylist(changes, schema=_COLUMNS.append(pa.field("row_kind", pa.string())))
    return Batch("8c19773b-93ee-4f08-a627-63d7f625a574", number, ("id",), _ROWS.last_rows(rows))


Row = tuple[int, "str | None", str]


class Target(Protocol):
    """What follows a changelog."""

    def apply(self, batch: Batch) -> bool: ...


@dataclass(frozen=True)
class Table:
    """A kind of table: how to open it in a folder, and its rows there."""

    open: Callable[[Path], Target]
    rows: Callable[[Path], set[Row]]


def _sqlite(folder: Path) -> SqlTable:
    folder.mkdir(parents=True, exist_ok=True)
    return SqlTable("goods", lambda: sqlite3.connect(folder / "shop.db"), "sqlite")


def _sqlite_rows(folder: Path) -> set[Row]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        return set(connection.execute("SELECT id, name, price FROM goods"))


def _parquet(folder: Path) -> ParquetTable:
    return ParquetTable(str(folder), bucket_count=2)


def _parquet_rows(folder: Path) -> set[Row]:
    return _rows(pa.concat_tables(pq.read_table(path) for path in _parquet(folder).paths()))


def _delta_rows(folder: Path) -> set[Row]:
    import deltalake  # noqa: PLC0415 - not everybody has it

    return _rows(pa.table(deltalake.DeltaTable(str(folder)).to_pyarrow_table()))


def _rows(table: Any) -> set[Row]:
    return {(row["id"], row["name"], str(row["price"])) for row in table.to_pylist()}


TABLES = {
    "sqlite": Table(_sqlite, _sqlite_rows),
    "parquet": Table(_parquet, _parquet_rows),
    "delta": Table(lambda folder: DeltaTable(str(folder)), _delta_rows),
}


def marker_of_sqlite(folder: Path) -> list[Any]:
    """Return the table of markers, with its definition."""
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        made = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'penstock_batches'").fetchall()
        return [*made, *connection.execute("SELECT * FROM penstock_batches")]


def marker_of_delta(folder: Path) -> list[Any]:
    """Return what the log says of penstock: transactions, and metadata of the table and of commits."""
    lines = [
        line
        for file in sorted((folder / "_delta_log").glob("*.json"))
        for line in file.read_text().splitlines()
    ]
    actions = [json.loads(line) for line in lines]
    marks = [{**each["txn"], "lastUpdated": 0} for each in actions if "txn" in each]
    tables = [each["metaData"]["configuration"] for each in actions if "metaData" in each]
    commits = [
        {name: value for name, value in each["commitInfo"].items() if name.startswith("penstock")}
        for each in actions
        if "commitInfo" in each
    ]
    return [*marks, *tables, *commits]
