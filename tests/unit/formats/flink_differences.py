"""Where penstock answers otherwise than Flink, on purpose. docs/formats-compared.md has the reasons.

Invariant: a difference that no longer exists, or that has changed, fails test_flink_judge.py.
"""

from __future__ import annotations

from typing import Any

from tests.judges.cdc.corpus import recorded
from tests.judges.cdc.corpus_money import OLDS
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


def _money(**values: Any) -> list[Any]:
    row = dict.fromkeys(("id", "amount", "balance", "paid", "note"))
    return [["+I", list((row | values).values())]]


_TOO_LARGE = (
    '"amount":99999999.995', '"amount":"99999999.995"', '"amount":1e400', '"amount":"1e400"',
    '"balance":99999999999999999999.9999999999999999995', '"balance":123456789012345678901',
)  # fmt: skip
_NOT_BOOLEANS = [f'"paid":{text}' for text in ("0", '"0"', '"1"', '"t"', '"yes"', '""')]
_SPACES = {f'"amount":"{text}"': _money(amount="1.50") for text in (" 1.5", "1.5 ")}
_NUMBERS_IN_TEXT = {f'"note":{text}': _money(note=text) for text in ("1.50", "1e2", "-0.0")}
_BEHIND = (
    "a brace too many", "text behind", "a comma behind", "a zero byte behind", "byte order mark behind",
    "UTF-16",
)  # fmt: skip


def _updates(*rows: Any) -> list[Any]:
    """Return -U and +U of rows; `None` is what the row has in a column that is null."""
    return [
        [kind, [row[0], row[1], None, None, row[2]]] for kind, row in zip(["-U", "+U"] * 2, rows, strict=True)
    ]


_NEW_1, _NEW_2 = (1, None, "a"), (2, None, "b")
_MONEY_CANAL: dict[str, Any] = {
    "the first has an empty old": _updates((1, None, "a"), _NEW_1, (2, None, "x"), _NEW_2),
    "the last has an empty old": _updates((1, None, "x"), _NEW_1, (2, None, "b"), _NEW_2),
    "one was null, the other is missing": _updates((1, None, None), _NEW_1, (2, None, "b"), _NEW_2),
    "one was null, the other has another column": _updates((1, None, None), _NEW_1, (2, "1.00", "b"), _NEW_2),
    "one primary key changes": _updates((10, None, "a"), _NEW_1, (2, None, "x"), _NEW_2),
}


def _money_nested() -> dict[str, Any]:
    """Return for two rows what Flink gives for the first one alone, and the second one with its own `old`."""
    now = [2, [2], [["k", "w"]], [2, "y"]]
    second = [["-U", [*now[:3], [7, None]]], ["+U", now]]
    alone = recorded("money, canal nested")["answer"]
    # Flink is right where the row is in both, and nothing else is in either.
    differing = [label for label in OLDS if not label.startswith("the row")]
    return {f"{label}, and the row of the other": [*alone[label], *second] for label in differing}


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
    "money, debezium": {
        **dict.fromkeys((*_TOO_LARGE, *_NOT_BOOLEANS), ERROR),
        **_SPACES,
        **_NUMBERS_IN_TEXT,
    },
    "money, debezium, lenient": {
        **dict.fromkeys(_NOT_BOOLEANS, _money()),
        **_SPACES,
        **_NUMBERS_IN_TEXT,
    },
    "money, envelopes": dict.fromkeys(_BEHIND, ERROR),
    "money, envelopes, lenient": {label: [] for label in _BEHIND},
    "money, with schema": {"trailing text": ERROR},
    "money, with schema, lenient": {"truncate": ERROR, "trailing text": []},
    "money, canal": {
        **_MONEY_CANAL,
        **dict.fromkeys(
            ("data is empty, old is not", "second amount is too large", "text behind", "second document"),
            ERROR,
        ),
    },
    "money, canal, lenient": {
        **_MONEY_CANAL,
        "old has null for the second row": [],
        "data has null for the second row": [],
        "second row is a number": [],
        "text behind": [],
        "second document": [],
    },
    "money, canal nested": _money_nested(),
    "money, canal nested, lenient": _money_nested(),
    "money, maxwell": dict.fromkeys(("amount was too large", "text behind"), ERROR),
    "money, maxwell, lenient": {"text behind": []},
    "money, ogg": dict.fromkeys(("amount too large", "text behind"), ERROR),
    "money, ogg, lenient": {"text behind": []},
}
"""penstock's answers by case and label, where Flink has others."""


def _numbers(*texts: str) -> list[list[str | None]]:
    """Return what is written for keys that are numbers. The last one is deleted again."""
    rows: list[list[str | None]] = [
        [f'{{"k":{one}}}', f'{{"k":{one},"v":{i}}}'] for i, one in enumerate(texts)
    ]
    return [*rows, [rows[-1][0], None]]


def _csv(name: str, written: dict[str, str]) -> list[list[str]]:
    """Return what Flink writes, with other quotes around some keys and values."""
    return [[written.get(text, text) for text in record] for record in recorded(name)["answer"]["records"]]


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
    "upsert keys, FLOAT": _numbers("0.1", "1.5", "100.0", "1e+10"),
    "upsert keys, DOUBLE": _numbers("0.1", "1.5", "100.0", "10000000000.0", "1e-05", "1e+21"),
    **{
        f"upsert keys, texts in csv{more}": _csv(f"upsert keys, texts in csv{more}", {"": '""'})
        for more in ("", " with a semicolon", " with an escape")
    },
    "upsert keys, texts in csv with another quote": _csv(
        "upsert keys, texts in csv with another quote", {"": "@@"}
    ),
    "upsert keys, texts in csv with a tab": _csv(
        "upsert keys, texts in csv with a tab", {"": '""', "#a": '"#a"', "#a\t9": '"#a"\t9'}
    ),
    "upsert keys, bad key, lenient": {
        "['x', 1]": [["+I", [1, "x", 1.0]], ["-D", [1, "x", 1.0]], ["+I", [1, "x", None]]],
        "['x', 2]": [["+I", [2, "x", 2.0]]],
    },
    "upsert, lenient": {"[1]": [["+I", [1, "a"]]], "[2]": [["+I", [2, "z"]]]},
    "upsert, written with a change of the key": [
        ['{"id":1}', '{"id":1,"name":"a"}'],
        ['{"id":1}', None],
        ['{"id":2}', '{"id":2,"name":"a"}'],
    ],
}
"""penstock's answers for whole histories of upsert tables."""
