"""Messages of `ogg-json`, in the form of the JSON formatter of Oracle GoldenGate for Big Data."""

from __future__ import annotations

from typing import Any

from tests.judges.cdc.tables import EVERY_TYPE, GOODS, Read, message

ROPE = {"id": 1, "name": "rope", "weight": 2.25}
NAIL = {"id": 2, "name": "nail", "weight": None}
_AROUND: dict[str, Any] = {
    "op_ts": "2025-01-01 12:00:00.000000",
    "current_ts": "2025-01-01T12:00:01.234000",
    "pos": "00000000000000002928",
    "primary_keys": ["id"],
    "tokens": {"R": "AADPkvAAEAAEqL2AAA"},
}


def event(kind: Any, **rows: Any) -> bytes:
    """Return an operation with all that GoldenGate writes around the rows."""
    return message(table="SHOP.GOODS", op_type=kind, **{**_AROUND, **rows})


HISTORY: dict[str, bytes | None] = {
    "insert": event("I", after=ROPE),
    "insert with null before": event("I", before=None, after=NAIL),
    "update": event("U", before=ROPE, after={**ROPE, "weight": 2.5}),
    "update from null": event("U", before=NAIL, after={**NAIL, "weight": 0.5}),
    "update, compressed": event("U", before={"id": 1, "weight": 2.25}, after={"id": 1, "weight": 2.5}),
    "change of the key": event("U", before=ROPE, after={**ROPE, "id": 3}),
    "delete": event("D", before=ROPE),
    "delete, only the key": event("D", before={"id": 1}),
    "delete with null after": event("D", before=ROPE, after=None),
    "null value": None,
    "only what counts": message(op_type="I", after=ROPE),
}

ODD: dict[str, bytes | None] = {
    "empty value": b"",
    "truncate": event("T"),
    "unknown operation": event("P", before=ROPE, after=NAIL),
    "operation in lower case": event("i", after=ROPE),
    "operation is null": event(None, after=ROPE),
    "operation is missing": message(after=ROPE),
    "update without before": event("U", after=ROPE),
    "update with null before": event("U", before=None, after=ROPE),
    "update without after": event("U", before=ROPE),
    "delete without before": event("D"),
    "insert without after": event("I"),
    "insert with both": event("I", before=NAIL, after=ROPE),
    "delete with both": event("D", before=NAIL, after=ROPE),
    "added column": event("U", before={**ROPE, "color": "r"}, after={**ROPE, "color": "b"}),
    "removed column": event("I", after={"id": 1}),
    "columns in upper case": event("I", after={"ID": 1, "NAME": "rope"}),
    "text in a number column": event("I", after={**ROPE, "id": "one"}),
    "null": b"null",
    "array of operations": b"[" + event("I", after=ROPE) + b"," + event("I", after=NAIL) + b"]",
    "not JSON": b"rope",
    "cut in the row": event("I", after=ROPE)[:-10],
    "cut before the last brace": event("I", after=ROPE)[:-1],
}

METADATA: dict[str, bytes | None] = {
    "insert": event("I", after=ROPE),
    "update": event("U", before=ROPE, after=ROPE),
    "nothing": message(op_type="I", after=ROPE),
    "nulls": event("I", after=ROPE, op_ts=None, current_ts=None, primary_keys=None),
    **{
        f"op_ts {text}": event("I", after=ROPE, op_ts=text)
        for text in ("2025-01-01 12:00:00", "2025-01-01 12:00:00.123456", "2025-01-01 12:00:00.123456789",
                     "2025-01-01T12:00:00.5", "2025-01-01", "2025-02-30 00:00:00", "soon", "")
    },
    **{
        f"current_ts {text}": event("I", after=ROPE, current_ts=text)
        for text in ("2025-01-01T12:00:00", "2025-01-01T12:00:00.123456", "2025-01-01 12:00:00.5",
                     "2025-01-01T12:00:00Z", "2025-01-01T12:00:00+01:00", "soon")
    },
    "several keys": event("I", after=ROPE, primary_keys=["a", "b"]),
    "keys are text": event("I", after=ROPE, primary_keys="id"),
}  # fmt: skip

TYPES: dict[str, bytes | None] = {
    "all": event("I", after={
        "bo": True, "ti": 1, "sm": 2, "i": 3, "l": 4, "f": 0.5, "d": 0.25, "de": 1.1, "s": "x", "by": "AAE=",
        "da": "2024-02-29", "tm": "10:20:30", "ts": "2024-02-29 23:59:59.5", "tz": "2024-02-29 23:59:59Z",
        "ar": [1], "m": {"a": "b"}, "r": {"a": 1, "b": "c"},
    }),
    "all null": event("U", before=dict.fromkeys(EVERY_TYPE), after={}),
    "numbers of Oracle as text": event("I", after={"i": "3", "de": "1.10", "d": "2.50"}),
    "date of Oracle": event("I", after={"ts": "2024-02-29 23:59:59", "da": "2024-02-29 00:00:00"}),
}  # fmt: skip

_NAME = "ogg-json"
_LENIENT = {f"{_NAME}.ignore-parse-errors": "true"}

READS = [
    Read("ogg", _NAME, GOODS, HISTORY | ODD),
    Read("ogg, lenient", _NAME, GOODS, HISTORY | ODD, _LENIENT),
    Read("ogg, types", _NAME, EVERY_TYPE, TYPES),
    Read("ogg, metadata", _NAME, GOODS, METADATA, has_metadata=True),
    Read("ogg, metadata, lenient", _NAME, GOODS, METADATA, _LENIENT, has_metadata=True),
]
