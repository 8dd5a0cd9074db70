"""A table of a real PostgreSQL is equal to its changelog, and two drivers apply a batch once.

It stands here because unit tests start no server. It needs no broker.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import MaterializeError, OptionError, QueryEndedError, TableOrderError
from penstock.targets import ChangeLogTable, HistoryTable, SqlTable, sql
from penstock.targets._sql_values import as_arrow
from penstock.targets.batch import Batch, LastRows
from penstock.targets.hand_over import HandOver
from penstock.targets.kept import kept
from tests.compat import tables
from tests.compat.releases import HERE, RELEASES
from tests.examples import examples
from tests.kafka.dying_materialize import AFTER, BEFORE, CHANGES
from tests.postgresql import running_postgresql, why_not
from tests.unit.cli.table_job import Job, new_code, old_code, true_rows
from tests.unit.targets import histories
from tests.unit.targets.changes import COLUMNS, QUERY, Change, after, batch, rows_of
from tests.waiting import wait_until

CHILD_TIMEOUT_S = 120
NUMBERS = itertools.count()
HISTORY = st.lists(histories.CHANGES, max_size=20).map(histories.without_deletes_at_the_time_of_a_row)
psycopg = pytest.importorskip("psycopg", reason="no driver for PostgreSQL: pip install 'psycopg[binary]'")

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgresql() as found:
        yield found


def stored(server: str, table: str) -> dict[int, str | None]:
    with closing(psycopg.connect(server)) as connection:
        return rows_of(connection, table)


def test_each_batch_is_applied_once(server: str) -> None:
    target = SqlTable("public.go%ods", lambda: psycopg.connect(server))
    true: dict[int, str | None] = {}
    history: list[list[Change]] = [
        [(1, "a", "+I"), (2, "b", "+I")],
        [(1, "a", "-U"), (1, None, "+U"), (2, "b", "-D"), (3, "c", "+I")],
        [],
        [(3, "c", "-U"), (4, "c", "+U"), (9, "x", "-D")],
    ]
    for number, changes in enumerate(history):
        true = after(true, changes)
        assert target.apply(batch(number, changes))
        assert not target.apply(batch(number, changes))
        assert stored(server, '"go%ods"') == true
    with pytest.raises(MaterializeError, match="with other rows"):
        target.apply(batch(3, [(5, "e", "+I")]))
    with pytest.raises(MaterializeError, match="does not follow"):
        target.apply(batch(5, []))
    assert stored(server, '"go%ods"') == true


def test_a_new_query_takes_an_empty_or_missing_table_and_the_old_one_stops(server: str) -> None:
    target = SqlTable("taken", lambda: psycopg.connect(server))
    target.apply(batch(0, [(1, "a", "+I")]))
    with pytest.raises(MaterializeError, match="The table is not empty"):
        target.apply(batch(0, [(2, "b", "+I")], "query-2"))
    for number, statement in enumerate(["TRUNCATE taken", "DROP TABLE taken"], start=2):
        with closing(psycopg.connect(server, autocommit=True)) as connection:
            connection.execute(statement)
        with pytest.raises(MaterializeError, match="missing or empty now"):
            target.apply(batch(1, [(3, "c", "+I")], f"query-{number - 1}"))
        assert target.apply(batch(0, [(2, "b", "+I")], f"query-{number}"))
        assert stored(server, "taken") == {2: "b"}
        with pytest.raises(MaterializeError, match=f"is kept by query query-{number}"):
            target.apply(batch(1, [(3, "c", "+I")], f"query-{number - 1}"))


def test_a_table_is_handed_over_to_a_changed_job_and_back(server: str, tmp_path: Path) -> None:
    target = SqlTable("handed", lambda: psycopg.connect(server))
    live, new = Job(target, tmp_path / "live"), Job(target, tmp_path / "new", new_code)
    live.run(7)

    def command(name: str, job: Job, to: str) -> str:
        place = ["--postgresql", server, "--checkpoint", str(job.folder), "--to", str(tmp_path / to)]
        return CliRunner().invoke(app, ["table", name, "handed", *place, "--yes", "--no-state"]).output

    assert "Start the changed job" in command("promote", live, "new")
    new.run(12)
    with pytest.raises(QueryEndedError, match=r"has handed over table handed \(postgresql\) to query"):
        live.run(12)
    assert "Start the old job" in command("rollback", new, "back")
    Job(target, tmp_path / "back").run(17)
    with pytest.raises(QueryEndedError):
        new.run(17)
    ranges = (old_code, 0, 7), (new_code, 7, 12), (old_code, 12, 17)
    assert stored(server, "handed") == true_rows(*ranges)


def test_an_old_driver_that_commits_while_the_table_is_handed_over_keeps_it(
    server: str, tmp_path: Path
) -> None:
    """The hand-over waits for the transaction of the batch, and then finds another marker."""
    target = SqlTable("fought", lambda: psycopg.connect(server))
    live = Job(target, tmp_path / "live")
    live.run(2)
    seen = kept(target).seen()
    begun, end = threading.Event(), threading.Event()

    class Slow(SqlTable):
        def _commit(self, connection: Any, given: Any) -> None:
            begun.set()
            assert end.wait(CHILD_TIMEOUT_S)
            super()._commit(connection, given)

    slow = Job(Slow("fought", lambda: psycopg.connect(server)), live.folder)
    with ThreadPoolExecutor(2) as threads:
        batch_of_old = threads.submit(slow.run, 4)
        assert begun.wait(CHILD_TIMEOUT_S)
        handed = threads.submit(kept(target).hand_over, seen, HandOver(live.query_id, 0, "heir", "/to"))
        wait_until(lambda: _is_waiting(server), "the hand-over to wait for the batch")
        end.set()
        assert batch_of_old.result(CHILD_TIMEOUT_S) == [(2, 4)]
        with pytest.raises(TableOrderError, match="Another commit to"):
            handed.result(CHILD_TIMEOUT_S)
    assert live.run(6) == [(4, 6)]


def _is_waiting(server: str) -> bool:
    with closing(psycopg.connect(server)) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        ).fetchone()
    return bool(found[0])


def test_forget_frees_a_table_with_rows(server: str) -> None:
    target = SqlTable("public.forgotten", lambda: psycopg.connect(server))
    target.check_existing(COLUMNS, ["id"])
    target.apply(batch(0, [(1, "a", "+I")]))
    target.check_existing(COLUMNS, ["id"])
    with pytest.raises(MaterializeError, match=r"has no column city\. It has id, na%me"):
        target.check_existing(COLUMNS.append(pa.field("city", pa.string())), ["id"])
    command = ["table", "forget", "forgotten", "--postgresql", server]
    shown = CliRunner().invoke(app, command)
    assert (shown.exit_code, "Nothing was changed" in shown.output) == (0, True)
    assert stored(server, "forgotten") == {1: "a"}
    done = CliRunner().invoke(app, [*command, "--yes"])
    assert (done.exit_code, "The marker was deleted, and all of its rows" in done.output) == (0, True)
    with pytest.raises(MaterializeError, match="has no marker of penstock"):
        target.apply(batch(1, [(2, "b", "+I")]))
    assert target.apply(batch(0, [(2, "b", "+I")], "query-2"))
    assert stored(server, "forgotten") == {2: "b"}


@pytest.mark.parametrize("name", ["s", "S", "excluded", "EXCLUDED", "select", 'a"b', "public.s"])
def test_a_table_may_have_any_name(server: str, name: str) -> None:
    quoted = ".".join('"{}"'.format(part.replace('"', '""')) for part in name.split("."))
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {quoted}, penstock_batches")
    target = SqlTable(name, lambda: psycopg.connect(server))
    target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I"), (3, "c", "+I")]))
    target.apply(batch(1, [(1, "a", "-D"), (2, "d", "+U")]))
    assert stored(server, quoted) == {2: "d", 3: "c"}


def test_names_that_mean_one_table_have_one_marker(server: str) -> None:
    assert SqlTable("named", lambda: psycopg.connect(server)).apply(batch(0, [(1, "a", "+I")]))
    for name in ("public.named", "postgres.public.named"):
        target = SqlTable(name, lambda: psycopg.connect(server))
        with pytest.raises(MaterializeError, match="is kept by query query-1"):
            target.apply(batch(0, [], "query-2"))
        assert not target.apply(batch(0, [(1, "a", "+I")]))


def test_a_name_that_means_another_table_now_has_no_marker(server: str) -> None:
    """The search path of the connection has changed, and the markers are in its first schema as before."""

    def target(path: str) -> SqlTable:
        return SqlTable("moved", lambda: psycopg.connect(server, options=f"-c search_path={path}"))

    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute('CREATE SCHEMA here CREATE TABLE moved (id BIGINT PRIMARY KEY, "na%me" TEXT)')
        connection.execute('CREATE SCHEMA there CREATE TABLE moved (id BIGINT PRIMARY KEY, "na%me" TEXT)')
    assert target("public,here").apply(batch(0, [(1, "a", "+I")]))
    with pytest.raises(MaterializeError, match="has no marker of penstock, and batch 1 is not the first"):
        target("public,there").apply(batch(1, [(2, "b", "+I")]))
    assert stored(server, "there.moved") == {}
    assert target("here,public").apply(batch(1, [(2, "b", "+I")]))
    assert stored(server, "here.moved") == {1: "a", 2: "b"}


def test_a_name_that_the_database_would_cut_off_and_a_temporary_table_are_refused(server: str) -> None:
    target = SqlTable("é" * 32, lambda: psycopg.connect(server))
    with pytest.raises(OptionError, match=r"The name of table .* has 64 bytes in UTF-8"):
        target.check(COLUMNS, ["id"])
    with pytest.raises(OptionError, match=r"The name of column 'x+' has 64 bytes"):
        SqlTable("t", target.connect).check(pa.schema([("x" * 64, pa.int64())]), [])
    SqlTable("x" * 63, target.connect).check(COLUMNS, ["id"])
    with pytest.raises(OptionError, match="is a temporary table"):
        SqlTable("pg_temp.t", target.connect).apply(batch(0, []))


def test_many_queries_start_at_once_in_an_empty_database(server: str) -> None:
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute("CREATE DATABASE empty")
    barrier, applied = threading.Barrier(4), []

    def connect() -> Any:
        connection = psycopg.connect(f"{server} dbname=empty")
        barrier.wait(30)
        return connection

    def apply(number: int) -> None:
        applied.append(SqlTable(f"table_{number % 2}", connect).apply(batch(0, [(1, "a", "+I")])))

    threads = [threading.Thread(target=apply, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(applied) == [False, False, True, True]


def test_tables_that_are_there_need_no_right_to_create_tables(server: str) -> None:
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        SqlTable("ours", lambda: psycopg.connect(server)).merge(batch(0, []))
        SqlTable("first", lambda: psycopg.connect(server)).apply(batch(0, []))
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE app LOGIN")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ours, penstock_batches TO app")
        [(handed_over,)] = connection.execute("SELECT to_regclass('penstock_handed_over')").fetchall()
        if handed_over is not None:  # of another test
            connection.execute("GRANT SELECT ON penstock_handed_over TO app")
    target = SqlTable("ours", lambda: psycopg.connect(f"{server} user=app"))
    assert target.apply(batch(0, [(1, "a", "+I")]))
    assert target.apply(batch(1, [(1, "b", "+U")]))
    assert stored(server, "ours") == {1: "b"}


def test_two_drivers_apply_a_batch_once(server: str) -> None:
    """The second driver waits for the transaction of the first, and then sees its marker."""
    target = SqlTable("twice", lambda: psycopg.connect(server))
    target.apply(batch(0, [(1, "a", "+I")]))
    applied: list[bool] = []
    barrier = threading.Barrier(2)

    def connect() -> Any:
        connection = psycopg.connect(server)
        barrier.wait(30)
        return connection

    racing = SqlTable("twice", connect)
    threads = [
        threading.Thread(target=lambda: applied.append(racing.apply(batch(1, [(1, "b", "+U")]))))
        for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(applied) == [False, True]
    assert stored(server, "twice") == {1: "b"}


@pytest.mark.parametrize("where", [BEFORE, AFTER])
def test_a_driver_that_dies_at_the_commit_of_a_batch_applies_it_once(server: str, where: str) -> None:
    table = f"killed_{where.replace('-', '_')}"
    target = SqlTable(table, lambda: psycopg.connect(server))
    first: list[Change] = [(1, "a", "+I"), (2, "b", "+I")]
    target.apply(batch(0, first))
    child = [sys.executable, "-m", "tests.kafka.dying_materialize", where, server, table]
    died = subprocess.run(child, check=False, timeout=CHILD_TIMEOUT_S, capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL, died.stderr
    is_committed = where == AFTER
    true = after(after({}, first), CHANGES)
    assert stored(server, table) == (true if is_committed else after({}, first))
    assert target.apply(batch(1, CHANGES)) is not is_committed
    assert stored(server, table) == true
    assert target.apply(batch(2, [(4, "d", "+I")]))
    assert stored(server, table) == {**true, 4: "d"}


def test_an_error_of_the_database_changes_nothing(server: str) -> None:
    target = SqlTable("texts", lambda: psycopg.connect(server))
    target.apply(batch(0, [(1, "a", "+I")]))
    with pytest.raises(psycopg.DataError):
        target.apply(batch(1, [(1, "a", "-D"), (2, "nul \0", "+I")]))
    assert stored(server, "texts") == {1: "a"}


def test_rows_that_a_trigger_leaves_out_are_an_error(server: str) -> None:
    target = SqlTable("dropped", lambda: psycopg.connect(server))
    target.apply(batch(0, [(1, "a", "+I")]))
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute(
            "CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS "
            """'BEGIN IF NEW."na%me" = ''bad'' THEN RETURN NULL; END IF; RETURN NEW; END'"""
        )
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON dropped FOR EACH ROW EXECUTE FUNCTION leave_out()"
        )
    with pytest.raises(MaterializeError, match="took 1 of the 2 rows of batch 1 and gave no error"):
        target.apply(batch(1, [(1, "b", "+U"), (2, "bad", "+I")]))
    assert stored(server, "dropped") == {1: "a"}
    assert target.apply(batch(1, [(1, "b", "+U"), (2, "c", "+I")]))


def test_types(server: str) -> None:
    columns = pa.schema(
        [
            ("k", pa.int32()),
            ("flag", pa.bool_()),
            ("amount", pa.decimal128(38, 10)),
            ("bytes", pa.binary()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("real", pa.float32()),
        ]
    )
    row = pa.Table.from_pylist(
        [{"k": 1, "flag": False, "bytes": b"\0", "real": float("nan")}], schema=columns
    )
    target = SqlTable("types", lambda: psycopg.connect(server))
    target.check(columns, ["k"])
    assert target.apply(Batch("q", 0, ("k",), LastRows(("k",), columns).last_rows(row)))
    with closing(psycopg.connect(server)) as connection:
        found = connection.execute("SELECT k, flag, bytes, real::text, at FROM types").fetchone()
    assert found == (1, False, b"\0", "NaN", None)


def test_a_connection_that_commits_by_itself_is_refused_and_a_table_of_the_user_stays(server: str) -> None:
    with pytest.raises(OptionError, match="a connection with autocommit"):
        SqlTable("mine", lambda: psycopg.connect(server, autocommit=True)).apply(batch(0, []))
    with closing(psycopg.connect(server)) as connection:
        connection.execute("CREATE TABLE penstock_staged (x INTEGER)")
        connection.commit()
        assert SqlTable("mine", lambda: psycopg.connect(server)).apply(batch(0, [(1, "a", "+I")]))
        assert connection.execute("SELECT count(*) FROM public.penstock_staged").fetchall() == [(0,)]


@pytest.mark.parametrize("release", RELEASES)
def test_a_table_of_a_release_knows_its_last_batch_and_goes_on(server: str, release: str) -> None:
    """The file is what `pg_dump --inserts` wrote after the first batches of tests/compat/tables.py."""
    name = f"of_{release}".replace(".", "_")
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address = server.replace("dbname=postgres", f"dbname={name}")
    with closing(psycopg.connect(address, autocommit=True)) as connection:
        connection.execute((HERE / release / "tables" / "postgresql.sql").read_text(encoding="utf-8"))
        target = SqlTable("goods", lambda: psycopg.connect(address))
        assert not target.apply(tables.batch_of(tables.RECORDED - 1)), "its last batch was applied twice"
        assert target.apply(tables.batch_of(tables.RECORDED))
        rows = connection.execute("SELECT id, name, price FROM goods").fetchall()
        assert {(key, found, str(price)) for key, found, price in rows} == tables.ROWS


TEXTS = st.text(
    st.one_of(st.sampled_from("\\N.\t\n\r,'\"b x"), st.characters(exclude_characters="\0", codec="utf-8"))
)
SECONDS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001 - the zone is that of the column
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    'te"xt': (pa.string(), TEXTS),
    "large": (pa.large_string(), st.sampled_from(["\\.", "\\N", "", "\\\\", "a\n\\.\nb"])),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "flag": (pa.bool_(), st.booleans()),
    "tiny": (pa.int8(), st.integers(-128, 127)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "exact": (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
    "whole": (pa.decimal128(38, 0), st.decimals(-(10**37), 10**37, places=0)),
    "day": (pa.date32(), st.dates(date(1, 1, 1))),
    "at": (pa.timestamp("us", "Asia/Kolkata"), SECONDS.map(lambda one: one.replace(tzinfo=UTC))),
    "local": (pa.timestamp("us"), SECONDS),
}


class _WithoutCopy:
    """A connection of a driver without COPY."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def cursor(self) -> Any:
        inner = self._connection.cursor()
        return SimpleNamespace(
            **{
                name: getattr(inner, name)
                for name in ("execute", "executemany", "fetchone", "fetchall", "close")
            },
            rowcount=-1,
        )


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(*(st.none() | strategy for _, strategy in TYPES.values())), min_size=1, max_size=8))
def test_copy_writes_the_values_that_inserts_write(server: str, rows: list[tuple[Any, ...]]) -> None:
    columns = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in TYPES.items())])
    arrays = [pa.array(range(len(rows)), pa.int64())]
    arrays += [
        pa.array(list(each), kind)
        for each, (kind, _) in zip(zip(*rows, strict=True), TYPES.values(), strict=True)
    ]
    last = LastRows(("id",), columns).last_rows(pa.table(arrays, schema=columns))
    found = []
    for name, connect in (
        ("copied", lambda: psycopg.connect(server)),
        ("inserted", lambda: _WithoutCopy(psycopg.connect(server))),
    ):
        with closing(psycopg.connect(server, autocommit=True)) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}, penstock_batches")
        assert SqlTable(name, connect).apply(Batch("query-1", 0, ("id",), last))
        with closing(psycopg.connect(server)) as connection:
            statement = f"SELECT {name}::text FROM {name} ORDER BY id"  # noqa: S608 - of the test
            found.append(connection.execute(statement).fetchall())
    assert found[0] == found[1]
    assert len(found[0]) == len(rows)


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP", "SJIS", "GBK", "UTF8"])
def test_copy_encodes_text_as_the_connection_does(server: str, encoding: str) -> None:
    text = "é ü" if encoding == "LATIN1" else "表ソ日本"
    table = f"encoded_{encoding.lower()}"
    columns = pa.schema([("id", pa.string()), ("text", pa.string())])
    rows = pa.table([[text], [text]], schema=columns)
    target = SqlTable(table, lambda: psycopg.connect(f"{server} client_encoding={encoding}"))
    assert target.apply(Batch(QUERY, 0, ("id",), LastRows(("id",), columns).last_rows(rows)))
    with closing(psycopg.connect(server)) as connection:
        found = connection.execute(f"SELECT id, text FROM {table}").fetchall()  # noqa: S608 - of the test
    assert found == [(text, text)]


