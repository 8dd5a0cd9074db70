"""JSON values to typed rows: what is taken, what is refused, and that nothing is changed in silence."""

from __future__ import annotations

import json
import math
import tracemalloc
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import OptionError, SchemaError
from penstock.formats.json.format import JsonFormat
from tests.examples import examples
from tests.table_specs import from_options
from tests.unit.formats.json.fields import IGNORE, decode, field_of, refused


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("true", pa.bool_(), True),
        ('" False "', pa.bool_(), False),
        ("-128", pa.int8(), -128),
        ("1e2", pa.int8(), 100),
        ("5.0", pa.int32(), 5),
        ('" 42 "', pa.int32(), 42),
        ('"+42"', pa.int64(), 42),
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ("-9223372036854775808", pa.int64(), -(2**63)),
        ("-0", pa.int64(), 0),
        ("0.1", pa.float64(), 0.1),
        ("123456789012345678901234567890", pa.float64(), 123456789012345678901234567890.0),
        ("2.2250738585072011e-308", pa.float64(), 2.2250738585072011e-308),
        ("1e-400", pa.float64(), 0.0),
        ('"Infinity"', pa.float64(), math.inf),
        ('"-Infinity"', pa.float32(), -math.inf),
        ("16777217", pa.float32(), 16777216.0),
        ("1.005", pa.decimal128(5, 2), Decimal("1.01")),
        ("-1.004999", pa.decimal128(5, 2), Decimal("-1.00")),
        ("1e3", pa.decimal128(38, 0), Decimal(1000)),
        ('" 12.5 "', pa.decimal128(5, 2), Decimal("12.50")),
        ("1e-999999999999", pa.decimal128(5, 2), Decimal("0.00")),
        ('"2020-02-29"', pa.date32(), date(2020, 2, 29)),
        ('"23:59:59.9999999"', pa.time64("us"), time(23, 59, 59, 999999)),
        ('"23:59:59"', pa.time32("s"), time(23, 59, 59)),
        ('"2020-01-02 03:04:05"', pa.timestamp("us"), datetime(2020, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - no zone
        ('"2020-01-02 03:04:05.6Z"', pa.timestamp("us", "UTC"), datetime(2020, 1, 2, 3, 4, 5, 600000, UTC)),
        ('"2020-01-02 03:04:05+01:30"', pa.timestamp("us", "UTC"), datetime(2020, 1, 2, 1, 34, 5, 0, UTC)),
        ('"AAE="', pa.binary(), b"\0\1"),
        ('""', pa.binary(), b""),
        ('"\\u00e9\\ud83d\\ude00\\n\\/"', pa.string(), "é😀\n/"),
        ('"tab\there"', pa.string(), "tab\there"),
        ("12.50", pa.string(), "12.50"),
        ("true", pa.string(), "true"),
        ('{ "a" : [ 1 , "x y \\" z" ] }', pa.string(), '{"a":[1,"x y \\" z"]}'),
        ("null", pa.string(), None),
        ("[1, null]", pa.list_(pa.int8()), [1, None]),
        ('{"a":1,"b":null}', pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)]),
        ('{"x":{"y":2},"z":3}', pa.struct([("x", pa.struct([("y", pa.int8())]))]), {"x": {"y": 2}}),
        ("123", pa.null(), None),
    ],
)
def test_a_field_is_converted(text: str, kind: pa.DataType, expected: Any) -> None:
    assert field_of(text, kind) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", pa.bool_()),
        ('"yes"', pa.bool_()),
        ("128", pa.int8()),
        ("1.5", pa.int32()),
        ('"1.0"', pa.int32()),
        ("9223372036854775808", pa.int64()),
        ("1e30", pa.int64()),
        ("true", pa.int64()),
        ("[]", pa.int64()),
        ('""', pa.int64()),
        ("1e309", pa.float64()),
        ("1e39", pa.float32()),
        ('"0x1p3"', pa.float64()),
        ("1000", pa.decimal128(5, 2)),
        ("999.995", pa.decimal128(5, 2)),
        ("1e999999999999", pa.decimal128(38, 0)),
        ('"NaN"', pa.decimal128(5, 2)),
        ('"2021-02-29"', pa.date32()),
        ('"2021-2-01"', pa.date32()),
        ("20210101", pa.date32()),
        ('"24:00:00"', pa.time32("s")),
        ('"23:59"', pa.time32("s")),
        ('"2020-01-02T03:04:05"', pa.timestamp("us")),
        ('"2020-01-02 03:04:05Z"', pa.timestamp("us")),
        ('"2020-01-02 03:04:05"', pa.timestamp("us", "UTC")),
        ('"2020-01-02 03:04:05.1234567890"', pa.timestamp("us")),
        ('"+999999-01-01 00:00:00"', pa.timestamp("ns")),
        ('"AAE"', pa.binary()),
        ('"AAF="', pa.binary()),
        ('"A=E="', pa.binary()),
        ("1", pa.binary()),
        ('"\\ud83d"', pa.string()),
        ('"\\ude00\\ud83d"', pa.string()),
        ("{}", pa.list_(pa.int8())),
        ("[]", pa.struct([("x", pa.int8())])),
        ('"{}"', pa.map_(pa.string(), pa.int8())),
    ],
)
def test_a_field_that_does_not_fit_is_refused_or_null_by_option(text: str, kind: pa.DataType) -> None:
    assert refused(text, kind)
    assert field_of(text, kind, IGNORE) is None


