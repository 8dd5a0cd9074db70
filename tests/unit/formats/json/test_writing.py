"""Rows to JSON as Flink writes them, and back."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import RowError
from penstock.formats.json.format import JsonFormat
from tests.examples import examples
from tests.table_specs import from_options
from tests.unit.formats.json.fields import ISO


@pytest.mark.parametrize(
    ("value", "plain", "expected"),
    [
        ("0.000000027", "false", b"2.7E-8"),
        ("0.000000027", "true", b"0.000000027"),
        ("100000.000000000", "false", b"1E+5"),
        ("-100000.000000000", "true", b"-100000.000000000"),
        ("0.000001000", "false", b"0.000001"),
        ("12.340000000", "false", b"12.34"),
        ("0.000000000", "true", b"0.000000000"),
        ("0.000000000", "false", b"0"),
        ("-1.500000000", "true", b"-1.500000000"),
    ],
)
def test_decimals_are_written_as_flink_writes_them(value: str, plain: str, expected: bytes) -> None:
    schema = pa.schema([("d", pa.decimal128(20, 9))])
    rows = pa.RecordBatch.from_pydict({"d": [Decimal(value)]}, schema=schema)
    made = from_options(JsonFormat, {"json.encode.decimal-as-plain-number": plain}).encoder(schema)
    assert made.encode(rows).to_pylist() == [b'{"d":' + expected + b"}"]


def test_what_is_written() -> None:
    schema = pa.schema(
        [
            ("a", pa.float64()),
            ("b", pa.float32()),
            ("c", pa.string()),
            ("d", pa.time32("ms")),
            ("e", pa.timestamp("ns", "UTC")),
        ]
    )
    rows = pa.RecordBatch.from_pydict(
        {"a": [1.0, 1e300], "b": [0.1, math.nan], "c": ['\x01"\\é', None], "d": [1500, 0], "e": [0, -1]},
        schema=schema,
    )
    values = from_options(JsonFormat, ISO).encoder(schema).encode(rows).to_pylist()
    assert values == [
        '{"a":1.0,"b":0.1,"c":"\\u0001\\"\\\\é","d":"00:00:01.5","e":"1970-01-01T00:00:00Z"}'.encode(),
        b'{"a":1e+300,"b":"NaN","c":null,"d":"00:00:00","e":"1969-12-31T23:59:59.999999999Z"}',
    ]
    assert all(json.loads(value) for value in values)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(-(10**9), 10**9, places=3, allow_nan=False).map(float)
    | st.integers(-(2**53), 2**53).map(lambda n: n / 1000)
)
def test_doubles_are_written_so_that_they_read_back(value: float) -> None:
    schema = pa.schema([("v", pa.float64())])
    rows = pa.RecordBatch.from_pydict({"v": [value]}, schema=schema)
    text = JsonFormat().encoder(schema).encode(rows)[0].as_py()
    read = json.loads(text)["v"]
    assert math.copysign(1, read) == math.copysign(1, value)
    assert read == value
    assert len(text) <= 32


def test_the_options_for_null_keys_of_maps_are_taken() -> None:
    options = {"json.map-null-key.mode": "literal", "json.map-null-key.literal": "none"}
    assert from_options(JsonFormat, options) == JsonFormat()


def test_a_row_that_cannot_be_written_is_named() -> None:
    kind = pa.list_(pa.struct([("at", pa.time32("s"))]))
    late = pa.RecordBatch.from_pydict({"a": pa.array([[], [{"at": 1}, {"at": 86_400}]], kind)})
    with pytest.raises(RowError, match=r"column 'a\[\].at' of row 1"):
        JsonFormat().encoder(late.schema).encode(late)
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff"]).buffers())
    batch = pa.RecordBatch.from_arrays([broken], ["text"])
    with pytest.raises(RowError, match=r"column 'text' of row 1 .* not UTF-8"):
        JsonFormat().encoder(batch.schema).encode(batch)
