"""Functions that may give another value when they are computed again, over rows that change."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.query.rows import Relation, Rows, Varies, VaryingColumn
from tests.unit.sql.fake_binder import FakeBinder, translated
from tests.unit.sql.streams.cutting import SOURCE, STREAMS

CLOCK = VaryingColumn("p", "PROCTIME", Varies.BATCH)
TABLES = {
    **STREAMS,
    "v": Relation("`v`", Rows(SOURCE, frozenset({"i"}), is_together=True), varying=(CLOCK,)),
    "m": Relation(
        "`m`",
        Rows(SOURCE, frozenset({"i"})),
        varying=(VaryingColumn("o", "METADATA FROM 'offset'", Varies.RECORD),),
    ),
    "w": Relation("`w`", Rows(SOURCE, frozenset({"i"})), varying=(VaryingColumn("x", "RAND", Varies.CALL),)),
}
REFUSED = [
    "SELECT i, NOW() FROM c",
    "SELECT i, CURRENT_TIMESTAMP FROM c",
    "SELECT i, LOCALTIMESTAMP FROM c",
    "SELECT i, CURRENT_DATE FROM c",
    "SELECT i, CURRENT_ROW_TIMESTAMP() FROM c",
    "SELECT i, PROCTIME() FROM c",
    "SELECT i, UNIX_TIMESTAMP() FROM c",
    "SELECT i, RAND() FROM c",
    "SELECT i, RAND(5) FROM c",
    "SELECT i, py_upper(s) FROM c",
    "SELECT i, CASE WHEN ltz > NOW() THEN 1 ELSE 2 END FROM c",
    "SELECT i FROM c WHERE ltz > NOW() - INTERVAL '1' DAY",
    "SELECT i FROM c WHERE py_upper(s) = 'A'",
    "SELECT s, SUM(TIMESTAMPDIFF(DAY, ltz, NOW())) FROM c GROUP BY s",
    "SELECT s, COUNT(*) FILTER (WHERE ltz > NOW()) FROM c GROUP BY s",
    "SELECT COUNT(*) FROM c GROUP BY py_upper(s)",
    "SELECT COUNT(*) FROM c GROUP BY GROUPING SETS ((py_upper(s)), (i))",
    "SELECT s, COUNT(*) FROM t GROUP BY s HAVING MAX(ltz) > NOW()",
    "SELECT s, COUNT(*), NOW() FROM t GROUP BY s",
    "SELECT s, py_upper(s) FROM t GROUP BY s",
    "SELECT DISTINCT i, NOW() FROM c",
    "SELECT DISTINCT py_upper(s) FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s)",
    "SELECT a.i FROM c AS a JOIN t AS b ON a.i = b.i AND a.ltz > NOW()",
    "SELECT a.i FROM c AS a JOIN t AS b ON py_upper(a.s) = b.s",
    "SELECT a.i FROM c AS a LEFT JOIN t AS b ON a.i = b.i AND a.ltz > NOW()",
    "SELECT a.i, NOW() FROM t AS a LEFT JOIN t AS b ON a.i = b.i",
    "SELECT a.i FROM c AS a JOIN t AS b ON a.i = b.i WHERE b.ltz > NOW()",
    "SELECT i FROM c WHERE i IN (SELECT i FROM t) AND ltz > NOW()",
    "SELECT i FROM t WHERE i IN (SELECT i FROM c WHERE ltz > NOW())",
    "SELECT i FROM t WHERE EXISTS (SELECT 1 FROM c WHERE c.i = t.i AND c.ltz > NOW())",
    "SELECT i FROM t WHERE i NOT IN (SELECT i FROM u WHERE i IS NOT NULL) AND i IS NOT NULL HAVING RAND() > 0",
    "SELECT i, (SELECT MAX(i) FROM t), RAND() FROM c",
    "SELECT i, (SELECT MAX(l) FROM c WHERE ltz > NOW()) FROM t",
    "SELECT i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY py_upper(s)) AS n FROM c) WHERE n <= 3",
    "SELECT i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY py_upper(s) ORDER BY l) AS n FROM c) WHERE n <= 3",
    "SELECT i, NOW() FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY l) AS n FROM t) WHERE n = 1",
    "SELECT i FROM c ORDER BY RAND() LIMIT 3",
    "SELECT i FROM t ORDER BY l LIMIT 3 OFFSET 1 UNION ALL SELECT i FROM c WHERE NOW() > ltz",
    "SELECT i FROM c UNION ALL SELECT RAND() FROM c",
    "SELECT x FROM c CROSS JOIN UNNEST(ARRAY[RAND()]) AS q (x)",
    "SELECT i FROM c, LATERAL TABLE(py_upper(s)) AS q (x)",
    "SELECT i FROM c LEFT JOIN LATERAL TABLE(py_upper(s)) AS q (x) ON TRUE",
    "SELECT c.i, b.x FROM c CROSS JOIN (VALUES (NOW())) AS b (x)",
    "SELECT c.i, b.x FROM (VALUES (NOW())) AS b (x) CROSS JOIN c",
    "WITH q AS (SELECT i, NOW() AS x FROM c) SELECT i, x FROM q",
    "WITH q (a, b) AS (SELECT i, ltz FROM c) SELECT a FROM q WHERE b > NOW()",
    "SELECT s, COUNT(*) FROM (SELECT s, COUNT(*) AS n FROM t GROUP BY s) GROUP BY s HAVING RAND() > 0.5",
    "SELECT window_start, COUNT(*) FILTER (WHERE RAND() > 0.5) "
    "FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
    "SELECT window_start, NOW() FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR))",
]
ALLOWED = [
    "SELECT i, NOW(), RAND(), py_upper(s) FROM t WHERE ltz > NOW()",
    "SELECT COUNT(*) FROM t GROUP BY CURRENT_DATE",
    "SELECT py_upper(s), SUM(i) FILTER (WHERE RAND() > 0.5) FROM t GROUP BY py_upper(s)",
    "SELECT a.i FROM (SELECT i, NOW() AS x FROM t) AS a JOIN c AS b ON a.i = b.i",
    "SELECT a.i FROM t AS a JOIN c AS b ON py_upper(a.s) = b.s",
    "SELECT i FROM c WHERE i IN (SELECT i FROM t WHERE ltz > NOW())",
    "SELECT i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY NOW()) AS n FROM t) WHERE n <= 3",
    "SELECT i, NOW() FROM t UNION ALL SELECT i, ltz FROM c",
    "SELECT i, py_pure(s) FROM c WHERE py_pure(s) = 'A'",
    "SELECT i FROM c, LATERAL TABLE(py_pure(s)) AS q (x)",
    "SELECT NOW()",
    "VALUES (NOW(), RAND())",
    "SELECT x FROM (VALUES (NOW())) AS b (x)",
    "SELECT window_start, COUNT(*), NOW() FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ltz), INTERVAL '1' HOUR)) "
    "GROUP BY window_start, window_end HAVING RAND() > 0.5",
    "SELECT i, UNIX_TIMESTAMP('2026-01-01 00:00:00') FROM c",
    "SELECT i FROM v",
    "SELECT COUNT(*) FROM v",
    "SELECT v.i FROM v JOIN (SELECT i, ltz AS p FROM t) AS b ON v.i = b.i WHERE b.p IS NOT NULL",
]
METADATA = [
    "SELECT i, o FROM m WHERE i > 1",
    "SELECT * FROM m WHERE i > 1",
    "SELECT SUM(o) FROM m",
    "SELECT ROW_NUMBER() OVER (PARTITION BY o ORDER BY i) FROM m",
    "SELECT m.i, o FROM m JOIN t ON m.i = t.i",
    "SELECT i, o FROM m UNION ALL SELECT i, l FROM t",
    "SELECT o FROM (SELECT i, o FROM m)",
    "WITH q AS (SELECT * FROM m) SELECT i, o FROM q",
    "SELECT DISTINCT o FROM m",
    "SELECT i, o FROM m LIMIT 3",
]
COLUMNS = [
    "SELECT * FROM v",
    "SELECT i, p FROM v",
    "SELECT z.* FROM v AS z",
    "SELECT i FROM v WHERE p IS NOT NULL",
    "SELECT MAX(p) FROM v",
    "SELECT i FROM v GROUP BY i, p",
    "SELECT i FROM (SELECT * FROM v)",
    "SELECT z.d FROM v AS z (a, b, c, d)",
    "SELECT v.i FROM v JOIN t USING (p)",
    "SELECT v.i FROM v JOIN t ON v.i = t.i AND t.ltz > v.p",
    "SELECT v.i FROM v WHERE EXISTS (SELECT 1 FROM t WHERE t.i = v.i AND t.ltz > v.p)",
    "SELECT i FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(p), INTERVAL '1' HOUR))",
    "SELECT i FROM v ORDER BY p LIMIT 3",
]


@pytest.mark.parametrize("query", REFUSED)
def test_a_function_that_may_give_another_value_is_refused_over_rows_that_change(query: str) -> None:
    with pytest.raises(SqlError, match="over rows that change") as error:
        translated(query, FakeBinder(TABLES))
    names = ("NOW", "CURRENT", "LOCALT", "PROCTIME", "UNIX_T", "RAND", "py_upper")
    line, column = str(error.value).split(":")[0].removeprefix("Line ").split(", column ")
    assert query.splitlines()[int(line) - 1][int(column) - 1 :].startswith(names)


@pytest.mark.parametrize("query", REFUSED)
def test_it_is_accepted_with_a_warning_if_the_session_says_so(query: str) -> None:
    binder = FakeBinder(TABLES)
    binder.accepts = True
    translated(query, binder)
    assert binder.warnings
    assert all("over rows that change may give another value" in each for each in binder.warnings)


@pytest.mark.parametrize("query", ALLOWED)
def test_it_is_allowed_where_no_row_is_taken_back(query: str) -> None:
    binder = FakeBinder(TABLES)
    translated(query, binder)
    assert binder.warnings == []


@pytest.mark.parametrize("query", COLUMNS)
def test_a_computed_column_with_a_clock_is_refused_where_it_is_used(query: str) -> None:
    with pytest.raises(SqlError, match=r"the column 'p' \(PROCTIME\) over rows that change"):
        translated(query, FakeBinder(TABLES))


def test_a_computed_column_with_a_clock_that_is_not_used_is_left_out_once() -> None:
    relation = Relation("`v`", Rows(SOURCE), varying=(CLOCK, VaryingColumn("p", "RAND", Varies.CALL)))
    binder = FakeBinder({"v": relation})
    assert "(SELECT * EXCEPT (`p`) FROM `v`) AS `v`" in translated("SELECT i FROM v", binder).sql


@pytest.mark.parametrize("query", METADATA)
def test_metadata_of_change_data_is_refused_behind_an_operator(query: str) -> None:
    with pytest.raises(SqlError, match=r"the column 'o' \(METADATA FROM 'offset'\) over rows that change"):
        translated(query, FakeBinder(TABLES))


@pytest.mark.parametrize(
    "query",
    ["SELECT i, o FROM m", "SELECT * FROM m", "SELECT o IS NULL AS x, 1 FROM m", "SELECT i FROM m"],
)
def test_metadata_of_change_data_is_copied(query: str) -> None:
    translated(query, FakeBinder(TABLES))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i, NOW() FROM c",
        "SELECT s, NOW() AS x FROM t GROUP BY s",
        "SELECT *, NOW() FROM c",
        "(SELECT i, DATE_FORMAT(NOW(), 'yyyy') FROM c WHERE i > 1)",
        "WITH q AS (SELECT i FROM c) SELECT i, PROCTIME() FROM q",
        "SELECT a.i, CURRENT_TIMESTAMP FROM c AS a JOIN t AS b ON a.i = b.i",
        "SELECT i, p FROM v",
        "SELECT i, p AS q FROM v",
        "SELECT i, p FROM v WHERE i > 1",
    ],
)
def test_a_clock_goes_into_a_column_by_which_the_table_finds_no_row(query: str) -> None:
    translated(query, FakeBinder(TABLES), (False, True))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT NOW(), i FROM c",
        "SELECT NOW(), * FROM c",
        "SELECT *, NOW(), c.* FROM c",
        "SELECT DISTINCT i, NOW() FROM c",
        "SELECT i, NOW() FROM c LIMIT 5",
        "SELECT i, NOW() FROM c ORDER BY i LIMIT 5",
        "SELECT i, RAND() FROM c",
        "SELECT i, py_upper(s) FROM c",
        "SELECT i, x FROM w",
        "SELECT i, p + INTERVAL '1' DAY FROM v",
        "SELECT * FROM v",
        "SELECT v.i, v.p FROM v JOIN t ON v.i = t.i",
        "SELECT v.i, v.p FROM v, t WHERE v.i = t.i",
        "SELECT i, p FROM v WHERE i IN (SELECT i FROM t)",
        "SELECT i, p FROM v WHERE EXISTS (SELECT 1 FROM t WHERE t.i = v.i)",
        "SELECT (SELECT MAX(i) FROM t), p FROM v",
        "WITH q AS (SELECT i FROM t) SELECT i, p FROM v WHERE i IN (SELECT i FROM q)",
        "SELECT i, x FROM (SELECT i, NOW() AS x FROM c)",
        "SELECT i, ltz FROM c WHERE ltz > NOW()",
        "SELECT i, NOW() FROM c UNION ALL SELECT i, ltz FROM c",
    ],
)
def test_it_is_refused_in_other_columns_and_parts(query: str) -> None:
    with pytest.raises(SqlError, match="over rows that change"):
        translated(query, FakeBinder(TABLES), (False, True))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.i, NOW() FROM c AS a LEFT JOIN t AS b ON a.i = b.i",
        "SELECT i, NOW() FROM c WHERE i IN (SELECT i FROM t)",
        "SELECT i, NOW(), (SELECT MAX(i) FROM t) FROM c",
    ],
)
def test_a_clock_of_the_outermost_select_is_computed_behind_the_operators(query: str) -> None:
    binder = FakeBinder(TABLES)
    sql = translated(query, binder, (False, True, True)).sql
    assert binder.steps
    assert "current_timestamp" not in str(binder.steps)
    assert "current_timestamp" in sql


def test_the_message_says_why_and_what_to_do() -> None:
    with pytest.raises(SqlError) as error:
        translated("SELECT i\nFROM c WHERE ltz > NOW()", FakeBinder(TABLES))
    assert str(error.value).split("\n")[0] == (
        "Line 2, column 20: NOW over rows that change (TableSourceScan) is refused. It may give another value "
        "when a row is taken back, so old rows would stay in the result. Use a time of the record. Or show the "
        "value only in the outermost SELECT of an INSERT, as a column that is not in the PRIMARY KEY of an "
        "'upsert-kafka' or 'jdbc' table. To accept wrong rows, SET "
        "'table.optimizer.non-deterministic-update.strategy' = 'IGNORE'."
    )
    with pytest.raises(SqlError, match=r"CREATE FUNCTION \.\.\. LANGUAGE PYTHON DETERMINISTIC"):
        translated("SELECT py_upper(s) FROM c", FakeBinder(TABLES))
