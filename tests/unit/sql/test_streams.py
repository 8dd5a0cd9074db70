"""Queries over streams are cut at operators, and what is known of their rows."""

from __future__ import annotations

import re

import pytest

from penstock.changelog.operators.calls import parse_calls
from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.query.rows import KIND, OFFSET, PARTITION, Feature, Relation, Rows
from penstock.sql.query.steps import (
    Aggregation,
    Deduplication,
    OverRows,
    RegularJoin,
    SessionRows,
    Step,
    Top,
    VersionJoin,
    WindowEnds,
)
from penstock.sql.query.translate import translate_query
from tests.unit.sql.fake_binder import FakeBinder, translated

TUMBLE = "TABLE(TUMBLE(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR))"
SOURCE = Feature("TableSourceScan", "", 0)
STREAMS = {
    "t": Relation("`t`", Rows(has_place=True), ("ltz", 5_000)),
    "u": Relation("`u`"),
    "c": Relation("`c`", Rows(SOURCE, frozenset({"i"}), is_together=True), ("ltz", 1_000)),
}


def cut(query: str, **parts: str) -> tuple[list[Step], Rows, str]:
    binder = FakeBinder(STREAMS)
    binder.parts = parts
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


@pytest.mark.parametrize(
    ("columns", "group", "keys"),
    [
        ("s, n", "s", {"s", "n"}),
        ("*", "s", {"s", "n"}),
        ("i, n", "s", None),
        ("n", "", {"n"}),
        ("s", "s", None),
    ],
)
def test_the_rank_is_a_column_of_a_top_n_and_of_its_key(
    columns: str, group: str, keys: set[str] | None
) -> None:
    window = f"{f'PARTITION BY {group} ' if group else ''}ORDER BY l"
    steps, rows, sql = cut(
        f"SELECT {columns} FROM (SELECT i, s, ROW_NUMBER() OVER ({window}) AS n FROM t) WHERE n <= 3"
    )
    assert [each.rank for each in steps if isinstance(each, Top)] == [None if columns == "s" else "n"]
    assert ("`n` AS `n`" in sql) == (columns != "s")
    assert rows.keys == (None if keys is None else frozenset(keys))
    assert rows.is_together == (keys is not None)


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("l NULLS FIRST", (("o0", False),)),
        ("l NULLS LAST", (("o0n", False), ("o0", False))),
        ("l DESC NULLS LAST", (("o0", True),)),
        ("i, l DESC NULLS FIRST", (("o0", False), ("o1n", False), ("o1", True))),
    ],
)
def test_the_place_of_nulls_in_a_top_n(order: str, wanted: tuple[tuple[str, bool], ...]) -> None:
    steps, _, _ = cut(
        f"SELECT i FROM (SELECT i, ROW_NUMBER() OVER (PARTITION BY s ORDER BY {order}) AS n FROM t) WHERE n <= 3"
    )
    assert [each.order_by for each in steps if isinstance(each, Top)] == [wanted]
    nulls = [name for name, _ in wanted if name.endswith("n")]
    assert all(f"END AS `{name}`" in getattr(steps[0], "query", "") for name in nulls)


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


def test_the_first_rows_of_a_stream_are_a_top_n() -> None:
    steps, rows, sql = cut("SELECT s AS name, x.i FROM u AS x ORDER BY x.i DESC NULLS FIRST, name LIMIT 3")
    assert steps == [
        Top(
            "SELECT `name` AS `c0`, `i` AS `c1`, `i` AS `o0`, CASE WHEN `i` IS NULL THEN 0 ELSE 1 END AS `o0n`, "
            "`name` AS `o1`, 0 AS `p0` FROM (SELECT `s` AS `name`, `x`.`i` AS `i` FROM `u` AS `x`)",
            3,
            ("p0",),
            (("o0n", False), ("o0", True), ("o1", False)),
        )
    ]
    assert sql == f"SELECT `c0` AS `name`, `c1` AS `i`, `{KIND}` FROM `cut1`"
    assert (rows.changes is not None, rows.keys) == (True, None)
    steps, rows, _ = cut("SELECT s, COUNT(*) AS n FROM t GROUP BY s ORDER BY n FETCH FIRST 2 ROWS ONLY")
    assert [type(each) for each in steps] == [Aggregation, Top]
    assert (rows.keys, rows.is_together) == (frozenset({"s"}), True)


