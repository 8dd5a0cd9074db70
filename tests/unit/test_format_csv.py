"""CSV values to typed rows, and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import OptionError, RowError, SchemaError
from penstock.formats import DecodedRows
from penstock.formats.csv import CsvFormat

ABC = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])


def decode(
    values: Sequence[bytes | None], schema: pa.Schema = ABC, options: dict[str, str] | None = None
) -> DecodedRows:
    made = CsvFormat.from_options({f"csv.{name}": text for name, text in (options or {}).items()})
    found = made.decoder(schema).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    return found


def row(value: bytes, schema: pa.Schema = ABC, **options: str) -> list[Any] | str:
    found = decode([value], schema, {name.replace("_", "-"): text for name, text in options.items()})
    if found.failures:
        return found.failures[0].reason
    return list(found.rows.to_pylist()[0].values())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"1,x,2.5", [1, "x", 2.5]),
        (b"1,x,2.5\n", [1, "x", 2.5]),
        (b"1,x,2.5\r\n", [1, "x", 2.5]),
        (b"1,x,2.5,", [1, "x", 2.5]),
        (b" 1 , x , 2.5 ", [1, " x ", 2.5]),
        (b',"a ""quoted"", b\nc" ,', [None, 'a "quoted", b\nc', None]),
        (b'"1","","3"', [1, "", 3.0]),
        (b"1,#x,NaN", [1, "#x", pytest.approx(float("nan"), nan_ok=True)]),
        ("1,é😀,1".encode(), [1, "é😀", 1.0]),
    ],
)
def test_a_record_is_a_row(value: bytes, expected: list[Any]) -> None:
    assert row(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        b"1,x",
        b"1,x,2,y",
        b"1,x,2\n3,y,4",
        b"1,x,2\n\n",
        b"q,x,2",
        b"1.5,x,2",
        b'1,"x,2',
        b'1,"x"y,2',
        b"1,\xff,2",
        b"# comment",
    ],
)
def test_a_value_that_is_not_one_record_is_a_failure(value: bytes) -> None:
    found = decode([b"1,x,2", value, b"3,y,4"])
    assert [failure.value_index for failure in found.failures] == [1]
    assert found.rows.column(0).to_pylist() == [1, 3]


def test_marks_are_options() -> None:
    assert row(b"1|'x|''y'|2", field_delimiter="|", quote_character="'") == [1, "x|'y", 2.0]
    assert row(b"1\tx\t2", field_delimiter="\\t") == [1, "x", 2.0]
    assert row(b"1\x01x\x012", field_delimiter="\\u0001") == [1, "x", 2.0]
    assert row("1§x§2".encode(), field_delimiter="§") == [1, "x", 2.0]
    assert row(b'1,"x",2', disable_quote_character="true") == [1, '"x"', 2.0]
    assert row(b"1,a\\,b\\n\\\\,2", escape_character="\\") == [1, "a,b\n\\", 2.0]
    assert row(b'1,"a\\"b",2', escape_character="\\") == [1, 'a"b', 2.0]


def test_nulls_and_empty_text() -> None:
    assert row(b"NULL,NULL,", null_literal="NULL") == [None, None, None]
    assert row(b",,") == [None, "", None]
    assert row(b",,", null_literal="") == [None, None, None]
    assert row(b",,", empty_string_as_null="true") == [None, None, None]
    strict = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())])
    assert "NOT NULL" in str(row(b",1", strict))


def test_errors_are_ignored_by_option() -> None:
    assert row(b"q,x", ignore_parse_errors="true") == [None, "x", None]
    found = decode(
        [b'"', b"1,2,3,4", b"7"], ABC, {"ignore-parse-errors": "true", "fail-on-missing-columns": "true"}
    )
    assert (found.row_count, found.ignored_count, list(found.failures)) == (0, 3, [])
    assert row(b"1,x,2,y,z", ignore_trailing_unmappable="true") == [1, "x", 2.0]
    assert "number of fields" in row(b"1,x,2,", allow_trailing_comma="false")
    assert row(b' 1 , "a b" ,2', trim_spaces="true") == [1, "a b", 2.0]


def test_comments_are_no_records() -> None:
    found = decode([b"# one\n# two", b"# one\n1,x,2", b"3,y,4"], ABC, {"allow-comments": "true"})
    assert found.indices().to_pylist() == [1, 2]


def test_arrays_and_rows_are_one_level_deep() -> None:
    schema = pa.schema(
        [
            ("l", pa.list_(pa.int8())),
            ("s", pa.struct([("x", pa.int8()), ("y", pa.string())])),
            ("d", pa.date32()),
        ]
    )
    assert row(b"1;2;,7;q,2020-01-02", schema) == [[1, 2, None], {"x": 7, "y": "q"}, date(2020, 1, 2)]
    assert row(b",,", schema) == [[], None, None]
    assert "number of elements" in row(b"1,7,2020-01-02", schema)
    assert row(b"1|2,7|q,", schema, array_element_delimiter="|") == [[1, 2], {"x": 7, "y": "q"}, None]
    for kind in (pa.map_(pa.string(), pa.int8()), pa.list_(pa.list_(pa.int8()))):
        with pytest.raises(SchemaError, match="column 'v'"):
            CsvFormat().decoder(pa.schema([("v", kind)]))


def test_a_projection_skips_fields_without_losing_their_place() -> None:
    decoder = CsvFormat().decoder(ABC, ["c", "a"])
    found = decoder.decode(pa.array([b"1,never,2", b"x,y,z"], pa.binary()))
    assert found.rows.to_pylist() == [{"c": 2.0, "a": 1}]
    assert [failure.value_index for failure in found.failures] == [1]


def test_what_is_written() -> None:
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), ("d", pa.decimal128(9, 2)), ("s", pa.string()), ("l", pa.list_(pa.string()))])  # fmt: skip  # noqa: E501 - one schema
    at = datetime.fromisoformat("2026-01-02T03:04:05.600000+00:00")
    rows = pa.RecordBatch.from_pylist(
        [
            {"t": at, "d": Decimal(100), "s": 'a"b', "l": ["x", "y,z"]},
            {"t": None, "d": None, "s": "", "l": []},
        ],
        schema=schema,
    )
    assert CsvFormat().encoder(schema).encode(rows).to_pylist() == [
        b'2026-01-02 03:04:05.6Z,1E+2,"a""b","x;y,z"',
        b",,,",
    ]
    plain = CsvFormat.from_options(
        {"csv.write-bigdecimal-in-scientific-notation": "false", "csv.null-literal": "N"}
    )
    assert plain.encoder(schema).encode(rows).to_pylist()[0].split(b",")[1] == b"100"
    assert plain.encoder(schema).encode(rows).to_pylist()[1] == b"N,N,,"


@pytest.mark.parametrize(
    ("value", "kind", "options"),
    [
        (["a;b"], pa.list_(pa.string()), {}),
        ([""], pa.list_(pa.string()), {}),
        ([None], pa.list_(pa.int8()), {"csv.null-literal": "N"}),
        ("a,b", pa.string(), {"csv.disable-quote-character": "true"}),
        ("", pa.string(), {"csv.disable-quote-character": "true"}),
    ],
)
def test_text_that_could_not_be_read_back_is_refused(
    value: Any, kind: pa.DataType, options: dict[str, str]
) -> None:
    rows = pa.RecordBatch.from_pydict({"v": pa.array([value], kind)})
    with pytest.raises(RowError, match="column 'v"):
        CsvFormat.from_options(options).encoder(rows.schema).encode(rows)


@pytest.mark.parametrize(
    "options",
    [
        {"csv.field-delimiter": "ab"},
        {"csv.field-delimiter": "\n"},
        {"csv.quote-character": "'", "csv.disable-quote-character": "true"},
        {"csv.quote-character": ","},
        {"csv.escape-character": '"'},
        {"csv.nope": "1"},
    ],
)
def test_wrong_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        CsvFormat.from_options(options)