@pytest.mark.parametrize(
    "value",
    [
        b" ",
        b"null",
        b"1",
        b'"x"',
        b'{"v":1',
        b'{"v":1}}',
        b'{"v":1}{"v":2}',
        b'{"v":1}\n{"v":2}',
        b'{"v":1} x',
        b'{"v":1,}',
        b'{"v" 1}',
        b"{'v':1}",
        b"{v:1}",
        b'{"v":01}',
        b'{"v":+1}',
        b'{"v":.5}',
        b'{"v":1.}',
        b'{"v":1e}',
        b'{"v":-}',
        b'{"v":NaN}',
        b'{"v":Infinity}',
        b'{"v":tru}',
        b'{"v":nulll}',
        b'{"w":"\\x"}',
        b'{"w":"\\u12g4"}',
        b'{"w":"\xff"}',
        b'{"w":"\xed\xa0\x80"}',
        b'{"w":"\xc0\x80"}',
        b'{"w":[1,]}',
        b'{"w":[}',
        b'{"w":{]}',
        b"\xff\xfe{\x00}\x00",
        b'{"w":' + b"[" * 1001 + b"]" * 1001 + b"}",
        b'{"w":' + b"[" * 2_000_000,
        b'{"v":' * 100_000,
    ],
)
def test_a_value_that_is_not_one_json_object_is_no_row(value: bytes) -> None:
    schema = pa.schema([("v", pa.int64())])
    good = b'{"v":7}'
    found = decode([good, value, good], schema)
    assert [failure.value_index for failure in found.failures] == [1]
    assert found.indices().to_pylist() == [0, 2]
    assert len(found.failures[0].excerpt) < 450
    ignored = decode([good, value, good], schema, IGNORE)
    assert (ignored.indices().to_pylist(), ignored.ignored_count, ignored.failures) == ([0, 2], 1, [])


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_what_is_json_is_the_same_as_for_pythons_parser(data: st.DataObject) -> None:
    pieces = [
        '{"a":',
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        '"',
        "\\",
        "u00",
        "e9",
        "1",
        "0",
        "-",
        ".",
        "e5",
        "true",
        "null",
        "NaN",
        " ",
        "\n",
        "\x01",
        "é",
        '"k"',
        "\ufeff",
    ]
    if data.draw(st.booleans()):
        text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=12)))
    else:
        text = data.draw(JSON_TEXTS)
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at] + data.draw(st.sampled_from(["", *pieces])) + text[at + data.draw(st.integers(0, 1)) :]
        )
    value = text.encode()
    found = decode([value], pa.schema([]))
    assert (not found.failures) == (not value or is_objects(text))


