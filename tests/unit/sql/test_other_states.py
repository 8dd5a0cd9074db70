"""A script that no longer fits the state of an operator: where it is refused, and in which words. No Spark runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from penstock.errors import PenstockError, SqlError, StateError
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment, Insert
from penstock.sql.plan.nodes import Stateful
from penstock.sql.plan.operators import Normalization, Operator, VersionJoin
from penstock.sql.run import _checkpoints, _planned
from penstock.sql.run._inserts import Inserts
from penstock.sql.run._queries import Queries
from penstock.sql.run._states import in_words
from penstock.sql.run._views import SparkViews
from penstock.sql.run.settings import CHANGED, FOLDER, Settings
from penstock.state.files import open_files
from penstock.state.identity import Identity, check_before_start, write_identity
from tests.unit.sql.planning import catalog_of, declared

JOIN = """SELECT t.i, t.s
FROM t
  LEFT JOIN c FOR SYSTEM_TIME AS OF t.ltz ON t.i = c.i"""
OLD = Identity(
    "query",
    "temporal_join",
    1,
    '{"times": ["#left l2", "#right r1"]}',
    4,
    pa.schema([("#left l0", pa.int64()), ("#left l1", pa.float64()), ("#left l2", pa.timestamp("us"))]),
)
NEW = replace(
    OLD,
    arguments='{"times": ["#left l3", "#right r1"]}',
    columns=OLD.columns.append(pa.field("#left l3", pa.string())),
)


def mismatch(folder: Path, old: Identity, new: Identity) -> StateError:
    files = open_files(str(folder))
    write_identity(files, old)
    with pytest.raises(StateError) as found:
        check_before_start(files, new, is_count_chosen=False)
    return found.value


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (OLD, NEW, "the query needs a column (STRING) that the state does not keep. "),
        (NEW, OLD, "the state keeps a column (STRING) that the query does not need. "),
        (
            OLD,
            replace(OLD, columns=pa.schema([("x", pa.list_(pa.int64()))])),
            "the state keeps 3 columns (BIGINT, DOUBLE, TIMESTAMP(6)) that the query does not need. ",
        ),
        (OLD, replace(OLD, arguments="{}"), "the keys, the times, the order or the conditions"),
        (OLD, replace(OLD, operator="join"), "another operator made it"),
        (OLD, replace(OLD, operator_version=2), "another version of penstock made it"),
        (
            OLD,
            replace(OLD, columns=pa.schema(list(reversed(OLD.columns)))),
            "its columns have other names, positions or types",
        ),
        (OLD, replace(OLD, columns=pa.schema([*OLD.columns, ("x", pa.uint8())])), "a column (uint8)"),
    ],
)
def test_what_differs_is_said_in_words_of_sql(
    tmp_path: Path, old: Identity, new: Identity, message: str
) -> None:
    found = str(in_words(mismatch(tmp_path, old, new), "temporal-join"))
    assert message in found
    assert found.startswith("the state of 'temporal-join' does not fit this query: ")
    assert "start the old script" in found
    assert "SET 'pipeline.name' = '...'. docs/change-a-job.md, 'A new name'" in found
    assert "each column that the query names, also in SELECT and WHERE" in found
    assert not {"#left", "l3", "arguments", "temporal_join"} & set(found.replace('"', " ").split())


def test_a_state_that_is_damaged_is_no_mistake_of_the_script() -> None:
    damaged = StateError("The state is damaged.", path="/x")
    assert in_words(damaged, "join") is None


def raised(monkeypatch: pytest.MonkeyPatch, query: str, at: type[Operator], error: StateError) -> Exception:
    """Return what a query raises if one of its operators finds an error in its state."""

    def made(node: Any, *_: Any) -> Any:
        if isinstance(node, Stateful) and isinstance(node.operator, at):
            raise error
        return MagicMock()

    monkeypatch.setattr(_planned, "made", made)
    monkeypatch.setattr(_planned, "opened", MagicMock())
    spark = MagicMock()
    spark.conf.get.return_value = "UTC"
    queries = Queries(SparkViews(spark), declared(), Settings())
    with pytest.raises(PenstockError) as found:
        queries.query(Fragment(query), Source(query))
    queries.close()
    return found.value


def test_a_state_that_does_not_fit_is_refused_at_its_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = raised(monkeypatch, JOIN, VersionJoin, mismatch(tmp_path, OLD, NEW))
    assert isinstance(found, SqlError)
    assert "the state of 'temporal-join' does not fit this query" in found.message
    assert found.facts == {"line": 3, "column": 13, "state": str(tmp_path)}


def test_the_state_of_a_table_that_does_not_fit_is_refused_at_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = raised(monkeypatch, "SELECT s\nFROM k", Normalization, mismatch(tmp_path, OLD, NEW))
    assert isinstance(found, SqlError)
    assert "the state of 'normalize' does not fit" in found.message
    assert found.facts == {"line": 2, "column": 6, "state": str(tmp_path)}


def test_a_state_that_is_damaged_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = StateError("The state is damaged.", path="/x")
    assert raised(monkeypatch, JOIN, VersionJoin, damaged) is damaged


class Job:
    """INSERT INTO a of a script whose join has a state of another query."""

    def __init__(self, base: Path) -> None:
        self.settings = Settings({FOLDER: str(base)})
        self.catalog = catalog_of(
            "CREATE TABLE a (i INT) WITH ('connector' = 'print'); CREATE VIEW v AS SELECT i FROM t;"
            "CREATE FUNCTION f AS 'm.f' LANGUAGE PYTHON"
        )
        self.checkpoint = base / "insert-into_a"

    def had(self, query: str, definitions: dict[str, str]) -> None:
        """Write what a job leaves that has stopped after a batch."""
        for log in ("offsets", "commits"):
            (self.checkpoint / log).mkdir(parents=True)
            (self.checkpoint / log / "3").write_text("v1")
        insert = parse_script(f"INSERT INTO a {query}")[0].statement
        assert isinstance(insert, Insert)
        described = _checkpoints.described(insert, ("default_database", "a"))
        _checkpoints.note(str(self.checkpoint), _checkpoints.QueryNote(described, definitions, {}))

    def refusal(self, query: str) -> SqlError:
        text = f"INSERT INTO a {query}"
        source = Source(text)
        queries = MagicMock(spec=Queries)
        queries.in_its_zone.side_effect = lambda work: work()
        queries.query.side_effect = source.error("the state of 'join' does not fit", 20, state="/state")
        insert = parse_script(text)[0].statement
        assert isinstance(insert, Insert)
        with pytest.raises(SqlError) as found:
            Inserts(MagicMock(), self.catalog, self.settings, queries, print).prepare(insert, source)
        return found.value


QUERY = "SELECT i FROM v"


def test_a_changed_query_is_refused_as_such_before_its_state_is(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.had(QUERY, {})
    found = job.refusal("SELECT i, s FROM v")
    assert "belongs to another query, so its positions and state may not fit" in found.message
    assert found.facts == {"line": 1, "column": 13}
    job.settings.values[CHANGED] = "continue"
    assert "the state of 'join' does not fit" in job.refusal("SELECT i, s FROM v").message


@pytest.mark.parametrize(
    ("name", "definition", "is_changed"),
    [
        ("default_database.v", json.dumps("of another view"), True),
        ("default_database.gone", "a view that is not there", False),
        ("function f", "m.other", True),
        ("function f", "m.f", False),
    ],
)
def test_a_changed_definition_is_refused_as_such_before_its_state_is(
    tmp_path: Path, name: str, definition: str, is_changed: bool
) -> None:
    job = Job(tmp_path)
    job.had(QUERY, {name: definition})
    expected = f"another query: '{name}' has another definition now" if is_changed else "the state of 'join'"
    assert expected in job.refusal(QUERY).message


def test_a_script_that_did_not_change_is_told_of_its_state(tmp_path: Path) -> None:
    job = Job(tmp_path)
    assert "the state of 'join' does not fit" in job.refusal(QUERY).message
    view = job.catalog.objects["default_database", "v"]
    job.had(QUERY, {"default_database.v": _checkpoints.definition_of(view)})
    assert "the state of 'join' does not fit" in job.refusal(QUERY).message
