"""ROW_NUMBER, LIMIT and OFFSET over streams are cut at a deduplication or a Top-N."""

from __future__ import annotations

import pytest

from penstock.sql.query.rows import KIND
from penstock.sql.query.steps import Aggregation, Deduplication, Step, Top
from tests.unit.sql.streams.cutting import cut


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


def test_qualify_is_a_top_n_without_its_rank() -> None:
    steps, rows, sql = cut(
        "SELECT i, s FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) <= 2 AND l > 1"
    )
    assert [type(each)(**{**vars(each), "query": ""}) for each in steps] == [
        Top("", 2, ("p0",), (("o0", False),))
    ]
    assert sql == (
        f"SELECT * EXCEPT (`{KIND}`, `__qualify1`), `{KIND}` FROM (SELECT * EXCEPT (`{KIND}`), CASE WHEN `{KIND}` IN "
        f"('+I', '+U') THEN '+I' ELSE '-D' END AS `{KIND}` FROM (SELECT `c0` AS `i`, `c1` AS `s`, `c2` AS "
        f"`__qualify1`, `{KIND}` FROM `cut1`) AS `__qualified`) AS `__qualified` WHERE `__qualify1`"
    )
    assert rows.keys is None


def test_qualify_shows_the_rank_that_select_has() -> None:
    steps, rows, _ = cut("SELECT s, ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) AS n FROM t QUALIFY n <= 2")
    assert [each.rank for each in steps if isinstance(each, Top)] == ["n"]
    assert rows.keys == frozenset({"s", "n"})


def test_qualify_keeps_one_row_of_each_group() -> None:
    steps, rows, _ = cut("SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY l DESC) = 1")
    assert [type(each) for each in steps] == [Deduplication]
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


def test_the_first_rows_behind_an_offset_are_those_of_later_ranks() -> None:
    steps, rows, sql = cut("SELECT i FROM c ORDER BY i LIMIT 3 OFFSET 2")
    top = steps[0]
    assert isinstance(top, Top)
    assert (top.count, top.rank) == (5, "n")
    assert sql.endswith(f"ELSE '-D' END AS `{KIND}` FROM `cut1` WHERE `n` > 2")
    assert (rows.keys, rows.is_together) == (frozenset({"i"}), False)


def test_any_rows_are_the_first_ones_of_rows_that_change_without_an_order() -> None:
    steps, rows, sql = cut("SELECT i FROM c LIMIT 3")
    assert steps == [
        Top(
            f"SELECT `i` AS `c0`, 0 AS `o0`, 0 AS `p0`, `{KIND}` FROM (SELECT `i` AS `i`, `{KIND}` FROM `c` AS `c`)",
            3,
            ("p0",),
            (("o0", False),),
        )
    ]
    assert sql == f"SELECT `c0` AS `i`, `{KIND}` FROM `cut1`"
    assert (rows.keys, rows.is_together) == (frozenset({"i"}), True)


def test_the_rows_behind_an_offset_without_an_order_are_those_that_were_read_later() -> None:
    steps, rows, sql = cut("SELECT i FROM t LIMIT 3 OFFSET 2")
    top = steps[0]
    assert isinstance(top, Top)
    assert top.order_by == (("o0", False), ("o1", False))
    assert "`__partition` AS `o0`, `__offset` AS `o1`" in top.query
    assert (top.count, top.rank) == (5, "n")
    assert sql.endswith("WHERE `n` > 2")
    assert rows.changes is not None
    assert cut("SELECT i FROM u LIMIT 3")[0] == [], "Spark streams LIMIT of rows that are only inserted"
