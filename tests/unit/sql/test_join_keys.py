"""Which plans of Spark forget rows of a join by a key without a watermark."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.run import _planned, _queries
from penstock.sql.run._cuts import Notes
from penstock.sql.run._join_keys import forgets_by_one_side
from penstock.sql.run._queries import Queries
from penstock.sql.run._views import SparkViews
from penstock.sql.run.settings import Settings
from tests.unit.sql.planning import catalog_of

CLEANUP = "Inner, condition = [ both = (x#1 > y#2) ], state cleanup [ left {0}, right {0} ], 2, Append"
BY_KEY = CLEANUP.format("key predicate: (input[1, timestamp, true] <= 17672)")
BY_VALUE = CLEANUP.format("value predicate: (ts#1-T1000ms <= 17672)")


@pytest.mark.parametrize(
    ("join", "is_wrong"),
    [
        (f"[id#1L, ts#2-T1000ms], [id#3L, ts#4-T1000ms], {BY_KEY}", False),
        (f"[f(a#1, b#2)[0], e#3-T0ms], [x[(1, 2)]#3L, e#4-T1000ms], {BY_KEY}", False),
        (f"[id#1L, ts#2-T1000ms], [id#3L, cast(until#4 as timestamp)], {BY_KEY}", True),
        (f"[id#1L, ts#2-T1000ms], [id#3L, ts#4-T1000ms + INTERVAL '-20' SECOND], {BY_KEY}", True),
        (f"[id#1L, event-time#2-T1000ms], [id#3L, a.b (UTC)#4-T1000ms], {BY_KEY}", False),
        (f"[id#1L, ts#2-T1000ms], [id#3L, days#4 + ts#5-T1000ms], {BY_KEY}", True),
        (f"[id#1L, ts#2], [id#3L, ts#4-T1000ms], {BY_KEY}", True),
        (f"[id#1L, ... 30 more fields], [id#3L, ... 30 more fields], {BY_KEY}", True),
        (f"[id#1L], [id#3L], {BY_VALUE}", False),
    ],
)
def test_the_key_that_ends_the_state_has_the_watermark_of_both_sides(join: str, is_wrong: bool) -> None:
    plan = f"*(3) Project [id#1L]\n+- StreamingSymmetricHashJoin {join}\n   :- Exchange"
    assert forgets_by_one_side(plan) is is_wrong


WRONG = f"StreamingSymmetricHashJoin [id#1L, ts#2-T1000ms], [id#3L, created#4], {BY_KEY}"
JOIN = "SELECT a.id, a.ts AS ats, b.created FROM a JOIN b ON a.id = b.id AND a.ts = b.ts"
REFUSAL = "Spark would make it a part of the join, and forget rows too early"
TABLE = """CREATE TABLE {} (id BIGINT, ts TIMESTAMP(3), created TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
    'connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.bootstrap.servers' = 'b:9092');"""
TABLES = f"{TABLE.format('a')} {TABLE.format('b')}"
VIEWS = f"CREATE VIEW v AS {JOIN}; CREATE VIEW outer_v AS SELECT * FROM v; CREATE VIEW w AS SELECT id FROM a"


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    """Queries with the view v of an interval join, the view outer_v over it, and the stream `of_spark`.

    Spark's plan of each query forgets rows by one side.
    """
    monkeypatch.setattr(_queries, "plan_text", lambda _: WRONG)
    monkeypatch.setattr(_planned, "opened", MagicMock())
    spark = MagicMock()
    spark.conf.get.return_value = "UTC"
    spark.table.return_value = MagicMock(isStreaming=True, columns=["id", "ats", "created"])
    fields = [StructField(name, LongType()) for name in ("id", "ats", "created")]
    spark.table.return_value.schema = StructType(fields)
    return Queries(SparkViews(spark), catalog_of(f"{TABLES} {VIEWS}"), Settings())


def bind(queries: Queries, query: str) -> Notes:
    return queries.query(Fragment(query), Source(query)).notes


@pytest.mark.parametrize("view", ["v", "outer_v"])
def test_the_plan_of_spark_is_checked_in_each_query_over_a_view_of_an_interval_join(
    queries: Queries, view: str
) -> None:
    for _ in range(2):
        with pytest.raises(SqlError, match=REFUSAL):
            bind(queries, f"SELECT id FROM {view}")


@pytest.mark.parametrize(("watermarks", "is_checked"), [(1, False), (2, True)])
def test_a_view_of_spark_with_two_watermarks_is_checked(
    queries: Queries, monkeypatch: pytest.MonkeyPatch, watermarks: int, is_checked: bool
) -> None:
    """The view may be a SELECT of the session, registered under a name."""
    monkeypatch.setattr(_planned, "watermark_count", lambda _: watermarks)
    refusal: Any = pytest.raises(SqlError, match=REFUSAL) if is_checked else contextlib.nullcontext()
    with refusal:
        bind(queries, "SELECT id FROM of_spark WHERE ats = created")


def test_a_query_without_an_interval_join_is_not_checked(queries: Queries) -> None:
    bind(queries, "SELECT id FROM w")


def test_explain_of_each_insert_shows_what_was_found_in_the_view(
    queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_queries, "plan_text", lambda _: "")
    found = [bind(queries, "SELECT id FROM outer_v") for _ in range(2)]
    assert found[0].drops_late_rows
    assert [*found[0].reads] == [((name,), ()) for name in ("outer_v", "v", "a", "b")]
    assert found[0] == found[1]