def is_objects(text: str) -> bool:
    def no_constants(name: str) -> Any:
        raise ValueError(name)

    try:
        document = json.loads(text.removeprefix("\ufeff"), strict=False, parse_constant=no_constants)
    except ValueError:
        return False
    return isinstance(document, dict) or (
        isinstance(document, list) and all(isinstance(one, dict) for one in document)
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
JSON_TEXTS = st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False, indent=1)
)


@settings(max_examples=examples(100), deadline=None)
@given(JSON_VALUES, st.booleans())
def test_a_string_column_holds_any_json_as_it_stands(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=2)
    found = field_of(text, pa.string())
    if value is None or isinstance(value, str):
        assert found == value
    else:
        assert found == json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":"))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10**25), st.integers(-340, 320))
def test_floats_are_the_nearest(mantissa: int, exponent: int) -> None:
    text = f"{mantissa}e{exponent}"
    expected = float(text)
    if math.isinf(expected):
        assert refused(text, pa.float64())
    else:
        assert field_of(text, pa.float64()) == expected
        assert field_of("0." + str(mantissa), pa.float64()) == float("0." + str(mantissa))


def test_many_digits_are_still_rounded_exactly() -> None:
    # Halfway between two doubles, and a hair above, told apart by the last of 1,000 digits.
    half = "9007199254740993." + "0" * 984
    assert field_of(half, pa.float64()) == 9007199254740992.0
    assert field_of(half + "1", pa.float64()) == 9007199254740994.0
    assert field_of("9007199254740993." + "0" * 2000 + "1", pa.float64()) == 9007199254740994.0


@settings(max_examples=examples(100), deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12))
def test_decimals_round_half_up(value: Decimal) -> None:
    expected = value.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP")
    assert field_of(str(value), pa.decimal128(20, 2)) == expected


def test_the_last_of_repeated_names_counts() -> None:
    schema = pa.schema([("a", pa.list_(pa.string())), ("b", pa.int8())])
    found = decode([b'{"a":["x","y"],"b":1,"a":["z"],"b":null}'], schema)
    assert found.rows.to_pylist() == [{"a": ["z"], "b": None}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"id":null,"id":1}', 1),
        (b'{"id":null,"x":{"id":9},"id":null,"id" : 1 }', 1),
        (b'{"id":"text","id":1}', 1),
        (b'{"id":null,"i\\u0064":1}', 1),
        (
            b'{"id":1,"id":null}',
            "the field is null or missing, and is declared NOT NULL (field 'id', byte 17)",
        ),
        (
            b'{"id":null,"x":{"id":1}}',
            "the field is null or missing, and is declared NOT NULL (field 'id', byte 10)",
        ),
        (b'{"id":"text"}', "the text is not a number of this type (field 'id', byte 12)"),
        (b'{"id":null,"id":1', "the value ends too early (byte 17)"),
        (b'{"id":null,"id"', "the field is null or missing, and is declared NOT NULL (field 'id', byte 10)"),
    ],
)
def test_the_last_of_repeated_names_counts_also_behind_one_that_is_none(value: bytes, expected: Any) -> None:
    found = decode([value], pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    assert (found.failures[0].reason if found.failures else found.rows["id"][0].as_py()) == expected


def test_repeated_names_that_all_fail_take_linear_time() -> None:
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("a", "b")])
    value = b'{"a":0' + b',"b":null' * 200_000 + b',"b":1}'
    assert decode([value], schema).rows.to_pylist() == [{"a": 0, "b": 1}]


def test_reading_ahead_keeps_the_text_of_what_failed() -> None:
    text = b'{"id":"\\u0051","' + b"\\u0061" * 5000 + b'":1}'
    found = decode([text], pa.schema([pa.field("id", pa.date32())]))
    assert found.failures[0].reason.startswith("the text is not a date")


