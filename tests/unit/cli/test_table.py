"""`penstock table forget` frees a table, and says before what it would do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import MaterializeError, OptionError
from penstock.targets import SqlTable
from penstock.targets.forget import forget
from tests.unit.targets.changes import batch


def test_forget_deletes_rows_and_marker_only_with_yes(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    table, other = (SqlTable(name, lambda: sqlite3.connect(file), "sqlite") for name in ("one", "two"))
    for each in (table, other):
        each.apply(batch(0, [(1, "a", "+I")]))
    command = ["table", "forget", "One", "--sqlite", str(file)]
    shown = CliRunner().invoke(app, command)
    assert shown.output == (
        "Table One is kept by query query-1, whose last batch is 0.\n"
        "With --yes the marker is deleted, and all of its rows. Query query-1 stops with an error at its "
        "next batch. Nothing was changed.\n"
    )
    assert table.apply(batch(1, [(2, "b", "+I")]))
    done = CliRunner().invoke(app, [*command, "--yes"])
    assert (done.exit_code, "The marker was deleted, and all of its rows." in done.output) == (0, True)
    with pytest.raises(MaterializeError, match="has no marker of penstock"):
        table.apply(batch(2, []))
    assert table.apply(batch(0, [(3, "c", "+I")], "query-2"))
    assert other.apply(batch(1, [])), "the other table of the database"
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT id FROM one").fetchall() == [(3,)]


def test_a_look_changes_nothing_for_the_running_query(tmp_path: Path) -> None:
    file, statements = tmp_path / "shop.db", list[str]()
    SqlTable("t", lambda: sqlite3.connect(file), "sqlite").apply(batch(0, [(1, "a", "+I")]))

    def traced() -> sqlite3.Connection:
        connection = sqlite3.connect(file)
        connection.set_trace_callback(statements.append)
        return connection

    assert forget(SqlTable("t", traced, "sqlite"), is_wanted=False).has_rows
    assert [each for each in statements if each.startswith(("DELETE", "UPDATE", "INSERT"))] == []
    assert any(each.startswith("SELECT") for each in statements)


def test_forget_of_a_missing_table_deletes_the_marker(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    SqlTable("t", lambda: sqlite3.connect(file), "sqlite").apply(batch(0, [(1, "a", "+I")]))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE t")
    command = ["table", "forget", "t", "--sqlite", str(file), "--yes"]
    assert "nothing else, because it is missing or empty" in CliRunner().invoke(app, command).output
    again = CliRunner().invoke(app, command).exception
    assert isinstance(again, MaterializeError)
    assert "No query keeps table t (sqlite)" in str(again)


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    table = SqlTable("t", lambda: sqlite3.connect(file), "sqlite")
    table.apply(batch(0, [(1, "a", "+I")]))
    wanted = batch(0, []).upserted().schema.append(pa.field("city", pa.string()))
    with pytest.raises(MaterializeError, match=r"has no column city\..* belong together"):
        table.check_existing(wanted, ["id"])
    done = CliRunner().invoke(app, ["table", "forget", "t", "--sqlite", str(file), "--yes"])
    assert "If its columns are others, drop the table first." in done.output
    with pytest.raises(MaterializeError, match=r"has no column city\..* Drop it, and the query creates it"):
        table.check_existing(wanted, ["id"])


def test_wrong_use_says_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    file.touch()
    both = ["--sqlite", str(file), "--postgresql", "host=db"]
    for given in ([], both):
        error = CliRunner().invoke(app, ["table", "forget", "t", *given]).exception
        assert isinstance(error, OptionError)
        assert "Expected one of --sqlite FILE and --postgresql CONNECTION" in str(error)
    assert CliRunner().invoke(app, ["table", "forget", "t", "--sqlite", "missing.db"]).exit_code == 2
    assert not Path("missing.db").exists()
    no_marker = CliRunner().invoke(app, ["table", "forget", "t", "--sqlite", str(file)]).exception
    assert "there is no marker of it" in str(no_marker)


def test_what_a_database_says_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("not a database" * 100)
    error = CliRunner().invoke(app, ["table", "forget", "t", "--sqlite", str(file), "--yes"]).exception
    assert isinstance(error, MaterializeError)
    assert str(error).startswith(
        "Table t could not be looked at or freed: DatabaseError: file is not a database."
    )
    assert "both are there, or both are gone" in str(error)
    assert file.read_text() == "not a database" * 100


def test_a_postgresql_that_cannot_be_reached_or_named_is_one_sentence() -> None:
    pytest.importorskip("psycopg")

    def refused(connection: str) -> str:
        done = CliRunner().invoke(app, ["table", "forget", "t", "--postgresql", connection])
        assert isinstance(done.exception, MaterializeError | OptionError)
        return str(done.exception)

    away = refused("host=127.0.0.1 port=1 dbname=shop")
    assert "Connection refused" in away
    assert "\n" not in away
    hint = refused("host=db password=hunter2 hunter3")
    assert "Expected a text such as 'host=db dbname=shop user=app'" in hint
    assert "hunter" not in hint
