"""Expressions over Arrow, as a continuous query computes them, beside what Flink has answered. Without Spark.

`tests/spark/test_sql_continuous.py` compares each function with Spark, over extreme values.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import cache
from typing import Any
from unicodedata import category, unidata_version

import pyarrow as pa
import pytest

from penstock.errors import RowError, SqlError
from penstock.sql.emit.arrow import ArrowPlan
from penstock.sql.emit.arrow_query import ArrowQuery
from penstock.sql.emit.arrow_types import NotServedError, arrow_type
from penstock.sql.emit.arrow_values import Constant, Value
from penstock.sql.plan.expressions import Call, Column, Expression, Literal, rewritten, walk
from penstock.sql.plan.nodes import Output, Project
from tests.judges.sql.corpus import DATA
from tests.unit.sql.planning import How, RecordedViews, catalog_of, planned

ANYTHING = How(views=RecordedViews(knows_all=False))
REFUSED: dict[str, str] = json.loads((DATA / "refused.json").read_text())
"""What fails in Spark and not in Flink."""
AS_IN_SPARK = (
    "UPPER('stra\u00dfe')", "LOWER('\u0130')", "EXTRACT(SECOND FROM TIMESTAMP '1900-01-01 12:30:15.123')",
    "EXTRACT(MILLISECOND FROM TIMESTAMP '1900-01-01 12:30:15.123')",
    "EXTRACT(DOW FROM TIMESTAMP '1969-12-31 23:59:59.5')",
)  # fmt: skip
"""Expressions with Spark's value, which differs from Flink's in micro-batches, too: see `test_sql_flink.py`."""
LEAST_JUDGED = 290
"""How many of Flink's answers are compared at least. Raise it with the functions that are served."""
SERVED = {
    "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IS NULL", "IS TRUE", "IS FALSE", "IS DISTINCT FROM", "IS NOT DISTINCT FROM",
    "BETWEEN", "IN", "COALESCE", "IFNULL", "NULLIF", "IF", "CASE", "||", "CONCAT", "CHAR_LENGTH",
    "CHARACTER_LENGTH", "TRIM", "CAST", "TRY_CAST", "+", "-", "*",
    "/", "UPPER", "LOWER", "LIKE", "NOT LIKE", "SUBSTRING", "SUBSTR", "SUBSTRING_FROM", "SUBSTRING_FROM_FOR",
    "%", "MOD", "ABS", "BTRIM", "CONCAT_WS", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "ENDSWITH", "EXTRACT(MILLISECOND)",
    "FLOOR_TO", "GREATEST", "HEX", "HOUR", "INSTR", "JSON_STRING", "LEAST", "LEFT", "LOCATE", "LTRIM", "MD5", "MINUTE", "MONTH",
    "POSITION_IN", "QUARTER", "REPLACE", "REVERSE", "RIGHT", "RTRIM", "SECOND", "SHA1", "SHA256", "STARTSWITH",
    "TO_TIMESTAMP_LTZ", "TRIM_BOTH", "TRIM_LEADING", "TRIM_TRAILING", "WEEK", "YEAR",
}  # fmt: skip


def expression_of(text: str) -> Expression | None:
    """Return a recorded expression as binding gives it; None if it needs Spark, or is refused."""
    try:
        plan: Output = planned(f"SELECT {text} AS x", ANYTHING).plan
    except SqlError:
        return None
    node = plan.input
    return node.outputs[0].expression if isinstance(node, Project) else None


def query_of_plan(text: str, columns: str = "i INT", *, is_utc: bool = False) -> ArrowQuery:
    """Return a query over the table t, as a function."""
    options = (
        "'connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.bootstrap.servers' = 'b:1'"
    )
    how = How(
        views=RecordedViews(knows_all=False),
        catalog=catalog_of(f"CREATE TABLE t ({columns}) WITH ({options});"),
    )
    plan, arrow = planned(text, how).plan, ArrowPlan(is_utc=is_utc)
    return arrow.query(dict(zip(plan.names, arrow.rows(plan.input, plan.columns), strict=True)))


@cache
def recorded() -> list[tuple[str, Any, str | None, Expression]]:
    """Return text, value, error and expression of what Flink has answered."""
    found = []
    for each in json.loads((DATA / "flink_expressions.json").read_text()):
        expression = expression_of(each["expression"])
        if expression is not None:
            found.append((each["expression"], each.get("value"), each.get("error"), expression))
    return found


