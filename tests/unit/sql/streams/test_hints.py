"""The hint STATE_TTL is for its own SELECT and table, or is refused."""

from __future__ import annotations

import re

import pytest

from penstock.errors import SqlError
from penstock.sql.query.steps import Aggregation, RegularJoin
from tests.unit.sql.fake_binder import FakeBinder, translated
from tests.unit.sql.streams.cutting import cut

HINT = "SELECT /*+ STATE_TTL('t' = '1 d', 'u' = '0 s') */ t.i FROM t JOIN u ON t.l = u.l"


def test_an_inner_join_with_a_time_to_live_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    [step], rows, sql = cut(HINT)
    assert isinstance(step, RegularJoin)
    assert (step.ttls, rows.changes) == (("1 d", "0 s"), None)
    assert sql == "SELECT `l0` AS `i` FROM `cut1` AS `__join`"
    monkeypatch.setattr(FakeBinder, "state_ttl", "1 d")
    [step], _, _ = cut("SELECT t.i FROM t JOIN u ON t.l = u.l")
    assert isinstance(step, RegularJoin)
    assert step.ttls == (None, None)
    monkeypatch.setattr(FakeBinder, "has_watermarks", True)
    times = "u.ltz BETWEEN t.ltz AND t.ltz + INTERVAL '1' HOUR"
    for text in (f"t, u WHERE t.l = u.l AND {times}", f"t JOIN u ON t.l = u.l AND {times}"):
        steps, _, _ = cut(f"SELECT t.i FROM {text}")
        assert steps == [], "the watermark ends the state"


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
