"""Joins on times: only where both watermark columns bound each other does Spark know the watermarks."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.steps import PlainTimes, RegularJoin
from tests.unit.sql.fake_binder import FakeBinder
from tests.unit.sql.streams.cutting import cut

HOUR = "INTERVAL '1' HOUR"
WITHIN = f"u.ltz BETWEEN t.ltz AND t.ltz + {HOUR}"
pytestmark = pytest.mark.usefixtures("watermarks")


@pytest.fixture
def watermarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each table a watermark on its column `ltz`."""
    monkeypatch.setattr(FakeBinder, "has_watermarks", True)


def kept(text: str) -> list[str | None]:
    """Return the columns that keep their watermark, for each side of a join that hides others.

    It is empty if Spark knows both watermarks.
    """
    steps, rows, _ = cut(f"SELECT t.s FROM {text}")
    assert rows.changes is None
    return [each.keep for each in steps if isinstance(each, PlainTimes)]


@pytest.mark.parametrize(
    "condition",
    [
        WITHIN,
        f"t.ltz + {HOUR} >= u.ltz AND u.ltz > t.ltz",
        f"u.ltz >= t.ltz AND (u.ltz - {HOUR}) <= t.ltz",
        f"u.ltz < {HOUR} + t.ltz AND t.ltz < u.ltz",
        "u.ltz = t.ltz",
        f"{WITHIN} AND u.ltz <= t.l",
        f"{WITHIN} AND u.ltz <> t.l AND t.ltz > t.l AND t.s <> u.s",
    ],
)
def test_two_bounds_of_the_watermark_columns_are_for_spark(condition: str) -> None:
    assert kept(f"t JOIN u ON t.i = u.i AND {condition}") == []
    assert kept(f"t, u WHERE {condition} AND t.i = u.i") == []
    assert kept(f"t FULL JOIN u ON t.i = u.i AND {condition}") == []


@pytest.mark.parametrize(
    "condition",
    [
        "u.s <> t.s",
        "u.ltz BETWEEN t.ltz AND t.l",
        "u.ltz >= t.ltz AND u.l <= t.ltz",
        "u.ltz >= t.ltz",
        "u.ltz BETWEEN t.ltz AND t.ltz + INTERVAL '1' MONTH",
        f"u.ltz >= t.ltz AND u.ltz - {HOUR} <= t.ltz + {HOUR}",
        f"u.ltz BETWEEN CAST(t.ltz AS TIMESTAMP_LTZ(3)) AND t.ltz + {HOUR}",
        "u.ltz BETWEEN t.ltz AND TIMESTAMPADD(HOUR, 1, t.ltz)",
        f"u.ltz - {HOUR} = t.ltz",
        "u.l = t.ltz",
        f"{WITHIN} AND u.ltz = t.l",
        f"{WITHIN} AND t.ltz IN (u.l)",
        f"{WITHIN} AND u.ltz IS NOT DISTINCT FROM t.l",
        f"{WITHIN} AND ((t.ltz = u.l AND t.i > 1) OR (t.ltz = u.l AND t.i < 0))",
        f"NOT ({WITHIN})",
        f"t.ltz BETWEEN t.l AND t.ltz + {HOUR}",
    ],
)
def test_other_times_are_plain_values(condition: str) -> None:
    assert kept(f"t JOIN u ON t.i = u.i AND {condition}") == [None, None]
    assert kept(f"t, u WHERE {condition} AND t.i = u.i") == [None, None]


def test_columns_of_using_are_equal_times() -> None:
    assert kept("t JOIN u USING (i, ltz)") == []
    assert kept("t JOIN u USING (i)") == [None, None]
    assert kept("t NATURAL JOIN u") == []


