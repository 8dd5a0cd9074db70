"""Debezium's Avro messages behind a Schema Registry: their schemas, their tables and their rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

from penstock.cdc.columns import follow_all
from penstock.cdc.messages import MessageFormat, message_format
from penstock.errors import SchemaError
from tests.registry_server import Registry, running_registry
from tests.unit.cdc.debezium_messages import binary

ID = {"name": "id", "type": "long"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "db", "type": "string", "default": "shop"},
        {"name": "txId", "type": ["null", "long"], "default": None},
        {"name": "lsn", "type": ["null", "long"], "default": None},
    ],
}
"""Of PostgreSQL; a part of its fields."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as found:
        yield found


def made(registry: Registry) -> MessageFormat:
    options = {"format": "debezium-avro-confluent", "debezium-avro-confluent.url": registry.url}
    found: MessageFormat = pickle.loads(pickle.dumps(message_format(options)))  # noqa: S301 - made here
    return found


def column(name: str, kind: Any, semantic: str = "", /, **more: Any) -> dict[str, Any]:
    """Return a column as Confluent's converter writes it: with the names of Connect."""
    of_connect = {"connect.version": 1, "connect.name": semantic} if semantic else {}
    inner = {"type": kind, **of_connect, **more} if of_connect or more else kind
    return {"name": name, "type": ["null", inner], "default": None}


