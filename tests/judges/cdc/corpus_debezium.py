"""Messages of `debezium-json`, in the form that Debezium's documentation shows for its connectors."""

from __future__ import annotations

import json
from typing import Any

from tests.judges.cdc.tables import EVERY_TYPE, GOODS, Read, Row, message

MYSQL: Row = {
    "version": "3.0.8.Final", "connector": "mysql", "name": "shop-1", "ts_ms": 1735732800000,
    "ts_us": 1735732800000000, "ts_ns": 1735732800000000000, "snapshot": "false", "db": "shop",
    "sequence": None, "table": "goods", "server_id": 223344, "gtid": None, "file": "mysql-bin.000003",
    "pos": 1490, "row": 0, "thread": 7, "query": "UPDATE goods SET weight = 2.5 WHERE id = 1",
}  # fmt: skip
POSTGRES: Row = {
    "version": "3.0.8.Final", "connector": "postgresql", "name": "shop-2", "ts_ms": 1735732800123,
    "snapshot": "first", "db": "shop", "sequence": '["24023119","24023128"]', "schema": "public",
    "table": "goods", "txId": 555, "lsn": 24023128, "xmin": None,
}  # fmt: skip
SOURCES = {"mysql": MYSQL, "postgres": POSTGRES}

ROPE = {"id": 1, "name": "rope", "weight": 2.25}
NEW_ROPE = {"id": 1, "name": "rope", "weight": 2.5}
NAIL = {"id": 2, "name": "nail", "weight": None}


def event(op: str, before: Any, after: Any, source: Row = MYSQL, **more: Any) -> bytes:
    """Return an event with all that Debezium writes around the rows."""
    return message(
        before=before, after=after, source=source, transaction=None, op=op,
        ts_ms=1735732800456, ts_us=1735732800456789, ts_ns=1735732800456789123, **more,
    )  # fmt: skip


HISTORY: dict[str, bytes | None] = {
    "snapshot": event("r", None, ROPE),
    "create": event("c", None, NAIL),
    "update": event("u", ROPE, NEW_ROPE),
    "update to null": event("u", ROPE, {"id": 1, "name": None, "weight": None}),
    "update from null": event("u", NAIL, {"id": 2, "name": "nail", "weight": 0.5}),
    "update of nothing": event("u", ROPE, ROPE),
    "delete": event("d", NAIL, None),
    "tombstone": None,
    "change of the key": event("u", ROPE, {**ROPE, "id": 3}),
    "change of the key, old half": event("d", ROPE, None),
    "change of the key, new half": event("c", None, {**ROPE, "id": 3}),
    "of PostgreSQL": event("u", ROPE, NEW_ROPE, POSTGRES),
    "of PostgreSQL, only the key before": event("d", {"id": 1, "name": None, "weight": None}, None, POSTGRES),
    "unavailable value": event("u", ROPE, {**ROPE, "name": "__debezium_unavailable_value"}, POSTGRES),
    "only what counts": message(op="c", after=ROPE),
    "fields in another order": message(after=ROPE, op="u", before=NAIL),
    "other text": event(
        "c", None, {"id": 7, "name": 'snow\u2603 \U0001f600 "q" \\ \n \u0000', "weight": -0.0}
    ),
}

