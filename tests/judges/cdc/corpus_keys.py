"""Upsert tables with primary keys of every type and text, and several columns in the key."""

from __future__ import annotations

from tests.judges.cdc.corpus_debezium import CONVERTED
from tests.judges.cdc.tables import EVERY_TYPE, Record, Row, Upsert, change, message


def _rows(count: int) -> list[bytes]:
    return [change(None, {"a": i % 5, "b": f"k{i}", "v": i / 2}) for i in range(count)]


_KEYS = {"a": "INT NOT NULL", "b": "STRING NOT NULL", "v": "DOUBLE"}
_JSON = {"key.format": "json", "value.format": "json"}
_TYPED: dict[str, tuple[str, list[object]]] = {
    "BOOLEAN": ("BOOLEAN NOT NULL", [True, False]),
    "TINYINT": ("TINYINT NOT NULL", [-128, 0]),
    "SMALLINT": ("SMALLINT NOT NULL", [-32768, 7]),
    "INT": ("INT NOT NULL", [-1, 2147483647]),
    "BIGINT": ("BIGINT NOT NULL", [-9223372036854775808, 5]),
    "FLOAT": ("FLOAT NOT NULL", [0.1, 1.5, 100, 1e10]),
    "DOUBLE": ("DOUBLE NOT NULL", [0.1, 1.5, 100, 1e10, 1e-5, 1e21]),
    "DECIMAL": ("DECIMAL(10, 2) NOT NULL", [0, 1, 1.5, -0.01, 100000, 12345678.91]),
    "STRING": ("STRING NOT NULL", ["", "x", "snow\u2603 \u00e9 \" \\ / \n"]),
    "BYTES": ("BYTES NOT NULL", ["", "AAE=", "/+8="]),
    "DATE": ("DATE NOT NULL", ["2024-02-29", "1969-12-31"]),
    "TIME": ("TIME(0) NOT NULL", ["00:00:00", "23:59:59"]),
    "TIMESTAMP": ("TIMESTAMP(6) NOT NULL", ["2024-02-29 00:00:00", "2024-02-29 23:59:59.5", "2024-02-29 23:59:59.123456"]),
    "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ(6) NOT NULL", ["2024-02-29 00:00:00Z", "2024-02-29 23:59:59.12Z"]),
}  # fmt: skip


def _typed(name: str, used: str = "json") -> Upsert:
    kind, values = _TYPED[name]
    rows: list[Row] = [{"k": value, "v": i} for i, value in enumerate(values)]
    changes = [*(change(None, row) for row in rows), change(rows[-1], None)]
    options = {"key.format": used, "value.format": used}
    label = name if used == "json" else f"{name} in {used}"
    return Upsert(f"upsert keys, {label}", {"k": kind, "v": "INT"}, ["k"], changes=changes, options=options)


_TEXTS = [
    "x", "New York", "a-b", "a_b", "a.b", "a,b", 'a"b', "a'b", "a+b", "#a", "(a)", "a/b", "a\\b", "a;b", "a:b", "@", "", " ", "\u00e9",
    "\u2603", "\U0001f600", "a\nb", "\t", "\u007f", "\u2028", "2024-02-29 23:59:59", "550e8400-e29b-41d4-a716-446655440000",
    "abcdefghijklmnopqrstuvwx", "abcdefghijklmnopqrstuvwxy", "\u00e9" * 24, "\u00e9" * 25, "\U0001f600" * 12, "\U0001f600" * 13, "a~b", "a|b",
]  # fmt: skip


def _texts(label: str, name: str, **dialect: str) -> Upsert:
    rows: list[Row] = [{"k": text, "v": i} for i, text in enumerate(_TEXTS)]
    more = {
        f"{part}.{name}.{key.replace('_', '-')}": text
        for part in ("key", "value")
        for key, text in dialect.items()
    }
    options = {"key.format": name, "value.format": name, **more}
    columns = {"k": "STRING NOT NULL", "v": "INT"}
    changes = [change(None, row) for row in rows]
    return Upsert(f"upsert keys, texts in {label}", columns, ["k"], changes=changes, options=options)


_CSV_TYPES = ("bo", "ti", "l", "de", "s", "by", "da", "tm", "ts", "tz", "ar")
_CSV_ROWS: list[Row] = [
    {name: CONVERTED[name] for name in _CSV_TYPES},
    {**{name: CONVERTED[name] for name in _CSV_TYPES}, "by": "/+8=", "ar": [1, 22, 333, 4444, 55555, 666666, 7], "s": "a b"},
    {**{name: CONVERTED[name] for name in _CSV_TYPES}, "s": None, "by": None, "ar": None},
]  # fmt: skip


