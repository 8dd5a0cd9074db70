"""Tasks copy the rows of a large batch into a real PostgreSQL, and the table gets each batch once.

It stands here because unit tests start no server. It needs no broker.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cdc.commits import apply_all
from penstock.errors import MaterializeError, OptionError, StagedRowsError
from penstock.targets import SqlTable, staged
from penstock.targets._sql_staged import TASKS
from penstock.targets.batch import Batch, LastRows
from penstock.targets.staged import Runner, Staged
from tests.examples import examples
from tests.kafka.test_materialize_postgresql import TYPES, _WithoutCopy
from tests.postgresql import running_postgresql, why_not
from tests.unit.targets.changes import HISTORIES, Change, after, batch, rows_of
from tests.unit.targets.in_files import dying, in_files, parts_of, run_here, stage_in

NUMBERS = itertools.count()
psycopg = pytest.importorskip("psycopg", reason="no driver for PostgreSQL: pip install 'psycopg[binary]'")

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")

FIRST: list[Change] = [(number, "a", "+I") for number in range(9)]
CHANGES: list[Change] = [(1, "b", "+U"), (5, None, "-D"), (20, "c\t\\N", "+I")]
TRUE = after(after({}, FIRST), CHANGES)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgresql() as found:
        yield found


@pytest.fixture(autouse=True)
def each_task_writes_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged, "FEW_BYTES", -1)


def target_in(server: str) -> SqlTable:
    connect = functools.partial(psycopg.connect, server)  # a task gets a copy of it
    return SqlTable(f"public.goods{next(NUMBERS)}", connect, executors_copy=True)


def apply(target: SqlTable, found: Batch | Staged, run: Runner = run_here) -> bool:
    return target.apply(found) if isinstance(found, Batch) else target.apply_staged(found, run)


def asked(server: str, statement: str) -> Any:
    with closing(psycopg.connect(server, autocommit=True)) as connection:
        found = connection.execute(statement)
        return found.fetchall() if found.description else None


def stored(server: str, target: SqlTable) -> dict[int, str | None]:
    with closing(psycopg.connect(server)) as connection:
        return rows_of(connection, target.table)


def left(server: str) -> list[str]:
    """Return the tables of tasks that are still there."""
    return [
        name for (name,) in asked(server, "SELECT relname FROM pg_class WHERE relname LIKE 'penstock_rows%'")
    ]


@settings(max_examples=examples(10), deadline=None)
@given(HISTORIES, st.lists(st.sampled_from(["files", "driver"]), min_size=10, max_size=10))
def test_either_way_may_follow_and_repeat_the_other(
    tmp_path_factory: pytest.TempPathFactory, server: str, history: list[list[Change]], ways: list[str]
) -> None:
    folder, target, true = tmp_path_factory.mktemp("rows"), target_in(server), dict[int, str | None]()
    for number, changes in enumerate(history):
        true = after(true, changes)
        first, second = (
            in_files(folder, number, changes) if way == "files" else batch(number, changes)
            for way in ways[2 * number : 2 * number + 2]
        )
        assert apply(target, first)
        assert not apply(target, second)
        assert stored(server, target) == true
    assert left(server) == []


@settings(max_examples=examples(10), deadline=None)
@given(st.lists(st.tuples(*(st.none() | strategy for _, strategy in TYPES.values())), min_size=1, max_size=8))
def test_tasks_write_the_values_that_the_driver_writes(
    tmp_path_factory: pytest.TempPathFactory, server: str, rows: list[tuple[Any, ...]]
) -> None:
    columns = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in TYPES.items())])
    arrays = [pa.array(range(len(rows)), pa.int64())]
    arrays += [
        pa.array(list(each), kind)
        for each, (kind, _) in zip(zip(*rows, strict=True), TYPES.values(), strict=True)
    ]
    last_rows = LastRows(("id",), columns)
    stage = stage_in(tmp_path_factory.mktemp("types"), 0, last_rows)
    table = pa.table(arrays, schema=columns)
    found = stage.batch("query-1", parts_of(table, stage, lambda index: index % 3))
    assert isinstance(found, Staged)
    texts = []
    for each in (found, Batch("query-1", 0, ("id",), last_rows.last_rows(table))):
        target = target_in(server)
        assert apply(target, each)
        name = target.table.removeprefix("public.")
        texts.append(asked(server, f"SELECT {name}::text FROM {name} ORDER BY id"))  # noqa: S608 - of the test
    assert texts[0] == texts[1]
    assert len(texts[0]) == len(rows)


@pytest.mark.parametrize("step", ["in a task", "before the commit", "after the commit"])
def test_a_driver_that_dies_applies_the_batch_once_and_its_tables_are_dropped_later(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    target = target_in(server)
    assert apply(target, in_files(tmp_path, 0, FIRST))
    with dying(monkeypatch, SqlTable, "_commit", step) as run:
        apply(target, in_files(tmp_path, 1, CHANGES), cast("Runner", run))
    assert bool(left(server)) == (step != "after the commit")
    assert apply(target, in_files(tmp_path, 1, CHANGES)) == (step != "after the commit")
    assert stored(server, target) == TRUE
    assert left(server) == []


def test_a_task_that_runs_twice_adds_no_row(tmp_path: Path, server: str) -> None:
    def run_twice(function: Any, items: Sequence[Any]) -> list[Any]:
        run_here(function, items)
        return run_here(function, items)

    target = target_in(server)
    assert apply(target, in_files(tmp_path, 0, FIRST), run_twice)
    assert stored(server, target) == after({}, FIRST)
    assert left(server) == []


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("TRUNCATE", r"3 of the 9 rows that tasks have copied are not in"),
        ("DROP TABLE", "a task has filled, is"),
    ],
)
def test_rows_that_the_database_has_lost_are_an_error(
    tmp_path: Path, server: str, statement: str, message: str
) -> None:
    """A crash of the server empties UNLOGGED tables, and another driver may drop them."""

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        copied = run_here(function, items)
        asked(server, f"{statement} {copied[1].table}")
        return copied

    target = target_in(server)
    with pytest.raises(StagedRowsError, match=message):
        apply(target, in_files(tmp_path, 0, FIRST), run)
    assert asked(server, f"SELECT pg_catalog.to_regclass('{target.table}')") == [(None,)]
    assert apply(target, in_files(tmp_path, 0, FIRST))
    assert stored(server, target) == after({}, FIRST)


def test_of_two_drivers_one_applies_the_batch(tmp_path: Path, server: str) -> None:
    target = target_in(server)

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        copied = run_here(function, items)
        assert apply(target, in_files(tmp_path, 0, FIRST))
        return copied

    assert not apply(target, in_files(tmp_path, 0, FIRST), run)
    with pytest.raises(MaterializeError, match="with other rows"):
        apply(target, in_files(tmp_path, 0, CHANGES))
    assert stored(server, target) == after({}, FIRST)
    apply(target, in_files(tmp_path, 1, CHANGES))
    assert (stored(server, target), left(server)) == (TRUE, [])


def test_few_connections_copy_many_files(tmp_path: Path, server: str) -> None:
    found = in_files(tmp_path, 0, [(number, "a", "+I") for number in range(30)], tasks=30)
    counts: list[int] = []

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        counts.append(len(items))
        return run_here(function, items)

    target = target_in(server)
    assert apply(target, found, run)
    assert (counts, len(stored(server, target))) == ([TASKS], 30)


def test_a_sweep_that_has_to_wait_is_a_warning(
    tmp_path: Path, server: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.targets._sql_staged._LOCK_TIMEOUT", "10ms")
    target = target_in(server)
    locked: list[Any] = []

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        [late, *_] = run_here(function, items)
        locked.append(psycopg.connect(server))
        locked[0].execute(f"LOCK TABLE {late.table}")  # as an attempt that has not ended
        return run_here(function, items)

    assert apply(target, in_files(tmp_path, 0, FIRST), run)
    assert "were not dropped (LockNotAvailable" in caplog.text
    locked[0].close()
    assert apply(target, in_files(tmp_path, 1, CHANGES))
    assert (stored(server, target), left(server)) == (TRUE, [])


def _connect_without_copy(server: str) -> Any:
    return _WithoutCopy(psycopg.connect(server))


def test_what_cannot_copy_is_refused(tmp_path: Path, server: str) -> None:
    lite = SqlTable("goods", lambda: None, "sqlite", executors_copy=True)
    with pytest.raises(OptionError, match="`executors_copy` is for PostgreSQL, and not for table goods"):
        lite.check(pa.schema([("id", pa.int64())]), ["id"])
    connect = functools.partial(_connect_without_copy, server)
    with pytest.raises(OptionError, match="needs connections of psycopg 3"):
        apply(SqlTable("no_copy", connect, executors_copy=True), in_files(tmp_path, 0, FIRST))
    assert left(server) == []


@pytest.mark.parametrize("executors_copy", [True, False])
def test_replicate_lets_tasks_copy_only_if_it_is_asked_for(
    tmp_path: Path, server: str, executors_copy: bool
) -> None:
    found, calls = in_files(tmp_path, 0, FIRST), []

    def run(function: Any, items: Sequence[Any]) -> list[Any]:
        calls.append(function)
        return run_here(function, items)

    asked_for = target_in(server)
    target = SqlTable(asked_for.table, asked_for.connect, executors_copy=executors_copy)
    assert apply_all({"goods": found}, lambda _: target, 1, run) == {}
    assert (len(calls), stored(server, target)) == (int(executors_copy), after({}, FIRST))
