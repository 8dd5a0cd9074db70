"""Pairs the columns of a table with the fields of a Protobuf message, by name, and checks their types.

Runs on driver and executors. Invariant: no pair changes a value. A value that does not fit into the narrower
side is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import SchemaError

TIMESTAMP = "google.protobuf.Timestamp"


# FieldDescriptor.CPPTYPE_*: the numbers are Protobuf's own and never change.
_INTEGERS = frozenset((1, 2, 3, 4))
_UINT64 = 4
_DOUBLE, _FLOAT, _BOOL, _ENUM, _STRING, _MESSAGE = 5, 6, 7, 8, 9, 10
_TYPE_BYTES = 12


@dataclass(frozen=True)
class FieldPair:
    """A column and the field of a message that belongs to it."""

    field: Any
    column: pa.Field
    path: str

    @property
    def kind(self) -> str:
        """How the field is held: "map", "list" or "single"."""
        if not self.field.is_repeated:
            return "single"
        message = self.field.message_type
        return "map" if message is not None and message.GetOptions().map_entry else "list"


def pairs_of(
    descriptor: Any, columns: Iterable[pa.Field], path: str, *, writes: bool, may_lack: bool = False
) -> list[tuple[FieldPair | None, pa.Field]]:
    """Find the field of each column, by name.

    Args:
        descriptor: The message.
        columns: The columns.
        path: The path of the Protobuf message in the row, for error messages.
        writes: Whether the columns are written to the fields.
        may_lack: Whether a column may have no field (None in its pair).

    Raises:
        SchemaError: a column has no field, or a field of another type.
    """
    found: list[tuple[FieldPair | None, pa.Field]] = []
    for column in columns:
        below = f"{path}.{column.name}".lstrip(".")
        field = descriptor.fields_by_name.get(column.name)
        if field is None and not may_lack:
            names = ", ".join(list(descriptor.fields_by_name)[:20])
            raise SchemaError(
                f"The Protobuf message '{descriptor.full_name}' has no field for column '{below}'. Its "
                f"fields: {names}.",
                field=below,
            )
        pair = None if field is None else FieldPair(field, column, below)
        if pair is not None:
            _check(pair, writes=writes)
        found.append((pair, column))
    return found


def entry_pairs(pair: FieldPair) -> tuple[FieldPair, FieldPair]:
    """Return the pairs of a map's key and value."""
    fields, kind = pair.field.message_type.fields_by_name, pair.column.type
    return (
        FieldPair(fields["key"], pa.field("key", kind.key_type, nullable=False), f"{pair.path}{{}}"),
        FieldPair(fields["value"], kind.item_field, f"{pair.path}{{}}"),
    )


def _check(pair: FieldPair, *, writes: bool) -> None:
    kind = pair.column.type
    if pair.kind == "map":
        if not pt.is_map(kind):
            raise mismatch(pair, kind)
        for one in entry_pairs(pair):
            _check_single(pair, one.field, one.column.type, writes=writes)
    elif pair.kind == "list":
        if not pt.is_list(kind):
            raise mismatch(pair, kind)
        _check_single(pair, pair.field, kind.value_type, writes=writes)
    else:
        _check_single(pair, pair.field, kind, writes=writes)


def _check_single(pair: FieldPair, field: Any, kind: pa.DataType, *, writes: bool) -> None:
    if field.cpp_type == _MESSAGE:
        fits = pt.is_struct(kind) or is_timestamp(field, kind)
    else:
        fits = _fits(field, kind, writes=writes)
    if not fits:
        raise mismatch(pair, kind)


def mismatch(pair: FieldPair, kind: pa.DataType) -> SchemaError:
    """Make the error for a column of another type than its field."""
    message = pair.field.message_type
    name = message.full_name if message is not None else _TYPE_NAMES.get(pair.field.type, "enum")
    return SchemaError(
        f"Column '{pair.path}' is {kind}, and the field '{pair.field.full_name}' is "
        f"{'repeated ' if pair.field.is_repeated else ''}{name}. Declare a column type that can hold this.",
        field=pair.path,
        type=str(kind),
    )


def is_timestamp(field: Any, kind: pa.DataType) -> bool:
    """Return whether a field is the well-known Timestamp and its column a timestamp, not a row."""
    is_instant = pt.is_timestamp(kind) and kind.tz is not None
    return bool(field.message_type.full_name == TIMESTAMP and is_instant)


def _fits(field: Any, kind: pa.DataType, *, writes: bool) -> bool:
    cpp_type = field.cpp_type
    if cpp_type in _INTEGERS:
        is_wide = pt.is_decimal128(kind) and kind.scale == 0 and kind.precision >= 20
        return bool(pt.is_signed_integer(kind) or (is_wide and cpp_type == _UINT64))
    if cpp_type == _FLOAT:
        # A double would lose digits in a float field. A float loses nothing in a double column.
        return bool(pt.is_float32(kind) or (pt.is_float64(kind) and not writes))
    if cpp_type == _DOUBLE:
        return bool(pt.is_float64(kind) or (pt.is_float32(kind) and writes))
    if cpp_type == _BOOL:
        return bool(pt.is_boolean(kind))
    if cpp_type == _ENUM:
        return bool(pt.is_string(kind) or pt.is_signed_integer(kind))
    return bool(pt.is_binary(kind) if field.type == _TYPE_BYTES else pt.is_string(kind))


_TYPE_NAMES = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    14: "enum",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}


def is_enum(field: Any) -> bool:
    return bool(field.cpp_type == _ENUM)


def is_message(field: Any) -> bool:
    return bool(field.cpp_type == _MESSAGE)
