"""Queries become Spark's SQL, or are refused with a place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SqlError
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.query.translate import translate_query, watermark_delay_ms
from tests.unit.sql.fake_binder import FakeBinder, in_spark, translated

EXPRESSIONS = [
    ("i", "`i`"),
    ("t.i", "`t`.`i`"),
    ("1.5", "1.5"),
    ("'it''s a \\ sign'", r"'it\'s a \\ sign'"),
    ("i + 1", "(`i` + 1)"),
    ("i / 2", "CAST((`i` div 2) AS INT)"),
    ("l / i", "CAST((`l` div `i`) AS BIGINT)"),
    ("(i + l) / 2", "CAST((((`i` + `l`)) div 2) AS BIGINT)"),
    ("d / 2", "(`d` / 2)"),
    ("p / i", "(`p` / `i`)"),
    ("i % 2", "CAST((`i` % 2) AS INT)"),
    ("-i", "(- `i`)"),
    ("s || 'x'", "(`s` || 'x')"),
    ("i <> 1 AND NOT b OR s IS NULL", "(((`i` <> 1) AND (NOT `b`)) OR (`s` IS NULL))"),
    ("i IS NOT DISTINCT FROM l", "(`i` <=> `l`)"),
    ("i = 1 IS NULL", "(((`i` = 1)) IS NULL)"),
    ("NOT i = 1 IS NOT TRUE", "(NOT (NOT (((`i` = 1)) IS TRUE)))"),
    ("b = i < 1", "(((`b` = `i`)) < 1)"),
    ("i > 1 = b = (l < 1) IS NOT NULL", "(NOT (((((((`i` > 1)) = `b`)) = ((`l` < 1)))) IS NULL))"),
    ("i BETWEEN 1 AND 2", "(`i` BETWEEN 1 AND 2)"),
    ("i IN (1, 2)", "(`i` IN (1, 2))"),
    ("s LIKE 'a%'", "(`s` LIKE 'a%')"),
    ("s LIKE 'a\\%'", r"(`s` LIKE replace('a\\%', '\\', '\\\\'))"),
    ("s LIKE 'a!%' ESCAPE '!'", "(`s` LIKE 'a!%' ESCAPE '!')"),
    ("CASE WHEN b THEN 1 ELSE 2 END", "CASE WHEN `b` THEN 1 ELSE 2 END"),
    ("CASE i WHEN 1 THEN 'a' END", "CASE `i` WHEN 1 THEN 'a' END"),
    ("a[i]", "get(`a`, CAST(`i` AS INT) - 1)"),
    ("m['k']", "try_element_at(`m`, 'k')"),
    ("ARRAY[1, 2]", "array(1, 2)"),
    ("MAP['a', 1]", "map('a', 1)"),
    ("ROW(1, s)", "named_struct('EXPR$0', 1, 'EXPR$1', `s`)"),
    (
        "CAST(s AS INT)",
        r"CAST(regexp_replace(regexp_replace(`s`, '^(\\s*[+-]?\\d+)\\.\\d*(\\s*)$', '$1'), "
        r"'^\\s*[+-]?\\.\\d+\\s*$', '0') AS INT)",
    ),
    ("TRY_CAST(s AS DECIMAL(10, 2))", "try_cast(`s` AS DECIMAL(10,2))"),
    ("CAST(i AS VARCHAR(3))", "substring(CAST(`i` AS STRING), 1, 3)"),
    ("CAST(i AS CHAR(3))", "rpad(CAST(`i` AS STRING), 3, ' ')"),
    ("CAST(s AS ARRAY<ROW<x INT>>)", "CAST(`s` AS ARRAY<STRUCT<`x`: INT>>)"),
    ("DATE '2026-01-02'", "DATE '2026-01-02'"),
    ("TIMESTAMP '2026-01-02 03:04:05'", "TIMESTAMP_NTZ '2026-01-02 03:04:05'"),
    ("ts + INTERVAL '5' MINUTES", "(`ts` + INTERVAL '5' MINUTE)"),
    ("INTERVAL -'1:30' HOUR TO MINUTE", "INTERVAL -'1:30' HOUR TO MINUTE"),
    ("CURRENT_TIMESTAMP", "current_timestamp()"),
    ("LOCALTIMESTAMP", "localtimestamp()"),
    ("UPPER(s)", "upper(`s`)"),
    ("SUBSTRING(s FROM 2 FOR 3)", "substring(`s`, 2, 3)"),
    (
        "SUBSTRING(s, i, l)",
        "CASE WHEN `l` IS NULL OR `l` < 0 THEN NULL WHEN `i` < - char_length(`s`) THEN '' "
        "ELSE substring(`s`, `i`, `l`) END",
    ),
    ("POSITION('x' IN s)", "locate('x', `s`)"),
    ("TRIM(LEADING 'x' FROM s)", "trim(LEADING 'x' FROM `s`)"),
    ("EXTRACT(DAY FROM ts)", "CAST(dayofmonth(`ts`) AS BIGINT)"),
    ("TIMESTAMPADD(HOUR, 2, ts)", "CAST(timestampadd(HOUR, 2, `ts`) AS TIMESTAMP_NTZ)"),
    (
        "TIMESTAMPDIFF(DAY, ts, ts)",
        "CAST(((CAST(`ts` AS TIMESTAMP_NTZ) - CAST(`ts` AS TIMESTAMP_NTZ)) div INTERVAL '1' DAY) AS INT)",
    ),
    ("CEIL(p)", "CAST(ceil(`p`) AS DECIMAL(10,0))"),
    ("FLOOR(ts TO HOUR)", "(`ts` - make_dt_interval(0, 0, minute(`ts`), extract(SECOND FROM `ts`)))"),
    ("DATE_FORMAT(ltz, 'yyyy-MM-dd')", "date_format(`ltz`, 'yyyy-MM-dd')"),
    (
        "DATE_FORMAT(ts, 'yyyy.SSS')",
        "concat(substring(CAST(CAST(`ts` AS TIMESTAMP_NTZ) AS STRING), 1, 4), '.', "
        "rpad(substring(CAST(CAST(`ts` AS TIMESTAMP_NTZ) AS STRING), 21, 3), 3, '0'))",
    ),
    ("TO_TIMESTAMP_LTZ(l, 3)", "timestamp_millis(`l`)"),
    ("GREATEST(i, l)", "CASE WHEN `i` IS NULL OR `l` IS NULL THEN NULL ELSE greatest(`i`, `l`) END"),
    ("SPLIT_INDEX(s, '.', 1)", r"CASE WHEN `s` <> '' AND 1 >= 0 THEN get(split(`s`, '\\Q.\\E'), 1) END"),
    ("SPLIT(s, ',')", r"if(`s` = '', CAST(array() AS ARRAY<STRING>), split(`s`, '\\Q,\\E'))"),
    ("SPLIT(s, '')", "if(`s` = '', CAST(array() AS ARRAY<STRING>), split(`s`, ''))"),
    ("STR_TO_MAP(s)", "if(`s` = '', CAST(map() AS MAP<STRING, STRING>), str_to_map(`s`, ',', '='))"),
    (
        "REGEXP_EXTRACT_ALL(s, 'x', 0)",
        "if(size(regexp_extract_all(`s`, 'x', 0)) > 0, regexp_extract_all(`s`, 'x', 0), NULL)",
    ),
    (
        "MAP_UNION(MAP['a', 1], MAP['b', 2])",
        "map_concat(map_filter(map('a', 1), (__k, __v) -> NOT map_contains_key(map('b', 2), __k)), map('b', 2))",
    ),
    ("FROM_BASE64(s)", "CAST(to_binary(`s`, 'base64') AS STRING)"),
    ("CAST(b AS STRING)", "CAST(upper(CAST(`b` AS STRING)) AS STRING)"),
    ("p / 2", "(`p` / CAST(2 AS INT))"),
    (
        "REGEXP_REPLACE(s, 'a', '$1')",
        r"regexp_replace(`s`, 'a', replace(replace('$1', '\\', '\\\\'), '$', '\\$'))",
    ),
    ("SUM(i)", "CAST(sum(`i`) AS INT)"),
    ("AVG(l)", "CAST(sum(`l`) div nullif(count(`l`), 0) AS BIGINT)"),
    (
        "AVG(p)",
        "CAST(CAST(sum(`p`) AS DECIMAL(38,2)) / nullif(CAST(count(`p`) AS DECIMAL(19,0)), 0) AS DECIMAL(38,6))",
    ),
    ("SUM(p) FILTER (WHERE b)", "CAST(sum(`p`) FILTER (WHERE `b`) AS DECIMAL(38,2))"),
    ("COUNT(*)", "count(*)"),
    ("COUNT(DISTINCT i)", "count(DISTINCT `i`)"),
    (
        "SUM(i) OVER (PARTITION BY s ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "CAST(sum(`i`) OVER (PARTITION BY `s` ORDER BY `ts` NULLS FIRST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS INT)",
    ),
    (
        "ROW_NUMBER() OVER (ORDER BY i DESC)",
        "CAST(row_number() OVER (ORDER BY `i` DESC NULLS LAST) AS BIGINT)",
    ),
    ("py_upper(s)", "`py_upper`(`s`)"),
]


@pytest.mark.parametrize(("flink", "expected"), EXPRESSIONS, ids=[each[0] for each in EXPRESSIONS])
def test_an_expression(flink: str, expected: str) -> None:
    assert in_spark(flink) == expected


_W = "(SELECT *, window(`ts`, '600000 milliseconds', '600000 milliseconds') AS `__window` FROM `t`)"
_START = "CAST(`__window`.start AS TIMESTAMP_NTZ)"
_END = "CAST(`__window`.end AS TIMESTAMP_NTZ)"
QUERIES = [
    ("SELECT i, s AS x FROM t WHERE i > 1", "SELECT `i` AS `i`, `s` AS `x` FROM `t` AS `t` WHERE (`i` > 1)"),
    ("SELECT * FROM t AS y LIMIT 3", "SELECT * FROM `t` AS `y` LIMIT 3"),
    ("SELECT y.*, 1 FROM `T T` y", "SELECT `y`.*, 1 AS `EXPR$1` FROM `T T` AS `y`"),
    ("SELECT 1", "SELECT 1 AS `EXPR$0`"),
    ("VALUES (1, 'a'), (2, 'b')", "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS `_`(`EXPR$0`, `EXPR$1`)"),
    (
        "WITH x AS (SELECT i FROM t) SELECT i / 2 AS h FROM x",
        "WITH `__with0_x` AS (SELECT `i` AS `i` FROM `t` AS `t`) "
        "SELECT CAST((`i` div 2) AS INT) AS `h` FROM `__with0_x` AS `x`",
    ),
    (
        "SELECT t.i FROM t JOIN u ON t.i = u.i AND t.ts > u.ts",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` INNER JOIN `u` AS `u` ON ((`t`.`i` = `u`.`i`) AND (`t`.`ts` > `u`.`ts`))",
    ),
    (
        "SELECT i FROM t LEFT JOIN u USING (i)",
        "SELECT `i` AS `i` FROM `t` AS `t` LEFT OUTER JOIN `u` AS `u` USING (`i`)",
    ),
    (
        "SELECT x FROM t CROSS JOIN UNNEST(a) AS e (x)",
        "SELECT `x` AS `x` FROM `t` AS `t` CROSS JOIN LATERAL explode(`a`) AS `e`(`x`)",
    ),
    (
        "SELECT x, y FROM t LEFT JOIN UNNEST(t.r) AS e ON TRUE",
        "SELECT `x` AS `x`, `y` AS `y` FROM `t` AS `t` CROSS JOIN LATERAL inline_outer(`t`.`r`) AS `e`",
    ),
    (
        "SELECT i FROM t UNION ALL SELECT i FROM u",
        "(SELECT `i` AS `i` FROM `t` AS `t`) UNION ALL (SELECT `i` AS `i` FROM `u` AS `u`)",
    ),
    (
        "SELECT window_start, window_end, s, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, s",
        f"SELECT {_START} AS `window_start`, {_END} AS `window_end`, `s` AS `s`, count(*) AS `n` FROM {_W} AS `_window` "
        "GROUP BY `__window`, `s`",
    ),
    (
        "SELECT window_start FROM TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTE)",
        f"SELECT `window_start` AS `window_start` FROM (SELECT * EXCEPT (`__window`), {_START} AS window_start, {_END} AS "
        f"window_end, (`__window`.end - INTERVAL '0.001' SECOND) AS window_time FROM {_W}) AS `_window`",
    ),
    (
        "SELECT s, window_time, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) "
        "GROUP BY window_start, window_end, window_time, s",
        "SELECT `s` AS `s`, (`__window`.end - INTERVAL '0.001' SECOND) AS `window_time`, count(*) AS `n` "
        f"FROM {_W} AS `_window` GROUP BY `__window`, `s`",
    ),
    (
        "SELECT s, SESSION_START(ts, INTERVAL '1' HOUR) AS b FROM t GROUP BY s, SESSION(ts, INTERVAL '1' HOUR)",
        "SELECT `s` AS `s`, CAST(session_window.start AS TIMESTAMP_NTZ) AS `b` FROM `t` AS `t` GROUP BY `s`, "
        "session_window(`ts`, '3600000 milliseconds')",
    ),
    (
        "SELECT HOP_END(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR) AS e FROM t "
        "GROUP BY HOP(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
        "SELECT CAST(window.end AS TIMESTAMP_NTZ) AS `e` FROM `t` AS `t` GROUP BY "
        "window(`ts`, '3600000 milliseconds', '60000 milliseconds')",
    ),
]


@pytest.mark.parametrize(("flink", "expected"), QUERIES, ids=[each[0] for each in QUERIES])
def test_a_query(flink: str, expected: str) -> None:
    found = translated(flink)
    assert found.sql == expected
    assert not found.batch_only
    assert found.rows.changes is None


@pytest.mark.parametrize(
    ("function", "window"),
    [
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '15' MINUTE, INTERVAL '0' MINUTE)",
            "'900000 milliseconds', '900000 milliseconds'",
        ),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '15' MINUTE, INTERVAL '-1' MINUTE)",
            "'900000 milliseconds', '900000 milliseconds', '840000 milliseconds'",
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE, INTERVAL -'7' MINUTE)",
            "'900000 milliseconds', '300000 milliseconds', '180000 milliseconds'",
        ),
    ],
)
def test_a_window_with_an_offset(function: str, window: str) -> None:
    sql = translated(f"SELECT window_start FROM TABLE({function}) GROUP BY window_start, window_end").sql
    rows = f"SELECT *, window(`ts`, {window}) AS `__window` FROM `t`"
    assert sql == f"SELECT {_START} AS `window_start` FROM ({rows}) AS `_window` GROUP BY `__window`"


def test_rows_are_left_out_in_a_batch() -> None:
    found = translated("SELECT i FROM t ORDER BY i LIMIT 3 OFFSET 2")
    assert found.sql.endswith(" LIMIT 3 OFFSET 2")
    assert [each.name for each in found.batch_only] == ["ORDER BY", "OFFSET without LIMIT"]
    with pytest.raises(SqlError, match="Write LIMIT count OFFSET start"):
        translated("SELECT i FROM t LIMIT 5, 10")


def test_grouping_is_a_bit_for_each_column() -> None:
    sql = translated("SELECT GROUPING(s, i) AS g, COUNT(*) AS n FROM t GROUP BY ROLLUP (s, i)").sql
    bits = "(CAST(grouping(`i`) AS BIGINT) * 1 + CAST(grouping(`s`) AS BIGINT) * 2)"
    assert sql.startswith(f"SELECT {bits} AS `g`, ")


def test_the_rows_of_an_array_have_numbers() -> None:
    sql = translated("SELECT i FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS e (x, n)").sql
    rows = "inline(transform(`a`, (e, i) -> named_struct('f0', e, 'o', i + 1)))"
    assert sql.endswith(f"CROSS JOIN LATERAL {rows} AS `e`(`x`, `n`)")
    with pytest.raises(SqlError, match="WITH ORDINALITY needs names"):
        translated("SELECT i FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY")


def test_a_table_function_of_the_user() -> None:
    sql = translated("SELECT i, w FROM t, LATERAL TABLE(py_upper(s, 2)) AS f (w)").sql
    assert (
        sql == "SELECT `i` AS `i`, `w` AS `w` FROM `t` AS `t` CROSS JOIN LATERAL py_upper(`s`, 2) AS `f`(`w`)"
    )
    sql = translated("SELECT f.* FROM t LEFT JOIN LATERAL TABLE(py_upper(s)) AS f ON TRUE").sql
    assert sql.endswith("`t` LEFT JOIN LATERAL py_upper(`s`) AS `f` ON TRUE")
    for query, message in (
        ("SELECT i FROM t, LATERAL TABLE(split(s)) AS f (w)", "there is no table function 'split'"),
        (
            "SELECT t.i FROM t, LATERAL (SELECT i FROM u) AS f",
            "needs a comparison by = with the rows before it",
        ),
        (
            "SELECT i FROM t LEFT JOIN LATERAL TABLE(py_upper(s)) AS f ON i = 1",
            "LATERAL is served with CROSS",
        ),
    ):
        with pytest.raises(SqlError, match=message):
            translated(query)


def test_a_hop_of_many_windows_does_not_write_them_into_the_plan() -> None:
    hop = (
        "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '{}' SECOND, INTERVAL '5' MINUTE, INTERVAL '3' SECOND))"
    )
    query = "SELECT window_end FROM {} GROUP BY window_start, window_end"
    assert " window(" in translated(query.format(hop.format(10))).sql
    sql = translated(query.format(hop.format(1))).sql
    time = "unix_micros(CAST(`ts` AS TIMESTAMP))"
    last = f"{time} - pmod({time} - 3000000, 1000000)"
    assert f"explode(sequence({last} - 299000000, {last}, 1000000L))" in sql
    assert "'end', timestamp_micros(`__step` + 300000000)) AS `__window`" in sql


def test_a_cumulated_window() -> None:
    sql = translated(
        "SELECT window_start FROM TABLE(CUMULATE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '5' MINUTE, "
        "SIZE => INTERVAL '15' MINUTE, `OFFSET` => INTERVAL '7' MINUTE)) GROUP BY window_start, window_end"
    ).sql
    time = "unix_micros(CAST(`ts` AS TIMESTAMP))"
    passed = f"pmod({time} - 420000000, 900000000)"
    start = f"timestamp_micros({time} - {passed})"
    stop = f"timestamp_micros({time} - {passed} + `__step` * 300000000)"
    assert sql == (
        f"SELECT {_START} AS `window_start` FROM (SELECT * EXCEPT (`__step`) FROM (SELECT *, named_struct('start', {start}, "
        f"'end', {stop}) AS `__window` FROM `t` LATERAL VIEW explode(sequence({passed} div 300000000 + 1, 3L)) `__steps` AS "
        "`__step`)) AS `_window` GROUP BY `__window`"
    )


def test_a_named_window_stands_in_each_call() -> None:
    sql = translated(
        "SELECT SUM(l) OVER w AS a, COUNT(*) OVER W AS b FROM t WINDOW w AS (PARTITION BY s ORDER BY i), "
        "W AS (ORDER BY i ROWS 2 PRECEDING)"
    ).sql
    assert sql == (
        "SELECT CAST(sum(`l`) OVER (PARTITION BY `s` ORDER BY `i` NULLS FIRST) AS BIGINT) AS `a`, count(*) OVER "
        "(ORDER BY `i` NULLS FIRST ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS `b` FROM `t` AS `t`"
    )


NAMES_OF_WITH = [
    ("WITH T AS (SELECT l FROM u) SELECT i FROM t", "FROM `t` AS `t`"),
    ("WITH t AS (SELECT i FROM t) SELECT i FROM t", "FROM `__with0_t` AS `t`"),
    ("WITH t AS (SELECT i FROM t) SELECT i FROM d.t", "FROM `t` AS `t`"),
    ("WITH x AS (SELECT i FROM t), X AS (SELECT i FROM x) SELECT i FROM X", "FROM `__with1_X` AS `X`"),
    (
        "WITH x AS (SELECT i FROM t) SELECT a.i FROM (WITH x AS (SELECT i FROM u) SELECT i FROM x) AS a, x",
        "FROM (WITH `__with1_x` AS (SELECT `i` AS `i` FROM `u` AS `u`) SELECT `i` AS `i` FROM `__with1_x` AS `x`) "
        "AS `a` CROSS JOIN `__with0_x` AS `x`",
    ),
    (
        "WITH x AS (WITH y AS (SELECT i FROM t) SELECT i FROM y) SELECT i FROM x",
        "FROM `__with1_x` AS `x`",
    ),
]


@pytest.mark.parametrize(("flink", "end"), NAMES_OF_WITH, ids=[each[0] for each in NAMES_OF_WITH])
def test_a_name_of_with_has_its_case_and_hides_a_table(flink: str, end: str) -> None:
    """Spark compares names without their case, so each query of WITH has a name of its own there."""
    assert translated(flink).sql.endswith(end)


WRONG = [
    ("SELECT SUM(i) OVER v FROM t WINDOW w AS (ORDER BY i)", 8, "there is no window 'v' in WINDOW"),
    ("SELECT SUM(i) OVER w FROM t", 8, "there is no window 'w' in WINDOW"),
    (
        "SELECT SUM(i) OVER (w ORDER BY i) FROM t WINDOW w AS (PARTITION BY s)",
        8,
        "adds something to the window 'w'",
    ),
    ("WITH x AS (SELECT i FROM t) SELECT i FROM X", 43, "there is no table or view 'X'. Did you mean 'x'?"),
    ("WITH x AS (SELECT i FROM t), x AS (SELECT 1) SELECT i FROM x", 30, "WITH names 'x' twice"),
    ("SELECT i FROM (WITH x AS (SELECT i FROM t) SELECT i FROM x), x", 62, "there is no table or view 'x'"),
    ("SELECT foo(i) FROM t", 8, "the function foo is not one of those that are served"),
    ("SELECT UPER(s) FROM t", 8, "Did you mean 'UPPER'?"),
    ("SELECT UPPER(s, s) FROM t", 8, "UPPER takes 1 arguments, got 2"),
    ("SELECT JSON_STRING(m) FROM t", 8, "JSON of the type MAP<STRING,INT> is not served"),
    ("SELECT COLLECT(s) FROM t", 8, "Use ARRAY_AGG"),
    ("SELECT ROW_NUMBER() FROM t", 8, "ROW_NUMBER needs OVER"),
    ("SELECT DATE_FORMAT(ts, 'EEE') FROM t", 8, "Spark reads other letters differently"),
    ("SELECT i FROM T", 15, "there is no table or view 'T'. Did you mean 't'?"),
    ("SELECT CAST(i AS INTT) FROM t", 18, "expected a type, got 'INTT'"),
    ("SELECT CAST(i AS TIME) FROM t", 18, "TIME is not served"),
    ("SELECT CAST(i AS TIMESTAMP(9)) FROM t", 18, "Spark keeps microseconds"),
    ("SELECT TIME '10:00:00' FROM t", 13, "TIME is not served here"),
    ("SELECT CAST(ts AS STRING) FROM t", 13, "or DATE_FORMAT"),
    ("SELECT CAST(m AS STRING) FROM t", 13, "a CAST of MAP<STRING,INT> to a text is not served"),
    ("SELECT CONCAT(s, b) FROM t", 8, "CONCAT: expected a STRING, got BOOLEAN"),
    ("SELECT FLOOR(ts TO EPOCH) FROM t", 14, "after TO, got EPOCH"),
    ("SELECT STDDEV_POP(i) FROM t", 8, "expected a DOUBLE, got INT"),
    ("SELECT i || 'x' FROM t", 8, "expected two STRINGs beside ||"),
    ("SELECT s / 2 FROM t", 8, "expected a number, got STRING"),
    ("SELECT i FROM t GROUP a", 23, "did not expect 'a' here"),
    ("SELECT (i FROM t", 11, "expected ')', got 'FROM'"),
    ("SELECT FROM t", 13, "SELECT has no columns"),
    ("SELECT i FROM t TABLESAMPLE BERNOULLI (10)", 40, "is not served"),
    ("SELECT i FROM t FOR SYSTEM_TIME AS OF ts", 15, "FOR SYSTEM_TIME AS OF stands behind the right table"),
    ("SELECT i FROM t, LATERAL TABLE(f(i)) AS x(y)", 1, ""),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS TRUE)", 1, ""),
    ("SELECT /*+ STATE_TTL('x' = '1d') */ i FROM t", 8, "STATE_TTL names 'x', which is not a table of FROM"),
    ("SELECT /*+ STATE_TTL('t' : '1d') */ i FROM t", 26, "expected '=', got ':'"),
    (
        "SELECT i /*+ OPTIONS('a' = 'b') */ FROM t",
        10,
        "OPTIONS has to stand directly behind the name of a table",
    ),
    (
        "SELECT window_start FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' HOUR, INTERVAL '5' HOUR))",
        32,
        "the size of CUMULATE has to be a multiple of its step",
    ),
    (
        "SELECT window_start FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        32,
        "CUMULATE needs the interval SIZE",
    ),
    (
        "SELECT i FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '-60' MINUTE))",
        21,
        "the offset of TUMBLE has to be less than its size",
    ),
    (
        "SELECT i FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, 5))",
        21,
        "expected an interval of days, hours, minutes or seconds as the offset",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY CUMULATE(ts, INTERVAL '1' HOUR, INTERVAL '1' DAY)",
        33,
        "CUMULATE is a table function",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR, INTERVAL '1' MINUTE)",
        33,
        "TUMBLE takes a time column and an interval",
    ),
    (
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start",
        89,
        "GROUP BY needs both window_start and window_end",
    ),
    (
        "SELECT COUNT(*) FROM TABLE(SESSION(TABLE t PARTITION BY i, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end, s",
        105,
        "have to be the same",
    ),
    (
        "SELECT COUNT(*) FROM TABLE(TUMBLE(t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY 1",
        28,
        "`TABLE name`",
    ),
    ("SELECT TIMESTAMPADD(HOUR, 1, day) FROM t", 27, "TIMESTAMPADD of HOUR to a DATE is not served"),
    ("SELECT i FROM t LEFT JOIN u", 27, "a LEFT JOIN needs ON or USING"),
    ("SELECT i FROM t FETCH FIRST 5 PERCENT ROWS ONLY", 1, ""),
    ("SELECT i FROM t ORDER BY i FETCH FIRST 5 ROWS WITH TIES", 1, ""),
    (
        "SELECT COUNT(*) FROM t GROUP BY HOP(ts, INTERVAL '7' MINUTE, INTERVAL '1' HOUR)",
        33,
        "a multiple of its slide",
    ),
    (
        "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        8,
        "TUMBLE_START has other intervals",
    ),
    ("SELECT i; SELECT i", 1, ""),
    ("SELECT x.nope / 2 FROM t x", 1, "Spark cannot tell the type of `x`.`nope`"),
]


@pytest.mark.parametrize(("query", "column", "message"), WRONG, ids=[each[0] for each in WRONG])
def test_a_query_that_is_not_served_is_refused_with_its_place(query: str, column: int, message: str) -> None:
    with pytest.raises(SqlError) as error:
        translated(query)
    assert message in str(error.value)
    if message:
        assert error.value.facts["column"] == column, str(error.value)


QUALIFIED = [
    (
        "SELECT s FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY i) = 1 AND l > 1 ORDER BY s",
        "SELECT * EXCEPT (`__qualify0`, `__qualify1`) FROM (SELECT `s` AS `s`, CAST(row_number() OVER (PARTITION "
        "BY `s` ORDER BY `i` NULLS FIRST) AS BIGINT) AS `__qualify0`, (`l` > 1) AS `__qualify1` FROM `t` AS `t`) "
        "AS `__qualified` WHERE ((`__qualify0` = 1) AND `__qualify1`) ORDER BY `s` NULLS FIRST",
    ),
    (
        "SELECT DISTINCT *, RANK() OVER (ORDER BY i) AS n FROM t QUALIFY n < 3",
        "SELECT DISTINCT * FROM (SELECT *, CAST(rank() OVER (ORDER BY `i` NULLS FIRST) AS BIGINT) AS `n` "
        "FROM `t` AS `t`) AS `__qualified` WHERE (`n` < 3)",
    ),
]


@pytest.mark.parametrize(("flink", "expected"), QUALIFIED, ids=[each[0] for each in QUALIFIED])
def test_qualify_is_a_query_around_with_where(flink: str, expected: str) -> None:
    assert translated(flink).sql == expected


BATCH_ONLY = [
    ("SELECT APPROX_COUNT_DISTINCT(i) FROM t", "APPROX_COUNT_DISTINCT"),
    ("SELECT ROW_NUMBER() OVER (ORDER BY i) AS n FROM t", "OVER"),
    ("SELECT i FROM t ORDER BY i", "ORDER BY"),
    ("SELECT i FROM t WHERE i IN (SELECT i FROM u)", "IN (SELECT ...)"),
    ("SELECT i FROM t WHERE EXISTS (SELECT 1 FROM u)", "EXISTS"),
]


@pytest.mark.parametrize(("query", "name"), BATCH_ONLY)
def test_parts_that_only_a_batch_can_run_are_listed(query: str, name: str) -> None:
    assert [each.name for each in translated(query).batch_only] == [name]


def test_a_query_behind_in_is_no_single_value() -> None:
    sql = translated("SELECT i FROM t WHERE i NOT IN (SELECT i FROM u)").sql
    assert sql.endswith("WHERE (NOT (`i` IN (SELECT `i` AS `i` FROM `u` AS `u`)))")
    sql = translated("SELECT i FROM t WHERE (i, s) IN (SELECT i, s FROM u)").sql
    assert sql.endswith("WHERE ((`i`, `s`) IN (SELECT `i` AS `i`, `s` AS `s` FROM `u` AS `u`))")


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("GROUPING SETS ((s, i), (s), ())", "GROUPING SETS ((`s`, `i`), (`s`), ())"),
        ("CUBE (s, i)", "CUBE ((`s`), (`i`))"),
        ("ROLLUP (s, i)", "ROLLUP ((`s`), (`i`))"),
    ],
)
def test_sets_of_groups(group: str, expected: str) -> None:
    assert translated(f"SELECT COUNT(*) AS n FROM t GROUP BY {group}").sql.endswith(f" GROUP BY {expected}")


def test_options_of_a_hint_go_to_their_table() -> None:
    binder = FakeBinder()
    translated("SELECT * FROM t /*+ OPTIONS('a' = 'b') */ x JOIN u ON x.i = u.i", binder)
    assert binder.options == [(("a", "b"),), ()]


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("ts", 0),
        ("ts - INTERVAL '5' SECOND", 5_000),
        ("ts - INTERVAL '0.5' SECONDS", 500),
        ("ts - INTERVAL '1' DAY", 86_400_000),
    ],
)
def test_a_watermark(text: str, delay_ms: int) -> None:
    assert watermark_delay_ms(Fragment(text), "ts", Source(text)) == delay_ms


@pytest.mark.parametrize("text", ["x", "ts + INTERVAL '5' SECOND", "ts - INTERVAL '1' MONTH", "f(ts)"])
def test_a_watermark_that_spark_cannot_follow_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="Spark's watermark is the newest time less a fixed delay"):
        watermark_delay_ms(Fragment(text), "ts", Source(text))


def test_a_long_and_a_deep_query_end_without_a_traceback() -> None:
    with pytest.raises(SqlError, match="nested too deeply"):
        translated(f"SELECT {' + '.join(['i'] * 5_000)} FROM t")


PIECES = [part for flink, _ in [*QUERIES, *EXPRESSIONS] for part in flink.split(" ")]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_no_text_ends_in_anything_but_a_query_or_a_place(words: list[str]) -> None:
    query = f"SELECT {' '.join(words)} FROM t"
    try:
        translate_query(Fragment(query), Source(query), FakeBinder())
    except SqlError as error:
        check_place(error)


def check_place(error: SqlError) -> None:
    assert str(error).startswith("Line ")
