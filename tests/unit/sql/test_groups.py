"""INSERTs that commit to one consumer group are warned of, by EXPLAIN and at the start. No Spark and no broker runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment, Insert, Options
from penstock.sql.plan.nodes import Source as Read
from penstock.sql.run import _planned
from penstock.sql.run._cuts import Notes
from penstock.sql.run._groups import shared_groups
from penstock.sql.run._inserts import Write
from penstock.sql.run._queries import Queries
from penstock.sql.run._views import SparkViews
from penstock.sql.run.catalog import Table
from penstock.sql.run.session import Session
from penstock.sql.run.settings import NEEDED, Settings
from tests.unit.sql.declared import FOUND
from tests.unit.sql.planning import catalog_of

GROUP = "properties.group.id"
KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092'"
ORDERS = f"CREATE TABLE orders (a INT) WITH ({KAFKA}, 'topic' = 'o', 'Properties.Group.Id' = 'g')"
SHOPS = f"CREATE TABLE shops (a INT) WITH ({KAFKA}, 'topic' = 's', '{GROUP}' = 'g')"
ALIAS = f"CREATE TABLE same (a INT) WITH ({KAFKA}, 'topic' = 'x;o', '{GROUP}' = 'g')"
KEYED = SHOPS.replace("shops", "orders").replace("'topic' = 's'", "'topic' = 's', 'format' = 'json'")
FILES = "CREATE TABLE files (a INT) WITH ('connector' = 'filesystem', 'path' = '/x', 'format' = 'csv')"
PATTERN = f"CREATE TABLE many (a INT) WITH ({KAFKA}, 'topic-pattern' = 'o.*', '{GROUP}' = 'g')"
VIEW = "CREATE VIEW v AS SELECT a FROM orders"


CATALOG = catalog_of(";".join((ORDERS, SHOPS, ALIAS, FILES, PATTERN, VIEW)))


def reading(*names: str, **hints: str) -> Notes:
    options: Options = tuple((key.replace("_", "."), value) for key, value in hints.items())
    return Notes({((name,), options): Read(name, name, is_stream=True) for name in names})


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([reading("orders"), reading("orders")], "the INSERTs into a and b read orders with one consumer group, 'g'"),
        ([reading("orders")] * 4, "the INSERTs into a, b, c and d read orders with"),
        ([reading("orders"), reading("same", "shops")], "the INSERTs into a and b read orders and same with"),
        ([reading("many"), reading("many")], "the INSERTs into a and b read many with"),
        ([reading("orders"), reading("shops"), reading("shops", "v")], "the INSERTs into b and c read shops with"),
        ([reading("orders"), reading("shops")], ""),
        ([reading("orders", "shops")], ""),
        ([reading("files"), reading("files")], ""),
        ([reading("v"), reading("v"), reading("gone")], ""),
        ([reading("shops"), reading("shops", properties_group_id="h")], ""),
        ([reading("orders"), reading("orders", commit_offsets_on_checkpoint="FALSE")], ""),
        ([reading("orders"), reading("orders", properties_bootstrap_servers="c:9092")], ""),
    ],
)  # fmt: skip
def test_inserts_that_share_a_group_and_a_topic(reads: list[Notes], expected: str) -> None:
    found = list(shared_groups(list(zip("abcd", reads, strict=False)), CATALOG))
    if not expected:
        assert found == []
        return
    assert len(found) == 1
    assert found[0].startswith(expected)
    assert f"/*+ OPTIONS('{GROUP}' = '...') */" in found[0]


def test_each_insert_reads_the_tables_of_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_planned, "opened", MagicMock())
    hint = f"/*+ OPTIONS('{GROUP}' = 'h') */"
    catalog = catalog_of(f"{KEYED};CREATE VIEW v AS SELECT a FROM orders {hint}")
    queries = Queries(SparkViews(MagicMock()), catalog, Settings())
    found = []
    for _ in "ab":
        notes = queries.query(Fragment("SELECT a FROM v"), Source("SELECT a FROM v")).notes
        found.append([*notes.reads])
    assert found == [[(("v",), ()), (("orders",), ((GROUP, "h"),))]] * 2


SET = (
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT a FROM orders; INSERT INTO b SELECT a FROM orders; END"
)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose INSERTs read `orders` as streams, and whose Spark does nothing."""
    spark = MagicMock()
    spark.conf.get.side_effect = lambda key, *_: NEEDED.get(key, ("false", ""))[0]
    made = Session(spark)
    targets = catalog_of(
        ";".join(f"CREATE TABLE {name} (a INT) WITH ('connector' = 'print')" for name in "ab")
    )
    made._catalog.objects.update({**CATALOG.objects, **targets.objects})

    def prepare(insert: Insert, *_: Any, **__: Any) -> Write:
        rows = MagicMock(isStreaming=True)
        table = made._catalog.find(insert.table.parts)
        assert isinstance(table, Table)
        return Write(
            made._catalog.key(insert.table.parts),
            rows,
            table,
            insert,
            replace(FOUND, notes=reading("orders")),
        )

    monkeypatch.setattr(made._inserts, "prepare", prepare)
    return made


def test_explain_of_a_statement_set_warns_once(session: Session) -> None:
    lines = [row[0] for row in session.execute(f"EXPLAIN {SET}")[0].rows]
    [warning] = [index for index, line in enumerate(lines) if "one consumer group, 'g'" in line]
    section = [line for line in lines[:warning] if line.startswith("  ") and not line.startswith("    ")][-1]
    assert section == "  Warnings:"
    assert "the INSERTs into a and b read orders" in lines[warning]


def test_the_start_of_a_statement_set_warns_once(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session._inserts, "start", lambda *_, **__: [])
    with caplog.at_level(logging.WARNING, "penstock.sql"):
        session.execute(SET)
    assert [record.getMessage().count("one consumer group, 'g'") for record in caplog.records] == [1]
    caplog.clear()
    session.execute("INSERT INTO a SELECT a FROM orders")
    assert not caplog.records