def served() -> Iterator[tuple[str, Any, str | None, Expression, Value]]:
    for text, value, error, expression in recorded():
        try:
            yield text, value, error, expression, ArrowPlan().value(expression)
        except NotServedError:
            continue


ONE_ROW = pa.RecordBatch.from_pydict({"any": [1]})


def plain(value: Any) -> Any:
    """Return a value as the recorded answers have it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def over_columns(expression: Expression) -> tuple[Value, pa.RecordBatch] | None:
    """Return an expression whose constants are columns, and three rows of them, with NULLs between."""
    columns: dict[str, pa.Array] = {}

    def replaced(part: Expression) -> Expression | None:
        if not isinstance(part, Literal) or part.text == "NULL":
            return None
        constant = ArrowPlan().value(part)
        assert isinstance(constant, Constant)
        name = f"c{len(columns)}"
        value = constant.value
        columns[name] = pa.array([value.as_py(), None, value.as_py()], value.type)
        return Column(len(columns) - 1, name, part.type)

    try:
        value = ArrowPlan().value(rewritten(expression, replaced))
    except ValueError:  # it wants a constant
        return None
    return (value, pa.RecordBatch.from_pydict(columns)) if columns else None


def test_what_is_served_has_the_value_that_flink_gave() -> None:
    wrong, judged, names = {}, 0, set()
    for text, wanted, error, expression, value in served():
        names |= {each.name for each in walk(expression) if isinstance(each, Call)}
        if error is not None or text in REFUSED:  # an overflow, which is an error in Spark, too
            with pytest.raises(RowError, match=r"does not fit its type|is divided by 0|got another text"):
                value.of(ONE_ROW)
            continue
        found = value.of(ONE_ROW)
        assert found.type == value.type, text
        rows = [found[0].as_py()]
        if (of_columns := over_columns(expression)) is not None:
            copied = pickle.loads(pickle.dumps(of_columns[0]))  # noqa: S301 - it travels to executors so
            array = copied.of(of_columns[1])
            rows += [array[0].as_py(), array[2].as_py()]
        judged += 1
        if text not in AS_IN_SPARK and any(plain(each) != wanted for each in rows):
            wrong[text] = (rows, wanted)
    assert wrong == {}
    assert judged >= LEAST_JUDGED
    assert names <= SERVED


@pytest.mark.parametrize(
    "text",
    [
        "INITCAP('a')", "'a' LIKE UPPER('a%')", "'a' LIKE 'a!%' ESCAPE '!'", "REGEXP('a', 'a')", "LPAD('a', 2, 'x')",
        "CAST('1' AS DOUBLE)", "CAST('2026-01-01' AS DATE)", "REPLACE('a', '', 'b')", "REPEAT('a', 2)", "RAND()", "SUBSTRING('abc', CAST(2 AS BIGINT))",
        "CAST('a' AS CHAR(3))", "CAST('abc' AS VARCHAR(2))", "CURRENT_TIMESTAMP",
        "JSON_EXISTS('{}', '$.a')", "CAST(1.5 AS FLOAT)",
        "-CAST(NULL AS DECIMAL(38, 18))",
    ],
)  # fmt: skip
def test_what_could_differ_is_refused_by_its_name(text: str) -> None:
    expression = expression_of(text)
    assert expression is not None
    with pytest.raises(NotServedError, match="which a continuous query does not serve"):
        ArrowPlan().value(expression)


@pytest.mark.parametrize("name", ["UPPER", "LOWER"])
def test_the_case_of_a_letter_that_this_python_does_not_know_is_an_error(name: str) -> None:
    unassigned = next(chr(each) for each in range(0x10D50, 0x110000) if category(chr(each)) == "Cn")
    expression = expression_of(f"{name}('{unassigned}')")
    assert expression is not None
    with pytest.raises(
        RowError, match=rf"{name}: the case of the character U\+{ord(unassigned):04X} is not in Unicode"
    ):
        ArrowPlan().value(expression).of(ONE_ROW)


@pytest.mark.parametrize("text", ["\u0295\u03a3", "a\u03a3\u0295b", "a\U0001171e\u03a3"])
def test_the_end_of_a_word_that_this_python_does_not_know_is_an_error(text: str) -> None:
    # Unicode 16 has other properties for these two. They say where a word with a Sigma ends.
    other = next(each for each in text if each in "\u0295\U0001171e")
    is_known = tuple(map(int, unidata_version.split("."))) >= (16,)
    for name, part in (("UPPER", text), ("LOWER", text.replace("\u03a3", "")), ("LOWER", "a\u03a3")):
        expression = expression_of(f"{name}('{part}')")
        assert expression is not None
        wanted = part.upper() if name == "UPPER" else part.lower()
        assert ArrowPlan().value(expression).of(ONE_ROW).to_pylist() == [wanted]
    expression = expression_of(f"LOWER('{text}')")
    assert expression is not None
    message = rf"LOWER: the case of the character U\+{ord(other):04X} is not in Unicode"
    with nullcontext() if is_known else pytest.raises(RowError, match=message):
        ArrowPlan().value(expression).of(ONE_ROW)


def test_a_field_of_a_row_is_null_if_the_row_is() -> None:
    columns = "`r` ROW<`A` INT, b ROW<c STRING>>"
    query = query_of_plan("SELECT r.a AS x, r.b.c AS y FROM t WHERE r.a IS NULL OR r.a > 0", columns)
    kind = pa.struct([("A", pa.int32()), ("b", pa.struct([("c", pa.string())]))])
    rows = [
        {"A": 1, "b": {"c": "x"}},
        None,
        {"A": 0, "b": None},
        {"A": 2, "b": None},
        {"A": None, "b": {"c": "y"}},
    ]
    found = query(pa.RecordBatch.from_pydict({"r": pa.array(rows, kind)}))
    assert found.to_pydict() == {"x": [1, None, 2, None], "y": ["x", None, None, "y"]}


def test_a_time_of_a_watermark_is_served_where_zones_do_not_matter() -> None:
    zoned = "i INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts"
    query = query_of_plan("SELECT i, ts FROM t", zoned)
    assert list(query.lines())[1] == "checks that each row has the time of the WATERMARK"
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    assert query(pa.RecordBatch.from_pydict({"i": [1], "ts": times}))["ts"].equals(times)
    with pytest.raises(RowError, match="The event time ts is NULL"):
        query(pa.RecordBatch.from_pydict({"i": [1], "ts": pa.array([None], times.type)}))
    plain = zoned.replace("_LTZ", "")
    assert list(query_of_plan("SELECT i FROM t", plain).fields) == ["i", "ts"]
    with pytest.raises(NotServedError, match="which is the TIMESTAMP of a WATERMARK, outside of UTC"):
        query_of_plan("SELECT ts FROM t", plain)


def test_a_whole_row_is_refused() -> None:
    with pytest.raises(NotServedError, match="the type STRUCT"):
        query_of_plan("SELECT r FROM t", "r ROW<a INT>")


def test_a_part_of_case_is_computed_only_where_it_is_needed() -> None:
    expression = expression_of(
        "CASE WHEN 2147483647 > 5 THEN 0 ELSE 2147483647 + 1 END + COALESCE(0, 2147483647 + 1)"
    )
    assert expression is not None
    assert ArrowPlan().value(expression).of(ONE_ROW).to_pylist() == [0]
    guarded = expression_of("(1 > 2 AND 2147483647 + 1 > 0) OR (1 < 2 OR 2147483647 + 1 > 0)")
    assert guarded is not None
    assert ArrowPlan().value(guarded).of(ONE_ROW).to_pylist() == [True]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CASE WHEN i < 100 THEN y END FROM (SELECT i, i * 2 AS y FROM t) AS q",
        "SELECT IF(i < 100, z, NULL) FROM (SELECT i, y + 1 AS z FROM (SELECT i, i * 2 AS y FROM t) AS q) AS r",
    ],
)
def test_a_guard_also_guards_a_column_of_an_inner_query(text: str) -> None:
    query = query_of_plan(text)
    rows = pa.RecordBatch.from_pydict({"i": pa.array([2**31 - 1, 5, None], pa.int32())})
    first = query(rows).column(0).to_pylist()
    assert first[0] is None
    assert first[1] in (10, 11)


@pytest.mark.parametrize("text", ["CASE WHEN 1 < 2 THEN NULL END", "COALESCE(NULL, NULL)"])
def test_a_value_without_a_type_is_refused(text: str) -> None:
    expression = expression_of(text)
    if expression is not None:
        with pytest.raises(NotServedError, match="no type"):
            ArrowPlan().value(expression)


def test_an_overflow_names_its_place() -> None:
    expression = expression_of("2147483647 + 1")
    assert expression is not None
    value = ArrowPlan(lambda offset: f"Offset {offset}: ").value(expression)
    with pytest.raises(RowError, match=r"^Offset 7: \+: a number does not fit its type int32"):
        value.of(ONE_ROW)


def test_a_value_has_the_type_of_its_expression() -> None:
    for text, _, _, expression, value in served():
        assert value.type == arrow_type(expression.type), text