def envelope(*fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.public.goods",
        "connect.name": "shop.public.goods.Envelope",
        "fields": [
            {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": [*fields]}]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
            {"name": "source", "type": SOURCE},
        ],
    }


def message(registry: Registry, schema: Any, row: Any, before: Any = None, source: Any = None) -> bytes:
    schema_id = registry.register("t-value", schema)
    written = BytesIO()
    op = "d" if row is None else "c" if before is None else "u"
    values = {"before": before, "after": row, "op": op, "source": source or {"txId": 1, "lsn": 7}}
    schemaless_writer(written, parse_schema(schema), values)
    return b"\0" + schema_id.to_bytes(4, "big") + written.getvalue()


def key_of(registry: Registry) -> bytes:
    schema = {"type": "record", "name": "Key", "namespace": "shop.public.goods", "fields": [ID]}
    return b"\0" + registry.register("t-key", schema).to_bytes(4, "big") + b"\x02"


def test_the_schema_of_a_message_is_that_of_its_header_and_is_asked_for_once(registry: Registry) -> None:
    old, new = envelope(ID, NAME), envelope(ID, NAME, column("vip", "boolean"))
    values = [
        message(registry, new, {"id": 1}),
        None,
        message(registry, old, {"id": 1}),
        message(registry, new, {"id": 2}),
    ]
    messages = made(registry)
    found = messages.schemas(binary([key_of(registry)] * 4), binary(values))
    assert found.ids.to_pylist() == [0, None, 1, 0]
    assert registry.requests == []
    sources = [messages.source(text) for text in found.texts]
    assert [one.columns.names for one in sources] == [["id", "name", "vip"], ["id", "name"]]
    assert {(one.name, one.keys) for one in sources} == {("public.goods", ("id",))}
    assert [one.nullable for one in sources[0].columns] == [False, True, True]
    messages.source(found.texts[0])
    assert len(registry.requests) == 3


def test_messages_of_several_schemas_give_rows_of_one(registry: Registry) -> None:
    old, new = envelope(ID, column("n", "int")), envelope(ID, column("n", "long"), NAME)
    values = [
        message(registry, old, {"id": 1, "n": 5}),
        message(registry, new, {"id": 1, "n": 2**40, "name": "a"}, {"id": 1, "n": 5}),
        message(registry, old, None, {"id": 1, "n": 5}),
        None,
    ]
    messages = made(registry)
    keys = binary([None] * 4)
    found = [messages.source(text) for text in messages.schemas(keys, binary(values)).texts]
    assert found[0].keys is None
    columns = follow_all(pa.schema([]), [one.columns for one in found], "lenient", ("id",)).columns
    changes = messages.changes(keys, binary(values), columns)
    assert (changes.kinds.to_pylist(), changes.index.to_pylist()) == (["+I", "-U", "+U", "-D"], [0, 1, 1, 2])
    assert [(row["n"], row["name"]) for row in changes.rows.to_pylist()] == [
        (5, None),
        (5, None),
        (2**40, "a"),
        (5, None),
    ]


MOMENT = datetime(2024, 2, 29, 12, 34, 56, 789_000, UTC).replace(tzinfo=None)
MICROS = 1_709_210_096_789_000
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def decimal(digits: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(digits)}
    return column(
        "x",
        "bytes",
        DECIMAL,
        **{"scale": scale, "precision": digits, "connect.parameters": parameters, "logicalType": "decimal"},
    )


@pytest.mark.parametrize(
    ("given", "kind", "raw", "expected"),
    [
        (column("x", "int", **{"connect.type": "int16"}), pa.int16(), 5, 5),
        (column("x", "int"), pa.int32(), 5, 5),
        (column("x", "int", "io.debezium.time.Date"), pa.date32(), 19_782, date(2024, 2, 29)),
        (
            column("x", "int", "org.apache.kafka.connect.data.Date", logicalType="date"),
            pa.date32(),
            date(2024, 2, 29),
            date(2024, 2, 29),
        ),
        (column("x", "int", logicalType="date"), pa.date32(), date(2024, 2, 29), date(2024, 2, 29)),
        (column("x", "long", "io.debezium.time.MicroTimestamp"), pa.timestamp("us"), MICROS, MOMENT),
        (
            column("x", "long", logicalType="timestamp-millis"),
            pa.timestamp("us", "UTC"),
            MOMENT.replace(tzinfo=UTC),
            MOMENT.replace(tzinfo=UTC),
        ),
        (
            column("x", "string", "io.debezium.time.ZonedTimestamp"),
            pa.timestamp("us", "UTC"),
            "2024-02-29T12:34:56.789Z",
            MOMENT.replace(tzinfo=UTC),
        ),
        (decimal(10, 2), pa.decimal128(10, 2), Decimal("-123.45"), Decimal("-123.45")),
        (decimal(64, 3), pa.string(), Decimal("-123.450"), "-123.450"),
        (
            column(
                "x",
                "record",
                "io.debezium.data.VariableScaleDecimal",
                name="VariableScaleDecimal",
                fields=[{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
            ),
            pa.string(),
            {"scale": 3, "value": b"\x05\xdc"},
            "1.500",
        ),
        (column("x", "array", items=["null", "string"]), pa.list_(pa.string()), ["a", None], ["a", None]),
        (column("x", "map", values="string"), pa.map_(pa.string(), pa.string()), {"a": "b"}, [("a", "b")]),
        (column("x", "enum", name="Colour", symbols=["RED", "BLUE"]), pa.string(), "BLUE", "BLUE"),
    ],
)
def test_types_of_avro_become_columns_with_converted_values(
    registry: Registry, given: Any, kind: pa.DataType, raw: Any, expected: Any
) -> None:
    schema = envelope(ID, given)
    values = binary(
        [message(registry, schema, {"id": 1, "x": raw}), message(registry, schema, {"id": 2, "x": None})]
    )
    messages, keys = made(registry), binary([None, None])
    (text,) = messages.schemas(keys, values).texts
    columns = messages.source(text).columns
    assert columns.field("x").type == kind
    changes = messages.changes(keys, values, columns)
    assert not changes.failures
    assert [row["x"] for row in changes.rows.to_pylist()] == [expected, None]


def test_a_value_that_the_log_does_not_have_is_never_written(registry: Registry) -> None:
    schema = envelope(ID, NAME)
    values = binary([message(registry, schema, {"id": 1, "name": "__debezium_unavailable_value"})])
    columns = pa.schema([("id", pa.int64()), ("name", pa.string())])
    changes = made(registry).changes(binary([None]), values, columns)
    assert changes.rows.num_rows == 0
    (one,) = changes.failures
    assert "REPLICA IDENTITY FULL" in one.reason


def test_messages_without_a_header_or_with_an_unknown_schema_are_failures(registry: Registry) -> None:
    good = message(registry, envelope(ID), {"id": 1})
    values, keys = binary([b"no", b"\0\0\0\0\x63x", good]), binary([None] * 3)
    messages, columns = made(registry), pa.schema([("id", pa.int64())])
    found = messages.schemas(keys, values)
    assert found.ids.to_pylist() == [None, 0, 1]
    assert [one.value_index for one in found.failures] == [0]
    with pytest.raises(SchemaError, match="does not know schema id 99"):
        messages.source(found.texts[0])
    changes = messages.changes(keys, values, columns)
    assert [one.value_index for one in changes.failures] == [0, 1]
    assert changes.index.to_pylist() == [2]


def test_a_union_of_several_types_is_an_error_that_names_the_column(registry: Registry) -> None:
    schema = envelope(ID, {"name": "x", "type": ["null", "string", "int"]})
    values = binary([message(registry, schema, {"id": 1, "x": 5})])
    messages = made(registry)
    (text,) = messages.schemas(binary([None]), values).texts
    with pytest.raises(SchemaError, match=r"'before.x'.*union of 2 types"):
        messages.source(text)
