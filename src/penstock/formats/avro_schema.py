"""Avro schemas: parsed from JSON, or made from a table's columns.

Runs on driver and executors. Invariant: a parsed schema's names all resolve, and its depth is bounded,
whoever wrote it (schemas come from a registry, too).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from penstock.errors import SchemaError
from penstock.formats.native_rows import unsupported

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
_NAMED = frozenset(("record", "enum", "fixed", "error"))
_DEPTH_MAX = 100
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Schema:
    """A parsed schema: its root, and every named type by full name with the namespace inside of it."""

    root: Any
    names: Mapping[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)

    def resolve(self, given: Any, namespace: str) -> tuple[Mapping[str, Any], str, str]:
        """Return a schema's definition (no union's), its full name or "", and its namespace."""
        if isinstance(given, str):
            if given in PRIMITIVES:
                return {"type": given}, "", namespace
            name = fullname(given, namespace)
            if name not in self.names:
                name = given
            definition, inner = self.names[name]
            return definition, name, inner
        kind = given["type"]
        if kind in _NAMED:
            name = fullname(given["name"], given.get("namespace", namespace))
            return self.names[name][0], name, self.names[name][1]
        if isinstance(kind, str) and kind not in PRIMITIVES and kind not in ("array", "map"):
            return self.resolve(kind, namespace)
        if not isinstance(kind, str):
            return self.resolve(kind, namespace)
        return given, "", namespace


def fullname(name: str, namespace: str) -> str:
    """Return a name with its namespace."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def parse_schema(text: str) -> Schema:
    """Parse a schema in JSON.

    Raises:
        SchemaError: the text is not an Avro schema.
    """
    try:
        root = json.loads(text)
        names: dict[str, tuple[Mapping[str, Any], str]] = {}
        _collect(root, "", names, 0)
        made = Schema(root, names)
        _check(made, root, "", set(), 0)
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise SchemaError(f"Not an Avro schema: {type(error).__name__}: {error}.", format="avro") from None
    return made


def _collect(given: Any, namespace: str, names: dict[str, tuple[Mapping[str, Any], str]], depth: int) -> None:
    """Find the named types."""
    if depth > _DEPTH_MAX:
        raise ValueError("nests too deep")
    if isinstance(given, list):
        for branch in given:
            _collect(branch, namespace, names, depth + 1)
    if not isinstance(given, Mapping):
        return
    kind = given["type"]
    if not isinstance(kind, str):
        _collect(kind, namespace, names, depth + 1)
    elif kind in _NAMED:
        name = fullname(given["name"], given.get("namespace", namespace))
        inner = name.rpartition(".")[0]
        names[name] = ({**given, "type": "record"} if kind == "error" else given, inner)
        for one in given.get("fields", ()):
            _collect(one["type"], inner, names, depth + 1)
    elif kind in ("array", "map"):
        _collect(given["items" if kind == "array" else "values"], namespace, names, depth + 1)


def _check(schema: Schema, given: Any, namespace: str, seen: set[str], depth: int) -> None:
    """Raise KeyError or TypeError where something is missing or does not resolve."""
    if depth > _DEPTH_MAX:
        raise ValueError("nests too deep")
    if isinstance(given, list):
        if any(isinstance(branch, list) for branch in given):
            raise ValueError("a union in a union")
        for branch in given:
            _check(schema, branch, namespace, seen, depth + 1)
        return
    definition, name, inner = schema.resolve(given, namespace)
    if name not in seen:
        seen.update({name} - {""})
        _check_definition(schema, definition, inner, seen, depth)


def _check_definition(
    schema: Schema, definition: Mapping[str, Any], inner: str, seen: set[str], depth: int
) -> None:
    kind = definition["type"]
    for one in definition["fields"] if kind == "record" else ():
        _check(schema, one["type"], inner, seen, depth + 1)
    if kind in ("array", "map"):
        _check(schema, definition["items" if kind == "array" else "values"], inner, seen, depth + 1)
    if kind == "enum" and not all(isinstance(symbol, str) for symbol in definition["symbols"]):
        raise TypeError("symbols must be strings")
    if kind == "fixed" and not 0 <= int(definition["size"]) <= 1 << 30:
        raise ValueError("size of a fixed")


# -- from columns -------------------------------------------------------------------------------------------


def schema_of(columns: pa.Schema, name: str = "org.apache.flink.avro.generated.record") -> str:
    """Make the schema of a table's rows, as Flink makes it: nullable columns are unions with null.

    Timestamps without zone are `local-timestamp-*` (Flink with `timestamp_mapping.legacy` = false).

    Raises:
        SchemaError: a name or a type that Avro does not have.
    """
    namespace, _, local = name.rpartition(".")
    root = _record([*columns], local, "")
    if namespace:
        root = {"type": "record", "name": local, "namespace": namespace, "fields": root["fields"]}
    return json.dumps(root)


def _record(fields: list[pa.Field], name: str, path: str) -> dict[str, Any]:
    made = []
    for one in fields:
        below = f"{path}.{one.name}".lstrip(".")
        if not _NAME.fullmatch(one.name):
            raise SchemaError(
                f"Format 'avro' cannot name a field '{one.name}' (column '{below}'): names are letters, "
                "digits and underscores, and begin with no digit.",
                field=below,
            )
        entry: dict[str, Any] = {"name": one.name, "type": _type_of(one, f"{name}_{one.name}", below)}
        if one.nullable:
            entry["default"] = None
        made.append(entry)
    return {"type": "record", "name": name, "fields": made}


def _type_of(one: pa.Field, name: str, path: str) -> Any:
    made = _bare_type_of(one.type, name, path)
    return ["null", made] if one.nullable and made != "null" else made


_SIMPLE = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
}
_LOGICAL = {"s": "millis", "ms": "millis", "us": "micros", "ns": "nanos"}


def _bare_type_of(kind: pa.DataType, name: str, path: str) -> Any:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pt.is_struct(kind):
        return _record([kind.field(i) for i in range(kind.num_fields)], name, path)
    if pt.is_list(kind):
        return {"type": "array", "items": _type_of(kind.value_field, name, f"{path}[]")}
    if pt.is_map(kind):
        return {"type": "map", "values": _type_of(kind.item_field, name, f"{path}{{}}")}
    if pt.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _time_type_of(kind, path)


def _time_type_of(kind: pa.DataType, path: str) -> Any:
    if pt.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pt.is_timestamp(kind):
        family = "local-timestamp" if kind.tz is None else "timestamp"
        return {"type": "long", "logicalType": f"{family}-{_LOGICAL[kind.unit]}"}
    if pt.is_time32(kind):
        return {"type": "int", "logicalType": "time-millis"}
    if pt.is_time(kind):
        # Spark's times are whole microseconds, in nanoseconds.
        return {"type": "long", "logicalType": "time-micros"}
    raise unsupported("avro", path, kind, "Avro has no such type")
