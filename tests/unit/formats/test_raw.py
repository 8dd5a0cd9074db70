"""Raw bytes to one column: types, byte order, charsets, lines."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import OptionError, RowError, SchemaError
from penstock.formats import DecodedRows
from penstock.formats.raw import RawFormat
from tests.table_specs import from_options


def decode(
    values: list[bytes | None], kind: pa.DataType, options: dict[str, str] | None = None
) -> DecodedRows:
    made = from_options(RawFormat, options or {})
    return made.decoder(pa.schema([("v", kind)])).decode(pa.array(values, pa.binary()))


@pytest.mark.parametrize(
    ("kind", "code", "value"),
    [
        (pa.int8(), "b", -5),
        (pa.int16(), "h", -1234),
        (pa.int32(), "i", 2**31 - 1),
        (pa.int64(), "q", -(2**63)),
        (pa.float32(), "f", 1.5),
        (pa.float64(), "d", -0.1),
        (pa.bool_(), "?", True),
    ],
)
@pytest.mark.parametrize(("order", "mark"), [("big-endian", ">"), ("little-endian", "<")])
def test_numbers_have_the_byte_order_of_the_option(
    kind: pa.DataType, code: str, value: Any, order: str, mark: str
) -> None:
    packed = struct.pack(mark + code, value)
    options = {"raw.endianness": order}
    found = decode([packed, None, packed], kind, options)
    assert found.rows.column(0).to_pylist() == [value, None, value]
    assert found.value_indices is None
    encoder = from_options(RawFormat, options).encoder(found.rows.schema)
    assert encoder.encode(found.rows).to_pylist() == [packed, None, packed]


def test_values_of_a_wrong_length_are_failures() -> None:
    found = decode([b"\0\0\0\1", b"\0", b"", None, b"\0\0\0\2"], pa.int32())
    assert [failure.value_index for failure in found.failures] == [1, 2]
    assert found.indices().to_pylist() == [0, 3, 4]
    assert found.rows.column(0).to_pylist() == [1, None, 2]
    assert found.failures[0].reason == "expected 4 bytes for int32, got 1"


@pytest.mark.parametrize(
    ("charset", "value"),
    [
        ("ISO-8859-1", b"\xe9"),
        ("UTF-16BE", b"\0\xe9"),
        ("UTF-16", b"\xfe\xff\0\xe9"),
        ("UTF-8", "é".encode()),
        ("windows-1252", b"\xe9"),
    ],
)
def test_text_is_read_and_written_in_its_charset(charset: str, value: bytes) -> None:
    options = {"raw.charset": charset}
    found = decode([value, None], pa.string(), options)
    assert found.rows.column(0).to_pylist() == ["é", None]
    encoder = from_options(RawFormat, options).encoder(found.rows.schema)
    assert encoder.encode(found.rows).to_pylist() == [value, None]


def test_utf_16_without_a_mark_is_big_endian_as_in_java() -> None:
    found = decode([b"\0\xe9", b"\xff\xfe\xe9\0"], pa.string(), {"raw.charset": "UTF-16"})
    assert found.rows.column(0).to_pylist() == ["é", "é"]


@pytest.mark.parametrize("charset", ["UTF-32", "utf32", "U32"])
def test_utf_32_without_a_mark_is_big_endian_as_in_java(charset: str) -> None:
    options = {"raw.charset": charset}
    values: list[bytes | None] = [
        b"\0\0\0\xe9",
        b"\xff\xfe\0\0\xe9\0\0\0",
        b"\0\0\xfe\xff\0\0\0\xe9",
        b"\x80\0\0\0",
        b"",
    ]
    found = decode(values, pa.string(), options)
    assert found.rows.column(0).to_pylist() == ["é", "é", "é", ""]
    assert [(one.value_index, one.reason) for one in found.failures] == [(3, f"the bytes are not {charset}")]
    encoder = from_options(RawFormat, options).encoder(found.rows.schema)
    assert encoder.encode(found.rows).to_pylist() == [b"\0\0\0\xe9"] * 3 + [b""]


@pytest.mark.parametrize("charset", ["UTF-16", "utf_16", "UTF-32", "UTF-8", "UTF-16LE"])
@pytest.mark.parametrize("delimiter", [None, "\n"])
def test_marks_at_the_beginning_of_text_stay(charset: str, delimiter: str | None) -> None:
    rows = pa.RecordBatch.from_pydict({"v": ["\ufeffx", "\ufeff", "", "a\ufeff", None]})
    options = {"raw.charset": charset} | ({"raw.line-delimiter": delimiter} if delimiter else {})
    made = from_options(RawFormat, options)
    values = made.encoder(rows.schema).encode(rows)
    found = made.decoder(rows.schema).decode(values)
    wanted = rows if delimiter is None else rows.slice(0, 4)
    assert found.rows.column(0).to_pylist() == wanted.column(0).to_pylist()


def test_empty_text_in_utf_16_is_an_empty_value_as_in_java() -> None:
    rows = pa.RecordBatch.from_pydict({"v": ["", "a"]})
    made = from_options(RawFormat, {"raw.charset": "UTF-16"})
    assert made.encoder(rows.schema).encode(rows).to_pylist() == [b"", b"\xfe\xff\0a"]


@pytest.mark.parametrize("charset", ["UTF-8", "US-ASCII"])
def test_bytes_that_are_no_text_are_failures(charset: str) -> None:
    found = decode([b"a", b"\xff", b"b"], pa.string(), {"raw.charset": charset})
    assert found.rows.column(0).to_pylist() == ["a", "b"]
    assert found.indices().to_pylist() == [0, 2]
    assert found.failures[0].reason == f"the bytes are not {charset}"


def test_text_that_a_charset_lacks_is_named() -> None:
    rows = pa.RecordBatch.from_pydict({"v": ["a", "€"]})
    with pytest.raises(RowError, match=r"row 1 .* charset ISO-8859-1"):
        RawFormat(charset="ISO-8859-1").encoder(rows.schema).encode(rows)


def test_a_column_declared_not_null_makes_a_null_value_a_failure() -> None:
    schema = pa.schema([pa.field("v", pa.binary(), nullable=False)])
    found = RawFormat().decoder(schema).decode(pa.array([b"a", None], pa.binary()))
    assert (found.rows.to_pylist(), found.indices().to_pylist()) == ([{"v": b"a"}], [0])
    assert "NOT NULL" in found.failures[0].reason


def test_lines_are_rows() -> None:
    options = {"raw.line-delimiter": "\r\n"}
    found = decode([b"a\r\n\r\nb\r\n", None, b"", b"c", b"\xff"], pa.string(), options)
    assert found.rows.column(0).to_pylist() == ["a", "", "b", "c"]
    assert found.indices().to_pylist() == [0, 0, 0, 3]
    assert [failure.value_index for failure in found.failures] == [4]
    encoder = from_options(RawFormat, options).encoder(found.rows.schema)
    assert encoder.encode(found.rows).to_pylist() == [b"a\r\n", b"\r\n", b"b\r\n", b"c\r\n"]


def test_a_value_with_one_bad_line_gives_no_row() -> None:
    found = decode([b"ab,c,de", b"fg"], pa.int16(), {"raw.line-delimiter": ","})
    assert found.indices().to_pylist() == [1]
    assert [failure.value_index for failure in found.failures] == [0]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("a", pa.int8()), ("b", pa.int8())]), "exactly one column"),
        (pa.schema([]), "exactly one column"),
        (pa.schema([("a", pa.list_(pa.int8()))]), "cannot hold column 'a'"),
    ],
)
def test_other_tables_are_refused(schema: pa.Schema, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        RawFormat().decoder(schema)


@pytest.mark.parametrize(
    "options",
    [{"raw.charset": "klingon"}, {"raw.charset": "hex"}, {"raw.endianness": "middle"}, {"raw.x": "1"}],
)
def test_wrong_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        from_options(RawFormat, options)
