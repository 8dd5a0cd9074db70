"""Rows that are columns of one view reach an operator without a text that Spark parses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from penstock.sql.bind.context import UnknownTypeError
from penstock.sql.emit.select import Query, Select, Stage
from penstock.sql.plan.expressions import Column
from penstock.sql.plan.types import INT
from penstock.sql.run import _tables as tables
from penstock.sql.run import _targets as targets
from penstock.sql.run._views import SparkViews
from tests.unit.sql.declared import table_of

A, B = Column(1, "a", INT), Column(2, "b", INT)
PLAIN = Select("`v` AS `s0`", {A: "`s0`.`x.y`", B: "1"}, kind="`s0`.`__row_kind`")


def test_columns_of_one_view_are_chosen_by_their_names() -> None:
    found = PLAIN.query([A, B], ["g0", "a0"])
    assert found.view == "v"
    assert found.columns == ("`x.y` AS `g0`", "1 AS `a0`", "`__row_kind` AS `row_kind`")
    assert found.text == (
        "SELECT `s0`.`x.y` AS `g0`, 1 AS `a0`, `s0`.`__row_kind` AS `row_kind` FROM `v` AS `s0`"
    )


def test_rows_without_columns_are_still_rows() -> None:
    assert replace(PLAIN, kind=None).query([], []).columns == ("1 AS `one`",)


@pytest.mark.parametrize(
    "more",
    [
        {"where": ("`s0`.`x` > 1",)},
        {"source": "`v` AS `s0` JOIN `w` AS `s1`"},
        {"source": "(SELECT 1 AS `x`) AS `s0`"},
        {"outputs": {A: "`s0`.`x` + 1", B: "1"}},
        {"outputs": {A: "`s0`.`x`.`y`", B: "1"}},
        {"kind": "CASE WHEN `s0`.`k` = '+I' THEN '+I' END"},
        {"is_distinct": True, "stage": Stage.DISTINCT},
        {"limit": "LIMIT 1", "stage": Stage.LIMITED},
        {"order": ((A, "`s0`.`x`", ""),), "stage": Stage.SORTED},
        {"group": "`s0`.`x`", "stage": Stage.GROUPED},
        {"having": ("count(*) > 0",)},
        {"stage": Stage.OVER},
        {"has_varying": True},
        {"is_join": True},
    ],
)
def test_a_select_that_does_more_is_a_text(more: dict[str, Any]) -> None:
    rows = PLAIN.with_(**more)
    assert rows.query([A, B], ["g0", "a0"]) == Query(rows.text([A, B], ["g0", "a0"], "row_kind"))


def test_spark_has_a_view_when_a_text_names_it_and_until_the_end() -> None:
    spark, frames = MagicMock(), [MagicMock() for _ in range(11)]
    views = SparkViews(spark)
    names = [views.named(each) for each in frames]
    assert views.rows(Query("", names[3], ("`a` AS `b`",))) is frames[3].selectExpr.return_value
    frames[3].selectExpr.assert_called_once_with("`a` AS `b`")
    for _ in range(2):
        views.rows(Query(f"SELECT 1 FROM `{names[10]}` AS `s0`, `{views.function_name('77')}`"))
    made = [each for each in frames if each.createOrReplaceTempView.called]
    assert made == [frames[10]]  # and not the first one, whose name is a part of its name
    frames[10].createOrReplaceTempView.assert_called_once_with(names[10])
    views.close()
    spark.catalog.dropTempView.assert_called_once_with(names[10])
    assert views.named(MagicMock()) not in names  # a DataFrame of Connect may still look for one of them


def test_columns_that_spark_refuses_are_refused_with_its_message() -> None:
    views, frame = SparkViews(MagicMock()), MagicMock()
    frame.selectExpr.side_effect = AnalysisException("[AMBIGUOUS_REFERENCE] Reference `i` is ambiguous.")
    with pytest.raises(UnknownTypeError, match=r"^Reference `i` is ambiguous\.$"):
        views.rows(Query("", views.named(frame), ("`i` AS `a`",)))


@pytest.mark.parametrize(
    ("names", "texts"), [(["a", "A"], ["`c0`", "`c1`"]), (["a", "b.c"], ["`a`", "`b.c`"])]
)
def test_an_insert_takes_columns_by_their_names_if_these_differ(
    monkeypatch: pytest.MonkeyPatch, names: list[str], texts: list[str]
) -> None:
    monkeypatch.setattr(tables, "parsed_type", lambda kind: MagicMock(simpleString=kind.lower))
    fields = [MagicMock(), MagicMock()]
    for field in fields:
        field.dataType.simpleString.return_value = "int"
    frame = MagicMock(columns=names)
    frame.schema.fields = fields
    frame.toDF.return_value = frame
    targets.rows_for(frame, table_of("CREATE TABLE t (x INT, y INT) WITH ('connector' = 'kafka')"), ())
    assert frame.toDF.called == (texts[0] == "`c0`")
    one, other = texts
    frame.selectExpr.assert_called_once_with(f"CAST({one} AS INT) AS `x`", f"CAST({other} AS INT) AS `y`")
