"""Windows of rows that change: Spark gathers their changes, and what is refused."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.steps import Deduplication, TimedChanges, WindowChanges, WindowEnds
from tests.unit.sql.streams.cutting import SOURCE, cut

CHANGING = "TABLE(TUMBLE(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR))"
START = "CAST(`__window`.start AS TIMESTAMP_NTZ)"


def test_windows_of_rows_that_change_gather_the_changes() -> None:
    steps, rows, sql = cut(
        f"SELECT window_start, s, COUNT(*) AS n, SUM(i) FILTER (WHERE b) FROM {CHANGING} WHERE l > 1 "
        "GROUP BY window_start, window_end, s HAVING MAX(i) > 2"
    )
    assert steps[0] == TimedChanges("SELECT * FROM `c`", "ltz", 1_000)
    assert steps[1:] == [
        WindowChanges(
            "SELECT `s` AS `g0`, collect_list(named_struct('a0', CASE WHEN `b` THEN `i` END, 'a1', `i`, 'row_kind', "
            "`__row_kind`)) AS `__rows`, `__window` AS `__window` FROM (SELECT * EXCEPT (`__row_kind`), CASE WHEN "
            "`__row_kind` IN ('+I', '+U') THEN '+I' ELSE '-D' END AS `__row_kind` FROM (SELECT *, window(`ltz`, "
            "'3600000 milliseconds', '3600000 milliseconds') AS `__window` FROM `cut1`) AS `_window`) AS `_window` "
            "WHERE (`l` > 1) GROUP BY `__window`, `s`",
            "__rows",
            (("r0", "count(*)"), ("r1", "sum(a0)"), ("r2", "max(a1)")),
        )
    ]
    assert sql == (
        f"SELECT {START} AS `window_start`, `g0` AS `s`, `r0` AS `n`, CAST(`r1` AS INT) AS `EXPR$3` FROM `cut2` "
        "WHERE (`r2` > 2)"
    )
    assert (rows.changes, rows.keys) == (None, frozenset({"s", "window_start"}))


def test_windows_of_rows_that_change_in_group_by() -> None:
    steps, rows, sql = cut(
        "SELECT HOP_END(ltz, INTERVAL '1' HOUR, INTERVAL '2' HOUR) AS e, COUNT(DISTINCT i) AS n FROM c "
        "GROUP BY HOP(ltz, INTERVAL '1' HOUR, INTERVAL '2' HOUR)"
    )
    assert [type(each) for each in steps] == [TimedChanges, WindowChanges]
    assert sql == "SELECT CAST(`__window`.end AS TIMESTAMP_NTZ) AS `e`, `r0` AS `n` FROM `cut2`"
    assert rows.changes is None


def test_grouping_sets_of_windows_of_rows_that_change() -> None:
    steps, _, sql = cut(
        f"SELECT s, GROUPING(s) AS g, COUNT(*) AS n FROM {CHANGING} GROUP BY window_start, window_end, "
        "GROUPING SETS ((s), ())"
    )
    assert isinstance(steps[-1], WindowChanges)
    assert "AS `s0`" in steps[-1].query
    assert steps[-1].query.endswith("GROUP BY `__window`, GROUPING SETS ((`s`), ())")
    assert sql.startswith("SELECT `g0` AS `s`, `s0` AS `g`, `r0` AS `n` FROM")


def test_rows_of_windows_that_change_keep_their_kinds() -> None:
    steps, rows, sql = cut(
        "SELECT i, window_start FROM TABLE(HOP(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR, INTERVAL '2' HOUR))"
    )
    assert steps == [TimedChanges("SELECT * FROM `c`", "ltz", None)]
    assert (rows.changes, rows.keys) == (SOURCE, None)  # window_end, which is a part of the key, is not shown
    assert sql.startswith(
        "SELECT `i` AS `i`, `window_start` AS `window_start`, `__row_kind` FROM (SELECT * EXCEPT"
    )


def test_windows_over_the_newest_rows() -> None:
    steps, rows, _ = cut(
        "WITH v AS (SELECT s, ltz FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY ltz DESC) AS n FROM t) "
        "WHERE n = 1) SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )
    assert [type(each) for each in steps[-3:]] == [Deduplication, TimedChanges, WindowChanges]
    assert rows.changes is None


def test_ends_of_windows_of_rows_that_change_stay_known() -> None:
    steps, rows, _ = cut(
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS r FROM "
        f"(SELECT window_start, window_end, s, COUNT(*) AS n FROM {CHANGING} GROUP BY window_start, window_end, s)) "
        "WHERE r <= 2",
        __p1="end",
    )
    assert [type(each) for each in steps] == [TimedChanges, WindowChanges, WindowEnds]
    assert rows.changes is None


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT COUNT(*) FROM TABLE(SESSION(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
            "SESSION of rows that change is not served.*Use TUMBLE",
        ),
        (
            "SELECT COUNT(*) FROM c GROUP BY SESSION(ltz, INTERVAL '1' HOUR)",
            "SESSION of rows that change is not served.*Use TUMBLE",
        ),
        (
            "SELECT COUNT(*) FROM c GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
            "TUMBLE of rows that change .TableSourceScan. takes the column of the WATERMARK",
        ),
        (
            "SELECT COUNT(*) FROM TABLE(HOP(TABLE c, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOUR)) GROUP BY window_start, window_end",
            "HOP of rows that change .TableSourceScan. takes the column of the WATERMARK",
        ),
        (
            f"SELECT i FROM {CHANGING} GROUP BY window_start, window_end",
            "'i' is neither in GROUP BY nor in an aggregate",
        ),
        (
            f"SELECT * FROM {CHANGING} GROUP BY window_start, window_end",
            r"SELECT \* is not served with GROUP BY",
        ),
        (
            f"SELECT FIRST_VALUE(i) FROM {CHANGING} GROUP BY window_start, window_end",
            "needs the order in which rows arrive",
        ),
    ],
)
def test_what_windows_of_rows_that_change_do_not_have_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)