ODD: dict[str, bytes | None] = {
    "empty value": b"",
    "added column": event("c", None, {**ROPE, "color": "red", "tags": [1, {"a": None}]}),
    "removed column": event("u", {"id": 1, "name": "rope"}, {"id": 1, "weight": 2.5}),
    "renamed column": event("c", None, {"ID": 1, "Name": "rope", "weight": 2.5}),
    "no known column": event("c", None, {"other": 1}),
    "empty row": event("c", None, {}),
    "numbers as text": event("c", None, {"id": "1", "name": "rope", "weight": "2.25"}),
    "number in a text column": event("c", None, {"id": 1, "name": 5, "weight": 1}),
    "boolean in a text column": event("c", None, {"id": 1, "name": True, "weight": 1}),
    "object in a text column": event("c", None, {"id": 1, "name": {"a": [1, None]}, "weight": 1}),
    "text in a number column": event("c", None, {"id": "one", "name": "x", "weight": 1}),
    "text in a number column before": event("u", {"id": "one", "name": "x"}, ROPE),
    "text in a number column of the row that does not count": event("c", {"id": "one"}, ROPE),
    "object in a number column": event("c", None, {"id": {}, "name": "x", "weight": 1}),
    "fraction in a whole number": event("c", None, {"id": 1.5, "name": "x", "weight": 1}),
    "whole number too large": event("c", None, {"id": 2147483648, "name": "x", "weight": 1}),
    "update without before": message(op="u", after=ROPE),
    "update with null before": event("u", None, ROPE, POSTGRES),
    "update with null after": event("u", ROPE, None),
    "update without rows": event("u", None, None),
    "delete without before": message(op="d", after=ROPE),
    "delete with null before": event("d", None, None, POSTGRES),
    "delete with both": event("d", ROPE, NAIL),
    "create without after": message(op="c", before=ROPE),
    "create with null after": event("c", None, None),
    "create with both": event("c", ROPE, NAIL),
    "snapshot with null after": event("r", ROPE, None),
    "row is text": event("c", None, "rope"),
    "row is an array": event("c", None, [1, "rope", 2.5]),
    "before is text": event("c", "none", ROPE),
    "truncate": event("t", None, None, POSTGRES),
    "logical message": event("m", None, None, POSTGRES, message={"prefix": "foo", "content": "YmFy"}),
    "unknown operation": event("q", ROPE, ROPE),
    "operation in upper case": event("C", None, ROPE),
    "operation is null": message(op=None, after=ROPE),
    "operation is missing": message(after=ROPE),
    "operation is a number": message(op=1, after=ROPE),
    "operation twice": b'{"op":"d","after":{"id":1},"op":"c"}',
    "row twice": b'{"op":"c","after":{"id":1},"after":{"id":2,"name":"b"}}',
    "column twice": b'{"op":"c","after":{"id":1,"name":"a","name":"b"}}',
    "with its schema": message(schema={"type": "struct"}, payload={"op": "c", "after": ROPE}),
    "heartbeat": message(ts_ms=1735732800456),
    "empty object": b"{}",
    "null": b"null",
    "a number": b"5",
    "a text": b'"op"',
    "spaces": b"  ",
    "not JSON": b"rope",
    "single quotes": b"{'op':'c','after':{'id':1}}",
    "array of events": b"[" + message(op="c", after=ROPE) + b"," + message(op="c", after=NAIL) + b"]",
    "array of one event": b"[" + message(op="c", after=ROPE) + b"]",
    "two documents": message(op="c", after=ROPE) + message(op="d", before=ROPE),
    "two lines": message(op="c", after=ROPE) + b"\n" + message(op="d", before=ROPE),
    "a line break behind": message(op="c", after=ROPE) + b"\n",
    "spaces around": b' \t{ "op" : "c" ,\r\n "after" : { "id" : 1 } } ',
    "byte order mark": b"\xef\xbb\xbf" + message(op="c", after=ROPE),
    "not UTF-8": b'{"op":"c","after":{"id":1,"name":"\xff"}}',
    "lone surrogate": b'{"op":"c","after":{"id":1,"name":"\\ud800"}}',
    "cut in the row": event("c", None, ROPE)[:31],
    "cut in the source": event("u", ROPE, NEW_ROPE)[:160],
    "cut before the last brace": event("u", ROPE, NEW_ROPE)[:-1],
    "cut behind the rows": b'{"before":null,"after":{"id":1},"op":"c"',
}  # fmt: skip

CONVERTED: Row = {
    "bo": True, "ti": -128, "sm": 32767, "i": -1, "l": 9007199254740993, "f": 0.1, "d": 1e-300,
    "de": 12345678.91, "s": "x", "by": "AAECAw==", "da": "2024-02-29", "tm": "23:59:59",
    "ts": "2024-02-29 23:59:59.123456", "tz": "1969-12-31 23:59:59.5Z", "ar": [1, None, 3],
    "m": {"a": "1", "b": None}, "r": {"a": 1, "b": None},
}  # fmt: skip
NULLS: Row = dict.fromkeys(EVERY_TYPE)

TYPES: dict[str, bytes | None] = {
    "all": event("c", None, CONVERTED),
    "all null": event("u", CONVERTED, NULLS),
    "all missing": event("u", NULLS, {}),
    "all empty": event("c", None, {"s": "", "by": "", "ar": [], "m": {}, "r": {}}),
    **{
        label: event("c", None, row)
        for label, row in {
            "decimal as text": {"de": "1.25"},
            "decimal rounded up": {"de": 1.255},
            "decimal rounded from text": {"de": "1.005"},
            "negative decimal rounded": {"de": -1.255},
            "decimal with exponent": {"de": 1.5e3},
            "decimal too large": {"de": 123456789.12},
            "decimal of Debezium, in base64": {"de": "JgU="},
            "decimal of Debezium, with its scale": {"de": {"scale": 2, "value": "JgU="}},
            "bytes not in base64": {"by": "\u00e4"},
            "days since 1970": {"da": 19782},
            "microseconds since 1970": {"ts": 1709251199123456},
            "milliseconds since 1970": {"tz": 1709251199123},
            "Debezium's time with zone": {"tz": "2024-02-29T23:59:59.123456Z"},
            "time in ISO 8601": {"ts": "2024-02-29T23:59:59.123456"},
            "time without zone where one belongs": {"tz": "2024-02-29 23:59:59"},
            "time with zone where none belongs": {"ts": "2024-02-29 23:59:59Z"},
            "time with nine digits": {"ts": "2024-02-29 23:59:59.123456789"},
            "time without fraction": {"ts": "2024-02-29 23:59:59", "tz": "2024-02-29 23:59:59Z"},
            "time without seconds": {"ts": "2024-02-29 23:59"},
            "30 February": {"da": "2023-02-30"},
            "30 February with time": {"ts": "2023-02-30 00:00:00"},
            "year 1": {"da": "0001-01-01", "ts": "0001-01-01 00:00:00"},
            "year 9999": {"da": "9999-12-31", "ts": "9999-12-31 23:59:59.999999"},
            "boolean as text": {"bo": "TRUE"},
            "boolean as number": {"bo": 1},
            "NaN as text": {"d": "NaN", "f": "Infinity"},
            "long as text": {"l": "9223372036854775807"},
            "long too large": {"l": 9223372036854775808},
            "tinyint too large": {"ti": 128},
            "array in text": {"ar": "[1]"},
            "text in array": {"ar": ["1", "x"]},
            "numbers in map": {"m": {"a": 1, "b": True, "c": {"d": 1}}},
            "row is text": {"r": "x"},
            "field of row wrong": {"r": {"a": "x", "b": "y"}},
        }.items()
    },
}  # fmt: skip

