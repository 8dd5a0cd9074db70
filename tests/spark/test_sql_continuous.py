"""INSERT without micro-batches on real Spark and a real broker, and its values beside those of Spark."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unicodedata import category

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import penstock
from penstock.client.cluster.log_offsets import committed_offsets
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.errors import RowError, SqlError
from penstock.sql.emit.arrow import ArrowPlan
from penstock.sql.emit.arrow_functions import lower, upper
from penstock.sql.emit.arrow_query import ArrowQuery
from penstock.sql.plan.types import text_of_spark
from penstock.sql.shell.run import progress
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.test_sql import ORDERS, Script, kafka, orders
from tests.spark.test_sql import script as script  # noqa: PLC0414 - a fixture
from tests.unit.sql.planning import How, RecordedViews, catalog_of, planned
from tests.waiting import wait_until

# ----- values

COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "s": (
        "STRING",
        pa.string(),
        [
            "",
            " ",
            " a ",
            "a",
            "A",
            "ä𝄞",
            "ßŉǰΐﬃ",
            "ΑΣ",
            "ΑΣ Σ.ΣΑ",
            "İIıi",  # noqa: RUF001
            "ǅ%_\n",
            "\ta\t",
            "a\x00b",
            "ﬁ",
            "zz",
            None,
        ],
    ),
    "k": (
        "STRING",
        pa.string(),
        [
            "12",
            " 7 ",
            "+7",
            "-0",
            "1.9",
            "-.5",
            "1.",
            ".",
            "+",
            "127",
            "128",
            "2147483648",
            "1e3",
            "1_0",
            "\x017\x7f",
            "\u00a07",
            "1.5\u2028",
            "1.5\n",
            "\u0661",
            "9223372036854775808",
            "x",
            None,
        ],
    ),
    "x": (
        "DOUBLE",
        pa.float64(),
        [-math.inf, -1.5, -0.0, 0.0, 1.5, 2.0**53, 1.7976931348623157e308, math.inf, math.nan, None],
    ),
    "f": ("FLOAT", pa.float32(), [-math.inf, -0.0, 0.0, 1.5, math.inf, math.nan, None]),
    "b": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "t": ("TINYINT", pa.int8(), [-128, -1, 0, 127, None]),
    "i": ("INT", pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1, None]),
    "l": ("BIGINT", pa.int64(), [-(2**63), -(2**31) - 1, 0, 1, 2**63 - 1, None]),
    "p": (
        "DECIMAL(10, 2)",
        pa.decimal128(10, 2),
        [Decimal(text) for text in ("-99999999.99", "-0.01", "0.00", "1.00", "1.50", "99999999.99")] + [None],
    ),
    "q": (
        "DECIMAL(12, 4)",
        pa.decimal128(12, 4),
        [Decimal(text) for text in ("-99999999.9999", "1.5000", "1.5001", "99999999.9900")] + [None],
    ),
    "w": (
        "DECIMAL(38, 18)",
        pa.decimal128(38, 18),
        [Decimal("9" * 20 + "." + "9" * 18), Decimal("-1.000000000000000001"), Decimal("0E-18"), None],
    ),
    "d": (
        "DATE",
        pa.date32(),
        [date(1, 1, 1), date(1969, 12, 31), date(2026, 11, 26), date(9999, 12, 31), None],
    ),
    "ts": (
        "TIMESTAMP(6)",
        pa.timestamp("us"),
        [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2026, 3, 29, 2, 30), None],
    ),
    "z": (
        "TIMESTAMP_LTZ(6)",
        pa.timestamp("us", tz="UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 3, 29, 1, 0, 0, 1, tzinfo=UTC), None],
    ),
}
"""The type in SQL, the type in Arrow, and extreme values of each pair of columns, such as s1 and s2."""
_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
COMPARED = [
    f"{name}1 {sign} {other}"
    for name in COLUMNS
    for other in (f"{name}2",)
    for sign in _SIGNS
] + [f"{one}1 {sign} {other}2" for one, other in (("t", "i"), ("i", "l"), ("p", "q"), ("p", "i"), ("q", "l"), ("x", "f"), ("x", "l")) for sign in _SIGNS]  # fmt: skip
EXPRESSIONS = [
    *COMPARED,
    *(f"{name}1 BETWEEN {name}2 AND {name}1" for name in COLUMNS),
    *(f"{name}1 IN ({name}2, {name}1)" for name in COLUMNS),
    *(f"{name}1 IS DISTINCT FROM {name}2" for name in COLUMNS),
    *(f"{name}1 IS NULL" for name in COLUMNS),
    *(f"COALESCE({name}1, {name}2)" for name in COLUMNS),
    *(f"NULLIF({name}1, {name}2)" for name in COLUMNS),
    *(f"IF(b1, {name}1, {name}2)" for name in COLUMNS),
    *(f"CASE WHEN b1 THEN {name}1 WHEN b2 THEN {name}2 END" for name in COLUMNS),
    *(f"CASE {name}1 WHEN {name}2 THEN 'same' ELSE s1 END" for name in COLUMNS),
    "b1 AND b2", "b1 OR b2", "NOT b1", "b1 IS TRUE", "b1 IS FALSE", "b1 IS NOT TRUE", "b1 IS NOT NULL",
    "b1 AND (b2 OR NOT b1)", "i1 > 0 AND i2 < 0 OR l1 = l2",
    "s1 || s2", "CONCAT(s1, s2, 'x')", "CHAR_LENGTH(s1)", "TRIM(s1)", "CHAR_LENGTH(TRIM(s1) || s2)",
    "CAST(t1 AS SMALLINT)", "CAST(t1 AS INT)", "CAST(i1 AS BIGINT)", "CAST(l1 AS STRING)", "CAST(t1 AS STRING)",
    "CAST(b1 AS STRING)", "CAST(s1 AS STRING)", "TRY_CAST(i1 AS BIGINT)",
    "s1 > 'a'", "s1 IN ('a', 'A', NULL)", "i1 BETWEEN -1 AND 1", "l1 = 1", "p1 > 1.5", "p1 >= 1", "q1 = 1.50",
    "d1 > DATE '1969-12-31'", "ts1 < TIMESTAMP '2026-03-29 02:30:00.000001'", "d1 = DATE '2026-11-26'",
    "CASE WHEN l1 < 1000 AND l1 > -1000 THEN l1 * 3 - i1 + t1 END", "CAST(t1 AS INT) * 2 + t2",
    "CASE WHEN i1 <> -2147483648 THEN -i1 END", "(CAST(i1 AS BIGINT) + i2) * t1",
    "UPPER(s1)", "LOWER(s1)", "UPPER(s1) || LOWER(s2)", "s1 LIKE 'a%'", "s1 LIKE '_'", "s1 LIKE '%'", "s1 LIKE ''",
    "s1 NOT LIKE '%a%'", "s1 LIKE '%\\%'", "s1 LIKE 'a.%'", "s1 LIKE '__'", "s1 LIKE '%_\n'",
    "SUBSTRING(s1, 2)", "SUBSTRING(s1, 0, 1)", "SUBSTRING(s1 FROM -2 FOR 1)", "SUBSTRING(s1, -1)",
    "SUBSTRING(s1, i1, i2)", "SUBSTR(s1, t1)", "SUBSTRING(s1, i1)", "SUBSTRING(s1, 1, -1)",
    "x1 + x2", "x1 - x2", "x1 * x2", "-x1", "x1 + i1", "x1 * l1", "x1 - f1", "x1 + 1", "CAST(l1 AS DOUBLE)",
    "CAST(f1 AS DOUBLE)", "CASE WHEN x2 <> 0 THEN x1 / x2 END", "CASE WHEN i1 <> 0 THEN x1 / i1 END", "-f1",
    "CASE WHEN i2 NOT IN (0, -1) THEN i1 / i2 END", "CASE WHEN l2 NOT IN (0, -1) THEN l1 / l2 END",
    "CASE WHEN t2 NOT IN (0, -1) THEN t1 / t2 END", "CASE WHEN t2 NOT IN (0, -1) THEN l1 / t2 END", "i1 / 2",
    "x1 = x1", "x1 > x1", "x1 > 1.5", "1.5 > x1", "x1 = 1.5", "x1 <> 1.5", "x1 < 1", "x1 IN (1.5, 2)", "f1 > 1.5",
    "1", "'x'", "TRUE", "CAST(NULL AS STRING)", "1.25", "p1", "w1", "z1", "ts1",
]  # fmt: skip
MORE = [
    "LTRIM(s1)", "RTRIM(s1)", "BTRIM(s1)", "BTRIM(s1, s2)", "TRIM(BOTH 'a' FROM s1)", "TRIM(LEADING s2 FROM s1)",
    "TRIM(TRAILING ' ' FROM s1)", "POSITION(s2 IN s1)", "LOCATE('a', s1)", "INSTR(s1, s2)", "LEFT(s1, 2)",
    "LEFT(s1, t1)", "RIGHT(s1, i1)", "RIGHT(s1, 1)", "REVERSE(s1)", "STARTSWITH(s1, s2)", "ENDSWITH(s1, 'a')",
    "MD5(s1)", "SHA1(s1)", "SHA256(s1)", "HEX(s1)", "CONCAT_WS('-', s1, s2)", "CONCAT_WS(s1, s2, 'x')",
    "REPLACE(s1, 'a', s2)", "REPLACE(s1, 'Σ', '')", "SPLIT_INDEX(s1, 'a', 0)", "SPLIT_INDEX(s1, ' ', 1)",
    "SPLIT_INDEX(k1, '.', 1)", "SPLIT_INDEX(s1, '\\t', 2)",
    *(f"{name}({each}1, {each}2)" for name in ("GREATEST", "LEAST") for each in ("s", "t", "i", "l", "p", "d", "ts")),
    "ABS(x1)", "ABS(f1)", "ABS(p1)", "CASE WHEN i1 > -2147483648 THEN ABS(i1) END", "-p1",
    "CEIL(x1)", "FLOOR(x1)", "CASE WHEN i2 <> 0 THEN i1 % i2 END", "MOD(l1, 7)", "t1 % 3", "l1 % -1",
    "p1 + q1", "p1 - q1", "p1 * q1", "p1 * i1", "p1 + l1", "q1 - t1", "p1 * q2 + p2",
    "CAST(p1 AS DECIMAL(20, 4))", "CAST(p1 AS DECIMAL(10, 1))", "CAST(q1 AS DECIMAL(9, 0))", "ROUND(p1, 1)", "ROUND(q1, 2)",
    "CAST(i1 AS DECIMAL(10, 0))", "CAST(l1 AS DECIMAL(20, 1))", "CAST(t1 AS DECIMAL(5, 2))", "CAST(p1 AS DOUBLE)",
    "CAST(w1 AS DOUBLE)", "CAST(p1 AS INT)", "CAST(q1 AS BIGINT)", "CAST(p1 AS STRING)", "CAST(w1 AS STRING)",
    "CAST(d1 AS STRING)", "CAST(ts1 AS STRING)", "CAST(ts1 AS DATE)", "CAST(d1 AS TIMESTAMP(6))",
    "CAST(b1 AS INT)", "CAST(b1 AS BIGINT)", "CAST(i1 AS BOOLEAN)", "CASE WHEN ABS(x1) < 3 THEN CAST(x1 AS INT) END",
    "CASE WHEN l1 BETWEEN -100 AND 100 THEN CAST(l1 AS TINYINT) END", "TRY_CAST(k1 AS INT)", "TRY_CAST(k1 AS BIGINT)",
    "TRY_CAST(k1 AS TINYINT)", "TRY_CAST(s1 AS INT)",
    *(f"{part}({each}1)" for part in ("YEAR", "MONTH", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "QUARTER", "WEEK")
      for each in ("d", "ts")),
    "EXTRACT(YEAR FROM ts1)", "HOUR(ts1)", "MINUTE(ts1)", "SECOND(ts1)", "EXTRACT(MILLISECOND FROM ts1)",
    "FLOOR(ts1 TO DAY)", "DATE_FORMAT(ts1, 'yyyy-MM-dd HH:mm:ss.SSS')", "DATE_FORMAT(ts1, 'dd.MM.yyyy')",
    "CASE WHEN ABS(l1 / 1000) < 100000000000 THEN TO_TIMESTAMP_LTZ(l1, 3) END", "TO_TIMESTAMP_LTZ(i1, 0)",
]  # fmt: skip
FAILING = [
    ("i1 % (i2 - i2)", "BY_ZERO", "is divided by 0"),
    ("ABS(i1)", "ARITHMETIC_OVERFLOW", "does not fit its type int32"),
    ("CAST(l1 AS INT)", "CAST_OVERFLOW", "does not fit its type int32"),
    ("CAST(x1 AS INT)", "CAST_OVERFLOW", "does not fit its type int32"),
    ("CAST(p1 AS TINYINT)", "CAST_OVERFLOW", "does not fit its type int8"),
    ("CAST(p1 AS DECIMAL(3, 2))", "NUMERIC_VALUE_OUT_OF_RANGE", "does not fit its type decimal"),
    ("CAST(i1 AS DECIMAL(3, 2))", "NUMERIC_VALUE_OUT_OF_RANGE", "does not fit its type decimal"),
    ("CAST(k1 AS INT)", "CAST_INVALID_INPUT", "expected a text with a number of the type int32, got another"),
    ("TO_TIMESTAMP_LTZ(l1, 3)", "overflow", "does not fit its type timestamp"),
]
"""Expressions, and what the errors of Spark and ours say."""
DIVIDED_BY_ZERO = ["i1 / (i2 - i2)", "l1 / 0", "x1 / x2", "x1 / i2", "i1 / 0", "x1 / 0"]
OVERFLOWING = ["i1 + i2", "l1 - l2", "i1 * i2", "t1 + t2", "l1 * l2", "-i1", "-l1", "t1 - i2"]
TABLE = "t"


class TypesOfSpark(RecordedViews):
    """Asks Spark for types."""

    def types(self, question: str) -> list[tuple[str, str]]:
        return [(each.name, text_of_spark(each.dataType)) for each in self.spark.sql(question).schema.fields]


def declared() -> str:
    columns = [f"{name}{side} {kind}" for name, (kind, _, _) in COLUMNS.items() for side in (1, 2)]
    options = (
        "'connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.bootstrap.servers' = 'b:1'"
    )
    return f"CREATE TABLE {TABLE} (n INT, {', '.join(columns)}) WITH ({options});"


def extreme_rows() -> pa.RecordBatch:
    """Return rows in which each pair of columns has each pair of its values, and all others in turn."""
    pairs = {name: list(itertools.product(values, repeat=2)) for name, (_, _, values) in COLUMNS.items()}
    count = max(map(len, pairs.values()))
    arrays: dict[str, pa.Array] = {"n": pa.array(range(count), pa.int32())}
    for name, (_, kind, _) in COLUMNS.items():
        for side in (0, 1):
            values = [pairs[name][row % len(pairs[name])][side] for row in range(count)]
            arrays[f"{name}{side + 1}"] = pa.array(values, kind)
    return pa.RecordBatch.from_pydict(arrays)


def show_rows(spark: SparkSession, rows: pa.RecordBatch) -> None:
    """Let Spark have the rows. Of a TIMESTAMP in Arrow it makes one with a zone, which is UTC here."""
    local = [
        f"CAST({name} AS TIMESTAMP_NTZ) AS {name}" if name in ("ts1", "ts2") else name
        for name in rows.schema.names
    ]
    spark.createDataFrame(pa.Table.from_batches([rows])).selectExpr(*local).createOrReplaceTempView(TABLE)


def both(spark: SparkSession, query: str) -> tuple[str, ArrowQuery]:
    """Return a query in Spark's SQL, and as a function of Arrow."""
    found = planned(query, How(views=TypesOfSpark(spark=spark), catalog=catalog_of(declared())))
    arrow = ArrowPlan()
    columns = dict(zip(found.plan.names, arrow.rows(found.plan.input, found.plan.columns), strict=True))
    return found.sql, arrow.query(columns)


