"""GROUP BY, DISTINCT and the operations of sets over streams are cut at an aggregation."""

from __future__ import annotations

import pytest

from penstock.changelog.operators.calls import parse_calls
from penstock.errors import SqlError
from penstock.sql.query.rows import KIND, Relation, Rows
from penstock.sql.query.steps import Aggregation
from tests.unit.sql.fake_binder import FakeBinder, translated
from tests.unit.sql.streams.cutting import cut


def test_group_by_is_cut_at_an_operator() -> None:
    steps, rows, sql = cut(
        "SELECT s AS name, COUNT(*), SUM(i) + 1, AVG(l) AS a, COUNT(DISTINCT i) FILTER (WHERE b) FROM t WHERE i > 0 GROUP BY s"
    )
    assert steps == [
        Aggregation(
            "SELECT `s` AS `g0`, `i` AS `a0`, `l` AS `a1`, CASE WHEN `b` THEN `i` END AS `a2` "
            "FROM `t` AS `t` WHERE (`i` > 0)",
            ("g0",),
            (
                ("r0", "count(*)"),
                ("r1", "sum(a0)"),
                ("r2", "sum(a1)"),
                ("r3", "count(a1)"),
                ("r4", "count(distinct a2)"),
            ),
        )
    ]
    assert sql == (
        "SELECT `g0` AS `name`, `r0` AS `EXPR$1`, (CAST(`r1` AS INT) + 1) AS `EXPR$2`, "
        f"CAST(`r2` div nullif(`r3`, 0) AS BIGINT) AS `a`, `r4` AS `EXPR$4`, `{KIND}` FROM `cut1`"
    )
    assert (rows.changes is not None, rows.keys, rows.is_together) == (True, frozenset({"name"}), True)


def test_texts_are_joined_with_their_separator() -> None:
    steps, _, _ = cut(r"SELECT LISTAGG(s), LISTAGG(s, ' \ ''') FILTER (WHERE b) FROM t GROUP BY i")
    step = steps[0]
    assert isinstance(step, Aggregation)
    assert step.calls == (("r0", "listagg(a0, ',')"), ("r1", r"listagg(a1, ' \ ''')"))
    assert [call.separator for call in parse_calls(dict(step.calls))] == [",", r" \ '"]


def test_a_column_of_group_by_may_stand_with_its_table() -> None:
    _, rows, sql = cut("SELECT s, y.i FROM t AS y GROUP BY Y.s, i")
    assert sql.startswith("SELECT `g0` AS `s`, `g1` AS `i`, ")
    assert rows.keys == frozenset({"s", "i"})


def test_a_total_of_rows_that_change_is_one_group_with_one_row_at_most() -> None:
    steps, rows, sql = cut("SELECT COUNT(*) AS n, SUM(i) AS s FROM c")
    assert steps == [
        Aggregation(
            f"SELECT 0 AS `g0`, `i` AS `a0`, `{KIND}` FROM `c` AS `c`",
            ("g0",),
            (("r0", "count(*)"), ("r1", "sum(a0)")),
        )
    ]
    assert sql == f"SELECT `r0` AS `n`, CAST(`r1` AS INT) AS `s`, `{KIND}` FROM `cut1`"
    assert (rows.changes is not None, rows.keys, rows.is_together) == (True, frozenset(), True)


def test_having_takes_each_change_alone() -> None:
    _, rows, sql = cut("SELECT s FROM t GROUP BY s HAVING COUNT(*) > 1")
    assert sql == (
        f"SELECT `g0` AS `s`, CASE WHEN `{KIND}` IN ('+I', '+U') THEN '+I' ELSE '-D' END AS `{KIND}` "
        "FROM `cut1` WHERE (`r0` > 1)"
    )
    assert (rows.keys, rows.is_together) == (frozenset({"s"}), False)


def test_a_group_of_groups_is_two_cuts() -> None:
    steps, rows, _ = cut(
        "SELECT n, COUNT(*) FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s) AS x GROUP BY n"
    )
    second = steps[1]
    assert isinstance(second, Aggregation)
    assert second.query == (
        f"SELECT `n` AS `g0`, `{KIND}` FROM (SELECT `g0` AS `s`, `r0` AS `n`, `{KIND}` FROM `cut1`) AS `x`"
    )
    assert rows.keys == frozenset({"n"})


def test_groups_of_a_field_are_not_those_of_the_column() -> None:
    _, rows, _ = cut(
        "SELECT i FROM (SELECT i, s.i, ROW_NUMBER() OVER (PARTITION BY s.i ORDER BY l) AS n FROM t) WHERE n = 1"
    )
    assert rows.keys is None
    with pytest.raises(SqlError, match="Spark builds sessions of the groups"):
        cut(
            "SELECT s.i, COUNT(*) FROM TABLE(SESSION(TABLE u PARTITION BY i, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
            "GROUP BY s.i, window_start, window_end"
        )


