"""Avro schemas: parsed from JSON, or made from a table's columns.

Runs on driver and executors. Invariant: all names of a parsed schema resolve, and its depth is bounded,
because schemas come from a registry too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
    """A parsed schema: its root, and every named type by full name, with its inner namespace."""

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
    return name if "." in name or not namespace else f"{namespace}.{name}"


class _Fault(Exception):
    """A mistake in a schema, and its field ("" is the root)."""

    def __init__(self, path: str, why: str) -> None:
        where = f"field '{path}'" if path else "at its root"
        super().__init__(f"{why} ({where})")


Names = dict[str, tuple[Mapping[str, Any], str]]


def parse_schema(text: str, *, option: str = "", referenced: Sequence[str] = ()) -> Schema:
    """Parse a schema in JSON.

    Args:
        text: The schema.
        option: The option that it is set with, for messages.
        referenced: Other schemas, whose named types it may use.

    Raises:
        SchemaError: the text is not an Avro schema.
    """
    names: Names = {}
    try:
        for other in referenced:
            _collect(_parsed(other), "", names, "", 0)
        root = _parsed(text)
        _collect(root, "", names, "", 0)
        made = Schema(root, names)
        _check(made, root, "", set(), "", 0)
    except (_Fault, RecursionError) as error:
        what = f"The value of option '{option}'" if option else "The schema"
        raise SchemaError(f"{what} is not an Avro schema: {error}.", format="avro") from None
    return made


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise _Fault("", f"it is not JSON: {error}") from None


def _need(given: Any, key: str, kind: type, path: str) -> Any:
    """Return a part of a definition."""
    if not isinstance(given, Mapping):
        raise _Fault(path, f"expected a type, got {json.dumps(given)[:40]}")
    if key not in given:
        raise _Fault(path, f"'{key}' is missing")
    if not isinstance(given[key], kind):
        expected = {str: "a text", list: "a list", int: "a number"}[kind]
        raise _Fault(path, f"'{key}' must be {expected}, and is {json.dumps(given[key])[:40]}")
    return given[key]


def _below(path: str, name: str) -> str:
    return f"{path}.{name}".lstrip(".")


def _collect(given: Any, namespace: str, names: Names, path: str, depth: int) -> None:
    """Find the named types."""
    if depth > _DEPTH_MAX:
        raise _Fault(path, "it nests too deep")
    if isinstance(given, list):
        for branch in given:
            _collect(branch, namespace, names, path, depth + 1)
    if not isinstance(given, Mapping):
        return
    kind = given.get("type")
    if not isinstance(kind, str):
        _collect(kind, namespace, names, path, depth + 1)
    elif kind in _NAMED:
        name = fullname(_need(given, "name", str, path), given.get("namespace", namespace))
        inner = name.rpartition(".")[0]
        definition = {**given, "type": "record"} if kind == "error" else given  # the same on the wire
        if name in names and names[name][0] != definition:
            raise _Fault(path, f"type '{name}' is defined twice, with different definitions")
        names[name] = (definition, inner)
        for one in _need(given, "fields", list, path) if kind in ("record", "error") else ():
            below = _below(path, _need(one, "name", str, path))
            _collect(one.get("type"), inner, names, below, depth + 1)
    elif kind in ("array", "map"):
        _collect(given.get("items" if kind == "array" else "values"), namespace, names, path, depth + 1)


def _check(schema: Schema, given: Any, namespace: str, seen: set[str], path: str, depth: int) -> None:
    """Raise _Fault where something is missing or does not resolve."""
    if depth > _DEPTH_MAX:
        raise _Fault(path, "it nests too deep")
    if isinstance(given, list):
        if any(isinstance(branch, list) for branch in given):
            raise _Fault(path, "a union is in a union")
        for branch in given:
            _check(schema, branch, namespace, seen, path, depth + 1)
        return
    if isinstance(given, Mapping) and isinstance(given.get("type"), list):
        raise _Fault(path, "a union stands where one type is expected")
    if not isinstance(given, str):
        _need(given, "type", object, path)
    try:
        definition, name, inner = schema.resolve(given, namespace)
    except KeyError as error:
        raise _Fault(path, f"there is no type {error}") from None
    except (TypeError, AttributeError):
        raise _Fault(path, f"expected a type, got {json.dumps(given)[:40]}") from None
    if name not in seen:
        seen.update({name} - {""})
        _check_definition(schema, definition, inner, seen, path, depth)


def _check_definition(
    schema: Schema, definition: Mapping[str, Any], inner: str, seen: set[str], path: str, depth: int
) -> None:
    kind = definition["type"]
    for one in definition["fields"] if kind == "record" else ():
        _check(schema, one.get("type"), inner, seen, _below(path, one["name"]), depth + 1)
    if kind in ("array", "map"):
        key = "items" if kind == "array" else "values"
        _check(
            schema, definition.get(key), inner, seen, path + ("[]" if kind == "array" else "{}"), depth + 1
        )
    if kind == "enum" and not all(isinstance(one, str) for one in _need(definition, "symbols", list, path)):
        raise _Fault(path, "an enum's symbols must be texts")
    if kind == "fixed" and not 0 <= int(_need(definition, "size", int, path)) <= 1 << 30:
        raise _Fault(path, "the size of a fixed must be 0 to 2^30")


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
                f"Format 'avro' cannot have a field '{one.name}' (column '{below}'): names have letters, "
                "digits and underscores, and do not begin with a digit.",
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
    raise unsupported("avro", path, kind, "Avro does not have this type")