@pytest.mark.parametrize("order", ["l", "i + 1", "y.s"])
def test_the_first_rows_are_in_the_order_of_columns_of_select(order: str) -> None:
    with pytest.raises(SqlError, match=r"takes columns of SELECT\. Give the value a name by AS"):
        cut(f"SELECT i, l + 1 AS s FROM t AS y ORDER BY {order} LIMIT 1")


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


def test_with_stands_before_a_set_operation() -> None:
    sql = translated("WITH a AS (SELECT i FROM t) SELECT i FROM a UNION ALL SELECT i FROM a").sql
    assert sql.startswith("WITH ")
    assert sql.count("(SELECT `i` AS `i` FROM `t` AS `t`)") == 1


@pytest.mark.parametrize(("slide", "hops"), [(1, [300]), (5, [60]), (10, [])])
def test_a_hop_of_many_windows_is_no_window_of_spark(slide: int, hops: list[int]) -> None:
    steps, _, _ = cut(
        f"SELECT COUNT(*) FROM TABLE(HOP(TABLE u, DESCRIPTOR(ltz), INTERVAL '{slide}' SECOND, INTERVAL '5' MINUTE)) "
        "GROUP BY window_start, window_end"
    )
    assert [each.hops for each in steps if isinstance(each, WindowEnds)] == hops


SESSION_ROWS = "SELECT i, window_start FROM TABLE(SESSION(TABLE {}, DESCRIPTOR(ltz), INTERVAL '90' SECOND))"


def test_rows_of_sessions_are_cut() -> None:
    steps, rows, _ = cut(SESSION_ROWS.format("t PARTITION BY s"))
    query = f"SELECT * EXCEPT (`{PARTITION}`, `{OFFSET}`), `s` AS `__key0` FROM `t`"
    assert steps[0] == SessionRows(query, ("__key0",), "ltz", 5_000, 90_000)
    assert rows == Rows()
    steps, _, _ = cut(SESSION_ROWS.format("t"))
    assert "0 AS `__key0`" in getattr(steps[0], "query", "")
    with pytest.raises(SqlError, match="SESSION without GROUP BY takes the column of the WATERMARK"):
        cut(SESSION_ROWS.format("u"))
    sql = translated(SESSION_ROWS.format("t PARTITION BY s")).sql
    assert "<= 90000000 THEN 0 ELSE 1 END AS `__new` FROM `t` WHERE `ltz` IS NOT NULL" in sql
    assert "OVER (PARTITION BY `s`, `__session`) + INTERVAL '90.000' SECOND" in sql
    assert "OVER (PARTITION BY `__session`)" in translated(SESSION_ROWS.format("t")).sql


def test_a_session_of_all_rows_has_a_column_that_spark_groups_by() -> None:
    session = "TABLE(SESSION(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR))"
    zero = "(unix_micros(CAST(`ltz` AS TIMESTAMP)) & 0)"
    _, _, sql = cut(f"SELECT COUNT(*) FROM {session} GROUP BY window_start, window_end")
    assert sql.endswith(f" GROUP BY `__window`, {zero}")
    _, _, sql = cut("SELECT COUNT(*) FROM t GROUP BY SESSION(ltz, INTERVAL '1' HOUR)")
    assert sql.endswith(f" GROUP BY session_window(`ltz`, '3600000 milliseconds'), {zero}")
    _, _, sql = cut("SELECT s FROM t GROUP BY s, SESSION(ltz, INTERVAL '1' HOUR)")
    assert "unix_micros" not in sql


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


HINT = "SELECT /*+ STATE_TTL('t' = '1 d', 'u' = '0 s') */ t.i FROM t JOIN u ON t.l = u.l"


def test_an_inner_join_with_a_time_to_live_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    [step], rows, sql = cut(HINT)
    assert isinstance(step, RegularJoin)
    assert (step.ttls, rows.changes) == (("1 d", "0 s"), None)
    assert sql == "SELECT `l0` AS `i` FROM `cut1` AS `__join`"
    steps, _, _ = cut(
        HINT.replace("JOIN u ON", "JOIN u ON u.ltz > t.ltz - INTERVAL '1' HOUR AND").replace(
            "/*+ STATE_TTL('t' = '1 d', 'u' = '0 s') */ ", ""
        )
    )
    assert steps == []
    monkeypatch.setattr(FakeBinder, "state_ttl", "1 d")
    [step], _, _ = cut("SELECT t.i FROM t JOIN u ON t.l = u.l")
    assert isinstance(step, RegularJoin)
    assert step.ttls == (None, None)
    steps, _, _ = cut("SELECT t.i FROM t, u WHERE t.l = u.l AND u.ltz > t.ltz - INTERVAL '1' HOUR")
    assert steps == []


