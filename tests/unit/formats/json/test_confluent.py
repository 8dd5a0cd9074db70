"""JSON behind the Schema Registry's header."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.errors import MissingOptionError, OptionError, SchemaRegistryError
from tests.registry_server import Registry, running_registry
from tests.table_specs import format_for

COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("tags", pa.list_(pa.string())), ("x", pa.float64())]
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def options(registry: Registry, **others: str) -> dict[str, str]:
    named = {f"json-confluent.{name}": text for name, text in others.items()}
    return {"json-confluent.url": registry.url, "topic": "orders", **named}


def test_rows_are_written_behind_the_id_of_a_registered_schema(registry: Registry) -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1, "tags": ["a", None], "x": None}] * 2, schema=COLUMNS)
    made = format_for("json-confluent", options(registry))
    values = made.encoder(COLUMNS).encode(rows)
    assert values.to_pylist() == [b'\0\0\0\0\1{"id":1,"tags":["a",null],"x":null}'] * 2
    assert registry.subjects == {"orders-value": [1]}
    assert registry.schemas[1]["schemaType"] == "JSON"
    schema = json.loads(registry.schemas[1]["schema"])
    assert schema["required"] == ["id"]
    assert schema["properties"]["id"] == {"type": "integer"}
    found = made.decoder(COLUMNS).decode(values)
    assert found.rows.equals(rows)
    assert found.value_indices is None


def test_values_without_a_header_are_failures_and_move_nothing(registry: Registry) -> None:
    good = b'\0\0\0\0\1{"id":1}'
    values = pa.array(
        [good, b'{"id":2}', None, b"", b"\0\0\0\0\1{", b"\0\0", b"\0\0\0\0\1", good], pa.binary()
    )
    found = format_for("json-confluent", options(registry)).decoder(COLUMNS, ["id"]).decode(values)
    assert found.indices().to_pylist() == [0, 7]
    assert [failure.value_index for failure in found.failures] == [1, 4, 5]
    assert found.failures[1].excerpt.startswith("\\x00")
    assert registry.requests == []


def test_indices_are_counted_from_the_records_value_and_options_named_as_they_are(registry: Registry) -> None:
    schema = pa.schema([("t", pa.timestamp("us"))])
    made = format_for("json-confluent", options(registry))
    bad = [b'\0\0\0\0\1{"t":"\xff"}', b'\0\0\0\0\1{"t":"2026-05-01T12:00:00"}']
    reasons = [one.reason for one in made.decoder(schema).decode(pa.array(bad, pa.binary())).failures]
    assert reasons[0] == "the bytes are not UTF-8 (byte 11)"
    assert "byte 31" in reasons[1]
    assert "'json-confluent.timestamp-format.standard' = 'ISO-8601'" in reasons[1]


def test_options_of_json_and_of_the_registry_stand_under_one_name(registry: Registry) -> None:
    made = format_for("json-confluent", options(registry, **{"ignore-parse-errors": "true"}))
    found = made.decoder(COLUMNS).decode(
        pa.array([b'\0\0\0\0\1{"id":1,"x":"?"}', b"\0\0\0\0\1?"], pa.binary())
    )
    assert (found.rows.to_pylist(), found.ignored_count) == ([{"id": 1, "tags": None, "x": None}], 1)
    strict = options(registry, **{"auto.register.schemas": "false"})
    rows = pa.RecordBatch.from_pylist([{"id": 1}], schema=COLUMNS)
    with pytest.raises(SchemaRegistryError, match="no such schema"):
        format_for("json-confluent", strict).encoder(COLUMNS).encode(rows)
    with pytest.raises(OptionError, match=r"has no option 'json-confluent.nope'"):
        format_for("json-confluent", options(registry, nope="1"))
    with pytest.raises(MissingOptionError, match=r"json-confluent\.subject"):
        format_for("json-confluent", {"json-confluent.url": registry.url}).encoder(COLUMNS)
