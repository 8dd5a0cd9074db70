"""INSERTs that commit to one consumer group are warned of, by EXPLAIN and at the start. No Spark and no broker runs."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable, CreateView, Insert, Options
from penstock.sql.query.rows import INSERTS, Rows
from penstock.sql.run import _binder
from penstock.sql.run._binder import Found, SparkBinder
from penstock.sql.run._cuts import Notes
from penstock.sql.run._groups import shared_groups
from penstock.sql.run._inserts import Write
from penstock.sql.run.catalog import Catalog, Table, View
from penstock.sql.run.session import Session
from penstock.sql.run.settings import NEEDED, Settings

GROUP = "properties.group.id"
KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'b:9092'"
ORDERS = f"CREATE TABLE orders (a INT) WITH ({KAFKA}, 'topic' = 'o', 'Properties.Group.Id' = 'g')"
SHOPS = f"CREATE TABLE shops (a INT) WITH ({KAFKA}, 'topic' = 's', '{GROUP}' = 'g')"
ALIAS = f"CREATE TABLE same (a INT) WITH ({KAFKA}, 'topic' = 'x;o', '{GROUP}' = 'g')"
FILES = "CREATE TABLE files (a INT) WITH ('connector' = 'filesystem', 'path' = '/x', 'format' = 'csv')"
PATTERN = f"CREATE TABLE many (a INT) WITH ({KAFKA}, 'topic-pattern' = 'o.*', '{GROUP}' = 'g')"
VIEW = "CREATE VIEW v AS SELECT a FROM orders"


def catalog_of(*texts: str) -> Catalog:
    catalog = Catalog()
    for text in texts:
        made = parse_script(text)[0].statement
        assert isinstance(made, (CreateTable, CreateView))
        source = Source(text)
        found = Table(made, source) if isinstance(made, CreateTable) else View(made, source)
        catalog.add(made.name, found, if_not_exists=False)
    return catalog


CATALOG = catalog_of(ORDERS, SHOPS, ALIAS, FILES, PATTERN, VIEW)


def reading(*names: str, **hints: str) -> Notes:
    options: Options = tuple((key.replace("_", "."), value) for key, value in hints.items())
    return Notes({((name,), options): Rows() for name in names})


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
    """The view of Spark is made once in a statement. The second INSERT reads the same tables."""
    binder = SparkBinder(MagicMock(), catalog_of(ORDERS, VIEW), Settings())
    frame = MagicMock(isStreaming=True)
    monkeypatch.setattr(binder, "_table", lambda *_, **__: (frame, INSERTS, ()))

    def query(*_: Any, **__: Any) -> Found:
        binder.table(("orders",), ((GROUP, "h"),))
        return Found(frame, INSERTS, "", {}, 0)

    monkeypatch.setattr(binder, "query", query)
    monkeypatch.setattr(_binder, "time_of", lambda _: None)
    with binder.noting() as first:
        binder.table(("v",), ())
    with binder.noting() as second:
        binder.table(("v",), ())
    assert list(first.reads) == [(("orders",), ((GROUP, "h"),)), (("v",), ())]
    assert second.reads == first.reads


SET = (
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT a FROM orders; INSERT INTO b SELECT a FROM orders; END"
)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session whose INSERTs read `orders` as streams, and whose Spark does nothing."""
    spark = MagicMock()
    spark.conf.get.side_effect = lambda key, *_: NEEDED.get(key, ("false", ""))[0]
    made = Session(spark)
    targets = catalog_of(*(f"CREATE TABLE {name} (a INT) WITH ('connector' = 'print')" for name in "ab"))
    made._catalog.objects.update({**CATALOG.objects, **targets.objects})

    def prepare(insert: Insert, *_: Any, **__: Any) -> Write:
        assert made._binder._notes is not None
        made._binder._notes.add_reads(reading("orders").reads)
        rows = MagicMock(isStreaming=True)
        table = made._catalog.find(insert.table.parts)
        assert isinstance(table, Table)
        return Write(made._catalog.key(insert.table.parts), rows, table, insert)

    monkeypatch.setattr(made._inserts, "prepare", prepare)
    return made


def test_explain_of_a_statement_set_warns_once(session: Session) -> None:
    lines = [row[0] for row in session.execute(f"EXPLAIN {SET}")[0].rows]
    [warning] = [place for place, line in enumerate(lines) if "one consumer group, 'g'" in line]
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
