"""Aggregates with DISTINCT in windows of streams: sets of values, and what is refused."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query._distinct import distinct_in_stream
from penstock.sql.query.piece import Piece
from tests.unit.sql.streams.cutting import TUMBLE, cut


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("COUNT(DISTINCT s) FILTER (WHERE b)", "CAST(size(collect_set(`s`) FILTER (WHERE `b`)) AS BIGINT)"),
        ("MAX(DISTINCT i)", "max(`i`)"),
        (
            "COUNT(DISTINCT d)",
            "CAST(size(transform(collect_set(CAST(`d` AS STRING)), __t -> CAST(__t AS DOUBLE))) AS BIGINT)",
        ),
        (
            "SUM(DISTINCT i)",
            "CAST(CASE WHEN size(collect_set(`i`)) > 0 THEN aggregate(array_sort(collect_set(`i`)), CAST(0 AS BIGINT), "
            "(__s, __v) -> CAST(__s + __v AS BIGINT)) END AS INT)",
        ),
    ],
)
def test_different_values_of_windows_are_sets(call: str, text: str) -> None:
    steps, rows, sql = cut(f"SELECT {call} AS x FROM {TUMBLE} GROUP BY window_start, window_end")
    assert (steps, rows.changes) == ([], None)
    assert sql.startswith(f"SELECT {text} AS `x` FROM")


def test_the_sum_of_different_decimals_cannot_overflow_on_the_way() -> None:
    text = distinct_in_stream("AVG", Piece("x", lambda: "decimal(27,8)"), "")
    assert "CAST(__s + __v AS DECIMAL(37,8))" in text
    assert text.endswith("AS DECIMAL(38,8))")
    with pytest.raises(ValueError, match="27 digits at most in a stream, got DECIMAL\\(28,8\\)"):
        distinct_in_stream("SUM", Piece("x", lambda: "decimal(28,8)"), "")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            f"SELECT LISTAGG(DISTINCT s) FROM {TUMBLE} GROUP BY window_start, window_end",
            "DISTINCT is served in COUNT, SUM, AVG, MIN and MAX of a stream. Elsewhere take",
        ),
        (
            f"SELECT COUNT(DISTINCT a) FROM {TUMBLE} GROUP BY window_start, window_end",
            "DISTINCT of ARRAY is not served in a stream",
        ),
        (
            f"SELECT SUM(DISTINCT s) FROM {TUMBLE} GROUP BY window_start, window_end",
            "SUM: expected a number, got STRING",
        ),
    ],
)
def test_what_sets_of_values_do_not_have_is_refused(query: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        cut(query)
