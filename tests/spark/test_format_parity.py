"""JSON and CSV equal Spark's `from_json` and `from_csv`, or differ as docs/formats-compared.md says.

Avro is equal to Spark's `from_avro`, except for types that Flink's tables do not have.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession, functions
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tests.table_specs import format_for

PAGE = (Path(__file__).parents[2] / "docs" / "formats-compared.md").read_text()
BAD = "bad record"
NO_ROW = "no row"
DAY = date(2026, 1, 2)
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

JSON_COLUMNS = (
    "b BOOLEAN, t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, dec DECIMAL(10,2), s STRING, bin BINARY, "
    "dt DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, a ARRAY<INT>, m MAP<STRING,INT>, r STRUCT<x: INT, y: STRING>"
)
JSON_EQUAL: dict[str, Any] = {
    '{"b":true,"t":1,"i":-5,"l":9007199254740993,"d":-0.1,"dec":12.34}': {
        "b": True,
        "t": 1,
        "i": -5,
        "l": 9007199254740993,
        "d": -0.1,
        "dec": Decimal("12.34"),
    },
    '{"f":1.5,"s":"é😀","bin":"AAH/","dt":"2026-01-02","a":[1,null,3]}': {
        "f": 1.5,
        "s": "é😀",
        "bin": b"\0\1\xff",
        "dt": DAY,
        "a": [1, None, 3],
    },
    '{"m":{"k":1,"n":null},"r":{"x":1,"y":"z"}}': {"m": {"k": 1, "n": None}, "r": {"x": 1, "y": "z"}},
    '{"ts":"2026-01-02 03:04:05Z","ntz":"2026-01-02 03:04:05"}': {"ts": AT, "ntz": AT.replace(tzinfo=None)},
    "{}": {},
    '{"i":null}': {},
    ' {"i" : 1 } ': {"i": 1},
    '{"i":1,"unknown":{"deep":[1,2]}}': {"i": 1},
    '{"I":1}': {},
    '{"s":1}': {"s": "1"},
    '{"s":true}': {"s": "true"},
    '{"s":{"x": 1, "y": [ 1 ]}}': {"s": '{"x":1,"y":[1]}'},
    '{"s":"a\\u00e9\\n\\"\\\\/\\ud83d\\ude00"}': {"s": 'aé\n"\\/😀'},
    '{"d":"NaN"}': {"d": float("nan")},
    '{"d":"Infinity"}': {"d": float("inf")},
    '{"d":1}': {"d": 1.0},
    '{"dec":12.345}': {"dec": Decimal("12.35")},
    '{"dec":-0.005}': {"dec": Decimal("-0.01")},
    '{"dec":"12.34"}': {"dec": Decimal("12.34")},
    '{"a":[],"m":{},"r":{}}': {"a": [], "m": {}, "r": {"x": None, "y": None}},
    '{"i":1,"i":2}': {"i": 2},
    "": NO_ROW,
}
JSON_DIFFERENT: dict[str, tuple[Any, Any]] = {
    '{"i":"5"}': ({}, {"i": 5}),
    '{"b":"true"}': ({}, {"b": True}),
    '{"i":1.0}': ({}, {"i": 1}),
    '{"i":1.5}': ({}, BAD),
    '{"i":2147483648}': ({}, BAD),
    '{"t":128}': ({"t": -128}, BAD),
    '{"d":1e400}': ({"d": float("inf")}, BAD),
    '{"d":NaN}': ({"d": float("nan")}, BAD),
    '{"b":"yes"}': ({}, BAD),
    '{"dec":123456789.12}': ({}, BAD),
    '{"dt":"2026-02-30"}': ({}, BAD),
    '{"dt":"2026-1-2"}': ({"dt": DAY}, BAD),
    '{"ts":"2026-01-02 03:04:05"}': ({"ts": AT}, BAD),
    '{"ts":"2026-01-02T03:04:05Z"}': ({"ts": AT}, BAD),
    '{"ts":1767323045}': ({"ts": AT}, BAD),
    '{"s":1.50}': ({"s": "1.5"}, {"s": "1.50"}),
    '{"r":{"x":"q","y":"z"},"i":1}': ({"i": 1, "r": {"x": None, "y": "z"}}, BAD),
    '[{"i":1},{"i":2}]': ({}, [{"i": 1}, {"i": 2}]),
    '{"i":1}{"i":2}': ({"i": 1}, BAD),
    '{"i":1': ({}, BAD),
    "{'i':1}": ({"i": 1}, BAD),
    "null": ({}, BAD),
}

CSV_COLUMNS = "b BOOLEAN, i INT, d DOUBLE, dec DECIMAL(10,2), dt DATE, ts TIMESTAMP, s STRING"
CSV_EQUAL: dict[str, Any] = {
    "true,1,1.5,12.34,2026-01-02,2026-01-02 03:04:05Z,abc": {
        "b": True,
        "i": 1,
        "d": 1.5,
        "dec": Decimal("12.34"),
        "dt": DAY,
        "ts": AT,
        "s": "abc",
    },
    ',,,,,,"a,b"': {"s": "a,b"},
    ',,,,,,"two\nlines"': {"s": "two\nlines"},
    ",,,,,, a ": {"s": " a "},
    ",,,,,,null": {"s": "null"},
    "TRUE,+1,NaN,12.345,,,x": {"b": True, "i": 1, "d": float("nan"), "dec": Decimal("12.35"), "s": "x"},
    ",,Infinity,1e2,,,x": {"d": float("inf"), "dec": Decimal("100.00"), "s": "x"},
}
CSV_DIFFERENT: dict[str, tuple[Any, Any]] = {
    ",,,,,,": ({}, {"s": ""}),
    ',,,,,,"a ""b"""': ({"s": '"a ""b"""'}, {"s": 'a "b"'}),
    "true,1": ({"b": True, "i": 1}, BAD),
    "true,1,,,,,x,more": ({"b": True, "i": 1, "s": "x"}, BAD),
    ",x,,,,,x": ({"s": "x"}, BAD),
    ",2147483648,,,,,x": ({"s": "x"}, BAD),
    ", 1,,,,,x": ({"s": "x"}, {"i": 1, "s": "x"}),
    ",,1e400,,,,x": ({"d": float("inf"), "s": "x"}, BAD),
    ",,,,2026-02-30,,x": ({"s": "x"}, BAD),
    ",,,,,2026-01-02 03:04:05,x": ({"ts": AT, "s": "x"}, BAD),
    ',,,,,,"open': ({"s": "open"}, BAD),
    "#,1,,,,,x": ({"i": 1, "s": "x"}, BAD),
    "": ({}, NO_ROW),
}


