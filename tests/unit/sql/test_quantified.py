"""Comparisons with ALL, ANY and SOME of a query are TRUE, FALSE or NULL as SQL says it, beside a plain oracle."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest

from penstock.sql.emit.select import short
from tests.unit.sql.planning import BATCH, STREAM, How, planned, refused
from tests.unit.sql.plans.batch import Batch

SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
VALUES = (None, 1, 2, 3)


def wanted(sign: str, word: str, value: int | None, others: tuple[int | None, ...]) -> bool | None:
    """Return what SQL says: a comparison with a NULL is NULL."""
    known = [None if None in (value, each) else SIGNS[sign](value, each) for each in others]
    decisive = word != "ALL"
    if decisive in known:
        return decisive
    return None if None in known else not decisive


@pytest.mark.parametrize("word", ["ALL", "ANY", "SOME"])
@pytest.mark.parametrize("sign", SIGNS)
def test_a_comparison_with_the_rows_of_a_query_has_three_values(sign: str, word: str) -> None:
    found = planned(f"SELECT i, i {sign} {word} (SELECT i FROM u) AS x FROM t", BATCH)
    column = short(found.plan.columns[1])
    for count in range(4):
        for others in itertools.combinations_with_replacement(VALUES, count):
            tables = {"t": [{"i": each} for each in VALUES], "u": [{"i": each} for each in others]}
            rows = Batch(tables, found.traits).rows(found.plan.input)
            expected = [wanted(sign, word, each, others) for each in VALUES]
            assert [row[column] for row in rows] == expected, others


@pytest.mark.parametrize("how", [STREAM, BATCH])
@pytest.mark.parametrize(
    ("inner", "what"),
    [
        ("SELECT i FROM u LIMIT 3", "LIMIT without ORDER BY"),
        ("SELECT i FROM (SELECT i FROM u LIMIT 3) AS x ORDER BY i LIMIT 1", "LIMIT without ORDER BY"),
        ("SELECT i FROM u WHERE RAND() < 0.5", "RAND"),
        ("SELECT i FROM u WHERE s IN (SELECT py_upper(s) FROM w)", "py_upper"),
        ("SELECT i FROM u ORDER BY i LIMIT 3", None),
        ("SELECT i FROM u WHERE s = py_pure(s)", None),
    ],
)
def test_a_query_that_may_give_other_rows_each_time_is_refused(
    how: How, inner: str, what: str | None
) -> None:
    """The smallest value, the largest one and whether there is a NULL would be of different rows."""
    for sign, word in (("=", "ALL"), ("<>", "ANY"), (">", "ALL")):
        found = refused(f"SELECT i FROM t WHERE i {sign} {word} ({inner})", how)
        assert found is None if what is None else f"ALL or ANY has {what}." in str(found)
    assert refused(f"SELECT i FROM t WHERE i = ANY ({inner})", how) is None
