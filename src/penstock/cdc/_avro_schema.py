"""A schema in Avro as Kafka Connect's JSON has it. Confluent's converter writes both names of a type.

Runs on driver and executors; pure. Invariant: a type of Connect keeps its name and parameters, and a field
keeps its default in the form of Avro. A logical type of Avro that no name of Connect explains gets one of
ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import SchemaError
from penstock.formats.avro.schema import Schema

_DEPTH_MAX = 40
_SIMPLE = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
    "fixed": "bytes",
    "enum": "string",
}
_LOGICAL = {
    "date": "io.debezium.time.Date",
    "time-millis": "io.debezium.time.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "avro.timestamp-millis",
    "timestamp-micros": "avro.timestamp-micros",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def connect_schema(schema: Schema) -> Mapping[str, Any]:
    """Return a parsed schema in the JSON of Kafka Connect.

    Raises:
        SchemaError: it has a union of several types, or nests too deep.
    """
    return _described(schema, schema.root, "", "", 0)


def _described(schema: Schema, given: Any, namespace: str, path: str, depth: int) -> dict[str, Any]:
    if depth > _DEPTH_MAX:
        raise _unreadable(path, f"nests deeper than {_DEPTH_MAX} levels, or holds itself")
    if isinstance(given, list):
        branches = [one for one in given if one != "null"]
        if len(branches) != 1:
            raise _unreadable(path, f"is a union of {len(branches)} types")
        inside = _described(schema, branches[0], namespace, path, depth + 1)
        return {**inside, "optional": len(branches) < len(given)}
    definition, full, namespace = schema.resolve(given, namespace)
    own = given if isinstance(given, dict) and not isinstance(given.get("type"), dict) else definition
    kind = str(definition["type"])
    name = str(own.get("connect.name") or definition.get("connect.name") or full)
    found: dict[str, Any] = {
        "optional": False,
        "name": name,
        "parameters": dict(own.get("connect.parameters") or {}),
    }
    if kind == "record":
        found["type"] = "struct"
        found["fields"] = [
            {
                **_described(schema, one["type"], namespace, f"{path}.{one['name']}".lstrip("."), depth + 1),
                **({} if one.get("default") is None else {"default": one["default"]}),
                "field": one["name"],
            }
            for one in definition["fields"]
        ]
    elif kind == "array":
        found["type"] = "array"
        found["items"] = _described(schema, definition["items"], namespace, f"{path}[]", depth + 1)
    elif kind == "map":
        found["type"] = "map"
        found["keys"] = {"type": "string"}
        found["values"] = _described(schema, definition["values"], namespace, f"{path}{{}}", depth + 1)
    elif kind in _SIMPLE:
        _simple(found, kind, own)
    else:
        raise _unreadable(path, f"has the type {kind}")
    return found


def _simple(found: dict[str, Any], kind: str, own: Mapping[str, Any]) -> None:
    found["type"] = str(own.get("connect.type") or _SIMPLE[kind])
    logical = str(own.get("logicalType") or "")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        found["name"] = _DECIMAL
        parameters = {"scale": own.get("scale", 0), "connect.decimal.precision": own.get("precision", 0)}
        found["parameters"] = {**parameters, **found["parameters"]}
    elif not own.get("connect.name"):
        found["name"] = _LOGICAL.get(logical, found["name"])


def _unreadable(path: str, what: str) -> SchemaError:
    return SchemaError(
        f"Field '{path}' of the Avro schema {what}, which penstock cannot read. Nothing of this batch was "
        "written. Leave the column out with Debezium's 'column.exclude.list'.",
        column=path,
    )
