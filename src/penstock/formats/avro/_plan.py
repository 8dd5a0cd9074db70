"""Makes the plan that the native code follows (native/avro.h), from an Avro schema and a table's columns.

Runs on driver and executors. Invariant: a plan pairs the writer's fields with the table's columns by name.
Numbers are promoted as Avro's rules allow, times by their logical types. A type that does not fit is an error
when a value has it, never a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import SchemaError
from penstock.formats.avro.schema import Schema

# Kept in step with native/avro.h.
OPS = (
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    "fixed",
    "enum",
    "array",
    "map",
    "union",
    "record",
    "decimal-bytes",
    "decimal-fixed",
    "mismatch",
)
_OP = {name: number for number, name in enumerate(OPS)}
_NODE = struct.Struct("@4i3q4i")

_SCALE_MAX = 1_000
"""Larger than the scale of any decimal; the native code has 32 bits for it."""

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_LOGICAL_UNITS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_TIME_KINDS = {"time": pt.is_time, "timestamp": pt.is_timestamp, "local-timestamp": pt.is_timestamp}
_READABLE_AS = {
    "boolean": pt.is_boolean,
    "int": lambda kind: pt.is_signed_integer(kind) or pt.is_floating(kind),
    "long": lambda kind: pt.is_signed_integer(kind) or pt.is_floating(kind),
    "float": pt.is_floating,
    "double": pt.is_float64,
    "bytes": lambda kind: pt.is_string(kind) or pt.is_binary(kind),
    "string": lambda kind: pt.is_string(kind) or pt.is_binary(kind),
    "fixed": pt.is_binary,
    "enum": pt.is_string,
    "array": pt.is_list,
    "map": pt.is_map,
    "record": pt.is_struct,
}
_WRITABLE_AS = {
    **_READABLE_AS,
    "int": pt.is_signed_integer,
    "long": pt.is_signed_integer,
    "double": pt.is_floating,
    "float": pt.is_float32,
}


@dataclass(frozen=True)
class Mismatch:
    """A column that cannot hold what the schema has for it."""

    path: str
    column_type: str
    schema_type: str

    def error(self) -> SchemaError:
        return SchemaError(
            f"Column '{self.path}' is of type {self.column_type} in the table and {self.schema_type} in the "
            "Avro schema, and these cannot be converted. Declare the column with the schema's type, or set "
            "another schema.",
            field=self.path,
            column_type=self.column_type,
            schema_type=self.schema_type,
        )


@dataclass(frozen=True)
class AvroPlan:
    """A plan in the native layout, and the columns that cannot hold the schema's type."""

    nodes: bytes
    children: bytes
    symbols: bytes
    symbol_offsets: bytes
    mismatches: tuple[Mismatch, ...]


@dataclass
class _Node:
    op: str
    target: int = -1
    first_child: int = 0
    child_count: int = 0
    size: int = 0
    multiplier: int = 1
    divisor: int = 1
    scale: int = 0
    null_branch: int = -1
    value_branch: int = -1
    first_symbol: int = 0

    def pack(self) -> bytes:
        return _NODE.pack(
            _OP[self.op],
            self.target,
            self.first_child,
            self.child_count,
            self.size,
            self.multiplier,
            self.divisor,
            self.scale,
            self.null_branch,
            self.value_branch,
            self.first_symbol,
        )


def reading_plan(schema: Schema, columns: pa.Schema) -> AvroPlan:
    return _Compiler(schema, is_writing=False).plan(columns)


def writing_plan(schema: Schema, columns: pa.Schema) -> AvroPlan:
    """Plan how columns become values of a schema.

    Raises:
        SchemaError: a column has no field in the schema, a field without a column cannot be null, or a
            column's type does not fit.
    """
    made = _Compiler(schema, is_writing=True).plan(columns)
    if made.mismatches:
        raise made.mismatches[0].error()
    return made


