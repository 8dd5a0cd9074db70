"""Where penstock answers otherwise than Flink, on purpose. docs/formats-compared.md has the reasons.

Invariant: a difference that no longer exists, or that has changed, fails test_flink_judge.py.
"""

from __future__ import annotations

from typing import Any

from tests.judges.cdc.tables import EVERY_TYPE, Row

ERROR = "error"
_ROPE = [1, "rope", 2.25]


def _typed(**values: Any) -> list[Any]:
    row: Row = dict.fromkeys(EVERY_TYPE)
    return [["+I", list((row | values).values())]]


_MICROSECONDS = _typed(ts="2024-02-29T23:59:59.123456000")
_NESTED = {
    "only the nested name has changed": [["-U", [1, "a", ["y"]]], ["+U", [1, "a", ["x"]]]],
    "a row to null": [["-U", [1, "a", ["y"]]], ["+U", [1, "a", None]]],
    "the name of an unknown column inside": [["-U", [1, "a", None]], ["+U", [1, "a", None]]],
}
_CANAL = {
    "update of two rows in different columns": [
        ["-U", [1, "rope", None]], ["+U", _ROPE], ["-U", [2, "x", None]], ["+U", [2, "nail", None]],
    ],
}  # fmt: skip


def _ogg(at: str | None, current: str | None = "2025-01-01T12:00:01.234000") -> list[Any]:
    times = [time and f"{time}000Z" for time in (current, at)]
    return [["+I", [*_ROPE, "SHOP.GOODS", ["id"], *times]]]


_OGG_TIMES = {
    "op_ts 2025-01-01 12:00:00.123456": _ogg("2025-01-01T12:00:00.123456"),
    "op_ts 2025-01-01 12:00:00.123456789": _ogg("2025-01-01T12:00:00.123456"),
    "op_ts 2025-01-01T12:00:00.5": _ogg("2025-01-01T12:00:00.500000"),
    "current_ts 2025-01-01T12:00:00": _ogg("2025-01-01T12:00:00.000000", "2025-01-01T12:00:00.000000"),
    "current_ts 2025-01-01T12:00:00.123456": _ogg("2025-01-01T12:00:00.000000", "2025-01-01T12:00:00.123456"),
}
_OGG_NOT_TIMES = (
    "op_ts 2025-02-30 00:00:00",
    "current_ts 2025-01-01T12:00:00Z",
    "current_ts 2025-01-01T12:00:00+01:00",
    "current_ts soon",
)

_ONE = {label: [["+I", _ROPE]] for label in ("of one", "of one, with spaces")}
_WITH_NULL = ("of a good one and null", "of null and a good one")

ROWS: dict[str, dict[str, Any]] = {
    "debezium": {
        **dict.fromkeys(
            ("fraction in a whole number", "two documents", "two lines", "lone surrogate"), ERROR
        ),
    },
    "debezium, lenient": {
        "fraction in a whole number": [["+I", [None, "x", 1.0]]],
        "truncate": ERROR,
        "two documents": [],
        "two lines": [],
        "lone surrogate": [["+I", [1, None, None]]],
    },
    "debezium, not null": {"key is null": ERROR, "key is missing": ERROR},
    "debezium, types": {
        **dict.fromkeys(("decimal too large", "30 February with time", "boolean as number"), ERROR),
        "time with nine digits": _MICROSECONDS,
    },
    "debezium, types, lenient": {
        "30 February with time": _typed(),
        "boolean as number": _typed(),
        "time with nine digits": _MICROSECONDS,
    },
    "debezium, ISO-8601": {"with offset": _typed(tz="2024-02-29T22:59:59.000000000Z")},
    "debezium, metadata": {"source is text": ERROR},
    "debezium, metadata, lenient": {
        "source is text": [["+I", [*_ROPE, None, None, None, None, None, None, None]]]
    },
    "canal": {**_CANAL, "old is longer": ERROR},
    "canal, lenient": {
        **_CANAL,
        "TRUNCATE": ERROR,
        "old is shorter": [],
        "old is longer": [],
        "null row": [],
    },
    "canal, nested": _NESTED,
    "canal, filtered": {"null database": ERROR, "null table, which the pattern does not match": ERROR},
    "canal, types": {"boolean as MySQL has it": ERROR},
    "canal, types, lenient": {"boolean as MySQL has it": _typed()},
    "canal, metadata": {"sqlType is text": ERROR},
    "canal, metadata, lenient": {"sqlType is text": [["+I", [*_ROPE, None, None, None, None, None, None]]]},
    "maxwell, nested": _NESTED,
    "maxwell, types": {"boolean as MySQL has it": ERROR},
    "ogg, lenient": {"truncate": ERROR},
    "ogg, metadata": {**_OGG_TIMES, **dict.fromkeys(_OGG_NOT_TIMES, ERROR)},
    "ogg, metadata, lenient": {**_OGG_TIMES, **{label: [] for label in _OGG_NOT_TIMES}},
    **{
        f"arrays, {name}{more}": _ONE for name in ("canal-json", "maxwell-json") for more in ("", ", lenient")
    },
    **{f"arrays, {name}": dict.fromkeys(_WITH_NULL, ERROR) for name in ("debezium-json", "ogg-json")},
    **{
        f"arrays, {name}, lenient": {label: [] for label in (*_WITH_NULL, "of a number and a good one")}
        for name in ("debezium-json", "ogg-json")
    },
    "avro": {"a key that became long": [["+I", _ROPE]]},
}
"""penstock's answers by case and label, where Flink has others."""

HISTORIES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "upsert, null key",
            "upsert, null key and value",
            "upsert, empty value",
            "upsert, another key in the value",
        ),
        ERROR,
    ),
    "upsert, lenient": {"[1]": [["+I", [1, "a"]]], "[2]": [["+I", [2, "z"]]]},
    "upsert, written with a change of the key": [
        ['{"id":1}', '{"id":1,"name":"a"}'],
        ['{"id":1}', None],
        ['{"id":2}', '{"id":2,"name":"a"}'],
    ],
}
"""penstock's answers for whole histories of upsert tables."""
