"""Hostile values: each one becomes a failure (or a correct row) in little time and memory.

The codec stops compression bombs before a format sees them: tests/unit/codec/test_corrupt.py.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.formats.protobuf.schema import type_for
from tests.registry_server import Registry, running_registry
from tests.table_specs import format_for

SECONDS_MAX = 10.0
"""Generous for a busy machine; what these values are meant to cost is minutes, or never to end."""
BYTES_PER_BYTE_MAX = 150
MEGABYTE = 1 << 20
BASE_BYTES_MAX = 64 * MEGABYTE
"""The registry's server runs in this process, and one of its schemas is megabytes long."""

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.int64())),
    ]
)
PROTO_COLUMNS = pa.schema([field for field in COLUMNS if field.name != "price"])

JSON: Mapping[str, bytes] = {
    "deep arrays": b"[" * 1_000_000,
    "deep objects in an unknown field": b'{"x":' * 500_000 + b"1" + b"}" * 500_000,
    "deep arrays in a text column": b'{"text":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "integer of a million digits": b'{"id":' + b"9" * 1_000_000 + b"}",
    "decimal of a million digits": b'{"price":0.' + b"1" * 1_000_000 + b"e99999999}",
    "huge exponent": b'{"price":1e999999999}',
    "huge negative exponent in an integer": b'{"id":1e-999999999}',
    "year of a million digits": b'{"at":"' + b"9" * 1_000_000 + b'-01-01 00:00:00Z"}',
    "not UTF-8": b'{"text":"\xff\xfe"}',
    "overlong UTF-8": b'{"text":"\xc0\xaf"}',
    "half a surrogate": b'{"text":"\\ud800"}',
    "no end": b'{"text":"' + b"a" * MEGABYTE,
    "only escapes": b'{"text":"' + b"\\" * MEGABYTE,
    "half a million empty fields": b"{" + b'"":0,' * 500_000 + b'"id":"x"}',
    "wrong at the end of a long list": b'{"list":[' + b"1," * 300_000 + b'"x"]}',
}
CSV: Mapping[str, bytes] = {
    "quote without end": b'1,"' + b"a" * MEGABYTE,
    "a million fields": b"," * 1_000_000,
    "giant number": b"9" * 1_000_000 + b",,,,",
    "giant decimal": b",,1e999999999,,",
    "not UTF-8": b",\xff,,,",
    "half a list": b",,,," + b"1;" * 300_000 + b"x",
}
AVRO: Mapping[str, bytes] = {
    "text of 2 GiB": b"\0\2" + b"\xfe\xff\xff\xff\x0f",
    "text of negative length": b"\2\2\1",
    "number without end": b"\2" + b"\xff" * 1_000_000,
    "list of 2**62 elements": b"\0" * 4 + b"\2" + b"\xfe" * 8 + b"\x7f",
    "endless empty blocks": b"\0" * 4 + b"\2" + b"\1\0" * 300_000,
    "union branch that is not there": b"\xc8\1",
    "nothing but zeros behind": b"\0" * MEGABYTE,
}
PROTOBUF: Mapping[str, bytes] = {
    "text of 4 GiB": b"\x12\xff\xff\xff\xff\x0f",
    "number without end": b"\x08" + b"\xff" * 1_000_000,
    "not UTF-8": b"\x12\1\xff",
    "field number 0": b"\0\0",
    "groups without end": b"\x0b" * 500_000,
    "time beyond all calendars": b"\x1a\x0a\x08" + b"\xff" * 8 + b"\x7f\x10",
}
PROTOBUF_ROWS: Mapping[str, bytes] = {
    "unknown fields in great number": b"\xc2\x3e\1x" * 250_000,
    "an unknown field of a megabyte": b"\xc2\x3e" + b"\x80\x80\x40" + b"x" * MEGABYTE,
    "one field half a million times": b"\x08\1" * 500_000,
}


def confluent(schema_id: int, value: bytes = b"") -> bytes:
    return struct.pack(">bI", 0, schema_id) + value


REGISTRY: Mapping[str, bytes] = {
    "unknown id": confluent(4_000_000),
    "negative id": b"\0\xff\xff\xff\xff\0",
    "half a header": b"\0\0\0",
    "no header": b"plain text",
    "another magic byte": b"\1\0\0\0\1\0",
    "a schema of another kind": confluent(2, b"\0"),
    "not a schema": confluent(3, b"\0"),
    "a schema that nests without end": confluent(4, b"\0"),
}

CASES = [
    *(pytest.param("json", value, id=f"json-{name}") for name, value in JSON.items()),
    *(
        pytest.param("json-confluent", confluent(1, value), id=f"json-confluent-{name}")
        for name, value in JSON.items()
        if len(value) < 100
    ),
    *(pytest.param("csv", value, id=f"csv-{name}") for name, value in CSV.items()),
    *(pytest.param("avro", value, id=f"avro-{name}") for name, value in AVRO.items()),
    *(pytest.param("protobuf", value, id=f"protobuf-{name}") for name, value in PROTOBUF.items()),
    *(pytest.param("avro-confluent", value, id=f"avro-confluent-{name}") for name, value in REGISTRY.items()),
    *(
        pytest.param("protobuf-confluent", value, id=f"protobuf-confluent-{name}")
        for name, value in REGISTRY.items()
    ),
]


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        running.register("a", {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
        running.register("b", "{}", "JSON")
        running.register("c", '{"type": "nonsense"}')
        running.register("d", '{"type":"array","items":' * 100_000 + '"int"' + "}" * 100_000)
        yield running


@pytest.fixture
def options(registry: Registry, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    path = tmp_path / "row.desc"

    def found(name: str) -> dict[str, str]:
        if name == "protobuf":
            path.write_bytes(type_for(PROTO_COLUMNS).files)
            return {"protobuf.descriptor-file": str(path)}
        return {f"{name}.url": registry.url} if name.endswith("confluent") else {}

    return found


def columns_of(name: str) -> pa.Schema:
    return PROTO_COLUMNS if name.startswith("protobuf") else COLUMNS


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_hostile_value_is_a_failure_in_bounded_time_and_memory(
    name: str, value: bytes, options: Callable[[str], dict[str, str]]
) -> None:
    schema = columns_of(name)
    decoder = format_for(name, options(name)).decoder(schema)
    values = pa.array([None, value, None], pa.binary())
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    started = time.monotonic()
    found = decoder.decode(values)
    took = time.monotonic() - started
    _, python_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [failure.value_index for failure in found.failures] == [1]
    assert found.row_count == 0
    failure = found.failures[0]
    assert failure.reason
    assert len(failure.reason) < 1_000
    assert len(failure.excerpt) < 200
    assert took < SECONDS_MAX
    allocated = python_bytes + pa.total_allocated_bytes() - before
    assert allocated < BYTES_PER_BYTE_MAX * len(value) + BASE_BYTES_MAX


@pytest.mark.parametrize("value", PROTOBUF_ROWS.values(), ids=PROTOBUF_ROWS.keys())
def test_what_protobuf_allows_is_a_row_however_odd(
    value: bytes, options: Callable[[str], dict[str, str]]
) -> None:
    decoder = format_for("protobuf", options("protobuf")).decoder(PROTO_COLUMNS)
    started = time.monotonic()
    found = decoder.decode(pa.array([value], pa.binary()))
    assert time.monotonic() - started < SECONDS_MAX
    assert (found.row_count, found.failures) == (1, [])
