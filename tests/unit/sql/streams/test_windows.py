"""Windows over streams: their ends, what Spark groups by, and what is cut."""

from __future__ import annotations

import re

import pytest

from penstock.errors import SqlError
from penstock.sql.query.rows import OFFSET, PARTITION, Rows
from penstock.sql.query.steps import PlainTimes, RegularJoin, SessionRows, WindowEnds
from tests.unit.sql.fake_binder import FakeBinder, translated
from tests.unit.sql.streams.cutting import STREAMS, TUMBLE, cut


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


@pytest.mark.parametrize(("kind", "in_ms"), [("TUMBLE", {"at"}), ("SESSION", set())])
def test_the_beginning_of_a_window_has_whole_milliseconds(kind: str, in_ms: set[str]) -> None:
    _, rows, _ = cut(
        f"SELECT window_start AS at, COUNT(*) FROM TABLE({kind}(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )
    assert (rows.keys, rows.in_ms) == (frozenset({"at"}), frozenset(in_ms))


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
    steps, rows, sql = cut("SELECT e, COUNT(DISTINCT i) AS m FROM u GROUP BY e", g0="end")
    assert (steps, rows.changes) == ([], None)
    assert "size(collect_set(`i`))" in sql


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


def test_an_outer_join_of_windows_only_inserts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FakeBinder, "has_watermarks", True
    )  # the column ltz has it, as the end of a window has
    join = "SELECT a.i FROM u AS a LEFT JOIN u AS b ON a.ltz = b.ltz AND a.i = b.i"
    steps, rows, _ = cut(join)
    assert (steps, rows.changes) == ([], None)
    steps, rows, _ = cut(join.replace("a.ltz = b.ltz", "a.s = b.s"))
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
    assert binder.steps == [
        PlainTimes(f"SELECT * FROM (SELECT {columns} FROM `u` AS `u`) AS `__side`(`p0`, `p1`)", None)
        for columns in ("`s` AS `s`, `e` AS `e`", "`e` AS `e`, `s` AS `s`")
    ]


@pytest.mark.parametrize(
    ("other", "is_kept"),
    [
        ("SELECT u.i, u.ltz FROM u", True),
        ("SELECT u.i, u.ltz AS other FROM u", True),
        ("SELECT u.i, u.ts FROM u", False),
        ("SELECT u.ltz, u.i FROM u", False),
        ("SELECT c.i, c.ltz FROM c", True),
    ],
)
def test_a_union_keeps_a_watermark_if_both_queries_have_it_in_the_same_column(
    other: str, is_kept: bool
) -> None:
    for query in (
        "SELECT t.i, t.ltz FROM t UNION ALL " + other,
        other + " UNION ALL SELECT t.i, t.ltz FROM t",
    ):
        binder = FakeBinder(STREAMS)
        binder.has_watermarks = True
        translated(query, binder)
        assert [type(each) for each in binder.steps] == ([] if is_kept else [PlainTimes, PlainTimes])


@pytest.mark.parametrize(("column", "is_kept"), [("t.ltz", True), ("u.ltz", False), ("u.ts", False)])
def test_a_union_of_rows_that_wait_and_others_has_plain_times(column: str, is_kept: bool) -> None:
    """Otherwise a window would take all times for those of the first query, and drop rows of the other one."""
    binder = FakeBinder(STREAMS)
    binder.has_watermarks, binder.waiting = True, "`t`"
    translated(f"SELECT t.ltz FROM t UNION ALL SELECT {column} FROM {column[0]}", binder)
    assert [type(each) for each in binder.steps] == ([] if is_kept else [PlainTimes, PlainTimes])


def test_a_union_of_a_watermark_and_another_time_keeps_its_names() -> None:
    binder = FakeBinder(STREAMS)
    binder.has_watermarks = True
    sql = translated("SELECT u.ltz, u.ltz FROM u UNION ALL SELECT u.ltz, u.ts FROM u", binder).sql
    left, right = (
        "SELECT `p0` AS `ltz`, `p1` AS `ltz` FROM `cut1`",
        "SELECT `p0` AS `ltz`, `p1` AS `ts` FROM `cut2`",
    )
    assert sql == f"({left}) UNION ALL ({right})"


@pytest.mark.parametrize(
    ("query", "time", "message"),
    [
        ("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) GROUP BY window_start, window_end", "", "a window of a stream needs the column of a WATERMARK, and 'ltz' has none here. Declare WATERMARK FOR ltz"),
        ("SELECT COUNT(*) FROM u GROUP BY HOP(ltz, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)", "proctime", "and 'ltz' is PROCTIME(). Use the time of the Kafka record"),
        ("SELECT COUNT(*) FROM u GROUP BY TUMBLE(PROCTIME(), INTERVAL '1' HOUR)", "", "and this expression is PROCTIME()"),
    ],
)  # fmt: skip
def test_a_window_of_a_stream_needs_a_watermark(query: str, time: str, message: str) -> None:
    binder = FakeBinder(STREAMS)
    binder.time = time
    with pytest.raises(SqlError, match=re.escape(message)) as found:
        translated(query, binder)
    at = max(query.find("ltz"), query.find("PROCTIME"))
    assert found.value.facts["column"] == at + 1
