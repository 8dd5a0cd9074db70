"""Messages of each changelog format: the same changes of the rows of `orders`, in the form of each tool.

Of five messages two are inserts, two updates and one a delete, so that rows remain, without which Flink gives
no aggregates. An update changes two columns of five. Invariant: a column of an old row is never null, so
`from_json`, which cannot tell null from missing, gives the same rows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from benchmarks.inputs import order

Row = dict[str, Any]
COLUMNS = "id BIGINT, customer STRING, amount DOUBLE, is_paid BOOLEAN, note STRING"
AVRO = "debezium-avro-confluent"
_SCHEMA_ID = 1
_MS = 1_767_225_600_000


def changes(count: int) -> list[tuple[Row | None, Row | None]]:
    """Return the old and the new row of each change."""
    found: list[tuple[Row | None, Row | None]] = []
    for number in range(count):
        new: Row = json.loads(order(number))
        old = {**new, "amount": new["amount"] + 1, "note": f"{new['note']}, late"}
        found.append((None, new) if number % 5 < 2 else (new, None) if number % 5 == 4 else (old, new))
    return found


def values(name: str, count: int) -> list[bytes]:
    """Return the messages of a format."""
    write = _WRITERS[name]
    return [write(old, new, number) for number, (old, new) in enumerate(changes(count))]


def _text(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _op(old: Row | None, new: Row | None, operations: tuple[str, str, str]) -> str:
    insert, update, delete = operations
    return insert if old is None else delete if new is None else update


def _source(number: int) -> Row:
    return {
        "version": "3.0.8.Final", "connector": "mysql", "name": "shop-1", "ts_ms": _MS + number,
        "snapshot": "false", "db": "shop", "sequence": None, "table": "orders", "server_id": 223344,
        "gtid": None, "file": "mysql-bin.000003", "pos": 1490 + number, "row": 0, "thread": 7, "query": None,
    }  # fmt: skip


def _debezium(old: Row | None, new: Row | None, number: int) -> bytes:
    op = _op(old, new, ("c", "u", "d"))
    return _text(before=old, after=new, source=_source(number), transaction=None, op=op, ts_ms=_MS + number)


def _changed(old: Row | None, new: Row | None) -> Row | None:
    if old is None or new is None:
        return None
    return {name: value for name, value in old.items() if value != new[name]}


def _as_text(row: Row | None) -> Row | None:
    """Return a row as canal has it: all values are texts."""
    if row is None:
        return None
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in row.items()}


def _canal(old: Row | None, new: Row | None, number: int) -> bytes:
    changed = _as_text(_changed(old, new))
    types = {"id": "bigint", "customer": "varchar(40)", "amount": "double", "is_paid": "bool", "note": "text"}
    return _text(
        data=[_as_text(new or old)], database="shop", es=_MS + number, id=number, isDdl=False,
        mysqlType=types, old=None if changed is None else [changed], pkNames=["id"], sql="",
        sqlType={"id": -5, "customer": 12, "amount": 8, "is_paid": 16, "note": 2005}, table="orders",
        ts=_MS + number, type=_op(old, new, ("INSERT", "UPDATE", "DELETE")),
    )  # fmt: skip


def _maxwell(old: Row | None, new: Row | None, number: int) -> bytes:
    changed = _changed(old, new)
    more = {} if changed is None else {"old": changed}
    operation = _op(old, new, ("insert", "update", "delete"))
    return _text(
        database="shop", table="orders", type=operation, ts=_MS // 1000 + number, xid=940752 + number,
        commit=True, data=new or old, **more,
    )  # fmt: skip


def _ogg(old: Row | None, new: Row | None, number: int) -> bytes:
    rows = {name: row for name, row in (("before", old), ("after", new)) if row is not None}
    return _text(
        table="SHOP.ORDERS", op_type=_op(old, new, ("I", "U", "D")), op_ts="2026-01-01 00:00:00.000000",
        current_ts="2026-01-01T00:00:01.123000", pos=f"{number:020d}", primary_keys=["id"], **rows,
    )  # fmt: skip


def _avro_schema() -> Row:
    optional: Row = {"default": None}
    types = {"customer": "string", "amount": "double", "is_paid": "boolean", "note": "string"}
    row: list[Row] = [{"name": "id", "type": "long"}]
    row += [{"name": name, "type": ["null", kind], **optional} for name, kind in types.items()]
    source = [
        {"name": name, "type": "long" if isinstance(value, int) else ["null", "string"]}
        for name, value in _source(0).items()
    ]
    value = {"type": "record", "name": "Value", "fields": row}
    return {
        "type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": [
            {"name": "before", "type": ["null", value], **optional},
            {"name": "after", "type": ["null", "Value"], **optional},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], **optional},
        ],
    }  # fmt: skip


AVRO_SCHEMA = json.dumps(_avro_schema())
"""Registered with the id 1."""
_PARSED = fastavro.parse_schema(_avro_schema())


def _avro(old: Row | None, new: Row | None, number: int) -> bytes:
    out = io.BytesIO()
    out.write(b"\0" + _SCHEMA_ID.to_bytes(4, "big"))
    op = _op(old, new, ("c", "u", "d"))
    fields = {"before": old, "after": new, "source": _source(number), "op": op, "ts_ms": _MS + number}
    fastavro.schemaless_writer(out, _PARSED, fields)
    return out.getvalue()


_WRITERS: dict[str, Callable[[Row | None, Row | None, int], bytes]] = {
    "debezium-json": _debezium,
    "canal-json": _canal,
    "maxwell-json": _maxwell,
    "ogg-json": _ogg,
    AVRO: _avro,
}
FORMATS = tuple(_WRITERS)