def test_the_first_value_of_a_group_is_the_first_to_arrive() -> None:
    steps, _, sql = cut(
        "SELECT s, LAST_VALUE(i) FILTER (WHERE b), FIRST_VALUE(i), SUM(DISTINCT i), AVG(DISTINCT d) FROM t GROUP BY s"
    )
    step = steps[0]
    assert isinstance(step, Aggregation)
    assert "`__offset` AS `a0`" in step.query
    assert dict(step.calls) == {
        "r0": "last_arrived(a1 order by a0)",
        "r1": "first_arrived(a2 order by a0)",
        "r2": "sum(distinct a2)",
        "r3": "sum(distinct a3)",
        "r4": "count(distinct a3)",
    }
    assert len(list(parse_calls(dict(step.calls)))) == 5
    assert "CAST(`r3` / nullif(`r4`, 0) AS DOUBLE)" in sql


def test_rows_without_a_place_arrive_in_the_order_of_their_times() -> None:
    binder = FakeBinder({"w": Relation("`w`", Rows(), ("ltz", 0))})
    translated("SELECT s, FIRST_VALUE(i) FROM w GROUP BY s", binder)
    assert "`ltz` AS `a0`" in getattr(binder.steps[0], "query", "")


@pytest.mark.parametrize(
    ("group", "sets"),
    [
        ("GROUPING SETS ((s, i), (s), ())", [{0, 1}, {0}, set()]),
        ("ROLLUP (s, i)", [{0, 1}, {0}, set()]),
        ("CUBE (s, i)", [{0, 1}, {0}, {1}, set()]),
        ("s, ROLLUP (i)", [{0, 1}, {0}]),
        ("CUBE ((s, i), s)", [{0, 1}, {0, 1}, {0}, set()]),
    ],
)
def test_each_row_counts_in_each_set(group: str, sets: list[set[int]]) -> None:
    steps, rows, sql = cut(f"SELECT s, i, GROUPING(s, i) AS g, SUM(i) AS x FROM t GROUP BY {group}")
    step = steps[0]
    assert isinstance(step, Aggregation)
    assert step.keys == ("g0", "g1", "gs")
    of = ", ".join(str(number) for number, each in enumerate(sets) if 1 in each)
    assert step.query == (
        f"SELECT CASE WHEN `gs` IN ({', '.join(str(number) for number, each in enumerate(sets) if 0 in each)}) THEN `g0` "
        f"END AS `g0`, CASE WHEN `gs` IN ({of}) THEN `g1` END AS `g1`, `gs`, `a0` FROM (SELECT `s` AS `g0`, `i` AS `g1`, "
        f"`i` AS `a0` FROM `t` AS `t`) LATERAL VIEW explode(array({', '.join(map(str, range(len(sets))))})) `__sets` AS `gs`"
    )
    bits = [2 * (0 not in each) + (1 not in each) for each in sets]
    assert " ".join(f"WHEN {number} THEN {bit}" for number, bit in enumerate(bits)) in sql
    assert (rows.keys, rows.changes is not None) == (None, True)


@pytest.mark.parametrize(
    ("operation", "kept"),
    [
        ("INTERSECT", "FROM `cut1` WHERE `n0` > 0 AND `n1` > 0"),
        ("EXCEPT", "FROM `cut1` WHERE `n0` > 0 AND `n1` = 0"),
        ("INTERSECT ALL", "array_repeat(0, CAST(least(`n0`, `n1`) AS INT))"),
        ("EXCEPT ALL", "array_repeat(0, CAST(greatest(`n0` - `n1`, 0) AS INT))"),
    ],
)
def test_set_operations_count_the_rows_of_both_sides(operation: str, kept: str) -> None:
    steps, rows, sql = cut(f"SELECT i FROM c {operation} SELECT i FROM u")
    (step,) = steps
    assert isinstance(step, Aggregation)
    assert step.calls == (("n0", "count(a0)"), ("n1", "count(a1)"))
    assert kept in sql
    assert rows.changes is not None
    assert (rows.keys is None) is operation.endswith("ALL")


def test_different_rows_of_a_stream() -> None:
    steps, rows, sql = cut("SELECT DISTINCT i, s FROM c")
    assert len(steps) == 1
    assert sql.endswith(f"`{KIND}` FROM `cut1`")
    assert rows.keys == frozenset({"i", "s"})
