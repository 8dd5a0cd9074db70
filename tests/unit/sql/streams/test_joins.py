"""Joins of streams: which are Spark's, and which are cut."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.rows import KIND, Rows
from penstock.sql.query.steps import RegularJoin
from tests.unit.sql.fake_binder import FakeBinder, translated
from tests.unit.sql.streams.cutting import SOURCE, STREAMS, cut


def test_an_outer_join_and_a_join_of_changes_are_cut() -> None:
    steps, rows, sql = cut("SELECT x.i AS a, u.s AS b FROM c AS x LEFT JOIN u ON x.l = u.l")
    assert steps == [
        RegularJoin(
            f"SELECT `x`.`i` AS `l0`, `x`.`s` AS `l1`, `x`.`l` AS `l2`, `x`.`l` AS `lk0`, `{KIND}` FROM `c` AS `x`",
            "SELECT `u`.`i` AS `r0`, `u`.`s` AS `r1`, `u`.`l` AS `r2`, `u`.`l` AS `rk0` FROM `u` AS `u`",
            (("lk0", "rk0"),),
            "left",
        )
    ]
    assert sql == f"SELECT `l0` AS `a`, `r1` AS `b`, `{KIND}` FROM `cut1` AS `__join`"
    assert rows.keys is None
    _, rows, sql = cut("SELECT u.i, c.i AS j, c.s FROM u JOIN c ON u.l = c.i AND u.s <> c.s")
    assert sql.endswith(
        f"FROM (SELECT * EXCEPT (`{KIND}`), CASE WHEN `{KIND}` IN ('+I', '+U') THEN '+I' ELSE '-D' END AS "
        f"`{KIND}` FROM `cut1` AS `__join` WHERE ((`l1` <> `r1`))) AS `__join`"
    )


def test_rows_that_change_are_not_joined_with_a_table_that_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        FakeBinder, "is_streaming", lambda _, select: "`u`" not in select and "VALUES" not in select
    )
    for query in ("SELECT c.s FROM c JOIN u ON c.i = u.i", "SELECT c.s FROM u LEFT JOIN c ON c.i = u.i"):
        with pytest.raises(
            SqlError, match=r"(?s)column \d+: rows that change are joined with a static table"
        ):
            cut(query)
    steps, rows, _ = cut("SELECT c.s FROM c LEFT JOIN u FOR SYSTEM_TIME AS OF c.ltz ON c.i = u.i")
    assert (steps, rows.changes) == ([], SOURCE)
    steps, rows, _ = cut("SELECT c.s FROM c JOIN (VALUES (1)) AS v (i) ON c.i = v.i")
    assert (steps, rows.changes) == ([], SOURCE)


def test_the_rest_of_on_is_of_its_own_join() -> None:
    steps, _, sql = cut("SELECT a.i FROM c AS a JOIN c AS b ON a.i = b.i AND a.s <> b.s JOIN u ON a.i = u.i")
    assert isinstance(steps[1], RegularJoin)
    assert "WHERE ((`l1` <> `r1`))) AS `__join`" in steps[1].left
    assert "WHERE" not in sql


def test_an_inner_join_of_inserts_is_sparks() -> None:
    steps, rows, sql = cut("SELECT t.i FROM t JOIN u ON t.l = u.l")
    assert (steps, rows) == ([], Rows())
    assert "EXCEPT (`__partition`, `__offset`)" in sql


@pytest.mark.parametrize("text", ["t, u WHERE t.i = u.i", "t CROSS JOIN u WHERE u.l > 1 AND u.i = t.i"])
def test_streams_that_where_compares_are_joined_as_an_inner_join(text: str) -> None:
    _, rows, sql = cut(f"SELECT t.s FROM {text}")
    assert " AS `t` JOIN `u` AS `u` WHERE " in sql
    assert rows.changes is None


@pytest.mark.parametrize(
    "text",
    ["t, u", "t CROSS JOIN u WHERE t.i = 1", "t JOIN u ON t.i > u.i", "t JOIN u ON t.i > u.i AND t.l = t.i"],
)
def test_two_streams_that_are_not_compared_are_joined_in_one_task(text: str) -> None:
    (step,), rows, _ = cut(f"SELECT t.s FROM {text}")
    assert isinstance(step, RegularJoin)
    assert (step.on, step.how) == ((("lk0", "rk0"),), "inner")
    assert "0 AS `lk0`" in step.left
    assert "0 AS `rk0`" in step.right
    assert rows.changes is None


def test_two_streams_of_changes_that_where_compares_are_joined_by_what_it_compares() -> None:
    (step,), _, sql = cut("SELECT u.i FROM u, c WHERE u.l = c.l AND u.i > 1")
    assert isinstance(step, RegularJoin)
    assert "`u`.`l` AS `lk0`" in step.left
    assert " WHERE " in sql


def test_two_streams_whose_outer_join_spark_would_run_need_a_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeBinder, "has_watermarks", True)
    times = "u.ltz BETWEEN t.ltz - INTERVAL '1' HOUR AND t.ltz"
    with pytest.raises(SqlError, match="A JOIN needs none"):
        translated(f"SELECT t.s FROM t LEFT JOIN u ON {times}", FakeBinder(STREAMS))


def test_a_condition_on_one_side_of_an_outer_join_decides_which_rows_have_a_key() -> None:
    on = "u.l = c.l AND u.i = c.i AND u.i > 1 AND c.s = 'x'"
    (step,), *_ = cut(f"SELECT u.i FROM u FULL JOIN c ON {on}")
    assert isinstance(step, RegularJoin)
    assert "CASE WHEN ((`u`.`i` > 1)) THEN `u`.`l` END AS `lk0`" in step.left
    assert "CASE WHEN ((`c`.`s` = 'x')) THEN `c`.`i` END AS `rk1`" in step.right
