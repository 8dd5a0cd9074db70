"""What the judge asks: tables with Flink's types, the messages they read, the changes they write.

Used by the recorder and by the tests. Invariant: a read or write has all that decides Flink's answer, so
that a test can tell an answer that was recorded for other messages.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

Record = tuple[bytes | None, bytes | None]
Row = dict[str, Any]

TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "DECIMAL(38, 9)": pa.decimal128(38, 9),
    "DECIMAL(38, 18)": pa.decimal128(38, 18),
    "STRING": pa.string(),
    "BYTES": pa.binary(),
    "DATE": pa.date32(),
    "TIME(0)": pa.time32("s"),
    "TIMESTAMP(3)": pa.timestamp("us"),
    "TIMESTAMP(6)": pa.timestamp("us"),
    "TIMESTAMP_LTZ(3)": pa.timestamp("us", "UTC"),
    "TIMESTAMP_LTZ(6)": pa.timestamp("us", "UTC"),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "ARRAY<STRING>": pa.list_(pa.string()),
    "MAP<STRING, INT>": pa.map_(pa.string(), pa.int32()),
    "MAP<STRING, STRING>": pa.map_(pa.string(), pa.string()),
    "ROW<name STRING>": pa.struct([("name", pa.string())]),
    "ROW<a INT, b STRING>": pa.struct([("a", pa.int32()), ("b", pa.string())]),
}
"""Flink's types of the columns, and those that penstock is given."""

_NOT_NULL = " NOT NULL"

METADATA: dict[str, dict[str, str]] = {
    "debezium-json": {
        "schema": "STRING",
        "ingestion-timestamp": "TIMESTAMP_LTZ(3)",
        "source.timestamp": "TIMESTAMP_LTZ(3)",
        "source.database": "STRING",
        "source.schema": "STRING",
        "source.table": "STRING",
        "source.properties": "MAP<STRING, STRING>",
    },
    "canal-json": {
        "database": "STRING",
        "table": "STRING",
        "sql-type": "MAP<STRING, INT>",
        "pk-names": "ARRAY<STRING>",
        "ingestion-timestamp": "TIMESTAMP_LTZ(3)",
        "event-timestamp": "TIMESTAMP_LTZ(3)",
    },
    "maxwell-json": {
        "database": "STRING",
        "table": "STRING",
        "primary-key-columns": "ARRAY<STRING>",
        "ingestion-timestamp": "TIMESTAMP_LTZ(3)",
    },
    "ogg-json": {
        "table": "STRING",
        "primary-keys": "ARRAY<STRING>",
        "ingestion-timestamp": "TIMESTAMP_LTZ(6)",
        "event-timestamp": "TIMESTAMP_LTZ(6)",
    },
}
"""The metadata of each format, with the types of Flink's documentation."""

GOODS = {"id": "INT", "name": "STRING", "weight": "DOUBLE"}
EVERY_TYPE = {
    "bo": "BOOLEAN",
    "ti": "TINYINT",
    "sm": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "de": "DECIMAL(10, 2)",
    "s": "STRING",
    "by": "BYTES",
    "da": "DATE",
    "tm": "TIME(0)",
    "ts": "TIMESTAMP(6)",
    "tz": "TIMESTAMP_LTZ(6)",
    "ar": "ARRAY<INT>",
    "m": "MAP<STRING, STRING>",
    "r": "ROW<a INT, b STRING>",
}


@dataclass(frozen=True)
class Read:
    """Messages by label, and the table that reads them.

    `schemas` are those that the registry has, from id 1; their subjects are `<topic>-value`.
    """

    name: str
    format: str
    columns: Mapping[str, str]
    messages: Mapping[str, bytes | None]
    options: Mapping[str, str] = field(default_factory=dict)
    has_metadata: bool = False
    schemas: Sequence[str] = ()

    def metadata(self) -> dict[str, str]:
        """Return the columns of metadata, and the key of each."""
        return {f"_{key}": key for key in METADATA[self.format]} if self.has_metadata else {}

    def all_columns(self) -> dict[str, str]:
        """Return the types of all columns, in order, those of metadata behind the others."""
        known = METADATA[self.format] if self.has_metadata else {}
        return {**self.columns, **{f"_{key}": kind for key, kind in known.items()}}

    def asked(self) -> dict[str, Any]:
        """Return what decides the answer, as the recording holds it."""
        return {
            "format": self.format,
            "columns": self.all_columns(),
            "options": dict(self.options),
            "messages": {label: shown(value) for label, value in self.messages.items()},
            "schemas": list(self.schemas),
        }


