"""Whole queries: where a mistake is shown, hints of tables, WATERMARKs, and texts of random words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from penstock.changelog.operators.calls import parse_calls
from penstock.errors import SqlError
from penstock.sql.bind.windows import watermark_delay_ms
from penstock.sql.functions.distinct import distinct_in_stream
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateView, Fragment
from penstock.sql.passes.assign_state_ids import states_of
from penstock.sql.plan.expressions import TypedSql
from penstock.sql.plan.nodes import Stateful
from penstock.sql.plan.operators import Aggregation
from penstock.sql.plan.rewrite import nodes_in
from penstock.sql.run.catalog import View
from tests.unit.sql.planning import (
    BATCH,
    DECLARED,
    STREAM,
    How,
    RecordedViews,
    catalog_of,
    planned,
    refused,
)
from tests.unit.sql.recorded_plans import PLANS, cases

PIECES = [
    word
    for name in ("batch.txt", "expressions.txt")
    for each in cases(PLANS / name)
    for word in each.query.split(" ")
]


def test_a_mistake_is_shown_with_its_line_and_column() -> None:
    with pytest.raises(SqlError) as error:
        planned("SELECT i,\n  UPER(s)\nFROM t", BATCH)
    text, line, caret = str(error.value).split("\n")
    assert text.startswith("Line 2, column 3: the function UPER is not one of those that are served.")
    assert (line, caret) == ("    UPER(s)", "    ^")
    assert (error.value.facts["line"], error.value.facts["column"]) == (2, 3)


def test_names_of_columns_ignore_case_and_names_of_tables_do_not() -> None:
    for query in (
        "SELECT S FROM t WHERE I = 1",
        "SELECT X.i FROM t x",
        "SELECT O.X FROM t",
        "SELECT A FROM (SELECT i AS a FROM t)",
    ):
        planned(query)
    for query, message in (
        ("SELECT i FROM T", "there is no table or view 'T'. Did you mean 't'?"),
        ("WITH q AS (SELECT i FROM t) SELECT i FROM Q", "there is no table or view 'Q'. Did you mean 'q'?"),
        ("SELECT a FROM (SELECT i AS a, s AS A FROM t)", "the column 'a' is in a query"),
    ):
        with pytest.raises(SqlError, match=re.escape(message)):
            planned(query)


def test_options_of_a_hint_go_to_their_table() -> None:
    found = planned(
        "SELECT x.i FROM t /*+ OPTIONS('scan.startup.mode' = 'earliest-offset') */ x JOIN u ON x.i = u.i"
    )
    assert found.reads == ((("t",), (("scan.startup.mode", "earliest-offset"),)), (("u",), ()))


def test_a_table_of_a_view_of_another_database_is_found_by_its_name() -> None:
    catalog = catalog_of(DECLARED)
    catalog.databases.add("d")
    catalog.objects["d", "own"] = catalog.objects.pop((catalog.database, "u"))
    [view] = parse_script(text := "CREATE VIEW v AS SELECT i FROM own")
    assert isinstance(view.statement, CreateView)
    catalog.objects["d", "v"] = View(view.statement, Source(text), "d")
    found = planned("SELECT i FROM d.v", How(catalog=catalog))
    assert [parts for parts, _ in found.reads] == [("d", "v"), ("d", "own")]
    assert all(catalog.find(parts) is not None for parts, _ in found.reads)


@dataclass
class OneTable(RecordedViews):
    """Spark with one table, whose column x has a type that SQL does not have."""

    def table(self, parts: tuple[str, ...]) -> Any:
        fields = [StructField("i", IntegerType()), StructField("x", StringType("UTF8_LCASE"))]
        return MagicMock(isStreaming=False, schema=StructType(fields))

    def named(self, frame: Any) -> str:
        return "view"


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("SELECT i FROM of_spark", None),
        ("SELECT UPPER(x) FROM of_spark", "SQL has no type for Spark's 'string collate UTF8_LCASE'."),
        ("SELECT i FROM of_spark WHERE x = 'a'", "SQL has no type for Spark's 'string collate UTF8_LCASE'."),
        ("SELECT i FROM of_spark ORDER BY x", None),
    ],
)
def test_a_column_of_spark_whose_type_sql_does_not_have(query: str, refusal: str | None) -> None:
    how = How(is_batch=True, views=OneTable())
    if refusal is None:
        assert "FROM `view`" in planned(query, how).sql or "of_spark" in planned(query, how).sql
    else:
        with pytest.raises((SqlError, ValueError), match=refusal):
            planned(query, how)


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("ts", 0),
        ("ts - INTERVAL '5' SECOND", 5_000),
        ("ts - INTERVAL '0.5' SECONDS", 500),
        ("ts - INTERVAL '1' DAY", 86_400_000),
    ],
)
def test_a_watermark(text: str, delay_ms: int) -> None:
    assert watermark_delay_ms(Fragment(text), "ts", Source(text)) == delay_ms


@pytest.mark.parametrize("text", ["x", "ts + INTERVAL '5' SECOND", "ts - INTERVAL '1' MONTH", "f(ts)"])
def test_a_watermark_that_spark_cannot_follow_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="Spark's watermark is the newest time less a fixed delay"):
        watermark_delay_ms(Fragment(text), "ts", Source(text))


def test_a_long_and_a_deep_query_end_without_a_traceback() -> None:
    assert "nested too deeply" in (refused(f"SELECT {' + '.join(['i'] * 5_000)} FROM t", BATCH) or "")


@pytest.mark.parametrize("how", [BATCH, STREAM], ids=["batch", "stream"])
@given(words=st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_text_ends_in_anything_but_a_query_or_a_position(how: How, words: list[str]) -> None:
    any_type = How(how.is_batch, views=RecordedViews(knows_all=False))
    message = refused(f"SELECT {' '.join(words)} FROM t", any_type)
    assert message is None or message.startswith("Line ")


def test_texts_are_joined_with_their_separator() -> None:
    found = planned(r"SELECT LISTAGG(s), LISTAGG(s, ' \ ''') FILTER (WHERE b) FROM t GROUP BY i")
    [operator] = [each.operator for each in nodes_in(found.plan) if isinstance(each, Stateful)]
    assert isinstance(operator, Aggregation)
    assert [each.separator for each in parse_calls(dict(operator.calls))] == [",", r" \ '"]


def test_each_call_of_an_operator_is_one_that_it_can_read() -> None:
    query = "SELECT LAST_VALUE(i) FILTER (WHERE b), FIRST_VALUE(i), SUM(DISTINCT i), AVG(DISTINCT d), STDDEV_POP(d)"
    found = planned(f"{query} FROM t GROUP BY s")
    [operator] = [each.operator for each in nodes_in(found.plan) if isinstance(each, Stateful)]
    assert isinstance(operator, Aggregation)
    assert len(list(parse_calls(dict(operator.calls)))) == len(operator.calls) == 8


def test_the_sum_of_different_decimals_cannot_overflow_on_the_way() -> None:
    text = distinct_in_stream("AVG", TypedSql("x", "decimal(27,8)"), "")
    assert "CAST(__s + __v AS DECIMAL(37,8))" in text
    assert text.endswith("AS DECIMAL(38,8))")
    with pytest.raises(ValueError, match="27 digits at most in a stream, got DECIMAL\\(28,8\\)"):
        distinct_in_stream("SUM", TypedSql("x", "decimal(28,8)"), "")


@pytest.mark.parametrize(
    ("query", "is_same"),
    [
        ("SELECT s AS shop, COUNT(*) * 2 AS twice FROM t GROUP BY s", True),
        ("SELECT s FROM t AS x GROUP BY x.s HAVING COUNT(*) > 7", True),
        ("SELECT s, COUNT(*) FROM t WHERE i > 1 GROUP BY s", True),
        ("SELECT s, SUM(i) FROM t GROUP BY s", False),
        ("SELECT s, COUNT(*) FROM w GROUP BY s", False),
    ],
)
def test_the_state_of_an_operator_has_an_id_and_what_it_keeps(query: str, is_same: bool) -> None:
    first, second = (planned(each) for each in ("SELECT s, COUNT(*) FROM t GROUP BY s", query))
    before, after = (states_of(each.plan, each.traits) for each in (first, second))
    assert [*before] == [*after] == ["1-aggregate"]
    assert (before == after) is is_same


def test_a_window_by_slices_has_another_state() -> None:
    """Spark would take the state of a count for that of a sum."""
    found = []
    for size in (3, 4):
        hop = f"HOP(TABLE t, DESCRIPTOR(ltz), INTERVAL '1' HOUR, INTERVAL '{size}' HOUR)"
        each = planned(f"SELECT COUNT(*) FROM TABLE({hop}) GROUP BY window_start, window_end")
        found.append(states_of(each.plan, each.traits))
    assert found == [{"spark-1": "Aggregate of t"}, {"spark-1": "Aggregate by slices of t"}]


def test_groups_of_windows_of_rows_that_change_are_not_in_a_state_of_spark() -> None:
    """The groups of a window that are over would be missing in the state of a development version."""
    each = planned("SELECT COUNT(*) FROM c GROUP BY TUMBLE(ltz, INTERVAL '1' HOUR)")
    assert states_of(each.plan, each.traits) == {
        "1-aggregate": "Aggregation(keys=('g0', 'g1'), calls=(('r0', 'count(*)'),), ttl=None) of c"
    }


@pytest.mark.parametrize(
    "rows",
    [
        "c",
        "(SELECT * FROM c WHERE ltz IS NOT NULL) AS c",
        "(SELECT ltz, ltz AS again FROM c) AS c",
        "(SELECT ltz AS again, ltz FROM c) AS c",
        "(SELECT ltz FROM t UNION ALL SELECT ltz FROM c) AS c",
        "c LEFT JOIN static FOR SYSTEM_TIME AS OF PROCTIME() AS s ON c.i = s.i",
        "c CROSS JOIN UNNEST(c.a) AS u (x)",
        "(SELECT window_start, ltz FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' DAY))) AS c",
    ],
)
def test_row_that_goes_without_its_time_stops_the_query_wherever_its_window_is(rows: str) -> None:
    """A window takes no row without a time, so the deleted row would stay in its group in silence."""
    each = planned(f"SELECT COUNT(*) FROM {rows} GROUP BY TUMBLE(c.ltz, INTERVAL '1' HOUR)")
    [made] = [text for text in each.made if "FROM `c`" in text]
    assert "raise_error('The event time ltz is NULL in a row that comes, changes or goes." in made


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("-2147483648", "INT"),
        ("- 2147483648", "INT"),
        ("-(2147483648)", "INT"),
        ("-2147483647", "INT"),
        ("2147483648", "BIGINT"),
        ("-2147483649", "BIGINT"),
        ("-9223372036854775808", "BIGINT"),
        ("9223372036854775807", "BIGINT"),
    ],
)
def test_an_integer_has_the_type_of_flink_and_spark(text: str, kind: str) -> None:
    """The lowest INT and BIGINT have no positive number of their type. Flink 2.3 answered these."""
    found = planned(f"SELECT {text} AS x FROM t", BATCH)
    assert [each.type.name for each in found.plan.columns] == [kind]
    assert text.replace(" ", "").replace("(", "").replace(")", "") in found.sql