def test_rows_that_copy_leaves_out_are_an_error(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "copy_texts", lambda rows, keys: iter(["1\ta\t0\n"]))
    target = SqlTable("short", lambda: psycopg.connect(server))
    with pytest.raises(MaterializeError, match=r"took 1 of the 2 rows of batch 0 .* by COPY"):
        target.apply(batch(0, [(1, "a", "+I"), (2, "b", "+I")]))


@settings(max_examples=examples(6), deadline=None)
@given(HISTORY, st.sampled_from([1, 4]))
def test_a_history_has_each_version(server: str, changes: list[histories.Change], count: int) -> None:
    name, oracle = f"history_{next(NUMBERS)}", histories.Oracle()
    target = HistoryTable(SqlTable(name, lambda: psycopg.connect(server)), time="at")
    target.check(histories.COLUMNS, ["id"])
    for number, part in enumerate(histories.divided(changes, count)):
        oracle.apply(part)
        assert target.apply(histories.batch(number, part))
        assert not target.apply(histories.batch(number, part, tasks=3))
        with closing(psycopg.connect(server)) as connection, closing(connection.cursor()) as cursor:
            rows = cursor.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - of the test
        columns = target._shape(histories.COLUMNS, ["id"])[0]
        assert histories.versions_of(as_arrow(rows, columns)) == oracle.versions()


def test_a_log_has_each_change_once(server: str) -> None:
    target = ChangeLogTable(SqlTable("changes_of_all", lambda: psycopg.connect(server)))
    made = [("a", 0, "+I"), ("a", 1, "-U"), (None, 2, "-D")]
    changes = [histories.Change(1, *each) for each in made]
    for number in range(2):
        assert target.apply(histories.batch(number, changes))
        assert not target.apply(histories.batch(number, changes))
    statement = "SELECT row_kind, name FROM changes_of_all ORDER BY change_batch, change_number"
    with closing(psycopg.connect(server)) as connection, closing(connection.cursor()) as cursor:
        assert cursor.execute(statement).fetchall() == [("+I", "a"), ("-U", "a"), ("-D", None)] * 2
