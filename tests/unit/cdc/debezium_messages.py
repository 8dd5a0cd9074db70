"""Messages as Debezium writes them, in JSON with schemas and in Avro behind a registry's header."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

Field = Mapping[str, Any]


def field(name: str, kind: str, semantic: str = "", optional: bool = True, **more: Any) -> Field:
    """Return a column in the schema of Kafka Connect."""
    named = {"name": semantic, "version": 1} if semantic else {}
    return {"type": kind, "optional": optional, **named, **more, "field": name}


ID = field("id", "int64", optional=False)


def envelope(fields: Sequence[Field], name: str = "shop.public.goods") -> dict[str, Any]:
    """Return the schema of the messages of a table."""
    row = {"type": "struct", "fields": [*fields], "optional": True, "name": f"{name}.Value"}
    source = {"type": "struct", "fields": [field("lsn", "int64")], "optional": False, "field": "source"}
    return {
        "type": "struct",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            source,
            field("op", "string", optional=False),
            field("ts_ms", "int64"),
        ],
        "optional": False,
        "name": f"{name}.Envelope",
        "version": 2,
    }


def value(
    fields: Sequence[Field],
    after: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None = None,
    op: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> bytes:
    """Return a message in JSON."""
    op = op or ("d" if after is None else "c" if before is None else "u")
    payload = {"before": before, "after": after, "source": source or {"lsn": 7}, "op": op, "ts_ms": 1}
    return json.dumps(
        {"schema": envelope(fields), "payload": payload}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def key(number: int, fields: Sequence[Field] = (ID,)) -> bytes:
    """Return a record key in JSON."""
    schema = {"type": "struct", "fields": [*fields], "optional": False, "name": "shop.public.goods.Key"}
    return json.dumps({"schema": schema, "payload": {"id": number}}, separators=(",", ":")).encode()


def binary(values: Sequence[bytes | None]) -> pa.Array:
    """Return keys or values as a task gets them."""
    return pa.array(values, pa.binary())


def row_as_texts(row: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the values of a row in a form that JSON keeps as it is."""
    return {
        name: None if value is None else value.hex() if isinstance(value, bytes) else str(value)
        for name, value in row.items()
    }
