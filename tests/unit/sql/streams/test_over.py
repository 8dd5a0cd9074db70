"""OVER in streams is cut at an operator."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.rows import Rows
from penstock.sql.query.steps import OverRows
from tests.unit.sql.streams.cutting import cut

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


def test_the_time_of_a_table_is_that_of_a_query_of_it() -> None:
    steps, _, _ = cut("SELECT x, SUM(i) OVER (ORDER BY x) FROM (SELECT i, ltz AS x FROM t WHERE i > 1) AS q")
    assert isinstance(steps[0], OverRows)
    assert steps[0].delay_ms == 5_000