class _Compiler:
    def __init__(self, schema: Schema, *, is_writing: bool) -> None:
        self._schema = schema
        self._is_writing = is_writing
        self._nodes: list[_Node] = []
        self._children: list[int] = []
        self._symbols: list[bytes] = []
        self._skips: dict[str, int] = {}
        self._mismatches: list[Mismatch] = []

    def plan(self, columns: pa.Schema) -> AvroPlan:
        root = self._schema.root
        # Flink writes debezium-avro-confluent as a union of null and a record.
        rows = [one for one in root if one != "null"] if isinstance(root, list) else [root]
        if len(rows) != 1 or self._schema.resolve(rows[0], "")[0]["type"] != "record":
            raise SchemaError("The Avro schema is not a record, and a table's row is one.", format="avro")
        self._node(root, "", pa.struct(list(columns)), "")
        offsets = [0]
        for symbol in self._symbols:
            offsets.append(offsets[-1] + len(symbol))
        return AvroPlan(
            b"".join(node.pack() for node in self._nodes),
            struct.pack(f"@{len(self._children)}i", *self._children),
            b"".join(self._symbols),
            struct.pack(f"@{len(offsets)}i", *offsets),
            tuple(self._mismatches),
        )

    def _add(self, node: _Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _node(self, given: Any, namespace: str, kind: pa.DataType | None, path: str) -> int:
        """Add the node for a schema. `kind` is the column's type, None to skip the value."""
        if isinstance(given, list):
            return self._union(given, namespace, kind, path)
        definition, name, namespace = self._schema.resolve(given, namespace)
        if kind is None and name in self._skips:
            return self._skips[name]
        index = self._add(_Node("null"))
        if kind is None and name:
            self._skips[name] = index
        node = self._nodes[index]
        node.op = definition["type"]
        if node.op in ("record", "array", "map", "enum"):
            self._container(node, definition, namespace, kind, path)
        elif node.op == "fixed":
            node.size = int(definition["size"])
        if kind is not None and node.op != "null" and not self._fits(node, definition, kind):
            self._mismatches.append(Mismatch(path, str(kind), _described(definition)))
            node.op = "mismatch"
        return index

    def _container(
        self, node: _Node, definition: Mapping[str, Any], namespace: str, kind: pa.DataType | None, path: str
    ) -> None:
        fits = kind is None or _READABLE_AS[node.op](kind)
        if node.op == "enum":
            node.first_symbol, node.size = len(self._symbols), len(definition["symbols"])
            self._symbols.extend(symbol.encode() for symbol in definition["symbols"])
            return
        if node.op == "record":
            found = self._fields(definition, namespace, kind if fits else None, path)
        else:
            items = definition["items" if node.op == "array" else "values"]
            wanted = None
            if kind is not None and fits:
                wanted = kind.value_type if node.op == "array" else kind.item_type
            found = [self._node(items, namespace, wanted, path + ("[]" if node.op == "array" else "{}"))]
        node.first_child, node.child_count = len(self._children), len(found)
        self._children.extend(found)

    def _fields(
        self, definition: Mapping[str, Any], namespace: str, kind: pa.DataType | None, path: str
    ) -> list[int]:
        columns = {} if kind is None else {kind.field(i).name: i for i in range(kind.num_fields)}
        found = []
        for field in definition["fields"]:
            at = columns.get(field["name"], -1)
            below = f"{path}.{field['name']}".lstrip(".")
            wanted = None if kind is None or at < 0 else kind.field(at).type
            if at < 0 and self._is_writing and not _accepts_null(field["type"]):
                raise SchemaError(
                    f"The Avro schema's field '{below}' has no column and cannot be null.", field=below
                )
            # A node that skips a value may be shared, so it never has a target.
            index = self._node(field["type"], namespace, wanted, below)
            if at >= 0:
                self._nodes[index].target = at
            found.append(index)
        if self._is_writing:
            names = {field["name"] for field in definition["fields"]}
            for column in columns:
                if column not in names:
                    raise SchemaError(f"The Avro schema has no field for column '{column}'.", field=column)
        return found

    def _union(self, branches: list[Any], namespace: str, kind: pa.DataType | None, path: str) -> int:
        index = self._add(_Node("union"))
        before = len(self._mismatches)
        found = [self._node(branch, namespace, kind, path) for branch in branches]
        values = [i for i, child in enumerate(found) if self._nodes[child].op not in ("null", "mismatch")]
        node = self._nodes[index]
        node.first_child, node.child_count = len(self._children), len(found)
        self._children.extend(found)
        node.null_branch = next((i for i, child in enumerate(found) if self._nodes[child].op == "null"), -1)
        node.value_branch = values[0] if values else -1
        if values:
            # One branch that fits is enough. A value in another branch is an error.
            del self._mismatches[before:]
        return index

    def _fits(self, node: _Node, definition: Mapping[str, Any], kind: pa.DataType) -> bool:
        """Return whether a column can hold a type; sets the node's conversion."""
        logical = str(definition.get("logicalType", ""))
        if pt.is_decimal(kind):
            return self._fits_decimal(node, definition, logical, kind)
        if pt.is_date(kind):
            return node.op == "int" and logical == "date"
        if pt.is_time(kind) or pt.is_timestamp(kind):
            return self._fits_time(node, logical, kind)
        table = _WRITABLE_AS if self._is_writing else _READABLE_AS
        return node.op in table and table[node.op](kind)

    def _fits_decimal(
        self, node: _Node, definition: Mapping[str, Any], logical: str, kind: pa.DataType
    ) -> bool:
        precision, scale = definition.get("precision"), definition.get("scale", 0)
        if logical != "decimal" or node.op not in ("bytes", "fixed"):
            return False
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= _SCALE_MAX:
            return False
        node.scale = scale
        node.op = "decimal-" + node.op
        narrower = precision < kind.precision or node.scale != kind.scale
        return not (self._is_writing and narrower)

    def _fits_time(self, node: _Node, logical: str, kind: pa.DataType) -> bool:
        family, _, unit = logical.rpartition("-")
        if family not in _TIME_KINDS or unit not in _LOGICAL_UNITS or not _TIME_KINDS[family](kind):
            return False
        written, column = _LOGICAL_UNITS[unit], _UNITS[kind.unit]
        source, target = (column, written) if self._is_writing else (written, column)
        node.multiplier, node.divisor = max(1, target // source), max(1, source // target)
        return node.op in ("int", "long")


def _described(definition: Mapping[str, Any]) -> str:
    """Return the name of a type for messages: `long (timestamp-millis)`."""
    logical = str(definition.get("logicalType", ""))
    if logical == "decimal":
        logical = f"decimal({definition.get('precision')}, {definition.get('scale', 0)})"
    return str(definition["type"]) + (f" ({logical})" if logical else "")


def _accepts_null(given: Any) -> bool:
    if isinstance(given, list):
        return "null" in given
    return given == "null" or (isinstance(given, Mapping) and given.get("type") == "null")