def test_a_hint_is_for_its_own_select_and_table() -> None:
    [inner, outer] = cut(
        "SELECT /*+ STATE_TTL('b' = '3 h') */ a.i FROM (SELECT /*+ STATE_TTL('x' = '2 h') */ i, COUNT(*) AS n "
        "FROM t AS x GROUP BY i) AS a LEFT JOIN u AS b ON a.i = b.i"
    )[0]
    assert isinstance(inner, Aggregation)
    assert isinstance(outer, RegularJoin)
    assert (inner.ttl, outer.ttls) == ("2 h", (None, "3 h"))
    first, second = cut(
        "SELECT /*+ STATE_TTL('w' = '3 h') */ t.i FROM t LEFT JOIN u ON t.i = u.i "
        "LEFT JOIN u AS w ON t.i = w.i"
    )[0]
    assert [getattr(each, "ttls", None) for each in (first, second)] == [(None, None), (None, "3 h")]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            HINT.replace("'u'", "'v'"),
            "STATE_TTL names 'v', which is not a table of FROM. Its tables are t and u.",
        ),
        (HINT.replace("1 d", "soon"), "STATE_TTL of 't' cannot be 'soon'. Allowed: a duration such as"),
        ("SELECT /*+ STATE_TTL('t' = '1 d') */ i FROM t", "no state of this SELECT is for this table alone"),
        (
            "SELECT /*+ STATE_TTL('u' = '1 d') */ s FROM (SELECT s, i, ROW_NUMBER() OVER (PARTITION BY s ORDER BY i) AS n FROM u) AS u WHERE n = 1",
            "no state of this SELECT is for this table alone",
        ),
        (
            "SELECT i FROM t /*+ STATE_TTL('t' = '1 d') */",
            "STATE_TTL has to stand directly behind the SELECT",
        ),
    ],
)
def test_a_hint_without_an_effect_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=rf"(?s)column \d+: .*{re.escape(message)}"):
        cut(query)


