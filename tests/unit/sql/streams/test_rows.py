"""What is known of the rows of a query over streams: their keys, and whether their changes are together."""

from __future__ import annotations

import pytest

from penstock.sql.query.rows import KIND
from penstock.sql.query.steps import Aggregation, RegularJoin
from tests.unit.sql.fake_binder import translated
from tests.unit.sql.streams.cutting import SOURCE, cut


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
    ("key", "keys"),
    [("i", {"i"}), ("C.i", {"i"}), ("s.i", None), ("s.*", None), ("x.i", None), ("*", {"i"}), ("c.*", {"i"})],
)
def test_a_field_of_a_row_is_no_column_of_the_key(key: str, keys: set[str] | None) -> None:
    _, rows, _ = cut(f"SELECT {key} FROM c")
    assert rows.keys == keys


def test_a_star_shows_the_columns_of_the_groups() -> None:
    _, rows, _ = cut(
        "SELECT s, i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) AS n FROM t) WHERE n = 1"
    )
    assert (rows.keys, rows.is_together) == (frozenset({"s"}), True)


def test_with_stands_before_a_set_operation() -> None:
    sql = translated("WITH a AS (SELECT i FROM t) SELECT i FROM a UNION ALL SELECT i FROM a").sql
    assert sql.startswith("WITH ")
    assert sql.count("(SELECT `i` AS `i` FROM `t` AS `t`)") == 1


def test_a_query_of_with_that_has_a_state_stands_once() -> None:
    steps, _, sql = cut(
        "WITH x AS (SELECT s, COUNT(*) AS l FROM t GROUP BY s) SELECT a.s FROM x AS a JOIN x AS b ON a.l = b.l"
    )
    assert [type(each) for each in steps[-3:]] == [Aggregation, Aggregation, RegularJoin]
    assert "WITH" not in sql
