"""Messages of `maxwell-json`, in the form that Maxwell's documentation shows."""

from __future__ import annotations

from typing import Any

from tests.judges.cdc.tables import EVERY_TYPE, GOODS, Read, message

ROPE = {"id": 1, "name": "rope", "weight": 2.25}
NAIL = {"id": 2, "name": "nail", "weight": None}
_NOTHING: Any = object()


def event(kind: Any, data: Any, old: Any = _NOTHING, **more: Any) -> bytes:
    """Return a message with all that Maxwell writes. Only updates have `old`."""
    fields = {
        "database": "shop", "table": "goods", "type": kind, "ts": 1735732800, "xid": 23396, "commit": True,
        "position": "master.000006:800911", "server_id": 23042, "thread_id": 108, "primary_key": [1],
        "primary_key_columns": ["id"], "data": data, **more,
    }  # fmt: skip
    return message(**fields, **({} if old is _NOTHING else {"old": old}))


HISTORY: dict[str, bytes | None] = {
    "insert": event("insert", ROPE),
    "update": event("update", ROPE, {"weight": 2.0}),
    "update to null": event("update", NAIL, {"weight": 0.5}),
    "update from null": event("update", ROPE, {"weight": None}),
    "update of two columns": event("update", ROPE, {"name": None, "weight": 5}),
    "update of nothing": event("update", ROPE, {}),
    "change of the key": event("update", {**ROPE, "id": 3}, {"id": 1}),
    "delete": event("delete", ROPE),
    "delete with old": event("delete", ROPE, {}),
    "null value": None,
    "only what counts": message(type="delete", data=NAIL),
    "old before data": message(old={"name": None}, type="update", data=ROPE),
}

ODD: dict[str, bytes | None] = {
    "empty value": b"",
    **{
        kind: event(kind, row)
        for kind, row in {"bootstrap-start": {}, "bootstrap-insert": ROPE, "bootstrap-complete": {}}.items()
    },
    **{
        kind: message(type=kind, database="shop", table="goods", ts=1735732800000, sql="...")
        for kind in ("table-create", "table-alter", "table-drop", "database-create", "database-drop")
    },
    "added column": event("update", {**ROPE, "color": "red"}, {"color": "blue"}),
    "removed column": event("update", {"id": 1, "name": "rope"}, {"name": "cord"}),
    "column only in old": event("update", {"id": 1}, {"name": "cord", "weight": 1}),
    "insert without data": message(type="insert"),
    "insert with null data": event("insert", None),
    "insert with empty data": event("insert", {}),
    "update with null old": event("update", ROPE, None),
    "update without old": event("update", ROPE),
    "update with null data": event("update", None, {"name": "x"}),
    "data is an array": event("insert", [ROPE]),
    "old is text": event("update", ROPE, "x"),
    "text in a number column": event("insert", {**ROPE, "id": "one"}),
    "text in a number column of old": event("update", ROPE, {"id": "one"}),
    "type in upper case": event("INSERT", ROPE),
    "type is null": event(None, ROPE),
    "type is missing": message(data=ROPE),
    "null": b"null",
    "array of messages": b"[" + event("insert", ROPE) + b"," + event("insert", NAIL) + b"]",
    "not JSON": b"rope",
    "cut in the data": event("update", ROPE, {"weight": 1})[:220],
    "cut before the last brace": event("update", ROPE, {"weight": 1})[:-1],
    "repeated name in old": b'{"type":"update","data":{"id":1,"name":"a"},"old":{"name":"b","name":null}}',
}

NESTED: dict[str, bytes | None] = {
    "only the nested name has changed": event("update", {"id": 1, "name": "a", "at": {"name": "x"}}, {"at": {"name": "y"}}),
    "a row from null": event("update", {"id": 1, "name": "a", "at": {"name": "x"}}, {"at": None}),
    "a row to null": event("update", {"id": 1, "name": "a", "at": None}, {"at": {"name": "y"}}),
    "the name of an unknown column inside": event("update", {"id": 1, "name": "a"}, {"extra": {"id": 5}}),
}  # fmt: skip

METADATA: dict[str, bytes | None] = {
    "insert": event("insert", ROPE),
    "update": event("update", ROPE, {"weight": 1}),
    "nothing": message(type="insert", data=ROPE),
    "nulls": event("insert", ROPE, database=None, table=None, ts=None, primary_key_columns=None),
    "several keys": event("insert", ROPE, primary_key_columns=["a", "b"]),
    "no keys": event("insert", ROPE, primary_key_columns=[]),
    "time before 1970": event("insert", ROPE, ts=-1),
    "time as text": event("insert", ROPE, ts="1735732800"),
    "time in milliseconds": event("insert", ROPE, ts=1735732800456),
    "time is not a number": event("insert", ROPE, ts="soon"),
    "keys are text": event("insert", ROPE, primary_key_columns="id"),
}

TYPES: dict[str, bytes | None] = {
    "all": event("insert", {
        "bo": True, "ti": 1, "sm": 2, "i": 3, "l": 4, "f": 0.5, "d": 0.25, "de": 1.1, "s": "x", "by": "AAE=",
        "da": "2024-02-29", "tm": "10:20:30", "ts": "2024-02-29 23:59:59.5", "tz": "2024-02-29 23:59:59Z",
        "ar": [1], "m": {"a": "b"}, "r": {"a": 1, "b": "c"},
    }),
    "all were null": event("update", {"i": 1, "s": "x", "ar": [1], "m": {"a": "b"}, "r": {"a": 1}},
                           dict.fromkeys(EVERY_TYPE)),
    "parts were null": event("update", {"ar": [1], "m": {"a": "b"}, "r": {"a": 1, "b": "c"}},
                             {"ar": [None], "m": {"a": None}, "r": {"a": None}}),
    "boolean as MySQL has it": event("insert", {"bo": 1}),
    "decimal": event("update", {"de": 1.005}, {"de": 1.015}),
}  # fmt: skip

_NAME = "maxwell-json"
_LENIENT = {f"{_NAME}.ignore-parse-errors": "true"}
_NESTED = {"id": "INT", "name": "STRING", "at": "ROW<name STRING>"}

READS = [
    Read("maxwell", _NAME, GOODS, HISTORY | ODD),
    Read("maxwell, lenient", _NAME, GOODS, HISTORY | ODD, _LENIENT),
    Read("maxwell, nested", _NAME, _NESTED, NESTED),
    Read("maxwell, types", _NAME, EVERY_TYPE, TYPES),
    Read("maxwell, metadata", _NAME, GOODS, METADATA, has_metadata=True),
    Read("maxwell, metadata, lenient", _NAME, GOODS, METADATA, _LENIENT, has_metadata=True),
]