@pytest.mark.parametrize(
    ("value", "index"),
    [
        (b'{"name":"\xed\xa0\x80"}', 9),
        (b'{"name":"\xc3\xa9\xff"}', 11),
        ('{"id":1}'.encode("utf-16"), 0),
        (b"\xef\xbb\xbf\xfe", 3),
    ],
)
def test_the_index_of_bytes_that_are_not_utf8_is_told(value: bytes, index: int) -> None:
    found = decode([value], pa.schema([("id", pa.int64())]))
    assert found.failures[0].reason == f"the bytes are not UTF-8 (byte {index})"


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1.0", pa.int8(), 1),
        ("1.0", pa.int16(), 1),
        ('"1e-1000000000"', pa.decimal128(10, 2), Decimal("0.00")),
        ('"AQ ID"', pa.binary(), b"\1\2\3"),
        ('"AQ\nID"', pa.binary(), b"\1\2\3"),
        (
            '{"x":1.50,"y":[ 1 , {"q": "r\\u00e9\\/" } ],"x":1e2}',
            pa.string(),
            '{"x":1.50,"y":[1,{"q":"r\\u00e9\\/"}],"x":1e2}',
        ),
        ('"1f"', pa.float64(), "not a number"),
        ('"0x1p3"', pa.float64(), "not a number"),
        ('"١٢"', pa.int32(), "not a number"),
        ('"AR=="', pa.binary(), "not base64"),
        ('"AQ==AQ=="', pa.binary(), "not base64"),
        ('"2026-01-02 24:00:00"', pa.timestamp("us"), "not a timestamp"),
        ('"2026-01-02t03:04:05"', pa.timestamp("us"), "not a timestamp"),
    ],
)
def test_what_flink_reads_in_another_way_is_as_the_document_says(
    text: str, kind: pa.DataType, expected: Any
) -> None:
    """docs/formats-compared.md, "Beside Flink's format"."""
    found = field_of(text, kind)
    assert found == expected or (isinstance(expected, str) and expected in found)


def test_a_bad_field_leaves_the_others_alone_and_a_null_is_no_row() -> None:
    schema = pa.schema([("a", pa.int8()), ("v", pa.int8()), ("z", pa.string())])
    value = b'{"a":1,"v":{"x":1,"z":9},"z":"end"}'
    assert decode([value], schema, IGNORE).rows.to_pylist() == [{"a": 1, "v": None, "z": "end"}]
    for nulls in (b'[{"a":1},null]', b"[null]"):
        assert "not an object" in decode([nulls], schema).failures[0].reason


def test_the_last_of_repeated_map_keys_counts_also_when_nested() -> None:
    kind = pa.map_(pa.string(), pa.map_(pa.string(), pa.int8()))
    text = '{"a":{"x":1,"y":2,"x":3},"b":{},"a":{"z":4,"z":5}}'
    assert field_of(text, kind) == [("b", []), ("a", [("z", 5)])]


def test_maps_of_many_equal_keys_take_linear_time() -> None:
    text = "{" + ",".join(f'"k{i % 3}":{i}' for i in range(200_000)) + "}"
    assert dict(field_of(text, pa.map_(pa.string(), pa.int32()))) == {
        "k0": 199_998,
        "k1": 199_999,
        "k2": 199_997,
    }


def test_names_with_escapes_are_found() -> None:
    schema = pa.schema([('q"', pa.int8()), ("b\\n", pa.int8()), ("é", pa.int8())])
    found = decode([b'{"q\\"":1,"b\\\\n":2,"\\u00e9":3}', b'{"b\\n":9}'], schema)
    assert [list(row.values()) for row in found.rows.to_pylist()] == [[1, 2, 3], [None, None, None]]


def test_an_array_of_objects_is_a_row_for_each() -> None:
    schema = pa.schema([("v", pa.int8())])
    values = [b'[{"v":1},{"v":2}]', b"[]", b'[{"v":3},4]', b'{"v":5}']
    found = decode(values, schema)
    assert found.indices().to_pylist() == [0, 0, 3]
    assert [failure.value_index for failure in found.failures] == [2]
    ignored = decode(values, schema, IGNORE)
    assert ignored.rows.column(0).to_pylist() == [1, 2, 3, 5]
    assert ignored.indices().to_pylist() == [0, 0, 2, 3]