@dataclass(frozen=True)
class Write:
    """Changes of a table, as messages of `debezium-json`, and the table that they are written into."""

    name: str
    format: str
    columns: Mapping[str, str]
    changes: Sequence[bytes]
    options: Mapping[str, str] = field(default_factory=dict)

    def asked(self) -> dict[str, Any]:
        """Return what decides the answer, as the recording holds it."""
        return {
            "format": self.format,
            "columns": dict(self.columns),
            "options": dict(self.options),
            "changes": [shown(one) for one in self.changes],
        }


@dataclass(frozen=True)
class Upsert:
    """Records of an upsert table, read as one history, or the changes that are written into it."""

    name: str
    columns: Mapping[str, str]
    primary_key: Sequence[str]
    records: Sequence[Record] = ()
    changes: Sequence[bytes] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def registry_urls(self, url: Callable[[], str]) -> dict[str, str]:
        """Return the options that name a registry. `url` starts one; it is called once at most."""
        formats = [key for key in ("key.format", "value.format") if self.options[key] == "avro-confluent"]
        address = url() if formats else ""
        return {f"{key.removesuffix('format')}avro-confluent.url": address for key in formats}

    def asked(self) -> dict[str, Any]:
        """Return what decides the answer, as the recording holds it."""
        return {
            "columns": dict(self.columns),
            "primary_key": list(self.primary_key),
            "options": dict(self.options),
            "records": [[shown(key), shown(value)] for key, value in self.records],
            "changes": [shown(one) for one in self.changes],
        }


Case = Read | Write | Upsert


def schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Return the Arrow schema of columns with Flink's types."""
    return pa.schema(
        [
            pa.field(name, TYPES[kind.removesuffix(_NOT_NULL)], nullable=not kind.endswith(_NOT_NULL))
            for name, kind in columns.items()
        ]
    )


def shown(value: bytes | None) -> Any:
    """Return bytes as JSON can hold them: text, or base64 where they are not UTF-8."""
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
    return text


def hidden(value: Any) -> bytes | None:
    """Return what `shown` made text of."""
    if value is None:
        return None
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else str(value).encode()


def message(**fields: Any) -> bytes:
    """Return a JSON object."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def change(before: Row | None, after: Row | None) -> bytes:
    """Return one change of a table as `debezium-json` writes it."""
    op = "u" if before and after else "c" if after else "d"
    return message(before=before, after=after, op=op)


def plain_column(column: pa.Array) -> list[Any]:
    """Return the values of a column as the recording has Flink's."""
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return [plain(one.as_py(), kind) for one in column]
    zone = "Z" if kind.tz else ""  # Python has no years after 9999
    times = [
        None if one is None else str(np.datetime64(one, "us")) for one in column.cast(pa.int64()).to_pylist()
    ]
    return [time and f"{'+' if time[4] != '-' else ''}{time}000{zone}" for time in times]


def plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value that is not a timestamp as the recording has Flink's."""
    if value is None:
        return None
    for is_kind, show in _SHOWN:
        if is_kind(kind):
            return show(value, kind)
    return value


def _float(value: float, kind: pa.DataType) -> Any:
    number = float(str(np.float32(value))) if pa.types.is_float32(kind) else value
    return number if math.isfinite(number) else repr(number)


def _map(value: list[tuple[str, Any]], kind: pa.DataType) -> Any:
    return sorted([key, plain(one, kind.item_type)] for key, one in value)


def _row(value: Row, kind: pa.DataType) -> Any:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    return [plain(value[field.name], field.type) for field in fields]


_SHOWN: list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]]] = [
    (pa.types.is_binary, lambda value, _: base64.b64encode(value).decode()),
    (pa.types.is_time, lambda value, _: value.isoformat(timespec="microseconds") + "000"),
    (pa.types.is_date, lambda value, _: value.isoformat()),
    (pa.types.is_decimal, lambda value, _: f"{value:f}"),
    (pa.types.is_floating, _float),
    (pa.types.is_list, lambda value, kind: [plain(one, kind.value_type) for one in value]),
    (pa.types.is_map, _map),
    (pa.types.is_struct, _row),
]
