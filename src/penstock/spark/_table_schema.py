"""Derive a table's Arrow schema and its marked metadata columns from a Spark schema.

Runs on the driver. Invariant: a type whose Arrow form is only Spark's own packing (a variant, a geometry) is
refused, because a format would read or write the packing instead of the value.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, UserDefinedType

from penstock.errors import SchemaError
from penstock.spark.versions import to_arrow_schema

METADATA_MARK = "penstock.metadata"

_PACKED = frozenset({"variant", "geometry", "geography"})


def table_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a table, exactly as PySpark derives it.

    Raises:
        SchemaError: no columns, or a type that no format can hold.
    """
    if not schema.fields:
        raise SchemaError("The table has no columns. Declare at least one.")
    for field in schema:
        if _is_packed(field.dataType):
            raise _unsupported(field)
        try:
            to_arrow_schema(StructType([field]))
        except PySparkTypeError as error:
            raise _unsupported(field) from error
    return to_arrow_schema(schema)


def marked_metadata(schema: StructType) -> tuple[tuple[str, str], ...]:
    """Return the columns that are marked as metadata, with their metadata keys.

    Raises:
        SchemaError: a mark is not text.
    """
    marks = [(field.name, field.metadata.get(METADATA_MARK)) for field in schema if field.metadata]
    for column, key in marks:
        if key is not None and not isinstance(key, str):
            raise SchemaError(
                f"Expected text in the mark '{METADATA_MARK}' of column '{column}', got {key!r}. Use a "
                "metadata key such as 'offset' or 'timestamp'.",
                column=column,
            )
    return tuple((column, key) for column, key in marks if key is not None)


def _is_packed(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_packed(kind.elementType)
    if isinstance(kind, MapType):
        return _is_packed(kind.keyType) or _is_packed(kind.valueType)
    if isinstance(kind, StructType):
        return any(_is_packed(field.dataType) for field in kind)
    # By name, because not every version of PySpark has the class of a geometry.
    return isinstance(kind, UserDefinedType) or kind.typeName().lower() in _PACKED


def _unsupported(field: StructField) -> SchemaError:
    return SchemaError(
        f"Column '{field.name}' has type {field.dataType.simpleString()}, which no format can hold. Declare "
        "or cast it as another type, e.g. a string.",
        column=field.name,
        type=field.dataType.simpleString(),
    )
