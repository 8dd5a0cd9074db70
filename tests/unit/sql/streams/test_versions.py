"""FOR SYSTEM_TIME AS OF joins streams with the versions of a table or a view."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.query.rows import KIND, Rows
from penstock.sql.query.steps import Step, VersionJoin
from penstock.sql.query.translate import translate_query
from tests.unit.sql.fake_binder import FakeBinder
from tests.unit.sql.streams.cutting import STREAMS, cut


def test_versions_are_joined_by_their_times() -> None:
    steps, rows, _ = cut("SELECT t.i, r.s FROM t JOIN c FOR SYSTEM_TIME AS OF t.ltz AS r ON t.i = r.i")
    step = steps[0]
    assert isinstance(step, VersionJoin)
    assert (step.delay_ms, step.how, step.on) == (5_000, "inner", (("lk0", "rk0"),))
    assert rows == Rows()


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
