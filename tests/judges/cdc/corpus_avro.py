"""Messages of `debezium-avro-confluent`, with the schemas that Debezium registers."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro

from tests.judges.cdc.tables import GOODS, Read, Row


def envelope(*fields: tuple[str, Any]) -> dict[str, Any]:
    """Return the schema of an event with a row of these fields."""
    row = [{"name": name, "type": kind, **_default(kind)} for name, kind in fields]
    source = [("version", "string"), ("connector", "string"), ("ts_ms", "long"), ("db", "string"),
              ("sequence", ["null", "string"]), ("table", ["null", "string"])]  # fmt: skip
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.goods",
        "fields": [
            {
                "name": "before",
                "type": ["null", {"type": "record", "name": "Value", "fields": row}],
                "default": None,
            },
            {"name": "after", "type": ["null", "Value"], "default": None},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "namespace": "io.debezium.connector.mysql",
                    "fields": [{"name": name, "type": kind, **_default(kind)} for name, kind in source],
                },
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": "shop.goods.Envelope",
    }


def _default(kind: Any) -> dict[str, Any]:
    return {"default": None} if isinstance(kind, list) else {}


SOURCE = {"version": "3.0.8.Final", "connector": "mysql", "ts_ms": 1735732800000, "db": "shop",
          "sequence": None, "table": "goods"}  # fmt: skip


class Registered:
    """A registered schema, and messages that are written with it."""

    def __init__(self, schema_id: int, schema: dict[str, Any]) -> None:
        self.text = json.dumps(schema)
        self._header = b"\0" + schema_id.to_bytes(4, "big")
        self._schema = fastavro.parse_schema(schema)

    def event(self, op: str, before: Row | None, after: Row | None) -> bytes:
        """Return a message."""
        stream = io.BytesIO(self._header)
        stream.seek(0, io.SEEK_END)
        fields = {"before": before, "after": after, "source": SOURCE, "op": op, "ts_ms": 1735732800456}
        fastavro.schemaless_writer(stream, self._schema, fields)
        return stream.getvalue()


_LONG, _TEXT, _DOUBLE = ["null", "long"], ["null", "string"], ["null", "double"]
FIRST = Registered(1, envelope(("id", "int"), ("name", _TEXT), ("weight", _DOUBLE)))
ADDED = Registered(2, envelope(("id", "int"), ("color", _TEXT), ("name", _TEXT), ("weight", _DOUBLE)))
REMOVED = Registered(3, envelope(("id", "int"), ("weight", _DOUBLE)))
LONGER = Registered(4, envelope(("id", "long"), ("name", _TEXT), ("weight", _DOUBLE)))
ROPE = {"id": 1, "name": "rope", "weight": 2.25}
NAIL = {"id": 2, "name": "nail", "weight": None}

HISTORY: dict[str, bytes | None] = {
    "snapshot": FIRST.event("r", None, ROPE),
    "create": FIRST.event("c", None, NAIL),
    "update": FIRST.event("u", ROPE, {**ROPE, "weight": 2.5}),
    "update from null": FIRST.event("u", NAIL, ROPE),
    "change of the key": FIRST.event("u", ROPE, {**ROPE, "id": 3}),
    "delete": FIRST.event("d", NAIL, None),
    "tombstone": None,
    "empty value": b"",
    "added column": ADDED.event("u", {**ROPE, "color": None}, {**ROPE, "color": "red"}),
    "removed column": REMOVED.event("u", {"id": 1, "weight": 1.0}, {"id": 1, "weight": 2.0}),
    "update without before": FIRST.event("u", None, ROPE),
    "delete without before": FIRST.event("d", None, None),
    "create without after": FIRST.event("c", None, None),
    "create with both": FIRST.event("c", NAIL, ROPE),
    "truncate": FIRST.event("t", None, None),
    "unknown operation": FIRST.event("q", ROPE, ROPE),
    "unknown schema": b"\0\0\0\0\x63" + FIRST.event("c", None, ROPE)[5:],
    "another first byte": b"\1" + FIRST.event("c", None, ROPE)[1:],
    "only the header": FIRST.event("c", None, ROPE)[:5],
    "cut": FIRST.event("c", None, ROPE)[:12],
    "a key that became long": LONGER.event("c", None, ROPE),
}

_TYPES = {
    "l": "BIGINT", "bo": "BOOLEAN", "f": "FLOAT", "de": "DECIMAL(10, 2)", "by": "BYTES", "da": "DATE",
    "ts": "TIMESTAMP(3)", "ar": "ARRAY<INT>", "m": "MAP<STRING, STRING>",
}  # fmt: skip
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
TYPED = Registered(1, envelope(
    ("l", _LONG), ("bo", ["null", "boolean"]), ("f", ["null", "float"]), ("de", ["null", _DECIMAL]),
    ("by", ["null", "bytes"]), ("da", ["null", {"type": "int", "logicalType": "date"}]),
    ("ts", ["null", {"type": "long", "logicalType": "timestamp-millis"}]),
    ("ar", ["null", {"type": "array", "items": ["null", "int"]}]),
    ("m", ["null", {"type": "map", "values": ["null", "string"]}]),
))  # fmt: skip
_FULL = {
    "l": -(2**63), "bo": True, "f": 0.5, "de": Decimal("-12345678.91"), "by": b"\0\xff", "da": date(2024, 2, 29),
    "ts": datetime(2024, 2, 29, 23, 59, 59, 123000, UTC), "ar": [1, None], "m": {"a": "b", "n": None},
}  # fmt: skip
_NULLS: Row = dict.fromkeys(_TYPES)
TYPES: dict[str, bytes | None] = {
    "all": TYPED.event("c", None, _FULL),
    "all null": TYPED.event("u", _FULL, _NULLS),
    "before 1970": TYPED.event("c", None, {
        **_NULLS, "da": date(1969, 12, 31), "ts": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC),
    }),
}  # fmt: skip

_NAME = "debezium-avro-confluent"
READS = [
    Read("avro", _NAME, GOODS, HISTORY, schemas=[one.text for one in (FIRST, ADDED, REMOVED, LONGER)]),
    Read("avro, types", _NAME, _TYPES, TYPES, schemas=[TYPED.text]),
]
