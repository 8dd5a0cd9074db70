"""The columns that Spark sees, and KafkaRecords under Spark's column names.

Runs on driver and executor. Invariant: without a schema of the user the columns are exactly those of Spark's
own Kafka source; every batch has exactly the Arrow schema that PySpark derives from the Spark schema, because
PySpark checks only the first batch and crashes on later batches that differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import OptionError
from penstock.spark.versions import to_arrow_schema

HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
KAFKA_COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""The columns of Spark's own Kafka source; HEADERS follows on request."""

_RECORDS_NAME = {"timestampType": "timestamp_type"}
_MAY_BE_NULL = {"key", "value", "headers"}


def source_schema(*, include_headers: bool) -> StructType:
    """Return the columns of a read for which the user gave no schema."""
    return StructType([*KAFKA_COLUMNS.fields, *([HEADERS] if include_headers else [])])


def check_read_schema(schema: StructType) -> None:
    """Accept some of Spark's columns, in any order; only those are then decoded.

    Raises:
        OptionError: a column is unknown, duplicate, or of another type.
    """
    known = {field.name: field for field in source_schema(include_headers=True)}
    problems = [problem for field in schema if (problem := _problem(field, known))]
    names = schema.fieldNames()
    problems += [f"{name} stands twice" for name in sorted(set(names)) if names.count(name) > 1]
    if not names:
        problems = ["it has no columns"]
    if problems:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in known.values())
        raise OptionError(
            f"The schema of this read does not match: {'; '.join(problems)}. The schema may have some or "
            f"all of these columns: {columns}. For other columns set the option 'format', or decode keys "
            "and values with Spark functions.",
            schema=schema.simpleString(),
        )


def _problem(field: StructField, known: dict[str, StructField]) -> str | None:
    expected = known.get(field.name)
    if expected is None:
        return f"there is no column {field.name}"
    if field.dataType.simpleString() != expected.dataType.simpleString():
        wanted, got = expected.dataType.simpleString(), field.dataType.simpleString()
        return f"expected {wanted} for {field.name}, got {got}"
    if not field.nullable and field.name in _MAY_BE_NULL:
        return f"{field.name} may be null"
    return None


class RowSchema:
    """Makes the rows that Spark expects from KafkaRecords, without a copy."""

    def __init__(self, schema: StructType) -> None:
        self._arrow_schema: pa.Schema = to_arrow_schema(schema)
        self._names = [_RECORDS_NAME.get(name, name) for name in schema.fieldNames()]

    @property
    def columns(self) -> Sequence[str]:
        return self._names

    def outcomes(self) -> dict[str, int]:
        """Return nothing, because bytes are not decoded."""
        return {}

    def rows(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same buffers under Spark's names, order and nullability."""
        columns = [
            # A view, because the types differ only in nullability, never in layout.
            records.column(name).view(field.type)
            for name, field in zip(self._names, self._arrow_schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)
