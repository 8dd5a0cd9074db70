"""A table of SQLite is equal to its changelog after each batch, also if batches are repeated."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MaterializeError, OptionError, RowError, SchemaError
from penstock.targets import SqlTable
from penstock.targets.batch import Batch, LastRows
from tests.examples import examples
from tests.unit.targets.changes import COLUMNS, HISTORIES, Change, after, batch, rows_of


def table(folder: Path, name: str = "go'od%s") -> SqlTable:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(folder / "shop.db")
        connection.execute("PRAGMA synchronous = OFF")  # the machine does not lose power in these tests
        return connection

    return SqlTable(name, connect, "sqlite")


def stored(folder: Path, name: str = "go'od%s") -> dict[int, str | None]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        return rows_of(connection, f'"{name}"')


@settings(max_examples=examples(30))
@given(HISTORIES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_every_history_gives_the_true_table(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[Change]], repeats: list[bool]
) -> None:
    folder = tmp_path_factory.mktemp("sqlite")
    target, true = table(folder), dict[int, "str | None"]()
    for number, changes in enumerate(history):
        true = after(true, changes)
        assert target.apply(batch(number, changes))
        if repeats[number]:
            assert not target.apply(batch(number, list(changes)))
        assert stored(folder) == true


def test_an_empty_batch_moves_the_marker_too(tmp_path: Path) -> None:
    target = table(tmp_path)
    for number, changes in enumerate([[], [(1, "a", "+I")], []]):
        assert target.apply(batch(number, changes))
    assert stored(tmp_path) == {1: "a"}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (batch(1, [(1, "b", "+U")]), "applied to table .* before with other rows"),
        (batch(0, [(1, "a", "+I")]), "is older than batch 1"),
        (batch(3, [(1, "b", "+U")]), "does not follow batch 1.*The table has gone back in time"),
        (batch(2, [(1, "b", "+U")], "query-2"), "is kept by query query-1 .*is of query query-2"),
    ],
)
def test_a_batch_of_another_time_or_query_changes_nothing(tmp_path: Path, other: Batch, message: str) -> None:
    target = table(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    target.apply(batch(1, [(2, "b", "+I")]))
    with pytest.raises(MaterializeError, match=message):
        target.apply(other)
    assert stored(tmp_path) == {1: "a", 2: "b"}
    assert target.apply(batch(2, [(2, "b", "-D")]))


def test_names_that_mean_one_table_have_one_marker(tmp_path: Path) -> None:
    """SQLite finds `Cust` as `cust`. Two queries would both keep it."""
    assert table(tmp_path, "cust").apply(batch(0, [(1, "a", "+I")]))
    for name in ("Cust", "main.cust", "MAIN.CUST"):
        with pytest.raises(MaterializeError, match="is kept by query query-1"):
            table(tmp_path, name).apply(batch(0, [], "query-2"))
        assert not table(tmp_path, name).apply(batch(0, [(1, "a", "+I")]))
    assert table(tmp_path, "\u00c9t\u00e9").apply(batch(0, [], "query-2"))
    assert table(tmp_path, "\u00e9t\u00e9").apply(batch(0, [], "query-3")), "only ASCII has no case in SQLite"


NAMES = ["s", "S", "excluded", "EXCLUDED", "select", "new", "penstock", 'a"b', "main.s"]
"""Names of tables, also those of words in the statements."""


@pytest.mark.parametrize("name", NAMES)
def test_a_table_may_have_any_name(tmp_path: Path, name: str) -> None:
    target = table(tmp_path, name)
    target.check(COLUMNS, ["id"])
    target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")]))
    target.apply(batch(1, [(1, "a", "-D"), (2, "d", "+U")]))
    assert stored(tmp_path, name.removeprefix("main.").replace('"', '""')) == {2: "d", 3: "c"}


def test_the_first_batch_needs_an_empty_table(tmp_path: Path) -> None:
    target = table(tmp_path)
    with pytest.raises(MaterializeError, match="batch 4 is not the first"):
        target.apply(batch(4, [(1, "a", "+I")]))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("""CREATE TABLE "go'od%s" (id INTEGER PRIMARY KEY, "na%me" TEXT)""")
        connection.execute("""INSERT INTO "go'od%s" VALUES (9, 'left')""")
        connection.commit()
        with pytest.raises(MaterializeError, match="has rows that penstock did not write"):
            target.apply(batch(0, [(1, "a", "+I")]))
        connection.execute("""DELETE FROM "go'od%s" """)
        connection.commit()
    assert target.apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path) == {1: "a"}


def test_two_tables_of_a_database_have_their_own_markers(tmp_path: Path) -> None:
    one, two = table(tmp_path, "one"), table(tmp_path, "two")
    one.apply(batch(0, [(1, "a", "+I")]))
    one.apply(batch(1, [(1, "b", "+U")]))
    two.apply(batch(0, [(2, "a", "+I")], "query-2"))
    assert (stored(tmp_path, "one"), stored(tmp_path, "two")) == ({1: "b"}, {2: "a"})


def test_a_failure_in_the_middle_leaves_rows_and_marker_as_they_were(tmp_path: Path) -> None:
    target = table(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute(
            """CREATE TRIGGER no BEFORE INSERT ON "go'od%s" WHEN new."na%me" = 'bad' """
            """BEGIN SELECT RAISE(ABORT, 'refused'); END"""
        )
        bad = batch(1, [(1, "a", "-D"), (2, "b", "+I"), (3, "bad", "+I")])
        with pytest.raises(sqlite3.IntegrityError, match="refused"):
            target.apply(bad)
        assert stored(tmp_path) == {1: "a"}
        connection.execute("DROP TRIGGER no")
    assert target.apply(bad)
    assert stored(tmp_path) == {2: "b", 3: "bad"}


def test_rows_that_the_database_leaves_out_are_an_error(tmp_path: Path) -> None:
    target = table(tmp_path)
    target.apply(batch(0, [(1, "a", "+I")]))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute(
            """CREATE TRIGGER no BEFORE INSERT ON "go'od%s" WHEN new."na%me" = 'bad' """
            """BEGIN SELECT RAISE(IGNORE); END"""
        )
    with pytest.raises(MaterializeError, match="took 1 of the 2 rows of batch 1 and gave no error"):
        target.apply(batch(1, [(1, "b", "+U"), (2, "bad", "+I"), (3, "c", "-D")]))
    assert stored(tmp_path) == {1: "a"}
    assert target.apply(batch(1, [(1, "b", "+U"), (2, "c", "+I"), (3, "c", "-D")]))
    assert stored(tmp_path) == {1: "b", 2: "c"}


def test_a_commit_whose_answer_is_lost_is_applied_once(tmp_path: Path) -> None:
    class Lost(sqlite3.Connection):
        def commit(self) -> None:
            super().commit()
            raise sqlite3.OperationalError("connection lost")

    target = SqlTable("t", lambda: sqlite3.connect(tmp_path / "shop.db", factory=Lost), "sqlite")
    with pytest.raises(MaterializeError, match="did not confirm the commit of batch 0"):
        target.apply(batch(0, [(1, "a", "+I")]))
    assert not table(tmp_path, "t").apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path, "t") == {1: "a"}


def test_a_deferred_constraint_is_the_error_of_the_database(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE names (name TEXT PRIMARY KEY)")
        connection.execute(
            """CREATE TABLE t (id INTEGER PRIMARY KEY, "na%me" TEXT REFERENCES names """
            "DEFERRABLE INITIALLY DEFERRED)"
        )
        connection.commit()

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "shop.db")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        SqlTable("t", connect, "sqlite").apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path, "t") == {}


def test_a_connection_may_keep_a_transaction_open_as_python_3_12_does(tmp_path: Path) -> None:
    class Open(sqlite3.Connection):
        mode = False

        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named | {"isolation_level": None})
            self.execute("BEGIN")

        def __setattr__(self, name: str, value: Any) -> None:
            if name != "isolation_level":  # it has no effect then
                super().__setattr__(name, value)

        @property
        def autocommit(self) -> Any:
            return self.mode

        @autocommit.setter
        def autocommit(self, mode: Any) -> None:
            self.mode = mode

        def rollback(self) -> None:
            super().rollback()
            if self.mode is False:
                self.execute("BEGIN")

        def commit(self) -> None:
            super().commit()
            if self.mode is False:
                self.execute("BEGIN")

    target = SqlTable("t", lambda: sqlite3.connect(tmp_path / "shop.db", factory=Open), "sqlite")
    assert target.apply(batch(0, [(1, "a", "+I")]))
    assert stored(tmp_path, "t") == {1: "a"}


def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Path) -> None:
    class Autocommit(sqlite3.Connection):  # as Python 3.12 makes it
        autocommit = True

    target = SqlTable("t", lambda: sqlite3.connect(tmp_path / "shop.db", factory=Autocommit), "sqlite")
    with pytest.raises(OptionError, match="a connection with autocommit"):
        target.apply(batch(0, [(1, "a", "+I")]))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []


def test_a_table_with_the_name_of_the_staged_rows_is_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE penstock_staged (x)")
        connection.execute("INSERT INTO penstock_staged VALUES (7)")
        connection.commit()
        assert table(tmp_path).apply(batch(0, [(1, "a", "+I")]))
        assert connection.execute("SELECT x FROM penstock_staged").fetchall() == [(7,)]
    assert stored(tmp_path) == {1: "a"}
    for name in ("penstock_staged", "main.Penstock_batches"):
        with pytest.raises(OptionError, match="are penstock's own"):
            table(tmp_path, name).check(COLUMNS, ["id"])


def of_types(columns: pa.Schema, rows: Sequence[dict[str, Any]]) -> Batch:
    made = LastRows(("k",), columns)
    return Batch("q", 0, ("k",), made.last_rows(pa.Table.from_pylist(list(rows), schema=columns)))


def test_values_of_every_type_are_exact(tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    types = {
        "k": pa.binary(),
        "flag": pa.bool_(),
        "long": pa.int64(),
        "double": pa.float64(),
        "amount": pa.decimal128(20, 2),
        "day": pa.date32(),
        "at": pa.timestamp("us", tz="UTC"),
        "local": pa.timestamp("us"),
    }
    row = {
        "k": b"\0k",
        "flag": True,
        "long": -(2**63),
        "double": 0.1,
        "amount": Decimal("123456789012345678.90"),
        "day": date(2026, 1, 2),
        "at": at,
        "local": at.replace(tzinfo=None),
    }
    columns = pa.schema(list(types.items()))
    target = table(tmp_path)
    target.check(columns, ["k"])
    target.apply(of_types(columns, [row, {"k": b"x"}]))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        found = connection.execute("""SELECT * FROM "go'od%s" ORDER BY k""").fetchall()
    assert found[0] == (
        b"\0k",
        1,
        -(2**63),
        0.1,
        "123456789012345678.90",
        "2026-01-02",
        "2026-01-02T03:04:05.678901+00:00",
        "2026-01-02T03:04:05.678901",
    )
    assert found[1] == (b"x", *[None] * 7)


def test_a_decimal_has_no_exponent(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.decimal128(38, 10))])
    values = ["0.0000000000", "-0.0000000001", "1234567890123456789012345678.0000000000"]
    table(tmp_path).apply(of_types(columns, [{"k": Decimal(value)} for value in values]))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        found = connection.execute("""SELECT k FROM "go'od%s" ORDER BY rowid""").fetchall()
    assert [value for (value,) in found] == values


@pytest.mark.parametrize(("kind", "number"), [(pa.date32(), 2_932_897), (pa.timestamp("us"), 2**60)])
def test_a_time_that_python_does_not_have_is_an_error(tmp_path: Path, kind: pa.DataType, number: int) -> None:
    columns = pa.schema([("k", pa.int64()), ("when", kind)])
    width = pa.int32() if kind == pa.date32() else pa.int64()
    rows = pa.table([pa.array([1]), pa.array([number], width).cast(kind)], schema=columns)
    with pytest.raises(RowError, match="Column 'when' has a value that Python cannot hold"):
        table(tmp_path).apply(Batch("q", 0, ("k",), LastRows(("k",), columns).last_rows(rows)))


def test_a_key_alone_is_a_table(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.int64())])
    assert table(tmp_path).apply(of_types(columns, [{"k": 1}]))


def test_what_sqlite_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RowError, match="NaN"):
        table(tmp_path).apply(of_types(pa.schema([("k", pa.float64())]), [{"k": float("nan")}]))
    with pytest.raises(SchemaError, match="'list' has type"):
        table(tmp_path).check(pa.schema([("list", pa.list_(pa.int64()))]), ["list"])
    with pytest.raises(SchemaError, match="has a name of penstock"):
        table(tmp_path).check(pa.schema([("Penstock_Deleted", pa.int64())]), ["k"])
    with pytest.raises(OptionError, match="got 'oracle'"):
        SqlTable("t", lambda: None, "oracle").check(COLUMNS, ["id"])


def test_a_table_in_an_attached_database_is_refused(tmp_path: Path) -> None:
    """The marker is in the file of `main`, and SQLite with WAL commits each file by itself."""
    for name in ("other.cust", "temp.cust"):
        with pytest.raises(OptionError, match="in the attached database"):
            table(tmp_path, name).check(COLUMNS, ["id"])
    for name in ("cust", "Main.cust"):
        table(tmp_path, name).check(COLUMNS, ["id"])
    SqlTable("other.cust", lambda: None).check(COLUMNS, ["id"])


def test_a_database_that_cannot_be_read_is_a_sentence_before_the_start(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("not a database" * 100)
    table = SqlTable("t", lambda: sqlite3.connect(file), "sqlite")
    expected = (
        r"table t \(sqlite\) could not be looked at: DatabaseError: file is not a database\. Nothing was"
    )
    with pytest.raises(MaterializeError, match=expected):
        table.check_existing(batch(0, []).upserted().schema, ["id"])
