"""CSV values to typed rows, and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from penstock.errors import OptionError, RowError, SchemaError
from penstock.formats import DecodedRows
from penstock.formats.csv import CsvFormat
from tests.table_specs import from_options

ABC = pa.schema([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])


def decode(
    values: Sequence[bytes | None], schema: pa.Schema = ABC, options: dict[str, str] | None = None
) -> DecodedRows:
    made = from_options(CsvFormat, {f"csv.{name}": text for name, text in (options or {}).items()})
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


def test_arrays_and_rows_follow_flink_in_what_is_blank_missing_and_trimmed() -> None:
    texts = pa.schema([("a", pa.int8()), ("v", pa.list_(pa.string()))])
    assert row(b"1, ", texts) == [1, []]
    assert row(b"1, ", pa.schema([("a", pa.int8()), ("v", pa.list_(pa.int8()))])) == [1, []]
    assert row(b"1, a ; b ", texts) == [1, [" a ", " b "]]
    assert row(b"1, a ; b ", texts, trim_spaces="true") == [1, ["a", "b"]]
    assert row(b'1," a ; b "', texts, trim_spaces="true") == [1, ["a", "b"]]
    pair = pa.schema([("a", pa.int8()), ("r", pa.struct([("x", pa.int8()), ("y", pa.string())]))])
    assert row(b"1,5", pair, ignore_parse_errors="true") == [1, {"x": 5, "y": None}]
    assert row(b"1,5;q;3", pair, ignore_parse_errors="true") == [1, None]
    assert "number of elements" in row(b"1,5", pair)
    strict = pa.struct([("x", pa.int8()), pa.field("y", pa.string(), nullable=False)])
    schema = pa.schema([("a", pa.int8()), ("r", strict)])
    assert row(b"1,5", schema, ignore_parse_errors="true") == [1, None]
    assert row(b"N", pa.schema([("v", pa.list_(pa.string()))]), null_literal="N") == [None]


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (b"", pa.int32(), None),
        (b"", pa.bool_(), None),
        (b"", pa.decimal128(9, 2), None),
        (b"", pa.date32(), None),
        (b"", pa.timestamp("us"), None),
        (b"1;;3", pa.list_(pa.int8()), [1, None, 3]),
        (b"1582-10-10", pa.date32(), date(1582, 10, 10)),
        (b"1f", pa.float64(), "not a number"),
        (b"2026-1-2", pa.date32(), "not a date"),
        (b"2026-01-02 24:00:00", pa.timestamp("us"), "not a timestamp"),
        (b"2026-01-02 03:04:05 ", pa.timestamp("us"), "not a timestamp"),
    ],
)
def test_what_flink_reads_in_another_way_is_as_the_document_says(
    text: bytes, kind: pa.DataType, expected: Any
) -> None:
    """docs/formats-compared.md, "Beside Flink's format"."""
    found = row(b"1," + text + b",end", pa.schema([("a", pa.int8()), ("v", kind), ("z", pa.string())]))
    assert found == [1, expected, "end"] or (isinstance(expected, str) and expected in str(found))


def test_years_of_more_or_fewer_digits_and_blank_lines() -> None:
    schema = pa.schema([("a", pa.int8()), ("d", pa.date32())])
    found = decode(
        [b"1,-0001-01-01", b"1,+10000-01-01", b"\n1,2026-01-01"], schema, {"allow-comments": "true"}
    )
    assert found.rows.column(1).cast(pa.int32()).to_pylist() == [-719893, 2932897]
    assert "number of fields" in found.failures[0].reason


@pytest.mark.parametrize(
    ("value", "kind", "column"),
    [
        (b"x,y", pa.string(), "x"),
        (b'"x","y"', pa.string(), "x"),
        (b"7,y", pa.int8(), 7),
    ],
)
def test_a_byte_order_mark_is_no_data(value: bytes, kind: pa.DataType, column: Any) -> None:
    schema = pa.schema([("a", kind), ("b", pa.string())])
    assert row(b"\xef\xbb\xbf" + value, schema) == [column, "y"]
    assert row(b"\xef\xbb\xbf# no record\n" + value, schema, allow_comments="true") == [column, "y"]
    assert decode([b"\xef\xbb\xbf", b"", value], schema).indices().to_pylist() == [2]


@pytest.mark.parametrize("value", ["\ufeffx", "\ufeff", '\ufeff"x"'])
def test_text_that_begins_with_a_byte_order_mark_comes_back(value: str) -> None:
    rows = pa.RecordBatch.from_pydict({"a": [value], "b": [value]})
    values = CsvFormat().encoder(rows.schema).encode(rows)
    assert CsvFormat().decoder(rows.schema).decode(values).rows.equals(rows)
    bare = from_options(CsvFormat, {"csv.disable-quote-character": "true"}).encoder(rows.schema)
    with pytest.raises(RowError, match="byte order mark"):
        bare.encode(rows)


@pytest.mark.parametrize("delimiter", [" ", "\t", ";", "|"])
def test_blanks_behind_a_quote_end_at_the_delimiter(delimiter: str) -> None:
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    value = delimiter.join(['"a b"', "c", '""']).encode()
    assert row(value, schema, field_delimiter=delimiter) == ["a b", "c", ""]
    assert row(value, schema, field_delimiter=delimiter, trim_spaces="true") == ["a b", "c", ""]
    empty = delimiter.join(["", "", '"x"']).encode()
    assert row(empty, schema, field_delimiter=delimiter, trim_spaces="true") == ["", "", "x"]
    assert row(b'"a" \t , b,"c"\t', schema) == ["a", " b", "c"]


MARKS = st.characters(codec="utf-8", exclude_characters="\r\n\ufeff") | st.sampled_from(" \t,;|-.0:'\"#\\+=e")
CSV_TEXTS = st.text(
    st.sampled_from(" \t,;|-.0:'\"#\\+=e\n\ufeffxnN") | st.characters(codec="utf-8"), max_size=6
)
ANY_ROW = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int8()),
        ("b", pa.binary()),
        ("d", pa.decimal128(9, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("l", pa.list_(pa.string())),
        ("r", pa.struct([("x", pa.string()), ("y", pa.int8())])),
        ("z", pa.string()),
    ]
)


@st.composite
def dialects(draw: Any) -> dict[str, str]:
    """Options that are allowed together, whatever they are."""
    optional = {
        "csv.field-delimiter": MARKS,
        "csv.quote-character": MARKS,
        "csv.escape-character": MARKS,
        "csv.array-element-delimiter": st.text(MARKS, min_size=1, max_size=3)
        | st.sampled_from(["||", "aba"]),
        "csv.null-literal": st.sampled_from(
            ["null", "N", "0", "\\N", " ", "#", "a,b", "\ufeff", "x\ny", ";"]
        ),
        "csv.disable-quote-character": st.just("true"),
        "csv.allow-comments": st.just("true"),
        "csv.trim-spaces": st.just("true"),
        "csv.write-bigdecimal-in-scientific-notation": st.just("true"),
        "csv.ignore-parse-errors": st.just("true"),
    }
    options: dict[str, str] = draw(st.fixed_dictionaries({}, optional=optional))
    try:
        from_options(CsvFormat, options)
    except OptionError:
        reject()
    return options


@given(options=dialects(), data=st.data())
def test_rows_written_with_any_allowed_options_come_back_or_are_refused(
    options: dict[str, str], data: st.DataObject
) -> None:
    texts = st.none() | CSV_TEXTS
    drawn = {
        "s": texts,
        "i": st.none() | st.integers(-128, 127),
        "b": st.none() | st.binary(max_size=4),
        "d": st.none() | st.decimals(-9999, 9999, places=2),
        "t": st.none() | st.datetimes(timezones=st.just(UTC)),
        "l": st.none() | st.lists(texts, max_size=3),
        "r": st.none() | st.fixed_dictionaries({"x": texts, "y": st.none() | st.integers(-128, 127)}),
        "z": texts,
    }
    first = data.draw(st.sampled_from(ANY_ROW.names))
    schema = pa.schema([ANY_ROW.field(first)] + [one for one in ANY_ROW if one.name != first])
    record = data.draw(st.fixed_dictionaries(drawn))
    rows = pa.RecordBatch.from_pylist([record], schema=schema)
    made = from_options(CsvFormat, options)
    try:
        values = made.encoder(schema).encode(rows)
    except RowError:
        reject()
    found = made.decoder(schema).decode(values)
    assert [one.reason for one in found.failures] == []
    has_literal = "csv.null-literal" in options
    assert [alike(one, has_literal) for one in found.rows.to_pylist()] == [alike(record, has_literal)]


def alike(value: Any, has_null_literal: bool) -> Any:
    """A value with null for empty text where no literal tells them apart, as the document says."""
    if isinstance(value, dict):
        return {name: alike(one, has_null_literal) for name, one in value.items()}
    if isinstance(value, list):
        return [alike(one, has_null_literal) for one in value] or (None if not has_null_literal else [])
    return None if value in ("", b"") and not has_null_literal else value


def test_a_projection_skips_fields_without_losing_count() -> None:
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
        b'"2026-01-02 03:04:05.6Z",100.00,"a""b","x;y,z"',
        b",,,",
    ]
    made = from_options(CsvFormat, {"csv.null-literal": "N"})
    assert made.encoder(schema).encode(rows).to_pylist()[1] == b"N,N,,"


@pytest.mark.parametrize(
    ("value", "scale", "scientific", "expected"),
    [
        ("100000", 2, None, b"100000.00"),
        ("1.5", 2, None, b"1.50"),
        ("0", 2, "false", b"0.00"),
        ("-0.01", 2, "false", b"-0.01"),
        ("7", 0, None, b"7"),
        ("1E-18", 18, None, b"0.000000000000000001"),
        ("-99999999999999999999.999999999999999999", 18, None, b"-99999999999999999999.999999999999999999"),
        ("100000", 2, "true", b"1E+5"),
        ("1.5", 2, "true", b"1.5"),
        ("0", 2, "true", b"0"),
    ],
)
def test_decimals_are_written_as_flink_2_3_writes_them(
    value: str, scale: int, scientific: str | None, expected: bytes
) -> None:
    options = {} if scientific is None else {"csv.write-bigdecimal-in-scientific-notation": scientific}
    rows = pa.RecordBatch.from_pydict({"d": pa.array([Decimal(value)], pa.decimal128(38, scale))})
    made = from_options(CsvFormat, options)
    values = made.encoder(rows.schema).encode(rows)
    assert values.to_pylist() == [expected]
    assert made.decoder(rows.schema).decode(values).rows.equals(rows)


@pytest.mark.parametrize(
    ("value", "kind", "options"),
    [
        (["a;b"], pa.list_(pa.string()), {}),
        ([""], pa.list_(pa.string()), {}),
        ([None], pa.list_(pa.int8()), {"csv.null-literal": "N"}),
        ("a,b", pa.string(), {"csv.disable-quote-character": "true"}),
        ("", pa.string(), {"csv.disable-quote-character": "true"}),
        ([" "], pa.list_(pa.string()), {}),
        ([" a", "b"], pa.list_(pa.string()), {"csv.trim-spaces": "true"}),
        (["a|", "b"], pa.list_(pa.string()), {"csv.array-element-delimiter": "||"}),
    ],
)
def test_text_that_could_not_be_read_back_is_refused(
    value: Any, kind: pa.DataType, options: dict[str, str]
) -> None:
    rows = pa.RecordBatch.from_pydict({"v": pa.array([value], kind)})
    with pytest.raises(RowError, match="column 'v"):
        from_options(CsvFormat, options).encoder(rows.schema).encode(rows)


@pytest.mark.parametrize(
    ("value", "kind", "literal", "column"),
    [
        ("null", pa.string(), "null", "v"),
        (["null", ""], pa.list_(pa.string()), "null", r"v\[\]"),
        ({"x": "null", "y": 1}, pa.struct([("x", pa.string()), ("y", pa.int8())]), "null", r"v\.x"),
        (0, pa.int8(), "0", "v"),
        (True, pa.bool_(), "true", "v"),
        (b"abc", pa.binary(), "YWJj", "v"),
    ],
)
def test_what_the_null_literal_means_is_not_written_for_something_else(
    value: Any, kind: pa.DataType, literal: str, column: str
) -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2], "v": pa.array([None, value], kind)})
    made = from_options(CsvFormat, {"value.csv.null-literal": literal}, "value.")
    with pytest.raises(RowError, match=f"column '{column}' of row 1 .*'value.csv.null-literal'"):
        made.encoder(rows.schema).encode(rows)


def test_maps_and_failing_quotes_are_named_as_what_they_are() -> None:
    with pytest.raises(SchemaError, match="column 'm' of type map<string, int32>: CSV has no maps"):
        CsvFormat().decoder(pa.schema([("m", pa.map_(pa.string(), pa.int32()))]))
    bare = from_options(CsvFormat, {"key.csv.disable-quote-character": "true"}, "key.")
    rows = pa.RecordBatch.from_pydict({"a": [" a"]})
    with pytest.raises(
        RowError, match=r"'key.csv.disable-quote-character' is set.* at an end, or begins with #"
    ):
        bare.encoder(rows.schema).encode(rows)


@pytest.mark.parametrize(
    ("text", "kind", "advice"),
    [
        (
            b"2026-05-01T12:00:00",
            pa.timestamp("us"),
            "a 'T' between date and time: declare STRING and convert it",
        ),
        (b"2026-05-01 12:00:00", pa.timestamp("us", "UTC"), "it has no zone: declare TIMESTAMP_NTZ"),
        (b"2026-05-01 12:00:00Z", pa.timestamp("us"), "it has a zone: declare TIMESTAMP"),
        (b"1767323045123", pa.timestamp("us"), "it is a number: declare BIGINT"),
    ],
)
def test_a_time_that_fails_says_what_to_declare(text: bytes, kind: pa.DataType, advice: str) -> None:
    assert advice in str(row(b"1," + text, pa.schema([("a", pa.int8()), ("t", kind)])))


def test_the_index_of_bytes_that_are_not_utf8_is_told() -> None:
    assert row(b"1,\xc3\xa9\xff,2") == "the bytes are not UTF-8 (byte 4)"


@pytest.mark.parametrize(
    "options",
    [
        {"csv.field-delimiter": "ab"},
        {"csv.field-delimiter": "\\ufeff"},
        {"csv.field-delimiter": "\\ud800"},
        {"csv.escape-character": "n"},
        {"csv.allow-comments": "true", "csv.field-delimiter": "#"},
        {"csv.field-delimiter": "\n"},
        {"csv.quote-character": "'", "csv.disable-quote-character": "true"},
        {"csv.quote-character": ","},
        {"csv.escape-character": '"'},
        {"csv.nope": "1"},
    ],
)
def test_wrong_options_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        from_options(CsvFormat, options)
