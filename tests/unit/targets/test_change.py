"""Tables whose columns change between two batches: SQLite, Delta and Iceberg, also if a batch is repeated."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.errors import MaterializeError, QueryEndedError, SchemaError, TableOrderError
from penstock.targets import DeltaTable, IcebergTable, SqlTable
from penstock.targets._iceberg_columns import change_columns
from penstock.targets.batch import DELETED, Batch
from penstock.targets.change import ColumnChange, Widening
from penstock.targets.hand_over import HandOver
from penstock.targets.kept import kept

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()


class Copy(Protocol):
    """A table and its rows."""

    target: Any

    def rows(self) -> list[dict[str, Any]]: ...


class SqliteCopy:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "shop.db"
        self.target = SqlTable("goods", lambda: sqlite3.connect(self._file), "sqlite")

    def rows(self) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._file)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(one) for one in connection.execute("SELECT * FROM goods ORDER BY id")]


class DeltaCopy:
    def __init__(self, folder: Path) -> None:
        self._uri = str(folder / "goods")
        self.target = DeltaTable(self._uri)

    def rows(self) -> list[dict[str, Any]]:
        library = pytest.importorskip("deltalake")
        found: list[dict[str, Any]] = (
            library.DeltaTable(self._uri).to_pyarrow_table().sort_by("id").to_pylist()
        )
        return found


class IcebergCopy:
    def __init__(self, folder: Path) -> None:
        self._properties = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/tables",
        }
        with self._catalog() as catalog:
            catalog.create_namespace("shop")
        self.target = IcebergTable("shop.goods", "shop", self._properties)

    def _catalog(self) -> Any:
        return pytest.importorskip("pyiceberg.catalog.sql").SqlCatalog("shop", **self._properties)

    def rows(self) -> list[dict[str, Any]]:
        with self._catalog() as catalog:
            found: list[dict[str, Any]] = (
                catalog.load_table("shop.goods").scan().to_arrow().sort_by("id").to_pylist()
            )
        return found


COPIES: dict[str, Callable[[Path], Copy]] = {"sqlite": SqliteCopy, "delta": DeltaCopy, "iceberg": IcebergCopy}


@pytest.fixture(params=list(COPIES))
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Copy:
    return COPIES[request.param](tmp_path)


def batch(
    number: int, columns: dict[str, pa.DataType], *rows: dict[str, Any], change: ColumnChange | None = None
) -> Batch:
    schema = pa.schema(list(columns.items()))
    schema = schema.append(pa.field(DELETED, pa.bool_(), nullable=False))
    table = pa.Table.from_pylist([{DELETED: False, **row} for row in rows], schema=schema)
    return Batch("query", number, ("id",), table, change or ColumnChange())


FIRST = {"id": LONG, "name": TEXT}
WIDER = FIRST | {"size": INT}
ADDED = ColumnChange(added=(pa.field("size", INT),))


def test_a_column_is_added_and_old_rows_have_null(copy: Copy) -> None:
    copy.target.check_change(ADDED)
    copy.target.apply(batch(0, FIRST, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}))
    second = batch(1, WIDER, {"id": 2, "name": "c", "size": 5}, {"id": 3, "size": 6}, change=ADDED)
    assert [copy.target.apply(second) for _ in range(2)] == [True, False]
    assert copy.rows() == [
        {"id": 1, "name": "a", "size": None},
        {"id": 2, "name": "c", "size": 5},
        {"id": 3, "name": None, "size": 6},
    ]


def test_a_batch_that_only_deletes_can_add_a_column(copy: Copy) -> None:
    copy.target.apply(batch(0, FIRST, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}))
    assert copy.target.apply(batch(1, WIDER, {"id": 1, DELETED: True}, change=ADDED))
    assert copy.rows() == [{"id": 2, "name": "b", "size": None}]
    assert copy.target.apply(batch(2, WIDER, {"id": 3, "size": 1}))
    assert copy.rows()[1] == {"id": 3, "name": None, "size": 1}


def test_a_driver_that_died_after_it_had_added_the_column_goes_on(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.target.apply(batch(0, FIRST, {"id": 1, "name": "a"}))
    second = batch(1, WIDER, {"id": 1, "name": "b", "size": 5}, change=ADDED)
    with monkeypatch.context() as dying:
        for name in ("delta.merge", "iceberg._commit", "sql._Apply._merge"):
            dying.setattr(f"penstock.targets.{name}", _die)
        with pytest.raises(DeathError):
            copy.target.apply(second)
    assert [row["name"] for row in copy.rows()] == ["a"]
    assert copy.target.apply(second)
    assert copy.rows() == [{"id": 1, "name": "b", "size": 5}]


class DeathError(Exception):
    """The driver dies."""


def _die(*_: Any) -> None:
    raise DeathError


def test_a_type_becomes_wider(copy: Copy) -> None:
    change = ColumnChange(widened=(Widening("size", INT, LONG),))
    copy.target.apply(batch(0, WIDER, {"id": 1, "size": 5}))
    if isinstance(copy, DeltaCopy):
        with pytest.raises(
            SchemaError, match=r"'size' of the Delta table .* has to become int64.*evolve='ignore'"
        ):
            copy.target.check_change(change)
        return
    copy.target.check_change(change)
    large = 1 << 40
    copy.target.apply(batch(1, FIRST | {"size": LONG}, {"id": 2, "size": large}, change=change))
    assert [row["size"] for row in copy.rows()] == [5, large]


def test_a_decimal_gets_more_digits(tmp_path: Path) -> None:
    narrow, wide = pa.decimal128(10, 2), pa.decimal128(14, 2)
    copy = IcebergCopy(tmp_path)
    copy.target.apply(batch(0, {"id": LONG, "price": narrow}, {"id": 1, "price": Decimal("1.50")}))
    change = ColumnChange(widened=(Widening("price", narrow, wide),))
    copy.target.check_change(change)
    large = Decimal("123456789012.25")
    copy.target.apply(batch(1, {"id": LONG, "price": wide}, {"id": 2, "price": large}, change=change))
    assert [row["price"] for row in copy.rows()] == [Decimal("1.50"), large]
    with pytest.raises(SchemaError, match="Iceberg does not change the scale"):
        copy.target.check_change(ColumnChange(widened=(Widening("price", wide, pa.decimal128(16, 4)),)))


def test_a_column_is_dropped_and_added_again_without_its_old_values(copy: Copy) -> None:
    copy.target.apply(batch(0, WIDER, {"id": 1, "size": 5}, {"id": 2, "size": 6}))
    change = ColumnChange(("size",), (pa.field("size", TEXT),))
    if isinstance(copy, DeltaCopy):
        with pytest.raises(SchemaError, match="deltalake cannot drop a column"):
            copy.target.check_change(change)
        return
    copy.target.check_change(change)
    copy.target.apply(batch(1, FIRST | {"size": TEXT}, {"id": 2, "size": "L"}, change=change))
    assert [row["size"] for row in copy.rows()] == [None, "L"]


def test_a_column_that_the_user_has_added_is_taken_where_its_type_is_compared(copy: Copy) -> None:
    copy.target.apply(batch(0, FIRST, {"id": 1, "name": "a"}))
    early = ColumnChange(added=(pa.field("size", INT),))
    copy.target.apply(batch(1, WIDER, {"id": 2, "size": 1}, change=early))
    again = batch(2, WIDER, {"id": 3, "size": 2}, change=early)
    if isinstance(copy, SqliteCopy):
        with pytest.raises(MaterializeError, match="has a column size that penstock has not added"):
            copy.target.apply(again)
        return
    assert copy.target.apply(again)
    assert [row["size"] for row in copy.rows()] == [None, 1, 2]


def test_a_driver_that_was_paused_does_not_apply_its_batch_over_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = IcebergCopy(tmp_path)
    copy.target.apply(batch(0, FIRST, {"id": 1, "name": "zero"}))
    late = batch(1, WIDER, {"id": 1, "name": "one", "size": 1}, change=ADDED)
    newer = batch(2, WIDER, {"id": 1, "name": "two", "size": 2})
    changing = "penstock.targets.iceberg.change_columns"

    def paused(table: Any, change: ColumnChange) -> None:
        monkeypatch.setattr(changing, change_columns)
        assert copy.target.apply(late)
        assert copy.target.apply(newer)
        change_columns(table, change)

    monkeypatch.setattr(changing, paused)
    with pytest.raises(TableOrderError, match="is older than batch 2"):
        copy.target.apply(late)
    assert copy.rows() == [{"id": 1, "name": "two", "size": 2}]


def test_a_paused_driver_does_not_change_the_columns_of_a_table_that_was_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query that has got the table would lose the values of a column that is dropped."""
    copy = IcebergCopy(tmp_path)
    copy.target.apply(batch(0, FIRST, {"id": 1, "name": "zero"}))
    changing = "penstock.targets.iceberg.change_columns"

    def paused(table: Any, change: ColumnChange) -> None:
        monkeypatch.setattr(changing, change_columns)
        live = kept(copy.target)
        live.hand_over(live.seen(), HandOver("query", 0, "heir", "/checkpoints/heir"))
        change_columns(table, change)

    monkeypatch.setattr(changing, paused)
    with pytest.raises(QueryEndedError, match=r"has handed over .* to query heir"):
        copy.target.apply(batch(1, {"id": LONG}, {"id": 1}, change=ColumnChange(dropped=("name",))))
    assert copy.rows() == [{"id": 1, "name": "zero"}]