def test_a_batch_keeps_no_state_so_a_hint_of_its_tables_has_no_effect() -> None:
    assert translated("SELECT /*+ STATE_TTL('t' = '1d') */ i FROM t").sql.startswith("SELECT `i`")


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
        ("SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.l > t.i)", "by = only"),
        ("SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u)", "needs a comparison by = of its rows"),
        (
            "SELECT i FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE u.i = t.i)",
            "this EXISTS is not served",
        ),
        (
            "SELECT i FROM t WHERE i IN (SELECT i, l FROM u)",
            "IN compares 1 values, and its query has 2 columns",
        ),
        ("SELECT i FROM t WHERE i NOT IN (SELECT i FROM u)", "NOT IN keeps no row if its query gives a NULL"),
        ("SELECT i FROM t WHERE i NOT IN (SELECT i FROM u WHERE i IS NOT NULL)", "NOT IN keeps no row"),
        ("SELECT i FROM t WHERE i IS NOT NULL AND NOT (i IN (SELECT i FROM u))", "NOT IN keeps no row"),
        (
            "SELECT i FROM t WHERE i NOT IN (SELECT COUNT(*) FROM u GROUP BY s) AND i IS NOT NULL",
            "NOT IN keeps no row",
        ),
        ("SELECT i FROM t WHERE s IN (SELECT i FROM u)", "expected two values of one type"),
        (
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
            "WHERE i IN (SELECT i FROM t) GROUP BY window_start, window_end",
            "beside GROUP BY of a window",
        ),
        ("SELECT s, STDDEV_POP(i) FROM t GROUP BY s", "STDDEV_POP: expected a DOUBLE, got INT"),
        ("SELECT s, COLLECT(i) FROM t GROUP BY s", "COLLECT is not served: Spark has no MULTISET"),
        ("SELECT s, LISTAGG(DISTINCT s) FROM t GROUP BY s", "DISTINCT is served in COUNT, SUM, AVG"),
        ("SELECT s, GROUPING(l) FROM t GROUP BY ROLLUP (s, i)", "GROUPING takes columns of GROUP BY"),
        ("SELECT COUNT(*) FROM t GROUP BY CUBE (s, i, l, d, p, b, ts)", "has 128 sets; at most 64"),
        (
            f"SELECT s FROM {TUMBLE} GROUP BY CUBE (window_start, window_end, s)",
            "each set of GROUPING SETS needs",
        ),
        (
            f"SELECT s FROM {TUMBLE} GROUP BY GROUPING SETS ((window_start, window_end, s), (s))",
            "a group without them never ends",
        ),
        ("SELECT s, LAST_VALUE(i) FROM u GROUP BY s", "needs the order in which rows arrive.*Use ROW_NUMBER"),
        ("SELECT s, FIRST_VALUE(i) FROM c GROUP BY s", "needs the order in which rows arrive"),
        ("SELECT s, LISTAGG(i) FROM t GROUP BY s", "LISTAGG: expected a STRING, got INT"),
        ("SELECT s, LISTAGG(s, s) FROM t GROUP BY s", "a text in quotes as the separator"),
        ("SELECT u.i FROM u LEFT JOIN c ON u.l > c.l", "needs ON with a comparison of both sides by ="),
        (
            "SELECT u.i FROM u LEFT JOIN c ON u.l = c.l AND u.i > c.i",
            "compares its two sides by = only",
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


@pytest.mark.parametrize(("kind", "in_ms"), [("TUMBLE", {"at"}), ("SESSION", set())])
def test_the_beginning_of_a_window_has_whole_milliseconds(kind: str, in_ms: set[str]) -> None:
    _, rows, _ = cut(
        f"SELECT window_start AS at, COUNT(*) FROM TABLE({kind}(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )
    assert (rows.keys, rows.in_ms) == (frozenset({"at"}), frozenset(in_ms))


OVER = "OVER (PARTITION BY s ORDER BY ltz ROWS 3 PRECEDING)"


def test_over_is_cut_at_an_operator() -> None:
    steps, rows, sql = cut(
        f"SELECT i + 1 AS j, SUM(l) {OVER} AS a, COUNT(*) FILTER (WHERE b) {OVER} AS n, x.i - LAG(i, 2) OVER "
        "(PARTITION BY s ORDER BY ltz) FROM t AS x WHERE i > 0"
    )
    columns = "`x`.`i` AS `c0`, `x`.`s` AS `c1`, `x`.`l` AS `c2`, `x`.`ltz` AS `c3`"
    assert steps == [
        OverRows(
            f"SELECT {columns}, `s` AS `p0`, `ltz` AS `t`, `__partition`, `__offset`, `l` AS `a0`, "
            "CASE WHEN `b` THEN 1 END AS `a1`, `i` AS `a2` FROM `t` AS `x` WHERE (`i` > 0)",
            ("p0",),
            "t",
            5_000,
            ("__partition", "__offset"),
            (("r0", "sum(a0)"), ("r1", "count(a1)"), ("r2", "lag(a2, 2)")),
            "rows",
            3,
        )
    ]
    assert sql == (
        "SELECT (`c0` + 1) AS `j`, CAST(`r0` AS BIGINT) AS `a`, `r1` AS `n`, (`c0` - `r2`) AS `EXPR$3` "
        "FROM `cut1` AS `__over`"
    )
    assert rows == Rows()


@pytest.mark.parametrize(
    ("calls", "frame", "preceding"),
    [
        ("MAX(i) OVER (ORDER BY ltz)", "range", None),
        (
            "MAX(i) OVER (ORDER BY ltz RANGE BETWEEN INTERVAL '2' MINUTE PRECEDING AND CURRENT ROW)",
            "range",
            120_000,
        ),
        ("FIRST_VALUE(i) OVER (ORDER BY ltz ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)", "rows", None),
        ("AVG(i) OVER (ORDER BY ltz ROWS CURRENT ROW)", "rows", 0),
        ("LAG(i) OVER (ORDER BY ltz)", "rows", 0),
        ("ROW_NUMBER() OVER (ORDER BY ltz)", "rows", None),
        (
            "ROW_NUMBER() OVER (ORDER BY ltz), LAG(i) OVER (ORDER BY ltz), SUM(i) OVER (ORDER BY ltz)",
            "range",
            None,
        ),
    ],
)
def test_frames_of_over(calls: str, frame: str, preceding: int | None) -> None:
    steps, _, _ = cut(f"SELECT {calls} FROM t")
    assert [(each.frame, each.preceding) for each in steps if isinstance(each, OverRows)] == [
        (frame, preceding)
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT SUM(i) OVER (ORDER BY ltz) FROM u", "OVER in a stream needs one table with a WATERMARK"),
        ("SELECT SUM(i) OVER (ORDER BY i) FROM t", "ORDER BY the column of its WATERMARK"),
        ("SELECT SUM(i) OVER (ORDER BY ltz DESC) FROM t", "ascending"),
        ("SELECT SUM(i) OVER (PARTITION BY s) FROM t", "ORDER BY the column of its WATERMARK"),
        (
            "SELECT RANK() OVER (ORDER BY ltz), SUM(i) OVER (ORDER BY ltz ROWS 2 PRECEDING) FROM t",
            "RANK beside a frame that begins with n PRECEDING",
        ),
        ("SELECT RANK() OVER (ORDER BY i) FROM t", "ORDER BY the column of its WATERMARK"),
        ("SELECT LEAD(i) OVER (ORDER BY ltz) FROM t", "LEAD is not served .* Flink does not serve it either"),
        ("SELECT LAG(i, 1, 0) OVER (ORDER BY ltz) FROM t", "Use COALESCE for a default"),
        ("SELECT LAG(i, 0) OVER (ORDER BY ltz) FROM t", "a number of rows from 1"),
        ("SELECT COUNT(DISTINCT i) OVER (ORDER BY ltz) FROM t", "DISTINCT ...\\) is not served with OVER"),
        (
            "SELECT SUM(i) OVER (PARTITION BY s ORDER BY ltz), SUM(i) OVER (ORDER BY ltz) FROM t",
            "the same PARTITION BY in a stream",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ltz), SUM(i) OVER (ORDER BY ltz ROWS 3 PRECEDING) FROM t",
            "the same frame in a stream",
        ),
        (
            "SELECT ROW_NUMBER() OVER (ORDER BY ltz), SUM(i) OVER (ORDER BY ltz ROWS 3 PRECEDING) FROM t",
            "ROW_NUMBER beside a frame",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ltz ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) FROM t",
            "ends with CURRENT ROW",
        ),
        ("SELECT SUM(i) OVER (ORDER BY ltz RANGE 3 PRECEDING) FROM t", "an INTERVAL behind RANGE"),
        ("SELECT DISTINCT SUM(i) OVER (ORDER BY ltz) FROM t", "DISTINCT beside OVER"),
    ],
)
def test_over_that_a_stream_does_not_have_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)


