"""`scan.row-filter`: a read gives the rows that fulfil all conditions, and bad records count."""

from __future__ import annotations

import operator
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.sql.types import DoubleType, IntegerType, StringType, StructType

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import DecodeError, OptionError, PenstockError, SchemaError
from penstock.options.parse import parse_read
from penstock.options.row_filter import COMPARISONS, OF_TEXTS, RowCondition, text_of
from penstock.spark._tables import TableSource, table_source
from penstock.table.row_filter import WantedRows

TABLE = {"properties.bootstrap.servers": "h:1", "topic": "t", "format": "json"}
COMPARED = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
SIGNS = dict(zip(COMPARISONS, COMPARED, strict=True))
SMALL, TEXT = st.integers(-3, 3), st.sampled_from(["", "a", "A", "a ", "é"])
ROWS = st.lists(st.tuples(st.none() | SMALL, st.none() | TEXT), max_size=12)


TYPES = {"INT": IntegerType(), "STRING": StringType(), "DOUBLE": DoubleType()}


def source(columns: str, **options: str) -> TableSource:
    config = parse_read({**TABLE, **options}, streaming=True)
    assert config.table is not None
    schema = StructType()
    for each in columns.split(", "):
        name, kind = each.split()
        schema = schema.add(name, TYPES[kind])
    return table_source(schema, config.table)


def records(*values: bytes) -> pa.RecordBatch:
    names = ("topic", "partition", "offset", "value")
    arrays = [["t"] * len(values), [0] * len(values), range(len(values)), values]
    fields = [KAFKA_RECORDS.field(name) for name in names]
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(arrays, fields, strict=True)],
        schema=pa.schema(fields),
    )


@st.composite
def conditions(draw: st.DrawFn) -> RowCondition:
    if draw(st.booleans()):
        sign = draw(st.sampled_from(OF_TEXTS))
        texts = draw(st.lists(TEXT, min_size=1, max_size=1 if sign in SIGNS else 3))
        return RowCondition("s", sign, tuple(texts))
    sign = draw(st.sampled_from((*COMPARISONS, "IN", "NOT IN")))
    numbers = st.integers(-4, 4) | st.just(1 << 40)
    return RowCondition(
        "i", sign, tuple(draw(st.lists(numbers, min_size=1, max_size=1 if sign in SIGNS else 3)))
    )


def fulfils(value: Any, condition: RowCondition) -> bool:
    if value is None:
        return False
    if condition.operator in SIGNS:
        return bool(SIGNS[condition.operator](value, condition.values[0]))
    return (value in condition.values) is (condition.operator == "IN")


@given(ROWS, st.lists(conditions(), min_size=1, max_size=3))
def test_rows_that_fulfil_all_conditions_are_left_in_their_order(
    rows: list[tuple[int | None, str | None]], found: list[RowCondition]
) -> None:
    columns = {
        "i": pa.array([i for i, _ in rows], pa.int8()),
        "s": pa.array([s for _, s in rows], pa.string()),
    }
    kept = WantedRows(tuple(found)).of(pa.RecordBatch.from_pydict(columns))
    expected = [
        row for row in rows if all(fulfils(row[0 if each.column == "i" else 1], each) for each in found)
    ]
    assert [(row["i"], row["s"]) for row in kept.to_pylist()] == expected


def test_a_read_leaves_out_rows_behind_its_decoder() -> None:
    read = source("kind INT, s STRING", **{"scan.row-filter": text_of([RowCondition("kind", "=", (1,))])})
    batch = records(b'{"kind": 1, "s": "a"}', b'{"kind": 2, "s": "b"}', b'{"s": "c"}', b'{"kind": 1}')
    assert read.open().rows(batch).to_pylist() == [{"kind": 1, "s": "a"}, {"kind": 1, "s": None}]
    assert read.decoder().decode(batch).row_count == 4, "topic partitions are aligned by all rows"


def test_a_bad_record_stops_the_read_although_its_row_would_be_left_out() -> None:
    read = source("kind INT, n INT", **{"scan.row-filter": "kind = 1"})
    with pytest.raises(DecodeError):
        read.open().rows(records(b'{"kind": 2, "n": "x"}'))


@pytest.mark.parametrize(
    ("columns", "options", "error", "said"),
    [
        (
            "kind INT",
            {"scan.row-filter": "other = 1"},
            SchemaError,
            "compares 'other', which is not a column",
        ),
        (
            "kind STRING",
            {"scan.row-filter": "kind = 1"},
            SchemaError,
            "with a number, and the column is string",
        ),
        (
            "kind DOUBLE",
            {"scan.row-filter": "kind = 1"},
            SchemaError,
            "with a number, and the column is double",
        ),
        ("kind INT", {"scan.row-filter": "kind = 'a'"}, SchemaError, "with a text, and the column is int32"),
        (
            "kind INT, row_kind STRING",
            {"scan.row-filter": "kind = 1", "format": "debezium-json"},
            OptionError,
            "is for tables of append-only rows",
        ),
    ],
)
def test_conditions_that_do_not_fit_the_table_are_refused_on_the_driver(
    columns: str, options: dict[str, str], error: type[PenstockError], said: str
) -> None:
    with pytest.raises(error, match=said):
        source(columns, **options)
