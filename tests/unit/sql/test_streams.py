"""Queries over streams are cut at operators, and what is known of their rows."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.rows import KIND, Feature, Relation, Rows
from penstock.sql.query.steps import Aggregation, Deduplication, RegularJoin, Step, Top, VersionJoin
from tests.unit.sql.fake_binder import FakeBinder, translated

SOURCE = Feature("TableSourceScan", "", 0)
STREAMS = {
    "t": Relation("`t`", Rows(has_place=True), ("ltz", 5_000)),
    "u": Relation("`u`"),
    "c": Relation("`c`", Rows(SOURCE, frozenset({"i"}), is_together=True), ("ltz", 1_000)),
}


def cut(query: str) -> tuple[list[Step], Rows, str]:
    binder = FakeBinder(STREAMS)
    found = translated(query, binder)
    assert found.batch_only == ()
    return binder.steps, found.rows, found.sql


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


def test_a_column_of_group_by_may_stand_with_its_table() -> None:
    _, rows, sql = cut("SELECT s, y.i FROM t AS y GROUP BY Y.s, i")
    assert sql.startswith("SELECT `g0` AS `s`, `g1` AS `i`, ")
    assert rows.keys == frozenset({"s", "i"})


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


def test_a_filter_and_a_star_of_rows_that_change() -> None:
    _, rows, sql = cut("SELECT * FROM c WHERE l > 1")
    assert sql == (
        f"SELECT * EXCEPT (`{KIND}`), `{KIND}` FROM (SELECT * EXCEPT (`{KIND}`), "
        f"CASE WHEN `{KIND}` IN ('+I', '+U') THEN '+I' ELSE '-D' END AS `{KIND}` FROM `c` AS `c`) AS `c` "
        "WHERE (`l` > 1)"
    )
    assert (rows.keys, rows.is_together) == (frozenset({"i"}), False)
    _, rows, _ = cut("SELECT i AS x, l + 1 FROM c")
    assert (rows.keys, rows.is_together) == (frozenset({"x"}), True)
    _, rows, _ = cut("SELECT l FROM c")
    assert (rows.keys, rows.is_together, rows.changes) == (None, False, SOURCE)


@pytest.mark.parametrize(
    ("condition", "order", "step"),
    [
        ("n = 1", "l DESC", Deduplication("", ("p0",), ("o0", "__partition", "__offset"), keep_last=True)),
        ("n <= 1", "l", Deduplication("", ("p0",), ("o0", "__partition", "__offset"), keep_last=False)),
        ("n < 4", "l DESC, i", Top("", 3, ("p0",), (("o0", True), ("o1", False)))),
        ("n = 1 AND i > 0", "l DESC, i", Top("", 1, ("p0",), (("o0", True), ("o1", False)))),
    ],
)
def test_the_first_rows_of_each_group(condition: str, order: str, step: Step) -> None:
    steps, rows, _ = cut(
        f"SELECT x.i, x.s FROM (SELECT i, s, l, ROW_NUMBER() OVER (PARTITION BY s ORDER BY {order}) AS n FROM t) AS x "
        f"WHERE {condition}"
    )
    assert [type(each)(**{**vars(each), "query": ""}) for each in steps] == [step]
    assert rows.changes is not None
    assert rows.keys == (frozenset({"s"}) if "1" in condition and "4" not in condition else None)


def test_a_star_shows_the_columns_of_the_groups() -> None:
    _, rows, _ = cut(
        "SELECT s, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) AS n FROM t) WHERE n = 1"
    )
    assert (rows.keys, rows.is_together) == (frozenset({"s"}), True)


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ("{}, i, s", "CAST(1 AS BIGINT) AS `n`, `c0` AS `i`, `c1` AS `s`"),
        ("i, {}, s", "`c0` AS `i`, CAST(1 AS BIGINT) AS `n`, `c1` AS `s`"),
        ("i, s, {}", "`c0` AS `i`, `c1` AS `s`, CAST(1 AS BIGINT) AS `n`"),
    ],
)
def test_the_rank_of_a_deduplication_stays_at_its_place(columns: str, shown: str) -> None:
    rank = columns.format("ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) AS n")
    _, _, sql = cut(f"SELECT * FROM (SELECT {rank} FROM t) WHERE n = 1")
    assert f"FROM (SELECT {shown}, `{KIND}` FROM `cut1`)" in sql


@pytest.mark.parametrize(
    ("key", "keys"),
    [("i", {"i"}), ("C.i", {"i"}), ("s.i", None), ("s.*", None), ("x.i", None), ("*", {"i"}), ("c.*", {"i"})],
)
def test_a_field_of_a_row_is_no_column_of_the_key(key: str, keys: set[str] | None) -> None:
    _, rows, _ = cut(f"SELECT {key} FROM c")
    assert rows.keys == keys


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


def test_a_rank_is_no_column_of_a_top_n() -> None:
    with pytest.raises(SqlError, match="the rank 'n' is not served as a column"):
        cut(
            "SELECT * FROM (SELECT i, ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) AS n FROM t) WHERE n <= 3"
        )


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


def test_versions_are_joined_by_their_times() -> None:
    steps, rows, _ = cut("SELECT t.i, r.s FROM t JOIN c FOR SYSTEM_TIME AS OF t.ltz AS r ON t.i = r.i")
    step = steps[0]
    assert isinstance(step, VersionJoin)
    assert (step.delay_ms, step.how, step.on) == (5_000, "inner", (("lk0", "rk0"),))
    assert rows == Rows()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT l, COUNT(*) FROM t GROUP BY s", "the column 'l' is neither in GROUP BY nor in an aggregate"),
        ("SELECT x, COUNT(*) FROM t GROUP BY r.x", "the column 'x' is neither in GROUP BY"),
        ("SELECT COUNT(*) FROM c", "an aggregate without GROUP BY over rows that change"),
        ("SELECT s, STDDEV_POP(i) FROM t GROUP BY s", "STDDEV_POP is not served in a stream"),
        ("SELECT s, SUM(DISTINCT i) FROM t GROUP BY s", "DISTINCT is served in COUNT"),
        ("SELECT u.i FROM u LEFT JOIN c ON u.l > c.l", "needs ON with a comparison of both sides by ="),
        (
            "SELECT u.i FROM u LEFT JOIN c ON u.l = c.l AND u.i > 1",
            "takes comparisons of both sides by = only",
        ),
        ("SELECT u.i FROM u LEFT JOIN c ON u.l = c.s", "expected two values of one type"),
        ("SELECT u.i FROM u LEFT JOIN c ON l = c.l", "is in|both tables have this column"),
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR))",
            "rows that change",
        ),
        ("SELECT t.i FROM t JOIN u FOR SYSTEM_TIME AS OF t.ltz ON t.i = u.i", "needs a WATERMARK"),
    ],
)
def test_what_an_operator_does_not_have_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)


def test_a_query_of_with_that_has_a_state_stands_once() -> None:
    steps, _, sql = cut(
        "WITH x AS (SELECT s, COUNT(*) AS l FROM t GROUP BY s) SELECT a.s FROM x AS a JOIN x AS b ON a.l = b.l"
    )
    assert [type(each) for each in steps[-3:]] == [Aggregation, Aggregation, RegularJoin]
    assert "WITH" not in sql


def test_different_rows_of_a_stream() -> None:
    steps, rows, sql = cut("SELECT DISTINCT i, s FROM c")
    assert len(steps) == 1
    assert sql.endswith(f"`{KIND}` FROM `cut1`")
    assert rows.keys == frozenset({"i", "s"})


@pytest.mark.parametrize(("kind", "in_ms"), [("TUMBLE", {"at"}), ("SESSION", set())])
def test_the_beginning_of_a_window_has_whole_milliseconds(kind: str, in_ms: set[str]) -> None:
    _, rows, _ = cut(
        f"SELECT window_start AS at, COUNT(*) FROM TABLE({kind}(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )
    assert (rows.keys, rows.in_ms) == (frozenset({"at"}), frozenset(in_ms))
