"""What `replicate` says of declared columns before it starts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from penstock.cdc.messages import message_format
from penstock.errors import OptionError, SchemaError
from penstock.spark._declared_columns import check_declared, declared_columns


def fields(**types: DataType) -> StructType:
    return StructType([StructField(name, kind, False) for name, kind in types.items()])


def test_all_columns_may_be_null() -> None:
    found = declared_columns(None, {"t": fields(id=LongType(), name=StringType())}, "rest")
    assert found == {"t": pa.schema([("id", pa.int64()), ("name", pa.string())])}


@pytest.mark.parametrize(
    "kind",
    [
        VariantType(),
        ArrayType(VariantType()),
        MapType(StringType(), VariantType()),
        fields(y=ArrayType(VariantType())),
    ],
    ids=str,
)
def test_variant_is_refused_by_name_wherever_it_stands(kind: DataType) -> None:
    with pytest.raises(OptionError, match=r"'x' of topic t is declared as VARIANT.*as STRING"):
        declared_columns(None, {"t": fields(id=LongType(), x=kind)}, "rest")


def test_a_column_does_not_have_the_name_of_the_rest() -> None:
    with pytest.raises(OptionError, match="declares a column 'rest' for topic t"):
        declared_columns(None, {"t": fields(id=LongType(), Rest=StringType())}, "rest")


def _check(columns: dict[str, Any], rest: str | None, evolve: str) -> None:
    declared = declared_columns(None, columns, rest)
    check_declared(declared, rest, evolve, message_format({"format": "debezium-json"}, declared=declared))


def test_each_field_has_a_place_or_is_left_out_by_choice() -> None:
    columns = {"t": fields(id=LongType())}
    _check(columns, "rest", "lenient")
    _check(columns, None, "ignore")
    for evolve in ("lenient", "exception"):
        with pytest.raises(OptionError, match="nothing says where they go"):
            _check(columns, None, evolve)
    with pytest.raises(OptionError, match="name of a column as `rest`"):
        _check(columns, "", "lenient")


def test_a_type_that_the_format_cannot_read_is_an_error_before_the_start() -> None:
    with pytest.raises(SchemaError, match="'x' of type map"):
        _check({"t": fields(id=LongType(), x=MapType(IntegerType(), StringType()))}, "rest", "lenient")
