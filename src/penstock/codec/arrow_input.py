"""Check Arrow columns that become parts of Kafka records, and bring them into the encoder's types.

Runs on executors, once an Arrow batch. Invariant: keys, values and headers become binary or string (either
width), timestamps become microseconds; Arrow has checked the buffers; a type that would need a guess is a
RowError.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from penstock.errors import RowError


def binary_input(records: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return the column as binary or string; None where it is absent or all null by type."""
    column = _column(records, name)
    return None if column is None else _as_binary(column, name)


def timestamp_input(records: pa.RecordBatch) -> pa.Array | None:
    """Return the column `timestamp` in microseconds; None where it is absent or all null by type."""
    column = _column(records, "timestamp")
    if column is None:
        return None
    if not kinds.is_timestamp(column.type):
        raise _wrong_type("timestamp", column.type, "a timestamp")
    if column.type.unit == "us":
        return column
    wanted = pa.timestamp("us", column.type.tz)
    try:
        # Nanoseconds cannot overflow, and Kafka's milliseconds lose the lost digits anyway.
        return column.cast(wanted, safe=column.type.unit != "ns")
    except pa.ArrowInvalid as error:
        raise RowError(
            f"The column timestamp holds a time that does not fit into microseconds ({error}). The rows of "
            "this Arrow batch were not written, and the task fails. Correct the column."
        ) from error


def header_input(records: pa.RecordBatch) -> pa.Array | None:
    """Return the column `headers` as a list of structs; None where it is absent or all null by type."""
    column = _column(records, "headers")
    if column is None:
        return None
    wanted = "list<struct<key: string, value: binary>>"
    is_list = kinds.is_list(column.type) or kinds.is_large_list(column.type)
    if not is_list or not kinds.is_struct(column.type.value_type):
        raise _wrong_type("headers", column.type, wanted)
    structs = column.values
    if sorted(field.name for field in structs.type) != ["key", "value"]:
        raise _wrong_type("headers", column.type, wanted)
    if all(_is_plain_binary(field.type) for field in structs.type):
        return column
    return _with_plain_headers(column)


def _with_plain_headers(column: pa.Array) -> pa.Array:
    """Return the same lists with keys and values as plain binary."""
    structs = column.values
    parts = []
    for name in ("key", "value"):
        part = structs.field(structs.type.get_field_index(name))
        if kinds.is_null(part.type):
            parts.append(pa.nulls(len(part), pa.binary()))
        else:
            parts.append(_as_binary(part, f"headers.{name}"))
    mask = structs.is_null() if structs.null_count else None
    plain_structs = pa.StructArray.from_arrays(parts, names=["key", "value"], mask=mask)
    validity, offsets = column.buffers()[:2]
    make = pa.large_list if kinds.is_large_list(column.type) else pa.list_
    return pa.Array.from_buffers(
        make(plain_structs.type),
        len(column),
        [validity, offsets],
        column.null_count,
        column.offset,
        [plain_structs],
    )


def _column(records: pa.RecordBatch, name: str) -> pa.Array | None:
    index = records.schema.get_field_index(name)
    if index < 0:
        return None
    column = records.column(index)
    if kinds.is_null(column.type):
        return None
    column.validate()
    return column


def _is_plain_binary(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_binary(kind)
        or kinds.is_string(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_large_string(kind)
    )


def _as_binary(column: pa.Array, name: str) -> pa.Array:
    kind = column.type
    if _is_plain_binary(kind):
        return column
    if kinds.is_dictionary(kind):
        return _as_binary(column.dictionary_decode(), name)
    if kinds.is_fixed_size_binary(kind) or kinds.is_binary_view(kind):
        return column.cast(pa.large_binary())
    if kinds.is_string_view(kind):
        return column.cast(pa.large_string())
    raise _wrong_type(name, kind, "binary or string")


def _wrong_type(name: str, kind: pa.DataType, wanted: str) -> RowError:
    return RowError(
        f"Expected {wanted} in the column {name}, got {kind}. Nothing was written; cast the column.",
        column=name,
        type=str(kind),
    )
