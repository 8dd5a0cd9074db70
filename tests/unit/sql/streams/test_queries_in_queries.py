"""Queries in WHERE, as values and behind LATERAL are joins."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.rows import KIND
from penstock.sql.query.steps import Aggregation, RegularJoin, Top
from tests.unit.sql.fake_binder import translated
from tests.unit.sql.streams.cutting import TUMBLE, cut


@pytest.mark.parametrize(
    ("where", "how", "on", "right"),
    [
        ("t.i IN (SELECT l FROM u WHERE s = 'a')", "semi", 1, "FROM `u` AS `u` WHERE (`s` = 'a')"),
        ("(i, s) IN (SELECT u.l AS x, s FROM u)", "semi", 2, "AS `rk0`, `s` AS `rk1` FROM `u` AS `u`"),
        ("(i, s, l, ltz) IN (SELECT * FROM u)", "semi", 4, "`u`.`ltz` AS `rk3` FROM `u` AS `u`"),
        ("i IN (SELECT l FROM u WHERE t.s = u.s)", "semi", 2, "AS `rk0`, `u`.`s` AS `rk1` FROM `u` AS `u`"),
        ("EXISTS (SELECT 1 FROM u WHERE u.l = t.i AND u.s = 'a')", "semi", 1, "WHERE (`u`.`s` = 'a')"),
        ("NOT EXISTS (SELECT * FROM u WHERE t.i = u.l)", "anti", 1, "AS `rk0` FROM `u` AS `u`"),
        (
            "i NOT IN (SELECT u.l FROM u WHERE l IS NOT NULL) AND t.i IS NOT NULL",
            "anti",
            1,
            "FROM `u` AS `u` WHERE (NOT (`l` IS NULL))",
        ),
        ("7 NOT IN (SELECT l FROM u WHERE l IS NOT NULL)", "anti", 1, "WHERE (NOT (`l` IS NULL))"),
    ],
)
def test_a_query_in_where_is_a_join(where: str, how: str, on: int, right: str) -> None:
    steps, rows, sql = cut(f"SELECT i, t.s FROM t WHERE {where} AND b")
    (step,) = steps
    assert isinstance(step, RegularJoin)
    assert (step.how, len(step.on)) == (how, on)
    assert step.right.endswith(right)
    assert step.left.endswith("`b`")
    assert sql.startswith("SELECT `l0` AS `i`, `l1` AS `s`")
    assert sql.endswith("FROM `cut1` AS `__kept`")
    assert (rows.changes is None) is (how == "semi")


def test_two_queries_in_where_are_two_joins() -> None:
    steps, _, _ = cut(
        "SELECT i FROM t WHERE b AND i IN (SELECT i FROM u) AND NOT EXISTS (SELECT 1 FROM c WHERE c.s = t.s)"
    )
    assert [step.left for step in steps if isinstance(step, RegularJoin)] == [
        "SELECT `t`.`i` AS `l0`, `t`.`s` AS `l1`, `i` AS `lk0` FROM `t` AS `t` WHERE `b`",
        "SELECT `l0` AS `l0`, `l1` AS `l1`, `l1` AS `lk0` FROM `cut1` AS `__kept`",
    ]


def test_a_query_in_where_may_group_its_rows_and_has_its_own_query_in_where() -> None:
    steps, rows, _ = cut(
        "SELECT i FROM c WHERE l IN (SELECT COUNT(*) FROM u WHERE s IN (SELECT s FROM t) GROUP BY i)"
    )
    assert [type(each) for each in steps] == [RegularJoin, Aggregation, RegularJoin]
    assert rows.keys == frozenset({"i"})
    assert rows.changes is not None
    assert not rows.is_together


def test_a_query_as_a_value_is_a_left_join_with_its_row() -> None:
    steps, rows, sql = cut(
        "SELECT i, (SELECT MAX(i) FROM u) AS m FROM t WHERE i > (SELECT s FROM c) AND l > 3"
    )
    first, one, many, other = steps
    assert (type(first), type(many)) == (Aggregation, Aggregation)
    assert isinstance(many, Aggregation)
    assert many.calls == (("r0", "count(*)"), ("r1", "max(a0)")), "it may give more than one row"
    assert isinstance(one, RegularJoin)
    assert one == RegularJoin(
        "SELECT `t`.`i` AS `l0`, `t`.`s` AS `l1`, `t`.`l` AS `l2`, 0 AS `lk0` FROM `t` AS `t` WHERE (`l` > 3)",
        "SELECT `__right`.`__value0` AS `r0`, 0 AS `rk0`, `__row_kind` FROM "
        "(SELECT `r0` AS `__value0`, `__row_kind` FROM `cut1`) AS `__right`",
        (("lk0", "rk0"),),
        "left",
    )
    assert isinstance(other, RegularJoin)
    assert other.left.startswith("SELECT `l0` AS `l0`, `l1` AS `l1`, `l2` AS `l2`, `r0` AS `l3`, 0 AS `lk0`")
    assert sql.startswith(
        f"SELECT `l0` AS `i`, (`l3`) AS `m`, `{KIND}` FROM `cut4` AS `__values` WHERE (`l0` > CASE"
    )
    assert "WHEN `r0` > 1 THEN raise_error('a query as a value gave more than one row" in sql
    assert rows.changes is not None


def test_a_count_that_is_compared_with_no_rows_is_0() -> None:
    steps, rows, sql = cut(
        "SELECT i, (SELECT COUNT(*) + MAX(i) FROM u WHERE u.i = c.i AND i > 1) AS n FROM c"
    )
    aggregation, join = steps
    assert isinstance(aggregation, Aggregation)
    assert aggregation.query == "SELECT `u`.`i` AS `g0`, `i` AS `a0` FROM `u` AS `u` WHERE (`i` > 1)"
    assert isinstance(join, RegularJoin)
    assert join.on == (("lk0", "rk0"),)
    assert "`c`.`i` AS `lk0`" in join.left
    assert "`__right`.`__correlated0` AS `rk0`" in join.right
    assert (
        sql == f"SELECT `l0` AS `i`, ((coalesce(`r0`, 0) + `r1`)) AS `n`, `{KIND}` FROM `cut2` AS `__values`"
    )
    assert rows.keys == frozenset({"i"})


def test_the_first_rows_behind_lateral_are_a_top_n_of_what_is_compared() -> None:
    steps, rows, sql = cut(
        "SELECT * FROM c LEFT JOIN LATERAL (SELECT i AS x, l FROM t WHERE t.s = c.s AND i > 3 ORDER BY x DESC LIMIT 2) AS b ON TRUE"
    )
    top, join = steps
    assert isinstance(top, Top)
    assert (top.count, top.keys, top.order_by, top.rank) == (2, ("p0",), (("o0", True),), None)
    assert "`t`.`s` AS `__p0`, `i` AS `__o0`" in top.query
    assert "WHERE (`i` > 3)" in top.query
    assert isinstance(join, RegularJoin)
    assert (join.on, join.how) == ((("lk0", "rk0"),), "left")
    assert "`b`.`__correlated0` AS `rk0`" in join.right
    assert sql == (
        "SELECT `l0` AS `i`, `l1` AS `s`, `l2` AS `l`, `l3` AS `ltz`, `r0` AS `x`, `r1` AS `l`, "
        f"`{KIND}` FROM `cut2` AS `__join`"
    )
    assert rows.changes is not None


def test_the_first_row_behind_lateral_is_unique_for_what_is_compared() -> None:
    _, rows, _ = cut(
        "SELECT c.i, b.l FROM c, LATERAL (SELECT l FROM t WHERE s = c.s ORDER BY ltz DESC LIMIT 1) AS b"
    )
    assert rows.keys == frozenset({"i"})


def test_groups_behind_lateral_are_also_grouped_by_what_is_compared() -> None:
    steps, _, _ = cut(
        "SELECT c.i, b.n FROM c, LATERAL (SELECT i, COUNT(*) AS n FROM t WHERE t.s = c.s GROUP BY i) AS b"
    )
    aggregation = steps[0]
    assert isinstance(aggregation, Aggregation)
    assert aggregation.query == "SELECT `i` AS `g0`, `t`.`s` AS `g1` FROM `t` AS `t`"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT c.i FROM c, LATERAL (SELECT l FROM t WHERE t.i > c.i ORDER BY l LIMIT 1)", "by = only"),
        ("SELECT c.i FROM c, LATERAL (SELECT l + c.i FROM t WHERE t.s = c.s)", "by = only"),
        ("SELECT c.i FROM c, LATERAL (SELECT l FROM t WHERE c.i = c.l ORDER BY l LIMIT 1)", "by = only"),
        ("SELECT c.i FROM c, LATERAL (SELECT l FROM t AS c WHERE c.i = c.l)", "needs a comparison by ="),
        ("SELECT c.i FROM c, LATERAL (SELECT l FROM t WHERE t.s = c.s LIMIT 1)", "needs ORDER BY"),
        ("SELECT c.i FROM c, LATERAL (SELECT l FROM t WHERE t.s = c.s ORDER BY 1 LIMIT 1)", "got a literal"),
        (
            "SELECT c.i FROM c, LATERAL (SELECT l + 1 FROM t WHERE t.s = c.s ORDER BY l LIMIT 1)",
            "needs a name",
        ),
        (
            "SELECT c.i FROM c, LATERAL (SELECT s, COUNT(*) AS n FROM t WHERE t.s = c.s GROUP BY s ORDER BY n LIMIT 1)",
            "beside groups",
        ),
        (
            "SELECT c.i FROM c, LATERAL (SELECT l FROM t WHERE t.s = c.s UNION SELECT l FROM u)",
            "takes a SELECT",
        ),
        (
            "SELECT c.i FROM c RIGHT JOIN LATERAL (SELECT l FROM t WHERE t.s = c.s) ON TRUE",
            "LEFT JOIN ... ON TRUE",
        ),
        (
            "SELECT c.i FROM c LEFT JOIN LATERAL (SELECT l FROM t WHERE t.s = c.s) AS b ON b.l = 1",
            "LEFT JOIN ... ON TRUE",
        ),
        ("SELECT i FROM c WHERE i > (SELECT MAX(i) FROM t WHERE t.l < c.l)", "by = only"),
        ("SELECT i, (SELECT i, l FROM t) FROM c", "has one column, got 2"),
        (
            "SELECT c.i FROM c, LATERAL (SELECT SUM(i) OVER (ORDER BY ltz) FROM t WHERE t.s = c.s)",
            "OVER beside a comparison",
        ),
        ("SELECT i, (SELECT i FROM t WHERE t.s = c.s LIMIT 1) FROM c", "has FROM and WHERE only"),
        ("SELECT i, (SELECT MAX(i) + l FROM t) FROM c", "the column 'l' is in no aggregate"),
        (
            "SELECT s, COUNT(*) FROM c GROUP BY ROLLUP (s) HAVING COUNT(*) > (SELECT MAX(i) FROM t)",
            "Put the groups in a query",
        ),
        ("SELECT s, COUNT(*) + (SELECT MAX(i) FROM t), GROUPING(s) FROM c GROUP BY s", "Put the groups in"),
        (
            f"SELECT COUNT(*) FROM {TUMBLE} WHERE i > (SELECT MAX(i) FROM t) GROUP BY window_start, window_end",
            "Put the window in a view",
        ),
    ],
)
def test_a_query_that_is_compared_otherwise_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)


@pytest.mark.parametrize("query", ["SELECT l FROM u", "SELECT COUNT(*) FROM c GROUP BY s"])
def test_not_in_that_may_meet_a_null_has_a_condition_on_nulls(query: str) -> None:
    steps, rows, sql = cut(f"SELECT i FROM t WHERE b AND i NOT IN ({query})")
    joins = [step for step in steps if isinstance(step, RegularJoin)]
    assert [step.how for step in joins] == ["anti", "left"]
    assert joins[0].left.endswith("WHERE `b`")
    assert joins[1].on == (("lk0", "rk0"),)
    assert "`lk0`" not in joins[1].left or "0 AS `lk0`" in joins[1].left, "one row for all"
    [nulls] = [step for step in steps if isinstance(step, Aggregation) and step.keys == ("g0",)][-1:]
    assert "CASE WHEN (`__x` IS NULL) THEN 2 ELSE 1 END AS `a0`" in nulls.query
    assert nulls.calls == (("r0", "max(a0)"),)
    assert "WHERE (coalesce((`r0`), 0) < CASE WHEN (`l0` IS NULL) THEN 1 ELSE 2 END)" in sql
    assert rows.changes is not None


@pytest.mark.parametrize(
    "condition",
    [
        "i IS NOT NULL AND i NOT IN (SELECT l FROM u)",
        "i NOT IN (SELECT l FROM u WHERE l IS NOT NULL)",
    ],
)
def test_a_null_on_one_side_of_not_in_is_enough_for_the_condition(condition: str) -> None:
    steps, _, _ = cut(f"SELECT i FROM t WHERE {condition}")
    assert [step.how for step in steps if isinstance(step, RegularJoin)] == ["anti", "left"]


def test_not_in_of_a_query_of_with_has_one_condition_on_nulls_wherever_its_name_stands() -> None:
    steps, _, _ = cut(
        "WITH w AS (SELECT i FROM t WHERE i NOT IN (SELECT l FROM u)) SELECT i FROM w UNION ALL SELECT i FROM w"
    )
    assert [step.how for step in steps if isinstance(step, RegularJoin)] == ["anti", "left"] * 3


def test_a_value_beside_groups_is_compared_around_them() -> None:
    steps, rows, sql = cut(
        "SELECT x.s, 1 + SUM(l) AS n, COUNT(*) FILTER (WHERE b) FROM t AS x GROUP BY s "
        "HAVING COUNT(*) > (SELECT MAX(i) FROM u) AND s <> 'a'"
    )
    assert [type(step) for step in steps] == [Aggregation, Aggregation, RegularJoin]
    assert isinstance(steps[0], Aggregation)
    assert steps[0].calls == (("r0", "sum(a0)"), ("r1", "count(a1)"), ("r2", "count(*)"))
    assert isinstance(steps[2], RegularJoin)
    assert steps[2].left.endswith("WHERE (`__g0` <> 'a')")
    shown = f"SELECT `l0` AS `s`, (1 + `l1`) AS `n`, `l2` AS `EXPR$2`, `{KIND}` FROM `cut3`"
    assert sql.startswith(shown)
    assert rows.keys == frozenset({"s"})


def test_a_value_beside_a_total() -> None:
    steps, rows, _ = cut("SELECT SUM(l) + (SELECT MAX(i) FROM u) AS n FROM t")
    assert [type(step) for step in steps] == [Aggregation, Aggregation, RegularJoin]
    assert rows.keys == frozenset()


def test_a_value_beside_groups_needs_no_name() -> None:
    _, _, sql = cut("SELECT s, (SELECT MAX(i) FROM u) FROM t GROUP BY s")
    assert sql == f"SELECT `l0` AS `s`, (`r0`) AS `EXPR$1`, `{KIND}` FROM `cut3` AS `__values`"
    assert translated("SELECT s, (SELECT MAX(i) FROM u) FROM t GROUP BY s").sql.startswith(
        "SELECT `__g0` AS `s`, (SELECT max(`i`) AS `EXPR$0` FROM `u` AS `u`) AS `EXPR$1` FROM "
    )