def test_windows_that_are_read_on_keep_their_ends() -> None:
    groups = f"SELECT window_end AS e, window_time, s, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, window_time, s"
    steps, _, _ = cut(groups)
    assert steps == [], "no other part reads the last SELECT"
    steps, _, sql = cut(f"SELECT e FROM ({groups}) AS x")
    step = steps[0]
    assert isinstance(step, WindowEnds)
    assert (step.window, step.ends, step.times) == ("__window", ("e",), ("window_time",))
    assert "`__window` AS `__window` FROM" in step.query
    assert sql == "SELECT `e` AS `e` FROM (SELECT * FROM `cut1`) AS `x`"
    steps, _, sql = cut(f"SELECT i, window_end FROM {TUMBLE}")
    assert [type(each) for each in steps] == [WindowEnds]
    assert sql == "SELECT `i` AS `i`, `window_end` AS `window_end` FROM `cut1` AS `_window`"


def test_a_window_over_the_time_of_windows() -> None:
    steps, _, _ = cut(
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(t), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        t="time",
        e="end",
    )
    assert steps == [WindowEnds("SELECT * FROM `u`", None, (), ("t",))]


def test_groups_of_windows_only_insert() -> None:
    steps, rows, sql = cut("SELECT e, MAX(i) AS m FROM u GROUP BY e", g0="end")
    assert (steps, rows.changes) == ([], None)
    assert sql.endswith("GROUP BY `e`")
    steps, rows, _ = cut("SELECT e, COUNT(DISTINCT i) AS m FROM u GROUP BY e", g0="end")
    assert [type(each) for each in steps] == [Aggregation]