def plain(row: Any) -> Any:
    """A row as a dict without its null columns; NaN as text."""
    if not isinstance(row, dict):
        return row
    return {name: _plain(value) for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    return bytes(value) if isinstance(value, bytearray) else value


def of_spark(
    spark: SparkSession, parse: Callable[[Column, str], Column], columns: str, texts: Sequence[str]
) -> list[Any]:
    given = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n INT, text STRING")
    parsed = given.coalesce(1).select("n", parse(functions.col("text"), columns).alias("row"))
    rows = sorted(parsed.collect(), key=lambda one: one.n)
    return [NO_ROW if one.row is None else with_zone(plain(one.row.asDict(recursive=True))) for one in rows]


def with_zone(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """Spark hands timestamps to Python without their zone, in the local one."""
    for name in names or ("ts",):
        if name in row:
            row[name] = row[name].astimezone(UTC)
    return row


def of_penstock(name: str, columns: str, texts: Sequence[str]) -> list[Any]:
    declared = StructType.fromDDL(columns)
    assert isinstance(declared, StructType)
    schema = to_arrow_schema(declared, timezone="UTC")
    found = (
        format_for(name, {}).decoder(schema).decode(pa.array([text.encode() for text in texts], pa.binary()))
    )
    rows: dict[int, Any] = {failure.value_index: BAD for failure in found.failures}
    for index, row in zip(
        found.indices().to_pylist(), found.rows.to_pylist(maps_as_pydicts="strict"), strict=True
    ):
        one = plain(row)
        rows[index] = [rows[index], one] if index in rows else one
    return [rows.get(n, NO_ROW) for n in range(len(texts))]


@pytest.mark.parametrize(
    ("name", "columns", "parse", "equal", "different"),
    [
        ("json", JSON_COLUMNS, functions.from_json, JSON_EQUAL, JSON_DIFFERENT),
        ("csv", CSV_COLUMNS, functions.from_csv, CSV_EQUAL, CSV_DIFFERENT),
    ],
    ids=["json", "csv"],
)
def test_values_read_as_spark_reads_them_but_for_what_the_docs_say(
    spark: SparkSession,
    name: str,
    columns: str,
    parse: Callable[[Column, str], Column],
    equal: dict[str, Any],
    different: dict[str, tuple[Any, Any]],
) -> None:
    texts = [*equal, *different]
    expected = [_nan_free(row) for row in equal.values()]
    of_sparks = [*expected, *(_nan_free(row) for row, _ in different.values())]
    of_ours = [*expected, *(_nan_free(row) for _, row in different.values())]
    found = of_spark(spark, parse, columns, texts)
    assert dict(zip(texts, found, strict=True)) == dict(zip(texts, of_sparks, strict=True))
    found = of_penstock(name, columns, texts)
    assert dict(zip(texts, found, strict=True)) == dict(zip(texts, of_ours, strict=True))


def _nan_free(row: Any) -> Any:
    return plain(row) if isinstance(row, dict) else row


def test_every_difference_is_in_the_docs() -> None:
    texts = [text for text in (*JSON_DIFFERENT, *CSV_DIFFERENT) if text]
    assert [text for text in texts if f"`{text}`" not in PAGE] == []


@pytest.mark.parametrize(("title", "tried"), [("JSON", JSON_DIFFERENT), ("CSV", CSV_DIFFERENT)])
def test_every_value_of_the_tables_is_tried(title: str, tried: dict[str, tuple[Any, Any]]) -> None:
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?)(?= \| )", section, re.MULTILINE)
    shown = [value for cell in cells for value in re.findall(r"`([^`]+)`", cell)]
    assert len(shown) > 10
    assert [value for value in shown if value not in tried] == []


AVRO_SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": ["null", "int"]},
        {"name": "l", "type": ["long", "null"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "bin", "type": "bytes"},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
        {
            "name": "fixed_dec",
            "type": {
                "type": "fixed",
                "name": "Amount",
                "size": 9,
                "logicalType": "decimal",
                "precision": 20,
                "scale": 3,
            },
        },
        {"name": "dt", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "ntz", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "e", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}},
        {"name": "a", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {
            "name": "r",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Inner",
                    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"]}],
                },
            ],
        },
    ],
}
AVRO_ROW: dict[str, Any] = {
    "b": True,
    "i": -5,
    "l": 9007199254740993,
    "f": 1.5,
    "d": -0.1,
    "s": "é😀",
    "bin": b"\0\1\xff",
    "dec": Decimal("-12345.678"),
    "fixed_dec": Decimal("-0.001"),
    "dt": DAY,
    "ts": AT,
    "ms": AT,
    "ntz": AT.replace(tzinfo=None),
    "e": "GREEN",
    "a": [1, None, -(2**31)],
    "m": {"k": 2**40, "": -1},
    "r": {"x": 1, "y": None},
}
AVRO_ROWS = [
    AVRO_ROW,
    {**AVRO_ROW, "i": None, "l": None, "s": None, "r": None, "a": [], "m": {}, "b": False, "e": "RED"},
    {**AVRO_ROW, "d": float("inf"), "f": float("-inf"), "s": "", "bin": b"", "dt": date(1, 1, 1)},
    {**AVRO_ROW, "dec": Decimal("99999999999999999.999"), "ts": datetime(1900, 1, 1, tzinfo=UTC)},
]


def test_avro_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    schema = json.dumps(AVRO_SCHEMA)
    parsed = fastavro.parse_schema(AVRO_SCHEMA)
    values = []
    for row in AVRO_ROWS:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, row)
        values.append(buffer.getvalue())
    bytes_of_rows = spark.createDataFrame([(n, value) for n, value in enumerate(values)], "n INT, v BINARY")
    decoded = (
        bytes_of_rows.select("n", from_avro("v", schema).alias("r")).select("n", "r.*").orderBy("n").drop("n")
    )
    of_sparks = [with_zone(plain(row.asDict(recursive=True)), "ts", "ms") for row in decoded.collect()]
    arrow = to_arrow_schema(decoded.schema, timezone="UTC")
    found = format_for("avro", {"avro.schema": schema}).decoder(arrow).decode(pa.array(values, pa.binary()))
    assert not found.failures
    ours = [plain(row) for row in found.rows.to_pylist(maps_as_pydicts="strict")]
    assert ours == of_sparks
    assert of_sparks == [plain(row) for row in AVRO_ROWS]
