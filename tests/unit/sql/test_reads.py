"""What a table is read with: the columns, and the fields of ROWs, that its scans take."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.plan.nodes import Scan
from penstock.sql.plan.nodes import Source as Read
from penstock.sql.plan.traits import TraitsOf
from penstock.sql.run import _tables as tables
from penstock.sql.run._planned import Planner
from penstock.sql.run._scans import ScanRead
from penstock.sql.run.catalog import Table
from penstock.sql.run.settings import MODE, Settings
from tests.unit.sql.declared import TOPIC
from tests.unit.sql.planning import PlanOnly, RecordedViews, catalog_of

COLUMNS = (
    "k INT, a ROW<x INT, y ROW<z STRING, w INT>, `Big` INT>, b ROW<x INT, n INT>, `all` ARRAY<ROW<x INT>>"
)
BOTH = "SELECT a.x FROM t WHERE k = 1 UNION ALL SELECT b.n FROM t WHERE k = 2"


class Views(RecordedViews):
    def named(self, frame: Any) -> str:
        return str(frame)


class Reader(PlanOnly):
    """A planner that notes the tables that it opens."""

    read: list[str]
    kept: list[str]
    filters: list[str]

    def scan(self, node: Scan) -> str:
        return Planner.scan(self, node)

    def _opened(self, table: Table, source: Read, read: ScanRead) -> str:
        self.read.append(
            ", ".join(f"{name} {kind}" for name, kind, _ in tables.declared_types(table.definition))
        )
        given = dict(table.definition.options)
        self.kept.append(given.get("scan.row-filter", ""))
        self.filters.append(given.get("scan.filter", ""))
        return f"v{len(self.read)}"


def read(query: str, *, mode: str = "streaming", options: str = "", columns: str = COLUMNS) -> list[str]:
    """Return the columns of each table that a query opens."""
    return reader(query, mode=mode, options=options, columns=columns).read


def reader(query: str, *, mode: str = "streaming", options: str = "", columns: str = COLUMNS) -> Reader:
    """Return a planner that has opened the tables of a query."""
    given = options or "'format' = 'json'"
    catalog = catalog_of(f"CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', {TOPIC}, {given})")
    views: Any = Views()
    warnings: list[str] = []
    planner = Reader(catalog, Settings({MODE: mode}), views, lambda: "", warnings.append, {})
    planner.read, planner.kept, planner.filters, planner.made_of = [], [], [], []
    traits = TraitsOf()
    planner.query(planner.plan(Fragment(query), Source(query), traits), traits)
    return planner


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT a.x FROM t", ["a STRUCT<`x`: INT>"]),
        ("SELECT t.A.Y.Z, a.big FROM t", ["a STRUCT<`y`: STRUCT<`z`: STRING>, `Big`: INT>"]),
        ("SELECT t.a.y, t.a.y.w FROM t", ["a STRUCT<`y`: STRUCT<`z`: STRING, `w`: INT>>"]),
        ("SELECT k FROM t WHERE b IS NULL", ["k INT, b STRUCT<`x`: INT, `n`: INT>"]),
        ("SELECT t.`all`[1].x FROM t", ["all ARRAY<STRUCT<`x`: INT>>"]),
    ],
)
def test_a_row_is_read_with_the_fields_that_the_query_takes(query: str, found: list[str]) -> None:
    assert read(query) == found


@pytest.mark.parametrize(("query", "name"), [("SELECT a.x FROM t", "x"), ("SELECT a.X FROM t", "X")])
def test_a_field_whose_name_two_fields_have_is_refused(query: str, name: str) -> None:
    columns = "a ROW<`X` INT, x STRING, y INT>"
    with pytest.raises(SqlError, match=rf"'\.{name}' may be any of the fields 'X' and 'x' of the ROW"):
        read(query, columns=columns)
    assert read("SELECT a.y FROM t", columns=columns) == ["a STRUCT<`y`: INT>"]


def test_each_scan_of_a_stream_reads_its_own_fields() -> None:
    """Spark reads the topic for each of them anyway."""
    assert read(BOTH) == ["k INT, a STRUCT<`x`: INT>", "k INT, b STRUCT<`n`: INT>"]


def test_all_scans_of_a_batch_read_the_same_rows() -> None:
    assert read(BOTH, mode="batch") == ["k INT, a STRUCT<`x`: INT>, b STRUCT<`n`: INT>"]


def test_each_scan_of_a_stream_leaves_out_its_own_rows_and_those_of_a_batch_the_same_ones() -> None:
    assert reader(BOTH).kept == ["k = 1", "k = 2"]
    assert reader(BOTH, mode="batch").kept == [""]
    assert reader(BOTH.replace("2", "1"), mode="batch").kept == ["k = 1"]


def test_scans_of_a_stream_that_differ_in_constants_alone_stay_one_source() -> None:
    """Two sources would have two offsets, and one that is made of them later would lose the difference."""
    query = "SELECT k FROM t WHERE k = 1 UNION ALL SELECT k FROM t WHERE k = 2"
    assert reader(query).kept == [""]
    assert reader(query.replace("2", "1")).kept == ["k = 1"]


def test_records_are_left_out_of_a_batch_whose_scans_keep_other_rows() -> None:
    columns = f"{COLUMNS}, o BIGINT METADATA FROM 'offset' VIRTUAL"
    query = "SELECT k FROM t WHERE o < 5 AND k = 1 UNION ALL SELECT k FROM t WHERE o < 5 AND k = 2"
    planner = reader(query, mode="batch", columns=columns)
    assert (planner.filters, planner.kept) == (["offset < 5"], [""])


@pytest.mark.parametrize("mode", ["streaming", "batch"])
@pytest.mark.parametrize(
    ("columns", "options", "query"),
    [
        ("k INT, kind STRING METADATA FROM 'row-kind' VIRTUAL", "'format' = 'debezium-json'", "k = 1"),
        (
            "`key` BYTES, `value` BYTES, topic STRING, `partition` INT",
            "'scan.startup.mode' = 'earliest-offset'",
            "topic = 'a'",
        ),
    ],
)
def test_a_table_that_cannot_leave_rows_out_is_read_whole(
    columns: str, options: str, query: str, mode: str
) -> None:
    planner = reader(f"SELECT * FROM t WHERE {query}", mode=mode, columns=columns, options=options)
    assert planner.kept == [""]


def test_a_filter_of_the_user_stays() -> None:
    options = "'format' = 'json', 'scan.row-filter' = 'k > 0'"
    assert reader(BOTH, options=options).kept == ["k > 0", "k > 0"]


def test_the_columns_of_a_filter_of_the_user_are_read() -> None:
    options = "'format' = 'json', 'scan.row-filter' = 'k > 0 AND n IN (1, 2)'"
    found = read("SELECT a.x FROM t", options=options, columns=f"{COLUMNS}, n INT, s STRING")
    assert found == ["k INT, a STRUCT<`x`: INT>, n INT"]


@pytest.mark.parametrize(
    "options",
    [
        "'format' = 'json', 'json.fail-on-missing-field' = 'true'",
        "'format' = 'avro-confluent', 'avro-confluent.url' = 'http://r'",
        "'value.format' = 'json', 'key.format' = 'json', 'key.fields' = 'k'",
    ],
)
def test_a_format_that_needs_all_fields_gets_them(options: str) -> None:
    (found,) = read("SELECT k, a.x FROM t", options=options)
    assert "a STRUCT<`x`: INT, `y`: STRUCT<`z`: STRING, `w`: INT>, `Big`: INT>" in found


def test_a_primary_key_is_read_whole() -> None:
    columns = "k INT, a ROW<x INT, y INT>, b ROW<x INT, y INT>, PRIMARY KEY (a) NOT ENFORCED"
    options = "'format' = 'debezium-json'"
    (found,) = read("SELECT t.a.x, t.b.x FROM t", options=options, columns=columns)
    assert "a STRUCT<`x`: INT, `y`: INT>" in found


@pytest.mark.parametrize("name", ["__row_kind", "__offset"])
def test_a_column_of_a_query_with_a_name_of_penstock_is_refused(name: str) -> None:
    """It would be left out, written beside the columns of the table, or say that rows are deleted."""
    for query in (f"SELECT k, '-D' AS {name} FROM t", f"SELECT k, k AS {name} FROM t"):
        with pytest.raises(
            SqlError, match=f"penstock itself uses the name '{name}'. Give the column another"
        ):
            read(query, columns="k INT")
    assert read(f"SELECT x FROM (SELECT k AS {name}, k + 1 AS x FROM t)", columns="k INT") == ["k INT"]