def test_the_first_rows_of_windows_only_insert() -> None:
    steps, rows, sql = cut(
        "SELECT * FROM (SELECT i, e, s, ROW_NUMBER() OVER (PARTITION BY s, e ORDER BY i DESC) AS n FROM t) WHERE n <= 2",
        __p1="end",
    )
    assert (steps, rows) == ([], Rows())
    assert "slice(array_sort(collect_list(struct(" in sql
    assert sql.startswith("SELECT * FROM (SELECT ")
    assert "`__p1` AS `e`" in sql
    assert "`__n` AS `n`" in sql
    _, rows, _ = cut(
        "SELECT * FROM (SELECT i, e, s, ROW_NUMBER() OVER (PARTITION BY s, e ORDER BY i DESC) AS n FROM t) WHERE n = 1",
        __p1="end",
    )
    assert rows == Rows(keys=frozenset({"s", "e"}))


def test_an_outer_join_of_windows_only_inserts() -> None:
    join = "SELECT a.i FROM u AS a LEFT JOIN u AS b ON a.e = b.e AND a.i = b.i"
    steps, rows, _ = cut(join, e="end")
    assert (steps, rows.changes) == ([], None)
    steps, rows, _ = cut(join.replace("a.e = b.e", "a.s = b.s"), e="end")
    assert [type(each) for each in steps] == [RegularJoin]


def test_sets_of_groups_beside_a_window() -> None:
    for sets in (
        "window_start, window_end, GROUPING SETS ((s), ())",
        "GROUPING SETS ((window_start, window_end, s), (window_start, window_end))",
    ):
        steps, rows, sql = cut(f"SELECT window_end, s, COUNT(*) FROM {TUMBLE} GROUP BY {sets}")
        assert (steps, rows) == ([], Rows())
        assert "GROUPING SETS" in sql


def test_a_union_keeps_the_ends_of_windows_if_both_queries_have_them() -> None:
    binder = FakeBinder(STREAMS)
    binder.parts = {"e": "end"}
    translated("SELECT s, e FROM u UNION ALL SELECT i, e FROM u", binder)
    assert binder.steps == []
    translated("SELECT s, e FROM u UNION ALL SELECT e, s FROM u", binder)
    assert [each for each in binder.steps if isinstance(each, WindowEnds)] == [
        WindowEnds(f"SELECT {columns} FROM `u` AS `u`", None, (), ())
        for columns in ("`s` AS `s`, `e` AS `e`", "`e` AS `e`, `s` AS `s`")
    ]


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


def test_two_streams_whose_outer_join_spark_would_run_need_a_comparison() -> None:
    with pytest.raises(SqlError, match="A JOIN needs none"):
        translated("SELECT t.s FROM t LEFT JOIN u ON u.ltz > t.ltz - INTERVAL '1' HOUR", FakeBinder(STREAMS))


def test_a_condition_on_one_side_of_an_outer_join_decides_which_rows_have_a_key() -> None:
    on = "u.l = c.l AND u.i = c.i AND u.i > 1 AND c.s = 'x'"
    (step,), *_ = cut(f"SELECT u.i FROM u FULL JOIN c ON {on}")
    assert isinstance(step, RegularJoin)
    assert "CASE WHEN ((`u`.`i` > 1)) THEN `u`.`l` END AS `lk0`" in step.left
    assert "CASE WHEN ((`c`.`s` = 'x')) THEN `c`.`i` END AS `rk1`" in step.right


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
            "SELECT s, COUNT(*) FROM c GROUP BY s HAVING COUNT(*) > (SELECT MAX(i) FROM t)",
            "Put the groups in a query",
        ),
        ("SELECT s, COUNT(*) + (SELECT MAX(i) FROM t) FROM c GROUP BY s", "Put the groups in a query"),
        (
            f"SELECT COUNT(*) FROM {TUMBLE} WHERE i > (SELECT MAX(i) FROM t) GROUP BY window_start, window_end",
            "Put the window in a view",
        ),
    ],
)
def test_a_query_that_is_compared_otherwise_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)


VIEW = "(SELECT s, i, ltz FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ltz DESC) AS n FROM t) WHERE n = 1{})"