def test_ignored_errors_are_null_where_they_are() -> None:
    schema = pa.schema(
        [
            ("a", pa.list_(pa.int8())),
            ("s", pa.struct([("x", pa.int8()), ("y", pa.date32())])),
            ("k", pa.int8()),
        ]
    )
    found = decode([b'{"a":[1,"q",[2],3],"s":{"y":"never","x":4},"k":5}'], schema, IGNORE)
    assert found.rows.to_pylist() == [{"a": [1, None, None, 3], "s": {"x": 4, "y": None}, "k": 5}]


def test_a_field_declared_not_null_is_never_null() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False), ("b", pa.int8())])
    values = [b'{"a":1}', b'{"b":1}', b'{"a":null}', b'{"a":"x"}']
    assert [failure.value_index for failure in decode(values, schema).failures] == [1, 2, 3]
    ignored = decode(values, schema, IGNORE)
    assert (ignored.rows.to_pylist(), ignored.ignored_count) == ([{"a": 1, "b": None}], 3)


def test_null_structs_hold_no_nulls_that_the_schema_forbids() -> None:
    inner = pa.struct([pa.field("x", pa.int8(), nullable=False)])
    found = decode([b'{"s":null}', b'{"s":{"x":1}}', b'{"s":{}}'], pa.schema([("s", inner)]))
    assert found.rows.to_pylist() == [{"s": None}, {"s": {"x": 1}}]
    assert "field 's.x'" in found.failures[0].reason


def test_missing_fields_are_null_or_refused_whether_read_or_not() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8())])
    values = pa.array([b'{"a":1}'], pa.binary())
    assert decode([b'{"a":1}'], schema).rows.to_pylist() == [{"a": 1, "b": None}]
    strict = from_options(JsonFormat, {"json.fail-on-missing-field": "true"})
    failure = strict.decoder(schema, ["a"]).decode(values).failures[0]
    assert "field is missing (field 'b'" in failure.reason


def test_a_projection_gives_the_columns_in_its_order() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8()), ("c", pa.int8())])
    found = (
        JsonFormat().decoder(schema, ["c", "a"]).decode(pa.array([b'{"a":1,"b":"bad","c":3}'], pa.binary()))
    )
    assert (found.rows.schema.names, found.rows.to_pylist()) == (["c", "a"], [{"c": 3, "a": 1}])


def test_deep_schemas_and_odd_types_are_refused_on_the_driver() -> None:
    deep = pa.int8()
    for _ in range(120):
        deep = pa.list_(deep)
    for kind in (deep, pa.uint8(), pa.decimal256(50, 2), pa.map_(pa.int8(), pa.int8()), pa.duration("s")):
        with pytest.raises(SchemaError, match="column 'v"):
            JsonFormat().decoder(pa.schema([("v", kind)]))
        with pytest.raises(SchemaError):
            JsonFormat().encoder(pa.schema([("v", kind)]))
    with pytest.raises(SchemaError, match="declared twice"):
        JsonFormat().decoder(pa.schema([("v", pa.int8()), ("v", pa.int8())]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"json.ignore-parse-errors": "ture"}, "'json.ignore-parse-errors' cannot be 'ture'"),
        ({"json.timestamp-format.standard": "RFC"}, "SQL, ISO-8601"),
        ({"json.ignore-parse-error": "true"}, "Did you mean 'json.ignore-parse-errors'"),
        ({**IGNORE, "json.fail-on-missing-field": "true"}, "contradict"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        from_options(JsonFormat, options)


def test_memory_of_python_is_no_part_of_decoding() -> None:
    values = pa.array([b'{"v":[' + b"1," * 50_000 + b"1]}"], pa.binary())
    decoder = JsonFormat().decoder(pa.schema([("v", pa.list_(pa.int8()))]))
    tracemalloc.start()
    decoder.decode(values)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 100_000