def test_a_join_of_a_join_hides_the_times_of_each_side_once() -> None:
    assert kept("t JOIN u ON t.i = u.i JOIN u AS v ON v.i = u.i") == [None, None, None]
    steps, _, sql = cut(
        f"SELECT t.s, v.s AS w FROM t JOIN u ON t.i = u.i AND {WITHIN} JOIN u AS v ON v.i = t.i AND v.ltz "
        f"BETWEEN u.ltz AND u.ltz + {HOUR}"
    )
    assert [each.keep for each in steps if isinstance(each, PlainTimes)] == ["t0_7"]
    assert sql.startswith(
        "SELECT `t0_1` AS `s`, `v`.`s` AS `w` FROM `cut1` AS `__times0` INNER JOIN `u` AS `v` ON "
    )


def test_a_join_of_an_interval_join_needs_on() -> None:
    with pytest.raises(SqlError, match=r"column \d+: this join of streams needs ON"):
        cut(f"SELECT t.s FROM t JOIN u ON t.i = u.i AND {WITHIN} JOIN u AS v USING (s)")


def test_an_outer_join_that_spark_must_not_forget_is_cut() -> None:
    steps, *_ = cut("SELECT t.s FROM t LEFT JOIN u ON t.i = u.i AND t.ltz > t.l")
    assert [type(each) for each in steps] == [RegularJoin]
    with pytest.raises(SqlError, match="compare the columns of both WATERMARKs"):
        cut("SELECT t.s FROM t LEFT JOIN u ON t.i = u.i AND u.ltz BETWEEN t.ltz AND t.l")


def test_a_time_zone_with_a_summer_time_leaves_no_interval_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeBinder, "zone_is_utc", False)
    assert kept(f"t JOIN u ON t.i = u.i AND {WITHIN}") == [None, None]
    assert kept("t JOIN u ON t.i = u.i AND u.ltz = t.ltz") == []


def test_an_outer_join_of_spark_finds_no_null_equal_to_a_null() -> None:
    condition = f"t.i = u.i AND {WITHIN} AND u.l > 3 AND t.s IN (u.s) AND NOT t.d <> u.d"
    values = ["`t`.`i`", "`u`.`i`", "`u`.`ltz`", "`t`.`ltz`", f"`t`.`ltz` + {HOUR}", "`u`.`l`"]
    for side in ("LEFT", "RIGHT", "FULL"):
        _, _, sql = cut(f"SELECT t.i FROM t {side} JOIN u ON {condition}")
        assert sql.count("IS NOT NULL") == len(values) + 2
        for each in values[:4]:
            assert f"({each}) IS NOT NULL" in sql
        assert "(`t`.`s` IN (`u`.`s`))) IS NOT NULL" in sql
        assert "(NOT (`t`.`d` <> `u`.`d`))) IS NOT NULL" in sql
    assert "IS NOT NULL" not in cut(f"SELECT t.i FROM t JOIN u ON {condition}")[2]


def test_a_full_join_of_streams_needs_on() -> None:
    with pytest.raises(SqlError, match="a FULL JOIN of streams needs ON with each comparison"):
        cut("SELECT i FROM t FULL JOIN u USING (i, ltz)")


def test_rows_of_an_outer_join_are_kept_by_on_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their times may be NULL. Spark would keep such a row for ever, and never let it out."""
    assert cut("SELECT i FROM t LEFT JOIN u USING (i, ltz)")[0] == []
    monkeypatch.setattr(FakeBinder, "is_of_outer_join", True)
    for join in ("t LEFT JOIN u USING (i, ltz)", "t RIGHT JOIN u USING (i, ltz)", "t NATURAL LEFT JOIN u"):
        with pytest.raises(SqlError, match="JOIN of streams behind an outer join needs ON"):
            cut(f"SELECT i FROM {join}")
    cut("SELECT t.i FROM t LEFT JOIN u ON t.i = u.i AND t.ltz = u.ltz")


def test_rows_that_come_when_the_watermark_is_at_their_time_are_in_no_interval_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeBinder, "waiting", "`t`")
    assert kept(f"t JOIN u ON t.i = u.i AND {WITHIN}") == [None, None]
