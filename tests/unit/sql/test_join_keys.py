"""Which plans of Spark forget rows of a join by a key without a watermark."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql.types import StructField, TimestampType

from penstock.errors import SqlError
from penstock.spark.native import WAITS, WATERMARK
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.query.piece import Translated
from penstock.sql.query.steps import WindowChanges, WindowEnds
from penstock.sql.run import _binder
from penstock.sql.run._binder import SparkBinder
from penstock.sql.run._join_keys import forgets_by_one_side
from penstock.sql.run.settings import Settings
from tests.unit.sql.test_groups import catalog_of

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


@pytest.fixture
def binder(monkeypatch: pytest.MonkeyPatch) -> SparkBinder:
    """A binder with the view v of an interval join, the view outer_v over it, and the stream `of_spark`."""
    views = catalog_of(f"CREATE VIEW v AS {JOIN}", "CREATE VIEW outer_v AS SELECT * FROM v")
    spark = MagicMock()
    spark.sql.return_value.columns = spark.table.return_value.columns = []
    spark.table.return_value.schema.fields = []
    made = SparkBinder(spark, views, settings := Settings())
    settings.values["table.optimizer.non-deterministic-update.strategy"] = "ignore"

    def translate(fragment: Fragment, _: Any, inner: SparkBinder, **__: Any) -> Translated:
        if fragment.text != JOIN:
            inner.table((fragment.text.split(" FROM ")[1].split(" ")[0],), ())
            return Translated("", ())
        inner.cut(WindowEnds("", None, (), (), "w", 1_000), "line 1")
        inner.cut(WindowChanges("", "", ()), "line 2")
        inner.accepts_varying("NOW")
        return Translated("", (), drops_late_rows=True, has_interval_join=True)

    monkeypatch.setattr(_binder, "run_step", lambda *_: MagicMock())
    monkeypatch.setattr(_binder, "translate_query", translate)
    monkeypatch.setattr(_binder, "shaped", lambda sql, *_, **__: sql)
    monkeypatch.setattr(_binder, "plan_text", lambda frame: WRONG if frame is spark.sql.return_value else "")
    return made


def bind(binder: SparkBinder, query: str) -> None:
    with binder.states_in(None):
        binder.query(Fragment(query), Source(query))


@pytest.mark.parametrize("view", ["v", "outer_v"])
def test_each_insert_over_a_view_of_an_interval_join_is_checked(
    binder: SparkBinder, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    """The view of Spark is made once in a statement. The second INSERT has to be checked as well."""
    with monkeypatch.context() as right:
        right.setattr(_binder, "plan_text", lambda _: "")
        bind(binder, f"SELECT id FROM {view}")
    for _ in range(2):
        with pytest.raises(SqlError, match=REFUSAL):
            bind(binder, f"SELECT id FROM {view} WHERE ats = created")


def test_a_query_without_the_view_is_not_checked(
    binder: SparkBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_binder, "watermark_count", lambda _: 1)
    with pytest.raises(SqlError, match=REFUSAL):
        bind(binder, "SELECT id FROM v")
    bind(binder, "SELECT id FROM of_spark")


def test_a_view_of_spark_with_two_watermarks_is_checked(
    binder: SparkBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view may be a SELECT of the session, registered under a name."""
    monkeypatch.setattr(_binder, "watermark_count", lambda _: 2)
    with pytest.raises(SqlError, match=REFUSAL):
        bind(binder, "SELECT id FROM of_spark WHERE ats = created")


def test_explain_of_each_insert_shows_what_was_found_in_the_view(
    binder: SparkBinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_binder, "plan_text", lambda _: "")
    with binder.noting() as first:
        bind(binder, "SELECT id FROM outer_v")
    with binder.noting() as second:
        bind(binder, "SELECT id FROM outer_v")
        bind(binder, "SELECT id FROM v")
    assert (len(first.hops), len(first.cuts), first.varying, first.drops_late_rows) == (1, 1, ["NOW"], True)
    assert second == first


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        ("~Project [id#1]\n+- ~Join LeftOuter, (id#1 = id#2)\n   :- ~Relation", True),
        ("~Join FullOuter, (id#1 = id#2)", True),
        ("~Join Inner, (id#1 = id#2)", False),
        ("~Join LeftSemi, (id#1 = id#2)", False),
    ],
)
def test_rows_of_an_outer_join_are_known(monkeypatch: pytest.MonkeyPatch, plan: str, found: bool) -> None:
    monkeypatch.setattr(_binder, "analyzed_plan", lambda _: plan)
    assert SparkBinder(MagicMock(), catalog_of(), Settings()).has_outer_join("SELECT 1") is found


def test_a_watermark_says_whether_a_row_comes_when_it_is_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_binder, "has_watermark", lambda _: True)
    spark = MagicMock()
    spark.sql.return_value.schema.fields = [
        StructField("at", TimestampType(), metadata={WATERMARK: 0}),
        StructField("waits", TimestampType(), metadata={WATERMARK: 0, **WAITS}),
        StructField("plain", TimestampType(), metadata=WAITS),
    ]
    binder = SparkBinder(spark, catalog_of(), Settings())
    assert binder.watermarks("SELECT 1") == {"at": False, "waits": True}