def exact(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return values in which NaN equals NaN, and 0.0 is not -0.0."""
    return {
        name: [each.hex() if isinstance(each, float) else each for each in values]
        for name, values in columns.items()
    }


@pytest.mark.promise
def test_each_function_has_the_values_of_spark(spark: SparkSession) -> None:
    rows = extreme_rows()
    show_rows(spark, rows)
    expressions = [*EXPRESSIONS, *MORE]
    selected = ", ".join(f"{each} AS c{index}" for index, each in enumerate(expressions))
    sql, function = both(spark, f"SELECT n, {selected} FROM {TABLE} WHERE n >= 0 AND n < 1000")
    # Types as Arrow has them, also those of times and decimals.
    of_spark, ours = spark.sql(sql).orderBy("n").toArrow(), function(rows)
    assert ours.schema.types == of_spark.schema.types
    wanted, made = exact(of_spark.to_pydict()), exact(ours.to_pydict())
    assert made["n"] == wanted["n"] == list(range(rows.num_rows))
    wrong = {
        each: [
            (row, one, other)
            for row, (one, other) in enumerate(zip(made[f"c{index}"], wanted[f"c{index}"], strict=True))
            if one != other
        ][:3]
        for index, each in enumerate(expressions)
        if made[f"c{index}"] != wanted[f"c{index}"]
    }
    assert wrong == {}


def test_case_is_mapped_as_by_spark_for_each_letter(spark: SparkSession) -> None:
    """Each character of Unicode, and a capital sigma in words of up to four letters, whose end decides."""
    letters = [chr(each) for each in range(0x110000) if category(chr(each)) not in ("Cs", "Cn")]
    words = ["".join(each) for each in itertools.product("aΣ'1 \u0301", repeat=4)]
    texts = pa.RecordBatch.from_pydict({"n": range(len(letters + words)), "s1": letters + words})
    spark.createDataFrame(pa.Table.from_batches([texts])).createOrReplaceTempView("letters")
    of_spark = (
        spark.sql("SELECT upper(s1) AS u, lower(s1) AS l FROM letters ORDER BY n").toArrow().to_pydict()
    )
    wrong, refused = [], set()
    for index, text in enumerate(letters + words):
        for name, function in (("u", upper), ("l", lower)):
            try:
                found = function(pa.array([text]))[0].as_py()
            except pa.ArrowInvalid:
                refused.add(text)
                continue
            if found != of_spark[name][index]:
                wrong.append((text, found, of_spark[name][index]))
    assert wrong == []
    assert refused <= {"\u019b", "\u0264", "\ua7d3", "\ua7d5"}


def test_what_has_no_value_in_spark_is_an_error(spark: SparkSession) -> None:
    rows = extreme_rows()
    show_rows(spark, rows)
    for text, of_spark, ours in FAILING:
        sql, function = both(spark, f"SELECT {text} AS x FROM {TABLE}")
        with pytest.raises(PySparkException, match=of_spark):
            spark.sql(sql).collect()
        with pytest.raises(RowError, match=ours):
            function(rows)


def test_an_overflow_is_an_error_where_it_is_one_in_spark(spark: SparkSession) -> None:
    rows = extreme_rows()
    show_rows(spark, rows)
    for text in OVERFLOWING:
        sql, function = both(spark, f"SELECT {text} AS x FROM {TABLE}")
        with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
            spark.sql(sql).collect()
        with pytest.raises(RowError, match="does not fit its type"):
            function(rows)
    for text in DIVIDED_BY_ZERO:
        sql, function = both(spark, f"SELECT {text} AS x FROM {TABLE}")
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            spark.sql(sql).collect()
        with pytest.raises(RowError, match="is divided by 0"):
            function(rows)
    _, function = both(spark, f"SELECT i1 + i2 AS x FROM {TABLE}")
    for row in range(rows.num_rows):
        one, other = rows["i1"][row].as_py(), rows["i2"][row].as_py()
        wanted = None if None in (one, other) else one + other
        if wanted is None or -(2**31) <= wanted < 2**31:
            assert function(rows.slice(row, 1))["x"].to_pylist() == [wanted]
        else:
            with pytest.raises(RowError, match="does not fit its type int32"):
                function(rows.slice(row, 1))


# ----- queries


def tables(bootstrap: str, source: str, target: str) -> str:
    group = {"properties_group_id": source}
    return f"""
        CREATE TABLE orders {ORDERS} {kafka(bootstrap, source, **group)};
        CREATE TABLE large (id BIGINT NOT NULL, text STRING, at TIMESTAMP(3), small INT)
            {kafka(bootstrap, target)};
        SET 'penstock.continuous' = 'true';
        SET 'parallelism.default' = '1';
    """


INSERT = """INSERT INTO large SELECT id, CASE WHEN shop IN ('s0', 's1') THEN shop || '!' ELSE 'other' END,
    TIMESTAMP '2026-01-02 03:04:05.678', CAST(NULL AS INT) FROM orders WHERE id >= 10"""


def check_explained(script: Script, group_id: str) -> None:
    explained = "\n".join(row[0] for row in script(f"EXPLAIN {INSERT}")[0].rows)
    assert f"the consumer group '{group_id}'" in explained
    assert "ends after 20 ms" in explained
    assert "reads the columns id, shop" in explained
    assert "keeps rows by 1 condition" in explained
    assert "computes id, text, at, small over Arrow batches" in explained
    assert "Plan of Spark" not in explained


@pytest.mark.promise
def test_an_insert_runs_without_micro_batches_stops_and_goes_on(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(2), make_topic()
    judge.produce(bootstrap, source, *orders(40))
    connections = KafkaConnections(ConnectionSettings((bootstrap,), "test"))
    places = [TopicPartition(source, each) for each in range(2)]

    def read() -> int:
        return sum(committed_offsets(connections, source, places).values())

    script(tables(bootstrap, source, target))
    check_explained(script, source)
    try:
        job = script(INSERT)[0].job
        [query] = job.queries
        assert penstock.continuous_queries(script.session.spark) == [query]
        wait_until(lambda: read() == 40, "the first records are copied")
        wait_until(lambda: query.lastProgress, "a report")
        [line] = progress(job)
        assert line.startswith("insert-into_large: ")
        assert line.endswith(" transactions")
        [shown] = script("SHOW JOBS")[0].rows
        assert shown[1:3] == ("insert-into_large", "RUNNING")
        assert script("DESCRIBE JOB 'insert-into_large'")[0].rows[0][:2] == ("large", "")
        again = script.refusal(INSERT)
        assert "runs in this program already" in again
        said = script("STOP JOB 'insert-into_large'")[0].message
        assert said.startswith("The job 'insert-into_large' has stopped where it had committed.")
        assert job.status == "CANCELED"
        judge.produce(bootstrap, source, *orders(60)[40:])
        job = script(INSERT)[0].job
        wait_until(lambda: read() == 60, "the others are copied")
        assert job.wait(0.1) is False
        job.stop()
        others = "INSERT INTO large SELECT id, shop, CAST(NULL AS TIMESTAMP(3)), 1 FROM orders"
        assert "is that of another query, and this one would not get the records before it" in failure(
            script, others
        )
    finally:
        connections.close()
    found = Counter(record.value for record in judge.consume_all(bootstrap, target))
    wanted = [
        {
            "id": number,
            "text": "other" if number % 3 == 2 else f"s{number % 3}!",
            "at": "2026-01-02 03:04:05.678",
            "small": None,
        }
        for number in range(10, 60)
    ]
    assert sorted(found.values()) == [1] * 50
    assert sorted((json.loads(each or b"") for each in found), key=lambda row: row["id"]) == wanted


def test_a_watermark_has_no_effect_but_that_each_row_needs_a_time(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic()
    row = b'{"id": %d, "ts": %s}'
    times = [b'"2026-01-0%d 00:00:00.123"' % day for day in (3, 1, 2)]
    judge.produce(bootstrap, source, *(row % pair for pair in enumerate(times)))
    timed = "(id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)"
    script(f"""
        CREATE TABLE timed {timed} {kafka(bootstrap, source, properties_group_id=source)};
        CREATE TABLE copy (id BIGINT, ts TIMESTAMP(3)) {kafka(bootstrap, target)};
        SET 'penstock.continuous' = 'true';
        SET 'table.local-time-zone' = 'UTC';
    """)
    job = script("INSERT INTO copy SELECT id, ts FROM timed WHERE ts > TIMESTAMP '2026-01-01 12:00:00'")[
        0
    ].job
    found = judge.consume_until(bootstrap, target, 2)
    assert [json.loads(each.value or b"") for each in found] == [
        {"id": 0, "ts": "2026-01-03 00:00:00.123"},
        {"id": 2, "ts": "2026-01-02 00:00:00.123"},
    ]
    judge.produce(bootstrap, source, row % (9, b"null"))
    wait_until(lambda: job.status == "FAILED", "the query ends")
    assert "The event time ts is NULL. Its row belongs to no window." in str(job.error)


def failure(script: Script, text: str) -> str:
    """Return why a continuous INSERT ends, or does not start."""
    try:
        job = script(text)[0].job
    except SqlError as error:
        return error.message
    wait_until(lambda: job.status == "FAILED", "the query ends")
    return str(job.error)


def test_two_inserts_of_a_set_need_groups_of_their_own(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic()
    script(tables(bootstrap, source, target))
    script(f"CREATE TABLE ids (id BIGINT) {kafka(bootstrap, target)}")
    large = "INSERT INTO large SELECT id, shop, CAST(NULL AS TIMESTAMP(3)), 1 FROM orders;"
    said = script.refusal(f"EXECUTE STATEMENT SET BEGIN {large} INSERT INTO ids SELECT id FROM orders; END")
    assert "the INSERT into 'ids' reads with the consumer group" in said
    assert penstock.continuous_queries(script.session.spark) == []


def test_what_a_continuous_insert_does_not_serve_is_named_before_it_starts(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic()
    script(tables(bootstrap, source, target))
    script(
        f"""
        CREATE TABLE ids (id BIGINT) {kafka(bootstrap, target)};
        CREATE TABLE lone (id BIGINT) {kafka(bootstrap, source)};
        CREATE TABLE changes (id BIGINT) {kafka(bootstrap, source, format="debezium-json")};
        CREATE TABLE shown (id BIGINT) WITH ('connector' = 'print');
        CREATE TABLE made (id BIGINT) WITH ('connector' = 'datagen');
        CREATE TABLE other (id BIGINT) {kafka("127.0.0.1:1", source, properties_group_id="other")};
        """
    )
    for text, words in REFUSED:
        message = script.refusal(f"INSERT INTO {text}")
        assert message.startswith("Line "), (text, message)
        assert words in message, (text, message)
    assert penstock.continuous_queries(script.session.spark) == []
    script("SET 'execution.checkpointing.interval' = '2 min'")
    assert "is '2 min', and a continuous query" in script.refusal("INSERT INTO ids SELECT id FROM orders")
    script("SET 'execution.runtime-mode' = 'batch'")
    assert "the INSERT is a batch" in script.refusal("INSERT INTO ids SELECT id FROM orders")


REFUSED = [
    ("ids SELECT id FROM lone", "'properties.group.id' is required"),
    ("ids SELECT CHAR_LENGTH(INITCAP(shop)) FROM orders", "column 36: the query has INITCAP of (STRING)"),
    ("ids SELECT id FROM orders WHERE shop LIKE shop", "LIKE of a pattern that is not a constant"),
    ("ids SELECT id FROM orders WHERE amount / 2 > 1", "the query has / of (DECIMAL, INT)"),
    ("ids SELECT o.id FROM orders AS o JOIN lone AS l ON o.id = l.id", "which a continuous query does not"),
    ("ids SELECT COUNT(*) FROM orders GROUP BY shop", "doesn't support consuming update changes"),
    ("ids SELECT id FROM changes", "doesn't support consuming"),
    ("shown SELECT id FROM orders", "whose connector is 'print' and not Kafka"),
    ("ids SELECT id FROM made", "whose connector is 'datagen' and not Kafka"),
    ("ids SELECT id FROM orders UNION ALL SELECT id FROM lone", "which a continuous query does not serve"),
    ("large (id, text) SELECT id, shop FROM orders", "INSERT leaves out the column 'at'"),
    ("ids SELECT id FROM other", "differ"),
    ("lone SELECT id FROM orders", "which the source reads"),
]
"""INSERTs, and what the message says."""


def test_a_null_in_a_column_that_is_not_null_ends_the_query(
    script: Script, bootstrap: str, make_topic: MakeTopic
) -> None:
    source, target = make_topic(), make_topic()
    judge.produce(bootstrap, source, b'{"id": null, "shop": "x"}')
    script(tables(bootstrap, source, target))
    job = script("INSERT INTO large SELECT id, shop, CAST(NULL AS TIMESTAMP(3)), 1 FROM orders")[0].job
    wait_until(lambda: job.status == "FAILED", "the query ends")
    assert "The column id is NOT NULL, and the query gave NULL" in job.error
    assert judge.consume_all(bootstrap, target) == []
