"""Changes of tables that are written in each format, and upsert tables that are written and read."""

from __future__ import annotations

from tests.judges.cdc.corpus_debezium import CONVERTED, NULLS
from tests.judges.cdc.tables import EVERY_TYPE, GOODS, Record, Row, Upsert, Write, change, message

JSON_FORMATS = ("debezium-json", "canal-json", "maxwell-json", "ogg-json")
ROPE: Row = {"id": 1, "name": "rope", "weight": 2.25}
NAIL: Row = {"id": 2, "name": "nail", "weight": None}
ODD: Row = {"id": 3, "name": 'snow\u2603 \u00e9 "q" \\ / \n \t \u0001 \u007f', "weight": -0.0}
ALL_NULL: Row = dict.fromkeys(GOODS)

CHANGES = (
    change(None, ROPE),
    change(None, NAIL),
    change(None, ODD),
    change(ROPE, {**ROPE, "weight": 1e21}),
    change(NAIL, {**NAIL, "name": None, "weight": 0.001}),
    change(NAIL, {**NAIL, "id": 4}),
    change(ODD, None),
    message(op="c", after=ALL_NULL),
    message(op="d", before=ALL_NULL),
)

_DECIMALS = [0, 0.5, 1.5, 100000, 12345678.91, -0.01, 1e-2]
TYPES = (
    change(None, CONVERTED),
    change(CONVERTED, {**NULLS, "i": 0}),
    change(None, {**NULLS, "s": "", "by": "", "ar": [], "m": {}, "r": {}}),
    change(None, {**NULLS, "bo": False, "ts": "2024-02-29 00:00:00", "tz": "2024-02-29 10:20:30.1Z", "tm": "00:00:00"}),
    change(None, {**NULLS, "ts": "2024-02-29 00:00:00.000001", "da": "0001-01-01", "l": -9223372036854775808}),
    *(change(None, {**NULLS, "de": number}) for number in _DECIMALS),
    *(change(None, {**NULLS, "d": number}) for number in (0.1, 1e7, 1e-3, 123456789.125, 5e-324, "NaN", "Infinity")),
)  # fmt: skip

_OPTIONS: dict[str, dict[str, str]] = {
    "ISO-8601": {"timestamp-format.standard": "ISO-8601"},
    "plain decimals": {"encode.decimal-as-plain-number": "true"},
    "without nulls": {"encode.ignore-null-fields": "true"},
}

WRITES = [
    *(Write(f"{name}, written", name, GOODS, CHANGES) for name in JSON_FORMATS),
    *(Write(f"{name}, types written", name, EVERY_TYPE, TYPES) for name in JSON_FORMATS),
    *(
        Write(
            f"{name}, {label}", name, EVERY_TYPE, TYPES, {f"{name}.{key}": text for key, text in one.items()}
        )
        for name in ("debezium-json", "maxwell-json")
        for label, one in _OPTIONS.items()
    ),
    Write("debezium-avro-confluent, written", "debezium-avro-confluent", GOODS, CHANGES),
]


def _json(pairs: list[tuple[Row | None, Row | None]]) -> list[Record]:
    return [tuple(one and message(**one) for one in pair) for pair in pairs]  # type: ignore[misc] # two of each


_JSON = {"key.format": "json", "value.format": "json"}
ONE, TWO = {"id": 1}, {"id": 2}
UPSERTS = [
    Upsert("upsert, history", {"id": "INT NOT NULL", "name": "STRING", "weight": "DOUBLE"}, ["id"], _json([
        (ONE, ROPE), (TWO, NAIL), (ONE, ROPE), (ONE, {**ROPE, "weight": 3}), (TWO, None), (TWO, None),
        ({"id": 9}, None), (TWO, {**NAIL, "name": None}), (ONE, {"id": 1}), (ONE, None), (ONE, ROPE),
    ]), options=_JSON),
    Upsert("upsert, key not in the value", {"id": "INT NOT NULL", "name": "STRING"}, ["id"], _json([
        (ONE, {"name": "a"}), (ONE, {"name": None}), (ONE, {"name": None}), (ONE, None), (ONE, {"name": "b"}),
    ]), options={**_JSON, "value.fields-include": "EXCEPT_KEY"}),
    Upsert("upsert, two columns in the key", {"a": "INT NOT NULL", "b": "STRING NOT NULL", "v": "DOUBLE"}, ["b", "a"], _json([
        ({"b": "x", "a": 1}, {"a": 1, "b": "x", "v": 1}), ({"a": 1, "b": "x"}, {"a": 1, "b": "x", "v": 2}),
        ({"b": "y", "a": 1}, {"a": 1, "b": "y", "v": 3}), ({"b": "x", "a": 1}, None),
    ]), options=_JSON),
    Upsert("upsert, raw key", {"id": "STRING NOT NULL", "name": "STRING"}, ["id"], [
        (b"a", message(name="x")), (b"b", message(name="y")), (b"a", None), (b"", message(name="empty")),
    ], options={"key.format": "raw", "value.format": "json", "value.fields-include": "EXCEPT_KEY"}),
    *(
        Upsert(f"upsert, {label}", {"id": "INT NOT NULL", "name": "STRING"}, ["id"], [
            (message(id=1), message(id=1, name="a")), record, (message(id=2), message(id=2, name="z")),
        ], options=_JSON)
        for label, record in {
            "null key": (None, message(id=1, name="b")),
            "null key and value": (None, None),
            "empty value": (message(id=1), b""),
            "another key in the value": (message(id=1), message(id=3, name="b")),
            "no key in the value": (message(id=1), message(name="b")),
            "bad value": (message(id=1), b"no"),
            "bad key": (b"no", message(id=1, name="b")),
            "null in the key": (message(id=None), message(id=None, name="b")),
        }.items()
    ),
    Upsert("upsert, lenient", {"id": "INT NOT NULL", "name": "STRING"}, ["id"], [
        (message(id=1), message(id=1, name="a")), (message(id=1), b'{"id":1,"na'), (message(id=1), b"no"),
        (message(id=2), message(id=2, name="z")),
    ], options={**_JSON, "value.json.ignore-parse-errors": "true"}),
    Upsert("upsert, written", {"id": "INT NOT NULL", "name": "STRING", "weight": "DOUBLE"}, ["id"],
           changes=[*CHANGES[:5], CHANGES[6]], options=_JSON),
    Upsert("upsert, written without the key", {"id": "INT NOT NULL", "name": "STRING", "weight": "DOUBLE"}, ["id"],
           changes=[*CHANGES[:5], CHANGES[6]], options={**_JSON, "value.fields-include": "EXCEPT_KEY"}),
    Upsert("upsert, written with a change of the key", {"id": "INT NOT NULL", "name": "STRING"}, ["id"],
           changes=[change(None, {"id": 1, "name": "a"}), change({"id": 1, "name": "a"}, {"id": 2, "name": "a"})],
           options=_JSON),
]  # fmt: skip
