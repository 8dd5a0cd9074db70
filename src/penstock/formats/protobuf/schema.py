"""Makes a message type from a table's columns, for tables without a message.

Runs on the driver. Invariant: written rows read back unchanged. Every nullable column is `optional`, so null
and zero are not the same. Only lists and maps read back as null when they are empty.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import SchemaError
from penstock.formats.native_rows import check_names, unsupported
from penstock.formats.protobuf._fields import TIMESTAMP
from penstock.formats.protobuf._types import MessageType, library

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOLDS = (
    "Protobuf has boolean, int, bigint, float, double, string, binary, timestamp with zone, rows, arrays and "
    "maps of these, no array in an array or map, and keys that are strings or integers"
)


def type_for(columns: pa.Schema, name: str = "Row", package: str = "penstock") -> MessageType:
    """Make a message type for the rows of a table.

    Raises:
        SchemaError: Protobuf does not have a column's name or type.
    """
    descriptors = library("descriptor_pb2")
    made = descriptors.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    _Maker(made).message(made.message_type.add(name=name), [*columns], f".{package}.{name}", "")
    files = descriptors.FileDescriptorSet(file=[made])
    return MessageType(f"{package}.{name}", files.SerializeToString())


class _Maker:
    """Fills messages of one file."""

    def __init__(self, made: Any) -> None:
        self._file = made

    def message(
        self, message: Any, columns: list[pa.Field], full_name: str, path: str, *, is_entry: bool = False
    ) -> None:
        """Add a field for each column. The two fields of a map's entry have no presence."""
        check_names("protobuf", [one.name for one in columns])
        used = {one.name for one in columns}
        for number, one in enumerate(columns, start=1):
            below = f"{path}.{one.name}".lstrip(".")
            if not _NAME.fullmatch(one.name):
                raise SchemaError(
                    f"Format 'protobuf' cannot have a field '{one.name}' (column '{below}'): names have "
                    "letters, digits and underscores, and do not begin with a digit.",
                    field=below,
                )
            made = message.field.add(name=one.name, number=number if number < 19_000 else number + 1_000)
            self._type(message, made, one.type, f"{full_name}.", below, used)
            may_lack = one.nullable and not is_entry
            if may_lack and made.label == made.LABEL_OPTIONAL and made.type != made.TYPE_MESSAGE:
                made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
                message.oneof_decl.add(name=_free(f"_{one.name}", used))

    def _type(
        self, message: Any, made: Any, kind: pa.DataType, scope: str, path: str, used: set[str]
    ) -> None:
        is_map = pt.is_map(kind)
        made.label = made.LABEL_REPEATED if is_map or pt.is_list(kind) else made.LABEL_OPTIONAL
        if is_map:
            _check_map(kind, path)
            kind = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
        elif pt.is_list(kind):
            kind = kind.value_type
        if not pt.is_struct(kind):
            self._scalar(made, kind, path)
            return
        # Map entries are named as protoc names them.
        camel = "".join(part[:1].upper() + part[1:] for part in made.name.split("_"))
        camel = camel if camel[:1].isalpha() else f"X{camel}"
        inner = message.nested_type.add(name=_free(camel + ("Entry" if is_map else "Row"), used))
        made.type, made.type_name = made.TYPE_MESSAGE, scope + inner.name
        inner.options.map_entry = is_map
        fields = [kind.field(i) for i in range(kind.num_fields)]
        self.message(inner, fields, made.type_name, path, is_entry=is_map)

    def _scalar(self, made: Any, kind: pa.DataType, path: str) -> None:
        types = {
            pa.bool_(): made.TYPE_BOOL,
            pa.int8(): made.TYPE_INT32,
            pa.int16(): made.TYPE_INT32,
            pa.int32(): made.TYPE_INT32,
            pa.int64(): made.TYPE_INT64,
            pa.float32(): made.TYPE_FLOAT,
            pa.float64(): made.TYPE_DOUBLE,
            pa.string(): made.TYPE_STRING,
            pa.binary(): made.TYPE_BYTES,
        }
        if pt.is_timestamp(kind) and kind.tz is not None:
            made.type, made.type_name = made.TYPE_MESSAGE, f".{TIMESTAMP}"
            if "google/protobuf/timestamp.proto" not in self._file.dependency:
                self._file.dependency.append("google/protobuf/timestamp.proto")
        elif kind in types:
            made.type = types[kind]
        else:
            raise unsupported("protobuf", path, kind, _HOLDS)


def _check_map(kind: pa.DataType, path: str) -> None:
    key, item = kind.key_type, kind.item_type
    if not (pt.is_string(key) or pt.is_integer(key) or pt.is_boolean(key)):
        raise unsupported("protobuf", path, key, _HOLDS)
    if pt.is_list(item) or pt.is_map(item):
        raise unsupported("protobuf", path, kind, _HOLDS)


def _free(name: str, used: set[str]) -> str:
    """Return a similar name that is not used in the message."""
    while name in used:
        name += "_"
    used.add(name)
    return name
