"""Which folder of checkpoints an INSERT has, and what starts a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.errors import SqlError
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Insert
from penstock.sql.run import _declarations
from penstock.sql.run import session as sessions
from penstock.sql.run._inserts import Inserts, Write
from penstock.sql.run.catalog import Catalog
from penstock.sql.run.session import Session
from penstock.sql.run.settings import FOLDER, NAME, NEEDED, Settings
from penstock.sql.shell import run as shell
from penstock.sql.shell.select import Output
from tests.unit.sql.declared import FOUND, KAFKA, with_options


class FakeStream:
    """The rows of a stream, which note the folder that they are started with."""

    isStreaming = True

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders
        self.query = MagicMock(isActive=True)

    @property
    def writeStream(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def option(self, key: str, value: str) -> FakeStream:
        assert key == "checkpointLocation"
        self.folders.append(value)
        return self

    def start(self, *_: Any) -> Any:
        return self.query


class Jobs:
    """Starts inserts over streams without Spark."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.settings = Settings({FOLDER: str(base)})
        self.catalog = Catalog(databases={"default_database", "d"})
        self.inserts = Inserts(MagicMock(), self.catalog, self.settings, None, print)  # type: ignore[arg-type]  # no query is read
        self.started: list[FakeStream] = []

    def start(self, *texts: str) -> list[str]:
        """Start inserts as one job and return the folders."""
        folders: list[str] = []
        writes = []
        for text in texts:
            insert = parse_script(text)[0].statement
            assert isinstance(insert, Insert)
            self.started.append(FakeStream(folders))
            key = self.catalog.key(insert.table.parts)
            folder = self.inserts._folder(self.inserts._names(key, in_set=len(texts) > 1))
            writes.append(Write(key, self.started[-1], with_options(KAFKA), insert, FOUND, folder=folder))
        self.inserts.start(writes, Source("; ".join(texts)))
        return [str(Path(each).relative_to(self.base)) for each in folders]

    def stop(self) -> None:
        """Let all queries end."""
        for each in self.started:
            each.query.isActive = False


A, B, C = (f"INSERT INTO {name} SELECT i FROM t" for name in "abc")


def test_the_folder_of_an_insert_does_not_depend_on_the_others_of_its_set(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    assert jobs.start(A, B) == ["insert-into_a", "insert-into_b"]
    jobs.stop()
    assert jobs.start(C, A, B) == ["insert-into_c", "insert-into_a", "insert-into_b"]
    jobs.stop()
    assert jobs.start(A) == ["insert-into_a"]
    jobs.stop()
    jobs.settings.values[NAME] = "job"
    assert jobs.start(B, A) == ["job/insert-into_b", "job/insert-into_a"]
    jobs.stop()
    assert jobs.start(A) == ["job"]


def test_a_table_of_another_database_has_another_folder(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    assert jobs.start("INSERT INTO d.a SELECT i FROM t") == ["insert-into_d.a"]
    assert jobs.start(A) == ["insert-into_a"]


def test_two_inserts_of_a_set_into_one_table_are_refused(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    with pytest.raises(SqlError, match="writes 'a' twice"):
        jobs.start(A, "INSERT INTO default_database.a SELECT j FROM t")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_a_running_query_writes_is_refused(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path)
    jobs.start(A)
    for text in (A, "INSERT INTO a /*+ OPTIONS('topic' = 'x') */ SELECT i FROM t"):
        with pytest.raises(SqlError, match="a query of this session still writes the checkpoint"):
            jobs.start(text)
    jobs.stop()
    assert jobs.start(A) == ["insert-into_a"]


@pytest.mark.parametrize("operators", [0, 1])
def test_a_query_of_operators_is_planned_in_one_thread(tmp_path: Path, operators: int) -> None:
    jobs, states = Jobs(tmp_path), dict.fromkeys(map(str, range(operators)), "join")
    spark = MagicMock()
    jobs.inserts._spark = spark
    insert = parse_script(A)[0].statement
    assert isinstance(insert, Insert)
    found = replace(FOUND, states=states)
    write = Write(jobs.catalog.key(("a",)), FakeStream([]), with_options(KAFKA), insert, found)
    jobs.inserts.start([replace(write, folder=str(tmp_path))], Source(A))
    assert spark.conf.set.call_count == 2 * (1 + operators), "each option is set and given back"


def write_of(insert: Insert) -> Write:
    rows = MagicMock(isStreaming=False)
    table = with_options("'connector' = 'blackhole'")
    return Write(("default_database", insert.table.parts[-1]), rows, table, insert, FOUND)


def fake_session(monkeypatch: pytest.MonkeyPatch) -> tuple[Session, list[str]]:
    """Return a session over a fake Spark, and what it starts and explains."""
    spark = MagicMock()
    spark.conf.get.side_effect = {key: value for key, (value, _) in NEEDED.items()}.get
    spark.sql.return_value = MagicMock(
        isStreaming=False, schema=StructType([StructField("EXPR$0", IntegerType())])
    )
    session = Session(spark)
    done: list[str] = []
    monkeypatch.setattr(_declarations, "check_parts", lambda _: None)

    def start(writes: list[Any], *_: Any, **__: Any) -> list[Any]:
        done.append(f"start {writes[0].insert.table}")
        return []

    monkeypatch.setattr(session._inserts, "prepare", lambda insert, *_, **__: write_of(insert))
    monkeypatch.setattr(session._inserts, "start", start)
    monkeypatch.setattr(sessions, "promise", lambda *_: "promised")
    return session, done


SCRIPT = """
    CREATE TABLE copy WITH ('connector' = 'blackhole') AS SELECT 1;
    CREATE TABLE t (a INT) WITH ('connector' = 'blackhole');
    INSERT INTO t SELECT 1;
    EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT 1; END;
    SELECT 1;
"""


@pytest.mark.parametrize(("explain", "expected"), [(True, []), (False, ["start copy", "start t", "start t"])])
def test_nothing_starts_under_explain(
    monkeypatch: pytest.MonkeyPatch, explain: bool, expected: list[str]
) -> None:
    session, done = fake_session(monkeypatch)
    shown: list[Any] = []
    monkeypatch.setattr(shell, "show_frame", lambda frame, _: shown.append(frame))
    lines: list[str] = []
    shell.Shell(session, Output(lines.append), print).run(SCRIPT, explain=explain)
    assert done == expected
    assert len(shown) == (0 if explain else 1)
    assert ("INSERT INTO copy: promised" in lines) is explain
    assert session._catalog.names() == ["copy", "t"]


def test_a_table_that_may_exist_is_not_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    session, done = fake_session(monkeypatch)
    with pytest.raises(SqlError, match="IF NOT EXISTS is not served with AS SELECT"):
        session.execute("CREATE TABLE IF NOT EXISTS t WITH ('connector' = 'print') AS SELECT 1")
    assert done == []
