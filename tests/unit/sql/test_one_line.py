"""Statements of one line: accepted, or refused with a message at the place of the mistake. No Spark runs."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from penstock.sql.language.parse import parse_script
from penstock.sql.language.source import Source
from penstock.sql.language.statements import CreateTable, Insert, Select, StatementSet
from penstock.sql.query.translate import translate_query
from penstock.sql.run._tables import declared_types
from tests.unit.sql.fake_binder import FakeBinder

ACCEPTED = [
    "CREATE TABLE x (a INT)",
    "CREATE TEMPORARY TABLE IF NOT EXISTS d.x (a INT NOT NULL COMMENT 'c') COMMENT 't' WITH ('connector' = 'kafka')",
    "CREATE TABLE x (a INT, b AS a + 1, c STRING METADATA VIRTUAL, d TIMESTAMP(3) METADATA FROM 'timestamp')",
    "CREATE TABLE x (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)",
    "CREATE TABLE x (ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)",
    "CREATE TABLE x (a INT, PRIMARY KEY (a) NOT ENFORCED)",
    "CREATE TABLE x (a INT PRIMARY KEY NOT ENFORCED)",
    "CREATE TABLE x (a INT, b INT, CONSTRAINT k PRIMARY KEY (a, b) NOT ENFORCED)",
    "CREATE TABLE x (a INT, day STRING) PARTITIONED BY (day) WITH ('connector' = 'filesystem')",
    "CREATE TABLE x WITH ('a' = 'b') LIKE y",
    "CREATE TABLE x (a INT) WITH ('a' = 'b') LIKE y (EXCLUDING ALL INCLUDING OPTIONS)",
    "CREATE TABLE x WITH ('connector' = 'print') AS SELECT i FROM t",
    "CREATE TABLE x (a DECIMAL, b DECIMAL(5), c DECIMAL(5, 2), d NUMERIC(3), e DEC)",
    "CREATE TABLE x (a ARRAY<INT>, b MAP<STRING, ARRAY<BIGINT>>, c ROW<x INT, y ROW<z STRING>>)",
    "CREATE TABLE x (a TINYINT, b SMALLINT, c INTEGER, d BIGINT, e FLOAT, f DOUBLE PRECISION, g BOOLEAN)",
    "CREATE TABLE x (a CHAR(3), b VARCHAR(3), c STRING, d BYTES, e BINARY(3), f VARBINARY(3))",
    "CREATE TABLE x (a TIMESTAMP(3) WITHOUT TIME ZONE, b TIMESTAMP(3) WITH LOCAL TIME ZONE, c DATE)",
    "CREATE VIEW v AS SELECT i FROM t",
    "CREATE TEMPORARY VIEW IF NOT EXISTS v (a, b) COMMENT 'c' AS SELECT i, l FROM t",
    "CREATE DATABASE d",
    "CREATE DATABASE IF NOT EXISTS d",
    "CREATE FUNCTION f AS 'module.function' LANGUAGE PYTHON",
    "CREATE TEMPORARY FUNCTION IF NOT EXISTS f AS 'module.function' LANGUAGE PYTHON",
    "DROP TABLE x",
    "DROP TEMPORARY TABLE IF EXISTS d.x",
    "DROP VIEW IF EXISTS v",
    "DROP DATABASE IF EXISTS d RESTRICT",
    "DROP FUNCTION f",
    "USE d",
    "SHOW TABLES",
    "SHOW TABLES LIKE 'a%'",
    "SHOW TABLES FROM d",
    "SHOW VIEWS",
    "SHOW DATABASES",
    "SHOW CATALOGS",
    "SHOW CURRENT DATABASE",
    "SHOW CURRENT CATALOG",
    "SHOW FUNCTIONS",
    "SHOW USER FUNCTIONS",
    "SHOW MODULES",
    "SHOW JOBS",
    "SHOW CREATE TABLE x",
    "SHOW CREATE VIEW v",
    "SHOW COLUMNS FROM x",
    "DESCRIBE x",
    "DESC d.x",
    "SET",
    "SET 'a' = 'b'",
    "SET execution.runtime-mode = batch",
    "RESET",
    "RESET 'a'",
    "EXPLAIN SELECT i FROM t",
    "EXPLAIN PLAN FOR SELECT i FROM t",
    "EXPLAIN INSERT INTO x SELECT i FROM t",
    "ALTER TABLE x SET ('a' = 'b')",
    "ALTER TABLE x RESET ('a')",
    "ALTER TABLE x RENAME TO y",
    "ALTER TABLE x RENAME a TO b",
    "ALTER TABLE x ADD a INT",
    "ALTER TABLE x ADD (a INT, b STRING)",
    "INSERT INTO x SELECT i FROM t",
    "INSERT INTO x (a, b) SELECT i, l FROM t",
    "INSERT INTO x VALUES (1, 'a'), (2, 'b')",
    "INSERT OVERWRITE x SELECT i FROM t",
    "INSERT INTO x /*+ OPTIONS('a' = 'b') */ SELECT i FROM t",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO x SELECT i FROM t; INSERT INTO y SELECT l FROM t; END",
    "BEGIN STATEMENT SET; INSERT INTO x SELECT i FROM t; END",
    "EXECUTE INSERT INTO x SELECT i FROM t",
    "SELECT 1",
    "SELECT i -- the number\nFROM t",
    "SELECT /* a */ i FROM t /* b */",
    "SELECT `i` AS `a b` FROM `t`",
    "SELECT t.i, u.l FROM t, u WHERE t.i = u.i",
    "SELECT t.i FROM t CROSS JOIN u",
    "SELECT t.i FROM t FULL OUTER JOIN u ON t.i = u.i",
    "SELECT i FROM t NATURAL JOIN u",
    "SELECT i FROM (SELECT i FROM t) WHERE i > 1",
    "SELECT i FROM t WHERE i IN (SELECT i FROM u) AND EXISTS (SELECT 1 FROM u)",
    "SELECT i, COUNT(*) FROM t GROUP BY i HAVING COUNT(*) > 1",
    "SELECT COUNT(*) FROM t GROUP BY GROUPING SETS ((i), ())",
    "SELECT i FROM t ORDER BY i DESC NULLS LAST LIMIT 10",
    "SELECT i FROM t FETCH FIRST 10 ROWS ONLY",
    "SELECT i FROM t UNION ALL SELECT i FROM u",
    "WITH w AS (SELECT i FROM t) SELECT i FROM w",
    "VALUES (1, 2), (3, 4)",
    "SELECT x FROM t CROSS JOIN UNNEST(a) AS e (x)",
    "SELECT k, v FROM t LEFT JOIN UNNEST(m) AS e (k, v) ON TRUE",
    "SELECT ROW_NUMBER() OVER (PARTITION BY s ORDER BY i DESC) FROM t",
    "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
    "SELECT COUNT(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOUR)) GROUP BY window_start, window_end",
    "SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
    "SELECT JSON_VALUE(s, '$.a.b[0]') FROM t",
    "SELECT JSON_VALUE(s, 'lax $.a' RETURNING INT NULL ON EMPTY NULL ON ERROR) FROM t",
    "SELECT JSON_EXISTS(s, '$.a') FROM t",
    "SELECT JSON_VALUE(s, '$[''a b'']') FROM t",
    "SELECT FLOOR(ts TO WEEK), CEIL(day TO QUARTER) FROM t",
    "SELECT TIMESTAMPDIFF(MONTH, ts, ts), TIMESTAMPADD(DAY, i, day) FROM t",
    "SELECT TO_TIMESTAMP(s, 'yyyy-MM-dd''T''HH:mm:ss.SSS'), TO_DATE(s, 'dd.MM.yyyy') FROM t",
    "SELECT (i = 1) IS NULL FROM t",
    "SELECT NOT i = 1 FROM t",
]

REFUSED = [
    ("SELCT 1", 1, "Did you mean 'SELECT'?"),
    ("CREATE TABLE", 13, "expected"),
    ("CREATE TABLE x (a)", 18, "expected a type"),
    ("CREATE TABLE x (a INTT)", 19, "expected a type, got 'INTT'"),
    ("CREATE TABLE x (a INT", 22, "expected"),
    ("CREATE TABLE x (a TIME(3))", 14, "the column 'a': TIME is not served"),
    ("CREATE TABLE x (a MULTISET<INT>)", 14, "MULTISET is not served"),
    ("CREATE TABLE x (a TIMESTAMP(9))", 14, "Spark keeps microseconds"),
    ("CREATE TABLE x (a TIMESTAMP(3) WITH TIME ZONE)", 32, "Flink has no TIMESTAMP WITH TIME ZONE"),
    ("CREATE TABLE x (a INT, PRIMARY KEY (a))", 39, "NOT ENFORCED"),
    ("CREATE TABLE x (a INT) WITH ('a' 'b')", 34, "expected '='"),
    ("CREATE TABLE x (a INT) WITH (a = 'b')", 30, "expected"),
    ("CREATE CATALOG c WITH ('type' = 'hive')", 1, "CREATE CATALOG"),
    ("CREATE MODEL m WITH ('a' = 'b')", 1, "CREATE MODEL"),
    ("CREATE MATERIALIZED TABLE m AS SELECT 1", 1, "MATERIALIZED TABLE"),
    ("CREATE FUNCTION f AS 'com.acme.F'", 34, "only LANGUAGE PYTHON is served"),
    ("CREATE FUNCTION f AS 'com.acme.F' LANGUAGE JAVA", 35, "only LANGUAGE PYTHON is served"),
    ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'm.f' LANGUAGE PYTHON", 18, "use CREATE TEMPORARY FUNCTION"),
    ("USE CATALOG default_catalog", 1, "there is one catalog"),
    ("UPDATE t SET a = 1", 1, "UPDATE"),
    ("DELETE FROM t", 1, "DELETE"),
    ("ANALYZE TABLE t COMPUTE STATISTICS", 1, "ANALYZE"),
    ("CALL sys.p()", 1, "CALL"),
    ("LOAD MODULE m", 1, "LOAD"),
    ("ADD JAR 'x.jar'", 1, "ADD JAR"),
    ("STOP JOB 'x'", 1, "STOP JOB"),
    ("TRUNCATE TABLE t", 1, "TRUNCATE"),
    ("SHOW NOTHING", 6, "expected"),
    ("DROP x", 6, "expected"),
    ("USE", 4, "expected"),
    ("ALTER TABLE x DROP a", 15, "ALTER TABLE ... DROP is not served"),
    ("INSERT x SELECT 1", 8, "expected"),
    ("INSERT INTO x", 14, "expected"),
    ("INSERT INTO x (a, a) SELECT 1, 2", 13, "INSERT names the column 'a' twice"),
    ("EXECUTE STATEMENT SET BEGIN SELECT 1; END", 29, "expected"),
    ("SET 'a' 'b'", 9, "expected"),
    ("EXPLAIN DROP TABLE x", 21, "EXPLAIN takes a query"),
    ("SELECT 'abc", 8, "does not end"),
    ("SELECT `abc", 8, "does not end"),
    ("SELECT \"i\" FROM t", 8, "Flink's SQL has no double quotes"),
    ("SELECT i FROM nope", 15, "there is no table or view 'nope'"),
    ("SELECT i FROM t JOIN u", 22, "a JOIN needs ON or USING. Or write CROSS JOIN"),
    ("SELECT i FROM t INNER JOIN u", 28, "a JOIN needs ON or USING"),
    ("SELECT i FROM t LEFT JOIN u", 27, "a LEFT JOIN needs ON or USING"),
    ("SELECT i = 1 IS NULL FROM t", 8, "expected brackets around one of the two comparisons beside ="),
    ("SELECT i > 1 = b FROM t", 8, "expected brackets"),
    ("SELECT b = i < 1 FROM t", 8, "expected brackets"),
    ("SELECT i IS NULL = b FROM t", 8, "expected brackets"),
    ("SELECT i = l IS DISTINCT FROM b FROM t", 8, "expected brackets"),
    ("SELECT foo(i) FROM t", 8, "the function foo is not one of those that are served"),
    ("SELECT UPER(s) FROM t", 8, "Did you mean 'UPPER'?"),
    ("SELECT REPLACE(s, 'a') FROM t", 8, "REPLACE takes 3 arguments, got 2"),
    ("SELECT TO_TIMESTAMP(s, 'MMM yyyy') FROM t", 8, "Spark reads other letters differently"),
    ("SELECT TO_TIMESTAMP(s, 'yyyy yyyy') FROM t", 8, "expected each of yyyy"),
    ("SELECT TO_TIMESTAMP(s, s) FROM t", 8, "expected a pattern in quotes"),
    ("SELECT JSON_VALUE(s, '$.*') FROM t", 19, "Wildcards, filters and strict are not served"),
    ("SELECT JSON_VALUE(s, 'strict $.a') FROM t", 19, "Wildcards, filters and strict are not served"),
    ("SELECT JSON_VALUE(s, s) FROM t", 19, "expected a path in quotes"),
    ("SELECT JSON_VALUE(s, '$.a' RETURNING DECIMAL) FROM t", 19, "RETURNING DECIMAL is not served"),
    ("SELECT JSON_VALUE(s, '$.a' NULL) FROM t", 39, "expected 'ON'"),
    ("SELECT JSON_QUERY(s, '$.a' WITH ARRAY WRAPPER) FROM t", 19, "JSON_QUERY is not served"),
    ("SELECT JSON_VALUE(s, '$.a' DEFAULT 3 ON EMPTY) FROM t", 19, "DEFAULT ON EMPTY is not served"),
    ("SELECT i = '1' FROM t", 8, "expected two values of one kind beside =, got INT and STRING"),
    ("SELECT i FROM t WHERE b = 'true'", 23, "got BOOLEAN and STRING"),
    ("SELECT JSON_OBJECT(KEY 'a' VALUE i) FROM t", 1, ""),
    ("SELECT UUID() FROM t", 8, "would write rows twice"),
    ("SELECT CURRENT_TIME FROM t", 1, ""),
    ("SELECT COUNT(DISTINCT i, l) FROM t", 8, "COUNT takes 1 arguments, got 2"),
    ("SELECT SUM(s) FROM t", 8, "expected a number, got STRING"),
    ("SELECT UPPER(DISTINCT s) FROM t", 8, "DISTINCT is not served in UPPER"),
    ("SELECT RANK() FROM t", 8, "RANK needs OVER"),
    ("SELECT s[1] FROM t", 8, "expected an ARRAY or MAP before []"),
    ("SELECT a[0] FROM t", 1, ""),
    ("SELECT i FROM t WHERE i = (SELECT 1", 36, "expected ')'"),
    ("SELECT i FROM t WHERE", 22, ""),
    ("SELECT i FROM t GROUP BY i WITH CUBE", 1, ""),
    ("SELECT i FROM t LIMIT ALL", 1, ""),
    ("SELECT i FROM t LIMIT i", 23, "expected a number of rows"),
    ("SELECT i FROM t PIVOT (SUM(l) FOR s IN ('a'))", 1, ""),
    ("SELECT TOP 5 i FROM t", 1, ""),
    ("SELECT i FROM t QUALIFY i > 1", 25, "QUALIFY is not served here"),
    ("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, ts, INTERVAL '1' HOUR))", 28, "DESCRIPTOR(column)"),
    ("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts)))", 28, "TUMBLE needs the interval SIZE"),
    ("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH))", 28, "expected a positive interval"),
    ("SELECT INTERVAL '1' FORTNIGHT", 21, "the unit of an interval"),
    ("SELECT CAST(i AS) FROM t", 17, "a type"),
    ("SELECT EXTRACT(FORTNIGHT FROM ts) FROM t", 31, "EXTRACT takes"),
    ("SELECT i, FROM t", 1, ""),
    ("SELECT i FROM t;; SELECT", 24, ""),
]  # fmt: skip


def read(text: str) -> None:
    """Read a script and translate its queries, as a session does before it starts anything."""
    source = Source(text)
    for parsed in parse_script(text):
        statement = parsed.statement
        if isinstance(statement, CreateTable):
            try:
                declared_types(statement)
            except ValueError as error:
                raise source.error(str(error), statement.name.offset) from None
        inserts = statement.inserts if isinstance(statement, StatementSet) else [statement]
        for each in inserts:
            if isinstance(each, (Insert, Select)):
                translate_query(each.query, source, FakeBinder())


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_statement_is_accepted(text: str) -> None:
    read(text)


@pytest.mark.parametrize(("text", "column", "message"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_statement_is_refused_with_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(SqlError) as error:
        read(text)
    assert message in str(error.value)
    if message:
        assert (error.value.facts["line"], error.value.facts["column"]) == (1, column), str(error.value)
