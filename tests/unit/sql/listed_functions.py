"""Every function and operator that Flink 2.3 lists, and how those are written that are not `NAME(argument)`.

tests/data/sql/flink_functions.txt has the operators of its planner (FlinkSqlOperatorTable) and what SHOW FUNCTIONS
shows, without those that its optimizer makes for itself.
"""

from __future__ import annotations

from penstock.sql.bind.expressions._calls import Calls
from penstock.sql.functions.served import AGGREGATES, FUNCTIONS, OVER_ONLY
from tests.judges.sql.corpus import DATA

LISTED = (DATA / "flink_functions.txt").read_text().splitlines()
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