def versions(query: str, more: str = "") -> tuple[list[Step], Rows, str]:
    binder = FakeBinder(STREAMS)
    fragment = Fragment(query.format(more))
    found = translate_query(fragment, Source(fragment.text), binder, is_inner=True, is_raw=True)
    return binder.steps, found.rows, found.sql


def test_a_view_of_the_newest_row_of_each_key_gives_all_rows_as_versions() -> None:
    steps, rows, sql = versions(VIEW[1:-1])
    assert steps == [], "a deduplication gives only the newest version of each batch"
    assert (rows.keys, rows.time, rows.changes is not None) == (frozenset({"s"}), ("ltz", 5_000), True)
    assert sql.startswith(f"SELECT `s` AS `s`, `i` AS `i`, `ltz` AS `ltz`, `{KIND}` FROM (SELECT ")
    assert f"'+U' AS `{KIND}` FROM (SELECT * EXCEPT (`__partition`, `__offset`), " in sql


@pytest.mark.parametrize(
    "query",
    [
        VIEW[1:-1].format(" AND i > 1"),
        f"SELECT s, ltz FROM {VIEW.format('')} AS v WHERE i < 9",
        "SELECT i, ltz FROM c WHERE i > 1",
    ],
)
def test_a_condition_on_versions_is_refused(query: str) -> None:
    with pytest.raises(SqlError, match="a condition on versions is not served"):
        versions(query)


def test_versions_of_a_query_have_its_names() -> None:
    _, rows, _ = versions(f"SELECT s AS name, ltz AS since FROM {VIEW} AS v")
    assert (rows.keys, rows.time) == (frozenset({"name"}), ("since", 5_000))
    _, rows, _ = versions("SELECT * FROM c")
    assert (rows.keys, rows.time) == (frozenset({"i"}), ("ltz", 1_000))


@pytest.mark.parametrize(
    "query",
    [
        VIEW[1:-1].replace("DESC", ""),
        VIEW[1:-1].replace("ltz DESC", "i DESC"),
        VIEW[1:-1].replace("ltz DESC", "ltz DESC, i"),
        VIEW[1:-1].replace("n = 1", "n <= 2"),
        f"SELECT DISTINCT s, ltz FROM {VIEW} AS v",
        f"SELECT v.s, v.ltz FROM {VIEW} AS v JOIN u ON u.s = v.s",
        f"SELECT s, MAX(ltz) AS ltz FROM {VIEW} AS v GROUP BY s",
        f"SELECT s, ltz + INTERVAL '1' SECOND AS ltz FROM {VIEW} AS v",
    ],
)
def test_a_query_of_another_form_has_no_versions(query: str) -> None:
    assert versions(query)[1].time is None


def test_rows_that_change_have_no_time_where_their_versions_are_not_wanted() -> None:
    for query in ("SELECT i, ltz FROM c", f"SELECT s, ltz FROM {VIEW.format('')} AS v"):
        assert cut(query)[1].time is None


def test_versions_of_a_query_of_with() -> None:
    steps, _, _ = cut(
        f"WITH v AS {VIEW.format('')} SELECT c.i, v.i FROM c JOIN v ON c.s = v.s".replace(
            "FROM c JOIN v", "FROM t AS c JOIN v FOR SYSTEM_TIME AS OF c.ltz"
        )
    )
    join = steps[-1]
    assert isinstance(join, VersionJoin)
    assert (join.delay_ms, join.how) == (5_000, "inner")
    assert "'+U' AS" in join.right


def test_the_time_of_a_table_is_that_of_a_query_of_it() -> None:
    steps, _, _ = cut("SELECT x, SUM(i) OVER (ORDER BY x) FROM (SELECT i, ltz AS x FROM t WHERE i > 1) AS q")
    assert isinstance(steps[0], OverRows)
    assert steps[0].delay_ms == 5_000


def test_the_first_rows_behind_an_offset_are_those_of_later_ranks() -> None:
    steps, rows, sql = cut("SELECT i FROM c ORDER BY i LIMIT 3 OFFSET 2")
    top = steps[0]
    assert isinstance(top, Top)
    assert (top.count, top.rank) == (5, "n")
    assert sql.endswith(f"ELSE '-D' END AS `{KIND}` FROM `cut1` WHERE `n` > 2")
    assert (rows.keys, rows.is_together) == (frozenset({"i"}), False)
