"""ORDER BY in streams: the order of the watermark's column, and the columns that it takes."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.query.rows import Rows
from penstock.sql.query.steps import TimeSort, Top
from penstock.sql.query.translate import translate_query
from tests.unit.sql.fake_binder import FakeBinder
from tests.unit.sql.streams.cutting import STREAMS, TUMBLE, cut


def test_the_order_of_times_is_cut_at_an_operator() -> None:
    steps, rows, sql = cut(
        "SELECT s AS name, x.ltz AS at FROM t AS x WHERE i > 1 ORDER BY ltz, name DESC NULLS FIRST, l + 1"
    )
    assert steps == [
        TimeSort(
            "SELECT `name` AS `c0`, `at` AS `c1`, `__s0` AS `o0`, `name` AS `o1`, "
            "CASE WHEN `name` IS NULL THEN 0 ELSE 1 END AS `o1n`, `__s2` AS `o2`, `__partition`, `__offset` FROM (SELECT `s` AS `name`, `x`.`ltz` AS `at`, "
            "`ltz` AS `__s0`, (`l` + 1) AS `__s2`, `__partition`, `__offset` FROM `t` AS `x` WHERE (`i` > 1))",
            "o0",
            5_000,
            (("o1n", False), ("o1", True), ("o2", False), ("__partition", False), ("__offset", False)),
        )
    ]
    assert sql == "SELECT `c0` AS `name`, `c1` AS `at` FROM `cut1`"
    assert rows == Rows()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i, ltz FROM t ORDER BY ltz ASC",
        "SELECT i, ltz AS x FROM t ORDER BY x NULLS LAST",
        "SELECT i FROM t ORDER BY t.ltz",
        "SELECT i, l AS ltz FROM t ORDER BY t.ltz",
        "SELECT ltz, i FROM t ORDER BY 1",
        "(SELECT i, ltz FROM t) ORDER BY ltz",
        "SELECT i FROM (SELECT i, ltz AS x FROM t WHERE i > 1) AS q ORDER BY x",
        "WITH q AS (SELECT i, ltz AS x FROM t) SELECT i, x FROM q ORDER BY x",
    ],
)
def test_the_time_of_a_table_gives_the_order(query: str) -> None:
    steps, rows, _ = cut(query)
    assert isinstance(steps[-1], TimeSort)
    assert (steps[-1].time, steps[-1].delay_ms, rows.hidden) == ("o0", 5_000, ())


BY_TIME = "ORDER BY without LIMIT in a stream begins with the column of the WATERMARK"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT i FROM t ORDER BY i", BY_TIME),
        ("SELECT i, ltz FROM t ORDER BY i, ltz", BY_TIME),
        ("SELECT i, ltz FROM t ORDER BY ltz DESC", BY_TIME),
        ("SELECT i, l AS ltz FROM t ORDER BY ltz", BY_TIME),
        ("SELECT i, ltz FROM u ORDER BY ltz", BY_TIME),
        ("SELECT i, ltz FROM c ORDER BY ltz", BY_TIME),
        ("SELECT i, ltz FROM t UNION ALL SELECT i, ltz FROM t ORDER BY ltz", BY_TIME),
        ("SELECT DISTINCT ltz FROM t ORDER BY ltz", BY_TIME),
        ("SELECT ltz FROM t GROUP BY ltz ORDER BY ltz", BY_TIME),
        (f"SELECT i, ltz FROM {TUMBLE} ORDER BY ltz", BY_TIME),
        ("SELECT t.i, t.ltz FROM t JOIN u ON t.i = u.i ORDER BY t.ltz", BY_TIME),
        ("SELECT i, ltz FROM t ORDER BY ltz OFFSET 2", "OFFSET without LIMIT is not served in a stream"),
        ("SELECT i FROM t ORDER BY 2", "the number of a column of SELECT, from 1 to 1"),
        ("SELECT i FROM t ORDER BY 'i'", "the number of a column of SELECT, from 1 to 1"),
        ("SELECT i, l AS i FROM t ORDER BY i", "SELECT has two columns 'i'"),
        ("SELECT i, l AS s FROM t ORDER BY ltz, s || 'x'", "Give the value a name by AS"),
        ("SELECT i FROM t ORDER BY (SELECT MAX(i) FROM u)", "Give the value a name by AS"),
    ],
)
def test_other_orders_are_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)


def test_the_first_rows_may_be_those_by_other_columns_than_those_of_select() -> None:
    steps, rows, sql = cut("SELECT i, l + 1 AS k FROM t AS y ORDER BY l, y.s DESC, k LIMIT 1")
    assert steps == [
        Top(
            "SELECT `i` AS `c0`, `k` AS `c1`, `__s0` AS `o0`, `__s1` AS `o1`, `k` AS `o2`, 0 AS `p0` FROM "
            "(SELECT `i` AS `i`, (`l` + 1) AS `k`, `l` AS `__s0`, `y`.`s` AS `__s1`, `__partition`, `__offset` "
            "FROM `t` AS `y`)",
            1,
            ("p0",),
            (("o0", False), ("o1", True), ("o2", False)),
        )
    ]
    assert sql.startswith("SELECT `c0` AS `i`, `c1` AS `k`, ")
    assert rows.keys is None


@pytest.mark.parametrize("order", ["n + 1", "COUNT(*)"])
def test_the_first_groups_are_those_by_columns_of_select(order: str) -> None:
    with pytest.raises(SqlError, match=r"takes columns of SELECT here\. Give the value a name by AS"):
        cut(f"SELECT s, COUNT(*) AS n FROM t GROUP BY s ORDER BY {order} LIMIT 1")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM (SELECT i FROM t ORDER BY l) AS q",
        "WITH q AS (SELECT i, s FROM t ORDER BY s, 1) SELECT i FROM q",
        "SELECT i FROM t UNION ALL (SELECT i FROM t ORDER BY l DESC)",
    ],
)
def test_an_order_in_a_query_in_from_has_no_effect_as_in_flink(query: str) -> None:
    steps, _, sql = cut(query)
    assert steps == []
    assert "ORDER BY" not in sql
    assert "__s0" not in sql


def test_an_order_in_a_view_is_refused() -> None:
    query = "SELECT i, ltz FROM t ORDER BY ltz"
    with pytest.raises(SqlError, match="in a view of a stream is not served"):
        translate_query(Fragment(query), Source(query), FakeBinder(STREAMS), is_inner=True)


@pytest.mark.parametrize("binder", [FakeBinder(), FakeBinder(STREAMS)], ids=["batch", "stream"])
def test_a_name_that_differs_by_its_case_from_one_of_select_is_not_taken_for_it(binder: FakeBinder) -> None:
    query = "SELECT l AS I, s FROM t ORDER BY i LIMIT 3"
    with pytest.raises(SqlError, match="'i' and 'I' of SELECT are two names in Flink, and one in Spark"):
        translate_query(Fragment(query), Source(query), binder)
    for same in ("SELECT l AS I, s FROM t ORDER BY I LIMIT 3", "SELECT i AS I, s FROM t ORDER BY i LIMIT 3"):
        assert translate_query(Fragment(same), Source(same), FakeBinder()).sql
