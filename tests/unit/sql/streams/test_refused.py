"""What an operator over streams does not have is refused, with its place."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from tests.unit.sql.streams.cutting import TUMBLE, cut


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
        ("SELECT i FROM t WHERE i NOT IN (SELECT i FROM u LIMIT 3)", "LIMIT and without ORDER BY"),
        ("SELECT i FROM t WHERE (i, l) NOT IN (SELECT i, l FROM u)", "NOT IN of several values"),
        (
            "SELECT i FROM t WHERE i NOT IN (SELECT i FROM u WHERE u.s = t.s)",
            "compared with the rows outside",
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
        ("SELECT t.i FROM t JOIN u FOR SYSTEM_TIME AS OF t.ltz ON t.i = u.i", "needs a WATERMARK"),
    ],
)
def test_what_an_operator_does_not_have_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)
