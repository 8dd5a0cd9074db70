"""Every function and operator that Flink 2.3 lists is served, or refused with a message of its own.

tests/data/sql/flink_functions.txt has the operators of its planner (FlinkSqlOperatorTable) and what SHOW FUNCTIONS
shows, without those that its optimizer makes for itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import SqlError
from penstock.sql.bind.expressions._calls import Calls
from penstock.sql.functions.names import is_flinks
from penstock.sql.functions.not_served import FREE, REFUSED
from penstock.sql.functions.served import AGGREGATES, FUNCTIONS, OVER_ONLY
from tests.judges.sql.corpus import DATA
from tests.unit.sql.planning import BATCH, planned

LISTED = (DATA / "flink_functions.txt").read_text().splitlines()
PAGE = (Path(__file__).parents[3] / "docs" / "functions.md").read_text()
SERVED = {*FUNCTIONS, *AGGREGATES, *OVER_ONLY, *Calls._special}
IN_QUERIES = {
    "%": "i % 2",
    "*": "i * 2",
    "+": "+i + 2",
    "-": "-i - 2",
    "/": "i / 2",
    "<": "i < 2",
    "<=": "i <= 2",
    "<>": "i <> 2",
    "=": "i = 2",
    ">": "i > 2",
    ">=": "i >= 2",
    "AND": "b AND b",
    "ARRAY": "ARRAY[i]",
    "BETWEEN ASYMMETRIC": "i BETWEEN ASYMMETRIC 1 AND 2",
    "BETWEEN SYMMETRIC": "i BETWEEN SYMMETRIC 1 AND 2",
    "CASE": "CASE WHEN b THEN 1 END",
    "CAST": "CAST(i AS BIGINT)",
    "CURRENT_DATE": "CURRENT_DATE",
    "IN": "i IN (1, 2)",
    "IS DISTINCT FROM": "i IS DISTINCT FROM 2",
    "IS FALSE": "b IS FALSE",
    "IS JSON ARRAY": "s IS JSON ARRAY",
    "IS JSON OBJECT": "s IS JSON OBJECT",
    "IS JSON SCALAR": "s IS JSON SCALAR",
    "IS JSON VALUE": "s IS JSON VALUE",
    "IS NOT DISTINCT FROM": "i IS NOT DISTINCT FROM 2",
    "IS NOT FALSE": "b IS NOT FALSE",
    "IS NOT JSON ARRAY": "s IS NOT JSON ARRAY",
    "IS NOT JSON OBJECT": "s IS NOT JSON OBJECT",
    "IS NOT JSON SCALAR": "s IS NOT JSON SCALAR",
    "IS NOT JSON VALUE": "s IS NOT JSON VALUE",
    "IS NOT NULL": "i IS NOT NULL",
    "IS NOT TRUE": "b IS NOT TRUE",
    "IS NOT UNKNOWN": "b IS NOT UNKNOWN",
    "IS NULL": "i IS NULL",
    "IS TRUE": "b IS TRUE",
    "IS UNKNOWN": "b IS UNKNOWN",
    "LIKE": "s LIKE 'a%'",
    "MAP": "MAP['a', i]",
    "NOT": "NOT b",
    "NOT BETWEEN ASYMMETRIC": "i NOT BETWEEN 1 AND 2",
    "NOT BETWEEN SYMMETRIC": "i NOT BETWEEN SYMMETRIC 1 AND 2",
    "NOT IN": "i NOT IN (1, 2)",
    "NOT LIKE": "s NOT LIKE 'a%' ESCAPE '!'",
    "OR": "b OR b",
    "OVERLAY": "OVERLAY(s PLACING 'x' FROM 2)",
    "POSITION": "POSITION('x' IN s)",
    "TRIM": "TRIM(BOTH 'x' FROM s)",
    "TRY_CAST": "TRY_CAST(s AS INT)",
    "||": "s || s",
}
"""What is written without the name of a function and a bracket: an expression of it."""
IN_OTHER_TESTS = {
    *("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL", "EXISTS"),
    *("TUMBLE", "HOP", "CUMULATE", "SESSION", "DESCRIPTOR"),
}
"""Parts of queries."""
WRITTEN = {
    "CURRENT_TIME": "CURRENT_TIME",
    "LOCALTIME": "LOCALTIME",
    "SIMILAR TO": "s SIMILAR TO 'x'",
    "NOT SIMILAR TO": "s NOT SIMILAR TO 'x'",
    "OVERLAPS": "(ts, ts) OVERLAPS (ts, ts)",
    "MULTISET": "MULTISET[i]",
    "IGNORE NULLS": "LAG(i) IGNORE NULLS OVER (ORDER BY i)",
    "RESPECT NULLS": "LAG(i) RESPECT NULLS OVER (ORDER BY i)",
    "JSON_OBJECTAGG": "JSON_OBJECTAGG(KEY s VALUE i)",
    "TYPEOF": "TYPEOF(i)",
}
"""How parts that are refused are written, if not as `NAME(s)`."""


def test_every_listed_name_is_known() -> None:
    known = {*SERVED, *IN_QUERIES, *IN_OTHER_TESTS, *REFUSED, *WRITTEN}
    assert [each for each in LISTED if each not in known] == []


@pytest.mark.parametrize("name", IN_QUERIES)
def test_an_operator_of_flink_is_served(name: str) -> None:
    assert planned(f"SELECT {IN_QUERIES[name]} FROM t", BATCH).sql


@pytest.mark.parametrize("name", [each for each in LISTED if each in {*REFUSED, *WRITTEN} - SERVED])
def test_a_function_of_flink_that_is_not_served_is_refused_by_name(name: str) -> None:
    with pytest.raises(SqlError) as error:
        planned(f"SELECT {WRITTEN.get(name, f'{name}(s)')} FROM t", BATCH)
    assert f"{name.removeprefix('NOT ')} is not served" in str(error.value)


def test_a_name_is_served_or_refused_and_not_both() -> None:
    assert not SERVED & set(REFUSED)


@pytest.mark.parametrize("name", [each for each in LISTED if each in SERVED])
def test_a_function_of_the_user_cannot_have_the_name_of_one_that_is_served(name: str) -> None:
    assert is_flinks(name)


def test_a_function_of_the_user_may_have_names_that_flink_uses_in_patterns() -> None:
    assert not any(map(is_flinks, FREE))


@pytest.mark.parametrize("name", LISTED)
def test_the_page_of_functions_names_each(name: str) -> None:
    assert f"`{name}`" in PAGE.replace("\\|", "|")