def _csv_types(label: str, **dialect: str) -> Upsert:
    columns = {"id": "INT NOT NULL", **{name: EVERY_TYPE[name] for name in _CSV_TYPES}}
    changes = [change(None, {"id": i, **row}) for i, row in enumerate(_CSV_ROWS)]
    more = {f"value.csv.{key.replace('_', '-')}": text for key, text in dialect.items()}
    options = {"key.format": "csv", "value.format": "csv", **more}
    return Upsert(f"upsert keys, types in {label}", columns, ["id"], changes=changes, options=options)


_GONE: list[Record] = [
    (message(b="x", a=1), message(a=1, b="x", v=1)), (message(b="x", a=2), message(a=2, b="x", v=2)),
    (message(b="x", a=1), None), (message(b="y", a=1), None), (message(b="x", a=2), message(a=2, b="x", v=2)),
    (message(b="x", a=1), message(a=1, b="x", v=None)),
]  # fmt: skip
UPSERTS = [
    *map(_typed, _TYPED),
    *(_typed(name, "avro") for name in _TYPED if "TIME" not in name or name == "TIME"),
    _texts("json", "json"),
    _texts("csv", "csv"),
    _texts("csv with a semicolon", "csv", field_delimiter=";"),
    _texts("csv with a tab", "csv", field_delimiter="\\t"),
    _texts("csv with an escape", "csv", escape_character="~"),
    _texts("csv with another quote", "csv", quote_character="@"),
    *(
        Upsert(
            f"upsert keys, {name}{', without the key in the value' if more else ''}", _KEYS, ["b", "a"],
            changes=[*_rows(3), change({"a": 0, "b": "k0", "v": 0}, {"a": 0, "b": "k0", "v": None}),
                     change({"a": 1, "b": "k1", "v": 0.5}, None)],
            options={"key.format": name, "value.format": name, **more},
        )
        for name in ("avro", "avro-confluent")
        for more in ({}, {"value.fields-include": "EXCEPT_KEY"})
    ),
    _csv_types("csv"),
    _csv_types("csv with a bar", field_delimiter="|", null_literal="n a"),
    Upsert("upsert keys, the key in another order than the table", _KEYS, ["b", "a"], changes=_rows(3), options=_JSON),
    Upsert("upsert keys, CSV", _KEYS, ["b", "a"], changes=_rows(3), options={"key.format": "csv", "value.format": "csv"}),
    Upsert("upsert keys, without the key in the value", _KEYS, ["b", "a"], changes=_rows(3),
           options={**_JSON, "value.fields-include": "EXCEPT_KEY"}),
    Upsert("upsert keys, prefix", {"k_a": "INT NOT NULL", "a": "STRING"}, ["k_a"],
           changes=[change(None, {"k_a": 1, "a": "x"}), change({"k_a": 1, "a": "x"}, None)],
           options={**_JSON, "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}),
    Upsert("upsert keys, prefix, read", {"k_a": "INT NOT NULL", "a": "STRING"}, ["k_a"], [
        (message(a=1), message(a="x")), (message(a=2), message(a="y")), (message(a=1), None),
    ], options={**_JSON, "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}),
    Upsert("upsert keys, deletes of one half of the key", _KEYS, ["b", "a"], _GONE, options=_JSON),
    Upsert("upsert keys, bad key, lenient", _KEYS, ["b", "a"], [*_GONE, (b"{", message(a=1, b="z"))],
           options={**_JSON, "key.json.ignore-parse-errors": "true"}),
    Upsert("upsert keys, unknown fields in the key", _KEYS, ["b", "a"], [
        (message(b="x", a=1, c=9), message(a=1, b="x", v=1)), (message(a=1, b="x"), None),
    ], options=_JSON),
    Upsert("upsert keys, numbers as text in the key", _KEYS, ["b", "a"], [
        (message(b=5, a="1"), message(a=1, b="5", v=1)), (message(a=1, b="5"), None),
    ], options=_JSON),
    Upsert("upsert keys, raw BIGINT", {"id": "BIGINT NOT NULL", "v": "INT"}, ["id"],
           changes=[change(None, {"id": -2, "v": 1}), change({"id": -2, "v": 1}, {"id": -2, "v": None})],
           options={"key.format": "raw", "value.format": "json"}),
    Upsert("upsert keys, updates and deletes in the same order", _KEYS, ["b", "a"],
           changes=[*_rows(4), change({"a": 1, "b": "k1", "v": 0.5}, {"a": 1, "b": "k1", "v": 9}),
                    change({"a": 1, "b": "k1", "v": 9}, None), change(None, {"a": 1, "b": "k1", "v": 8})], options=_JSON),
]  # fmt: skip
