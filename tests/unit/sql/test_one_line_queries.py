"""Queries of one line: what each becomes in Spark's SQL, or the message at the place of the mistake."""

from __future__ import annotations

import pytest

from penstock.errors import SqlError
from tests.unit.sql.fake_binder import translated

TRANSLATED = [
    (
        "SELECT 'it''s' FROM t",
        "SELECT 'it\\'s' AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT TIMESTAMP_LTZ '2026-01-01 00:00:00' FROM t",
        "SELECT TIMESTAMP_LTZ '2026-01-01 00:00:00' AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT INTERVAL '1' DAY FROM t",
        "SELECT INTERVAL '1' DAY AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT INTERVAL '1-2' YEAR TO MONTH FROM t",
        "SELECT INTERVAL '1-2' YEAR TO MONTH AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT INTERVAL '1 2' DAY TO HOUR FROM t",
        "SELECT INTERVAL '1 2' DAY TO HOUR AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT NULL FROM t",
        "SELECT NULL AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT i != 1 FROM t",
        "SELECT (`i` <> 1) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT s NOT LIKE 'a%' FROM t",
        "SELECT (`s` NOT LIKE 'a%') AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT s IN ('a', 'b'), s NOT IN ('c') FROM t",
        "SELECT (`s` IN ('a', 'b')) AS `EXPR$0`, (NOT (`s` IN ('c'))) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT i BETWEEN 2 AND 1 FROM t",
        "SELECT (`i` BETWEEN 2 AND 1) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT i NOT BETWEEN 1 AND 2 FROM t",
        "SELECT (NOT (`i` BETWEEN 1 AND 2)) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT ts + INTERVAL '1' MONTH FROM t",
        "SELECT (`ts` + INTERVAL '1' MONTH) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT CAST(i AS STRING) FROM t",
        "SELECT CAST(`i` AS STRING) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT CAST(i AS BOOLEAN), CAST(b AS INT) FROM t",
        "SELECT CAST(`i` AS BOOLEAN) AS `EXPR$0`, CAST(`b` AS INT) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT CAST(a AS ARRAY<BIGINT>) FROM t",
        "SELECT CAST(`a` AS ARRAY<BIGINT>) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT IF(b, 1, 2), IFNULL(i, 0), IFNULL(s, 'x') FROM t",
        "SELECT if(`b`, 1, 2) AS `EXPR$0`, coalesce(`i`, 0) AS `EXPR$1`, coalesce(`s`, 'x') AS `EXPR$2` FROM `t` AS `t`",
    ),
    (
        "SELECT a[1], m['k'], a[i] FROM t",
        "SELECT get(`a`, CAST(1 AS INT) - 1) AS `EXPR$0`, try_element_at(`m`, 'k') AS `EXPR$1`, get(`a`, CAST(`i` AS INT) - 1) AS `EXPR$2` FROM `t` AS `t`",
    ),
    (
        "SELECT r[1].x FROM t",
        "SELECT get(`r`, CAST(1 AS INT) - 1).`x` AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT SUBSTRING(s FROM 2), SUBSTR(s, 2, 3) FROM t",
        "SELECT substring(`s`, 2) AS `EXPR$0`, substring(`s`, 2, 3) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT TRIM(BOTH ' ' FROM s), TRIM(s), TRIM(TRAILING FROM s) FROM t",
        "SELECT trim(BOTH ' ' FROM `s`) AS `EXPR$0`, trim(`s`) AS `EXPR$1`, trim(TRAILING ' ' FROM `s`) AS `EXPR$2` FROM `t` AS `t`",
    ),
    (
        "SELECT OVERLAY(s PLACING 'x' FROM 2 FOR 1) FROM t",
        "SELECT CASE WHEN `s` RLIKE '[\\\\x{10000}-\\\\x{10FFFF}]' THEN raise_error('OVERLAY: a character beyond "
        "U+FFFF is not served, because Flink counts it as two') ELSE overlay(`s`, 'x', 2, 1) END AS `EXPR$0` "
        "FROM `t` AS `t`",
    ),
    (
        "SELECT POSITION('x' IN s) FROM t",
        "SELECT locate('x', `s`) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT CONCAT_WS(',', s, s) FROM t",
        "SELECT concat_ws(',', `s`, `s`) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT TO_TIMESTAMP_LTZ(l) FROM t",
        "SELECT timestamp_millis(`l`) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT FROM_UNIXTIME(l) FROM t",
        "SELECT from_unixtime(`l`) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT YEAR(day), MONTH(ts), DAYOFYEAR(day), HOUR(ts) FROM t",
        "SELECT CAST(year(`day`) AS BIGINT) AS `EXPR$0`, CAST(month(`ts`) AS BIGINT) AS `EXPR$1`, CAST(dayofyear(`day`) AS BIGINT) AS `EXPR$2`, CAST(hour(`ts`) AS BIGINT) AS `EXPR$3` FROM `t` AS `t`",
    ),
    (
        "SELECT CURRENT_TIMESTAMP, CURRENT_DATE, LOCALTIMESTAMP, NOW(), PROCTIME() FROM t",
        "SELECT current_timestamp() AS `EXPR$0`, current_date() AS `EXPR$1`, localtimestamp() AS `LOCALTIMESTAMP`, current_timestamp() AS `EXPR$3`, current_timestamp() AS `EXPR$4` FROM `t` AS `t`",
    ),
    (
        "SELECT CURRENT_ROW_TIMESTAMP() FROM t",
        "SELECT current_timestamp() AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT REGEXP_EXTRACT(s, 'a(b)', 1) FROM t",
        "SELECT CASE WHEN `s` RLIKE 'a(b)' THEN regexp_extract(`s`, 'a(b)', 1) END AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT SHA2(s, 256), MD5(s) FROM t",
        "SELECT sha2(`s`, 256) AS `EXPR$0`, md5(`s`) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT SUM(DISTINCT i), AVG(DISTINCT l) FROM t",
        "SELECT CAST(sum(DISTINCT `i`) AS INT) AS `EXPR$0`, CAST(sum(DISTINCT `l`) div nullif(count(DISTINCT `l`), 0) AS BIGINT) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT SUM(i) FILTER (WHERE b) FROM t",
        "SELECT CAST(sum(`i`) FILTER (WHERE `b`) AS INT) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY ROLLUP (i, s), CUBE (l)",
        "SELECT count(*) AS `EXPR$0` FROM `t` AS `t` GROUP BY ROLLUP ((`i`), (`s`)), CUBE ((`l`))",
    ),
    (
        "SELECT COUNT(*) FROM t GROUP BY GROUPING SETS (i, (i, s))",
        "SELECT count(*) AS `EXPR$0` FROM `t` AS `t` GROUP BY GROUPING SETS ((`i`), (`i`, `s`))",
    ),
    (
        "SELECT COUNT(*) FROM t HAVING COUNT(*) > 1",
        "SELECT count(*) AS `EXPR$0` FROM `t` AS `t` HAVING (count(*) > 1)",
    ),
    (
        "SELECT LISTAGG(s, ','), LISTAGG(DISTINCT s) FROM t",
        "SELECT listagg(`s`, ',') AS `EXPR$0`, listagg(DISTINCT `s`, ',') AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT FIRST_VALUE(i), LAST_VALUE(i) FROM t",
        "SELECT first(`i`, true) AS `EXPR$0`, last(`i`, true) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT STDDEV(d), VARIANCE(d) FROM t",
        "SELECT stddev_samp(`d`) AS `EXPR$0`, var_samp(`d`) AS `EXPR$1` FROM `t` AS `t`",
    ),
    (
        "SELECT t.*, i AS i FROM t",
        "SELECT `t`.*, `i` AS `i` FROM `t` AS `t`",
    ),
    (
        "SELECT i i, l AS `l l` FROM t",
        "SELECT `i` AS `i`, `l` AS `l l` FROM `t` AS `t`",
    ),
    (
        "SELECT DISTINCT i, s FROM t",
        "SELECT DISTINCT `i` AS `i`, `s` AS `s` FROM `t` AS `t`",
    ),
    (
        "SELECT t.i FROM t, u",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` CROSS JOIN `u` AS `u`",
    ),
    (
        "SELECT (SELECT MAX(i) FROM u) FROM t",
        "SELECT (SELECT max(`i`) AS `EXPR$0` FROM `u` AS `u`) AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT i FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.i = t.i)",
        "SELECT `i` AS `i` FROM `t` AS `t` WHERE (NOT EXISTS (SELECT 1 AS `EXPR$0` FROM `u` AS `u` WHERE (`u`.`i` = `t`.`i`)))",
    ),
    (
        "SELECT i FROM t ORDER BY 1",
        "SELECT `i` AS `i` FROM `t` AS `t` ORDER BY 1 NULLS FIRST",
    ),
    (
        "SELECT i FROM t ORDER BY i ASC NULLS FIRST, l DESC",
        "SELECT `i` AS `i` FROM `t` AS `t` ORDER BY `i` NULLS FIRST, `l` DESC NULLS LAST",
    ),
    (
        "SELECT i FROM t LIMIT 0",
        "SELECT `i` AS `i` FROM `t` AS `t` LIMIT 0",
    ),
    (
        "SELECT t.i FROM t JOIN u USING (i)",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` INNER JOIN `u` AS `u` USING (`i`)",
    ),
    (
        "SELECT t.i FROM t NATURAL LEFT JOIN u",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` NATURAL LEFT OUTER JOIN `u` AS `u`",
    ),
    (
        "SELECT t.i FROM t LEFT OUTER JOIN u ON t.i = u.i AND t.ts BETWEEN u.ts - INTERVAL '1' HOUR AND u.ts",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` LEFT OUTER JOIN `u` AS `u` ON ((`t`.`i` = `u`.`i`) AND (`t`.`ts` BETWEEN (`u`.`ts` - INTERVAL '1' HOUR) AND `u`.`ts`))",
    ),
    (
        "SELECT x FROM t, UNNEST(a) AS e (x)",
        "SELECT `x` AS `x` FROM `t` AS `t` CROSS JOIN LATERAL explode(`a`) AS `e`(`x`)",
    ),
    (
        "SELECT TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR), TUMBLE_END(ts, INTERVAL '1' HOUR) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        "SELECT (window.end - INTERVAL '0.001' SECOND) AS `EXPR$0`, CAST(window.end AS TIMESTAMP_NTZ) AS `EXPR$1` FROM `t` AS `t` GROUP BY window(`ts`, '3600000 milliseconds', '3600000 milliseconds')",
    ),
    (
        "SELECT /*+ BROADCAST(u) */ t.i FROM t JOIN u ON t.i = u.i",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` INNER JOIN `u` AS `u` ON (`t`.`i` = `u`.`i`)",
    ),
    (
        "SELECT /*+ LOOKUP('table'='u') */ t.i FROM t JOIN u ON t.i = u.i",
        "SELECT `t`.`i` AS `i` FROM `t` AS `t` INNER JOIN `u` AS `u` ON (`t`.`i` = `u`.`i`)",
    ),
    (
        "SELECT i FROM t /*+ OPTIONS('a' = 'b') */ AS x",
        "SELECT `i` AS `i` FROM `t` AS `x`",
    ),
    (
        "SELECT i FROM t INTERSECT ALL SELECT i FROM u",
        "(SELECT `i` AS `i` FROM `t` AS `t`) INTERSECT ALL (SELECT `i` AS `i` FROM `u` AS `u`)",
    ),
    (
        "WITH w (x, y) AS (SELECT i, l FROM t) SELECT x FROM w",
        "WITH `__with0_w`(`x`, `y`) AS (SELECT `i` AS `i`, `l` AS `l` FROM `t` AS `t`) SELECT `x` AS `x` FROM `__with0_w` AS `w`",
    ),
    (
        "SELECT CASE WHEN b THEN i ELSE NULL END FROM t",
        "SELECT CASE WHEN `b` THEN `i` ELSE NULL END AS `EXPR$0` FROM `t` AS `t`",
    ),
    (
        "SELECT i IN (1, NULL), s BETWEEN 'a' AND 'b' FROM t",
        "SELECT (`i` IN (1, NULL)) AS `EXPR$0`, (`s` BETWEEN 'a' AND 'b') AS `EXPR$1` FROM `t` AS `t`",
    ),
]  # fmt: skip

REFUSED = [
    ("SELECT , i FROM t", 8, "expected something before the comma, got ','."),
    ("SELECT i,, l FROM t", 10, "expected something before the comma, got ','."),
    ("SELECT ABS(, i) FROM t", 12, "expected something before the comma, got ','."),
    ("SELECT i FROM ..t", 17, "expected a name between two dots."),
    ("SELECT i FROM t ORDER BY , i", 26, "expected something before the comma, got ','."),
    ("SELECT JSON_VALUE(s, '$.a' DEFAULT ON EMPTY) FROM t", 36, "expected a value, got 'ON'."),
    ("SELECT TRIM(FROM) FROM t", 17, "expected a value, got ')'."),
    ("SELECT POSITION('x' IN) FROM t", 23, "expected a value, got ')'."),
    ("SELECT CAST( AS INT) FROM t", 14, "expected a value, got 'AS'."),
    ("SELECT EXTRACT(YEAR FROM) FROM t", 25, "expected a value, got ')'."),
    ("SELECT f(x => ) FROM t", 15, "expected a value, got ')'."),
    ("SELECT x'00ff' FROM t", 9, "did not expect '00ff' here."),
    ("SELECT U&'\\\\0041' FROM t", 8, "& is not served here."),
    ("SELECT _UTF16'a' FROM t", 14, "did not expect 'a' here."),
    ("SELECT 'a' 'b' FROM t", 8, "a text behind a text is not served here."),
    ("SELECT \"a\" FROM t", 8, "expected a text in single quotes or a name in backticks,"),
    ("SELECT DATE '2026-13-01' FROM t", 13, "expected a DATE such as DATE '2026-01-02', got '2026-13-01'."),
    ("SELECT DATE 'x' FROM t", 13, "expected a DATE such as DATE '2026-01-02', got 'x'."),
    ("SELECT DATE 20260101 FROM t", 13, "DATE is not served here. Use CAST(... AS ...)."),
    ("SELECT TIMESTAMP '2026-01-01' FROM t", 18, "expected a TIMESTAMP such as TIMESTAMP '2026-01-02"),
    ("SELECT TIMESTAMP '2026-01-01 25:00:00' FROM t", 18, "expected a TIMESTAMP such as TIMESTAMP '2026-01-02"),
    ("SELECT TIMESTAMP '2026-01-01 00:00:00.123456789' FROM t", 18, "expected a TIMESTAMP such as TIMESTAMP '2026-01-02"),
    ("SELECT TIME '10:00' FROM t", 13, "TIME is not served here. Use CAST(... AS ...)."),
    ("SELECT INTERVAL 1 DAY FROM t", 17, "the number of an interval stands in quotes: INTERVAL '1' DAY."),
    ("SELECT INTERVAL '1' WEEK FROM t", 21, "expected the unit of an interval, got 'WEEK'."),
    ("SELECT INTERVAL '1' QUARTER FROM t", 21, "expected the unit of an interval, got 'QUARTER'."),
    ("SELECT ARRAY[1, 'a'] FROM t", 14, "expected two values of one kind beside ARRAY, got INT and"),
    ("SELECT MAP[] FROM t", 14, "did not expect 'FROM' here."),
    ("SELECT (1, 2) FROM t", 9, "a list of values in brackets is not served here."),
    ("SELECT MULTISET[1, 2] FROM t", 8, "MULTISET is not served: Spark has none. Use ARRAY[...]."),
    ("SELECT i ^ 2 FROM t", 8, "^ is not served here."),
    ("SELECT i & 1 FROM t", 8, "& is not served here."),
    ("SELECT i | 1 FROM t", 8, "| is not served here."),
    ("SELECT ~i FROM t", 8, "the character '~' has no meaning here."),
    ("SELECT i << 1 FROM t", 8, "<< is not served here."),
    ("SELECT i ** 2 FROM t", 13, "did not expect '2' here."),
    ("SELECT i // 2 FROM t", 11, "did not expect '/' here."),
    ("SELECT i DIV 2 FROM t", 8, "DIV is not served here."),
    ("SELECT i MOD 2 FROM t", 14, "did not expect '2' here."),
    ("SELECT !b FROM t", 8, "the character '!' has no meaning here."),
    ("SELECT s ILIKE 'a%' FROM t", 8, "ILIKE is not served here."),
    ("SELECT s RLIKE 'a' FROM t", 8, "RLIKE is not served here."),
    ("SELECT s REGEXP 'a' FROM t", 8, "RLIKE is not served here."),
    ("SELECT i IN () FROM t", 8, "IN takes at least one value."),
    ("SELECT i IN ('a') FROM t", 8, "expected two values of one kind beside IN, got INT and"),
    ("SELECT i = SOME (1, 2) FROM t", 12, "the function SOME is not one of those that are served."),
    ("SELECT i IS NOT JSON OBJECT FROM t", 8, "expected a STRING before IS JSON, got INT."),
    ("SELECT ts AT LOCAL FROM t", 14, "did not expect 'LOCAL' here."),
    ("SELECT day + INTERVAL '1' HOUR FROM t", 8, "expected a TIMESTAMP beside an interval of less than a day."),
    ("SELECT 'a' + 1 FROM t", 8, "expected a number or an interval, got a text. Write"),
    ("SELECT s - s FROM t", 8, "expected a number or an interval, got a text. Write"),
    ("SELECT -s FROM t", 9, "expected a number or an interval, got a text. Write"),
    ("SELECT i::STRING FROM t", 8, "TEXT is not served here. Use CAST(... AS ...)."),
    ("SELECT CAST(i STRING) FROM t", 15, "expected 'AS', got 'STRING'."),
    ("SELECT CAST(ts AS BIGINT) FROM t", 19, "a CAST of a time to BIGINT is not served, because its unit"),
    ("SELECT CAST(i AS TIMESTAMP(3)) FROM t", 18, "a CAST of INT to a TIMESTAMP is not served, because its"),
    ("SELECT CAST(m AS STRING) FROM t", 13, "a CAST of MAP<STRING,INT> to a text is not served."),
    ("SELECT CAST(i AS INTERVAL DAY) FROM t", 18, "INTERVAL is not served as a type of a column or CAST. Use"),
    ("SELECT CAST(i AS MULTISET<INT>) FROM t", 18, "MULTISET is not served, because Spark has no such type. Use"),
    ("SELECT SAFE_CAST(s AS INT) FROM t", 8, "the function SAFE_CAST is not one of those that are served."),
    ("SELECT CASE END FROM t", 13, "expected 'END after CASE', got 'END'."),
    ("SELECT CASE WHEN b THEN 1 ELSE 'a' END FROM t", 18, "expected two values of one kind beside CASE, got INT and"),
    ("SELECT CASE i WHEN 'a' THEN 1 END FROM t", 13, "expected two values of one kind beside CASE, got INT and"),
    ("SELECT CASE WHEN b THEN 1 FROM t", 25, "expected 'END after CASE', got '1'."),
    ("SELECT COALESCE() FROM t", 8, "COALESCE takes at least 1 arguments, got 0."),
    ("SELECT COALESCE(i, 's') FROM t", 8, "expected two values of one kind beside COALESCE, got INT"),
    ("SELECT NULLIF(i) FROM t", 8, "NULLIF takes 2 arguments, got 1."),
    ("SELECT a['x'] FROM t", 10, "the index of an array is a number from 1."),
    ("SELECT a[] FROM t", 12, "did not expect 'FROM' here."),
    ("SELECT a[1:2] FROM t", 10, "SLICE is not served here."),
    ("SELECT ABS() FROM t", 8, "ABS takes 1 arguments, got 0."),
    ("SELECT ROUND(d, i) FROM t", 8, "ROUND takes a number, and how many digits to keep as a"),
    ("SELECT RAND_INTEGER(10) FROM t", 8, "RAND_INTEGER is not served: use CAST(FLOOR(RAND() * n) AS"),
    ("SELECT SUBSTRING(s) FROM t", 18, "SUBSTRING takes 2 to 3 arguments, got 1."),
    ("SELECT DATE_FORMAT(i, 'yyyy') FROM t", 8, "DATE_FORMAT: expected a time or a STRING, got INT. Use"),
    ("SELECT DATE_FORMAT(ts) FROM t", 8, "DATE_FORMAT takes 2 arguments, got 1."),
    ("SELECT TO_TIMESTAMP(i) FROM t", 8, "TO_TIMESTAMP: expected a STRING, got INT. Write a CAST, or"),
    ("SELECT TO_TIMESTAMP_LTZ(s, 3) FROM t", 8, "TO_TIMESTAMP_LTZ: expected an integer and the precision 0"),
    ("SELECT TO_TIMESTAMP_LTZ(l, 9) FROM t", 8, "TO_TIMESTAMP_LTZ: expected an integer and the precision 0"),
    ("SELECT EXTRACT(ts) FROM t", 18, "expected 'FROM', got ')'."),
    ("SELECT TIMESTAMPDIFF(DAY, ts) FROM t", 27, "TIMESTAMPDIFF takes one of SECOND, MINUTE, HOUR, DAY, WEEK,"),
    ("SELECT FLOOR(s TO DAY) FROM t", 14, "expected a time before TO, got STRING."),
    ("SELECT LOCALTIME FROM t", 8, "LOCALTIME is not served: TIME is not served. Use"),
    ("SELECT CURRENT_WATERMARK(ts) FROM t", 8, "CURRENT_WATERMARK is not served: Spark has no expression"),
    ("SELECT SOURCE_WATERMARK() FROM t", 8, "SOURCE_WATERMARK is not served: Spark makes watermarks."),
    ("SELECT JSON_VALUE(s) FROM t", 19, "JSON_VALUE takes 2 to 8 arguments, got 1."),
    ("SELECT GREATEST(i, s) FROM t", 8, "expected two values of one kind beside GREATEST, got INT"),
    ("SELECT SPLIT_INDEX(s, s, 1) FROM t", 8, "SPLIT_INDEX: expected a separator in quotes."),
    ("SELECT REGEXP_REPLACE(s, 'a') FROM t", 8, "REGEXP_REPLACE takes 3 arguments, got 2."),
    ("SELECT MY.FUNC(i) FROM t", 8, "expected the name of a field."),
    ("SELECT default_database.f(i) FROM t", 8, "expected the name of a field."),
    ("SELECT PY_UPPER(s) FROM t", 8, "the function PY_UPPER is not one of those that are served."),
    ("SELECT py_upper(DISTINCT s) FROM t", 26, "DISTINCT is not served here."),
    ("SELECT py_upper(s) OVER (ORDER BY i) FROM t", 8, "FILTER and OVER are for aggregates, which py_upper is not."),
    ("SELECT f(x => i) FROM t", 8, "the function f is not one of those that are served."),
    ("SELECT ML_PREDICT(i) FROM t", 8, "ML_PREDICT is not served: models are not served. Use a"),
    ("SELECT COUNT(), COUNT(*) FROM t", 8, "COUNT takes 1 arguments, got 0."),
    ("SELECT SUM(*) FROM t", 8, "SUM does not take *. Write a column."),
    ("SELECT SUM(b) FROM t", 8, "SUM: expected a number, got BOOLEAN."),
    ("SELECT UPPER(s) FILTER (WHERE b) FROM t", 8, "FILTER and OVER are for aggregates, which UPPER is not."),
    ("SELECT s, COUNT(*) FROM t GROUP BY 1", 36, "expected a column, got a literal. Write the column itself."),
    ("SELECT s, COUNT(*) FROM t GROUP BY 9", 36, "expected a column, got a literal. Write the column itself."),
    ("SELECT COUNT(*) FROM t GROUP BY DISTINCT i", 42, "GROUP BY takes columns. Leave ALL or DISTINCT out."),
    ("SELECT COUNT(*) FROM t GROUP BY ALL", 8, "ALL is not served here."),
    ("SELECT PERCENTILE(i, 2) FROM t", 8, "PERCENTILE: expected a number from 0 to 1"),
    ("SELECT COLLECT(i) FROM t", 8, "COLLECT is not served: Spark has no MULTISET. Use ARRAY_AGG"),
    ("SELECT COUNT(DISTINCT *) FROM t", 8, "COUNT does not take *. Write a column."),
    ("SELECT COUNT(i) WITHIN DISTINCT (s) FROM t", 24, "did not expect 'DISTINCT' here."),
    ("SELECT FROM t", 13, "SELECT has no columns."),
    ("SELECT", 1, "SELECT has no columns."),
    ("SELECT * EXCEPT (i) FROM t", 8, "EXCEPT is not served here."),
    ("SELECT i AS FROM t", 18, "did not expect 't' here."),
    ("SELECT DISTINCT ON (i) i FROM t", 21, "ON is not served here."),
    ("SELECT i INTO x FROM t", 15, "INTO is not served here."),
    ("SELECT i FROM", 14, "expected table name, got the end."),
    ("SELECT i FROM t t2 t3", 20, "did not expect 't3' here."),
    ("SELECT i FROM ONLY t", 15, "there is no table or view 'ONLY'. SHOW TABLES lists them."),
    ("SELECT i FROM TABLE t", 15, "there is no table or view 'TABLE'. SHOW TABLES lists them."),
    ("SELECT i FROM (t)", 16, "TABLE is not served here."),
    ("SELECT i FROM a.b.c.t", 15, "expected at most three parts: catalog, database and name."),
    ("SELECT i FROM 't'", 15, "expected table name, got 't'."),
    ("SELECT i FROM t WHERE i = 1 = TRUE", 23, "expected brackets around one of the two comparisons beside =."),
    ("SELECT i FROM t WHERE WHERE i = 1", 23, "did not expect 'WHERE' here."),
    ("SELECT i FROM t WHERE i = 1 AND", 29, "did not expect 'AND' here."),
    ("SELECT i FROM t WHERE EXISTS SELECT 1", 30, "did not expect 'SELECT' here."),
    ("SELECT i FROM t ORDER BY", 17, "did not expect 'ORDER BY' here."),
    ("SELECT i FROM t LIMIT -1", 24, "expected a number of rows."),
    ("SELECT i FROM t LIMIT 1.5", 23, "expected a number of rows."),
    ("SELECT i FROM t LIMIT 5, 10", 23, "LIMIT takes one number. Write LIMIT count OFFSET start."),
    ("SELECT i FROM t FETCH FIRST ROW ONLY", 8, "expected a number of rows."),
    ("SELECT i FROM t FOR UPDATE", 8, "FOR UPDATE is not served here."),
    ("SELECT i FROM t TABLESAMPLE (10 PERCENT)", 30, "TABLESAMPLE is not served here."),
    ("SELECT t.i FROM t JOIN u ON t.i = u.i USING (i)", 39, "did not expect 'USING' here."),
    ("SELECT t.i FROM t LEFT SEMI JOIN u ON t.i = u.i", 34, "LEFT SEMI JOIN is not served."),
    ("SELECT t.i FROM t LEFT ANTI JOIN u ON t.i = u.i", 34, "LEFT ANTI JOIN is not served."),
    ("SELECT t.i FROM t SEMI JOIN u ON t.i = u.i", 29, "SEMI JOIN is not served."),
    ("SELECT t.i FROM t ASOF JOIN u ON t.i = u.i", 29, "ASOF JOIN is not served."),
    ("SELECT t.i FROM t OUTER JOIN u ON t.i = u.i", 30, "an OUTER JOIN needs LEFT, RIGHT or FULL before OUTER."),
    ("SELECT t.i FROM t CROSS JOIN u ON t.i = u.i", 30, "a CROSS JOIN and a comma have no ON and no USING. Write"),
    ("SELECT x FROM t CROSS JOIN UNNEST(i) AS e (x)", 35, "UNNEST takes an ARRAY or a MAP, got INT."),
    ("SELECT x FROM t RIGHT JOIN UNNEST(a) AS e (x) ON TRUE", 35, "UNNEST is served with CROSS JOIN, and with LEFT JOIN ... ON"),
    ("SELECT x FROM t LEFT JOIN UNNEST(a) AS e (x) ON x > 1", 34, "UNNEST is served with CROSS JOIN, and with LEFT JOIN ... ON"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0' SECOND))", 21, "expected a positive interval of days, hours, minutes or"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10))", 21, "expected a positive interval of days, hours, minutes or"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts, ltz), INTERVAL '1' HOUR))", 21, "TUMBLE takes the time column as `DESCRIPTOR(column)`."),
    ("SELECT * FROM TABLE(TUMBLE(TABLE nope, DESCRIPTOR(ts), INTERVAL '1' HOUR))", 34, "there is no table or view 'nope'. SHOW TABLES lists them."),
    ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '5' MINUTE, 1))", 21, "TUMBLE takes DATA, TIMECOL, SIZE, OFFSET."),
    ("SELECT * FROM TABLE(TUMBLE(DATA => TABLE t, TIME => DESCRIPTOR(ts), SIZE => INTERVAL '1' HOUR))", 21, "TUMBLE takes DATA, TIMECOL, SIZE, OFFSET."),
    ("SELECT * FROM TABLE(TUMBEL(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))", 21, "the table function TUMBEL is not served."),
    ("SELECT * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))", 21, "HOP needs the interval SIZE."),
    ("SELECT * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '7' MINUTE, INTERVAL '1' HOUR))", 21, "the size of HOP has to be a multiple of its slide, as in"),
    ("SELECT * FROM TABLE(VECTOR_SEARCH(TABLE t, DESCRIPTOR(i), a, 3))", 21, "the table function VECTOR_SEARCH is not served."),
    ("SELECT TUMBLE(ts, INTERVAL '1' HOUR) FROM t", 8, "the function TUMBLE is not one of those that are served."),
    ("SELECT TUMBLE_START(ts, INTERVAL '1' HOUR) FROM t", 8, "TUMBLE_START is not served: it needs GROUP BY TUMBLE(ts, ...)"),
    ("SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MONTH)", 33, "expected a positive interval of days, hours, minutes or"),
    ("SELECT COUNT(*) FROM t GROUP BY HOP(ts, INTERVAL '1' HOUR)", 33, "HOP takes a time column and two intervals."),
    ("SELECT i FROM t /*+ OPTIONS('a' 'b') */", 33, "expected '=', got a text in quotes."),
    ("SELECT i FROM t /*+ OPTIONS(a = 'b') */", 29, "expected an option in quotes, such as 'topic', got 'a'."),
    ("SELECT i FROM t /*+ OPTION('a' = 'b') */", 17, "the hint OPTION is not served. Leave it out."),
    ("SELECT i FROM t /*+ */", 17, "the hint  is not served. Leave it out."),
    ("SELECT i FROM t AS x /*+ OPTIONS('a' = 'b') */", 22, "OPTIONS has to stand directly behind the name of a table."),
    ("SELECT i FROM t /*+ OPTIONS('a' = 'b')", 17, "a comment does not end; expected '*/'."),
    ("SELECT i FROM t UNION ALL", 23, "did not expect 'ALL' here."),
    ("SELECT i FROM t UNION ALL BY NAME SELECT i FROM u", 8, "BY_NAME is not served here."),
    ("WITH w AS (SELECT i FROM t)", 27, "did not expect ')' here."),
    ("WITH RECURSIVE w AS (SELECT 1) SELECT * FROM w", 16, "RECURSIVE is not served here."),
    ("WITH w AS MATERIALIZED (SELECT i FROM t) SELECT i FROM w", 6, "MATERIALIZED is not served here."),
    ("WITH w AS SELECT i FROM t SELECT i FROM w", 11, "expected '(', got 'SELECT'."),
    ("WITH AS (SELECT 1) SELECT 1", 9, "expected the name of a query of WITH, got '('."),
    ("WITH w AS (SELECT i FROM t), SELECT i FROM w", 30, "expected the name of a query of WITH, got 'SELECT'."),
    ("TABLE t", 1, "a query that begins with TABLE is not served. Write SELECT"),
    ("FROM t", 1, "a query that begins with FROM is not served. Write SELECT *"),
    ("FROM t SELECT i", 1, "a query that begins with FROM is not served. Write SELECT *"),
    ("SELECT i OVER (ORDER BY i) FROM t", 15, "did not expect '(' here."),
    ("SELECT i FROM t PIVOT (SUM(l) FOR s IN ('a', 'b'))", 15, "PIVOT is not served here."),
    ("SELECT i AS 'x' FROM t", 13, "did not expect 'x' here."),
    ("SELECT i 'x' FROM t", 10, "did not expect 'x' here."),
    ("SELECT i AS 5 FROM t", 13, "did not expect '5' here."),
    ("SELECT POSITION_IN('x', s) FROM t", 8, "the function POSITION_IN is not one of those that are served."),
    ("SELECT FLOOR_TO(ts, DAY) FROM t", 8, "the function FLOOR_TO is not one of those that are served."),
    ("SELECT i FROM t, u ON t.i = u.i", 20, "did not expect 'ON' here."),
    ("SELECT DATE '2026-02-29', TIMESTAMP '2026-1-2 3:4:5' FROM t", 13, "expected a DATE such as DATE '2026-01-02', got '2026-02-29'."),
    ("SELECT DATE 'today' FROM t", 13, "expected a DATE such as DATE '2026-01-02', got 'today'."),
    ("SELECT day + 1 FROM t", 8, "expected an interval beside a DATE, e.g. INTERVAL '1' DAY."),
    ("SELECT CAST(ltz AS BIGINT), CAST(l AS TIMESTAMP_LTZ(3)) FROM t", 20, "a CAST of a time to BIGINT is not served, because its unit"),
]  # fmt: skip


@pytest.mark.parametrize(("flink", "expected"), TRANSLATED, ids=[each[0] for each in TRANSLATED])
def test_a_query_becomes_one_of_spark(flink: str, expected: str) -> None:
    assert translated(flink).sql == expected


@pytest.mark.parametrize(("query", "column", "message"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_query_is_refused_with_its_place(query: str, column: int, message: str) -> None:
    with pytest.raises(SqlError) as error:
        translated(query)
    text, line, caret = str(error.value).split("\n")
    assert text.startswith(f"Line 1, column {column}: {message}")
    assert line == f"  {query}"
    assert caret == f"  {' ' * (column - 1)}^"
