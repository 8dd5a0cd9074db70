"""Rows of a state whose columns have changed since: they are read with the newer columns.

Runs on executors, and in `penstock state`. Invariants: only columns that may be null are added, and a type
only becomes wider. So no value is lost or changed. A column that was dropped and came again is another
column: it does not get the values of the first one.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

GENERATION = b"penstock.generation"
"""In the metadata of a column: how often a column of its name was dropped before it. Without it: never."""

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS = (pa.float32(), pa.float64())
_DIGITS_MAX = 38


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that holds each value of both types; None if there is none.

    Decimals keep all their digits: decimal(10, 2) and decimal(10, 4) give decimal(12, 4). Times of different
    units have none: the finer unit does not reach as far, and a hash of a row would depend on the unit.
    """
    if left == right:
        return left
    for family in (_INTEGERS, _FLOATS):
        if left in family and right in family:
            return max(left, right, key=family.index)
    if kinds.is_decimal128(left) and kinds.is_decimal128(right):
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _DIGITS_MAX else None
    return None


def generation(field: pa.Field) -> int:
    """Return how often a column with this name was dropped before this one was added."""
    return int((field.metadata or {}).get(GENERATION, b"0"))


def is_same(old: pa.Schema, new: pa.Schema) -> bool:
    """Return whether rows of `old` are rows of `new`."""
    return bool(old.equals(new)) and list(map(generation, old)) == list(map(generation, new))


def follows(old: pa.Schema, new: pa.Schema) -> bool:
    """Return whether rows of `old` can be read as rows of `new`."""
    for field in new:
        at = old.get_field_index(field.name)
        if at < 0 or generation(old.field(at)) != generation(field):
            if not field.nullable:
                return False
        elif common_type(old.field(at).type, field.type) != field.type:
            return False
    return True


def as_columns(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows in newer columns, which follow theirs: with nulls where they have no value."""
    columns = []
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        if at < 0 or generation(rows.schema.field(at)) != generation(field):
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            columns.append(rows.column(at).cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