ISO: dict[str, bytes | None] = {
    "with zone": event("c", None, {"ts": "2024-02-29T23:59:59.123456", "tz": "2024-02-29T23:59:59.5Z"}),
    "SQL's standard": event("c", None, {"ts": "2024-02-29 23:59:59.123456"}),
    "with offset": event("c", None, {"tz": "2024-02-29T23:59:59+01:00"}),
}

_SCHEMA = {
    "type": "struct",
    "fields": [{"type": "struct", "fields": [{"type": "int32", "optional": False, "field": "id"}],
                "optional": True, "name": "shop.goods.Value", "field": "before"}],
    "optional": False, "name": "shop.goods.Envelope", "version": 2,
}  # fmt: skip


def with_schema(payload: bytes | None) -> bytes:
    """Return an event as Kafka Connect's converter writes it if it may write schemas."""
    return message(schema=_SCHEMA, payload=None if payload is None else json.loads(payload))


INCLUDED: dict[str, bytes | None] = {
    **{label: None if one is None else with_schema(one) for label, one in list(HISTORY.items())[:9]},
    "payload is null": with_schema(None),
    "payload is missing": message(schema=_SCHEMA),
    "payload is empty": message(schema=_SCHEMA, payload={}),
    "payload is text": message(schema=_SCHEMA, payload="x"),
    "without schema": event("c", None, ROPE),
    "schema is null": message(schema=None, payload={"op": "c", "after": ROPE}),
    "schema is missing": message(payload={"op": "c", "after": ROPE}),
    "schema behind the payload": b'{"payload":{"op":"c","after":{"id":1}},"schema":{"type": "struct"}}',
}

METADATA: dict[str, bytes | None] = {
    **{f"of {name}": event("c", None, ROPE, source) for name, source in SOURCES.items()},
    "of an update": event("u", ROPE, NEW_ROPE),
    "no source": message(op="c", after=ROPE, ts_ms=5),
    "null source": message(op="c", after=ROPE, source=None, ts_ms=None),
    "empty source": message(op="c", after=ROPE, source={}),
    "nested values in source": message(op="c", after=ROPE, source={"a": {"b": [1, 2.50]}, "c": [True], "ts_ms": 1}),
    "times as text": message(op="c", after=ROPE, source={"ts_ms": "1735732800000"}, ts_ms="1735732800456"),
    "time before 1970": message(op="c", after=ROPE, source={"ts_ms": -1}, ts_ms=-1),
    "time is not a number": message(op="c", after=ROPE, ts_ms="soon"),
    "time of the source is not a number": message(op="c", after=ROPE, source={"ts_ms": "soon"}),
    "time of the source is null": message(op="c", after=ROPE, source={"ts_ms": None, "db": None}),
    "time of the source is a fraction": message(op="c", after=ROPE, source={"ts_ms": 1.5}),
    "source is text": message(op="c", after=ROPE, source="x"),
    "schema in the payload": message(op="c", after=ROPE, schema={"type": "struct"}),
}  # fmt: skip

_NAME = "debezium-json"
_LENIENT = {f"{_NAME}.ignore-parse-errors": "true"}
_INCLUDE = {f"{_NAME}.schema-include": "true"}

READS = [
    Read("debezium", _NAME, GOODS, HISTORY | ODD),
    Read("debezium, lenient", _NAME, GOODS, HISTORY | ODD, _LENIENT),
    Read("debezium, not null", _NAME, {"id": "INT NOT NULL", "name": "STRING"}, {
        "key is null": event("c", None, {"id": None}), "key is missing": event("c", None, {"name": "a"}),
    }),
    Read("debezium, types", _NAME, EVERY_TYPE, TYPES),
    Read("debezium, types, lenient", _NAME, EVERY_TYPE, TYPES, _LENIENT),
    Read("debezium, ISO-8601", _NAME, EVERY_TYPE, ISO, {f"{_NAME}.timestamp-format.standard": "ISO-8601"}),
    Read("debezium, with schema", _NAME, GOODS, INCLUDED, _INCLUDE, has_metadata=True),
    Read("debezium, with schema, lenient", _NAME, GOODS, INCLUDED, _INCLUDE | _LENIENT),
    Read("debezium, metadata", _NAME, GOODS, METADATA, has_metadata=True),
    Read("debezium, metadata, lenient", _NAME, GOODS, METADATA, _LENIENT, has_metadata=True),
]  # fmt: skip
