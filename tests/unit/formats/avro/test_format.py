"""Avro values to typed rows and back: fastavro as the judge, schemas that change, hostile bytes."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import RowError, SchemaError, UnsupportedOptionError
from penstock.formats.avro.format import AvroFormat
from penstock.formats.avro.schema import parse_schema, schema_of
from tests.contract import formats_rows as rows_of
from tests.table_specs import format_for, from_options
from tests.unit.formats.avro.values import decode, logical, record, written

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


EVERY_TYPE = record(
    ("i", "int"),
    ("l", ["null", "long"]),
    ("f", "float"),
    ("d", "double"),
    ("b", "boolean"),
    ("s", "string"),
    ("by", "bytes"),
    ("fx", {"type": "fixed", "name": "four", "size": 4}),
    ("e", {"type": "enum", "name": "color", "symbols": ["RED", "BLUE"]}),
    ("dec", logical("bytes", "decimal", precision=10, scale=2)),
    (
        "fdec",
        {"type": "fixed", "name": "dec", "size": 20, "logicalType": "decimal", "precision": 38, "scale": 4},
    ),
    ("dt", logical("int", "date")),
    ("tm", logical("int", "time-millis")),
    ("tu", logical("long", "time-micros")),
    ("ts", logical("long", "timestamp-millis")),
    ("tl", logical("long", "local-timestamp-micros")),
    ("a", {"type": "array", "items": ["null", "int"]}),
    ("m", {"type": "map", "values": "string"}),
    ("n", record(("x", "int"), ("y", ["null", "string"]), name="inner")),
    ("again", ["null", "inner"]),
)
EVERY_COLUMN = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("by", pa.binary()),
        ("fx", pa.binary()),
        ("e", pa.string()),
        ("dec", pa.decimal128(10, 2)),
        ("fdec", pa.decimal128(38, 4)),
        ("dt", pa.date32()),
        ("tm", pa.time32("ms")),
        ("tu", pa.time64("us")),
        ("ts", pa.timestamp("us", "UTC")),
        ("tl", pa.timestamp("us")),
        ("a", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.string())),
        ("n", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("again", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
EVERY_ROW: dict[str, Any] = {
    "i": -(2**31),
    "l": 2**63 - 1,
    "f": 1.5,
    "d": -0.1,
    "b": True,
    "s": "é😀",
    "by": b"\0\xff",
    "fx": b"abcd",
    "e": "BLUE",
    "dec": Decimal("-12345678.90"),
    "fdec": Decimal("-9999999999999999999999999999999999.9999"),
    "dt": date(1900, 2, 28),
    "tm": time(23, 59, 59, 999000),
    "tu": time(1, 2, 3, 4),
    "ts": AT.replace(microsecond=678000),
    "tl": AT.replace(tzinfo=None),
    "a": [1, None, -2],
    "m": {"k": "v"},
    "n": {"x": 1, "y": None},
    "again": {"x": 2, "y": "z"},
}


def test_every_type_is_read_as_fastavro_wrote_it() -> None:
    found = decode(EVERY_TYPE, written(EVERY_TYPE, EVERY_ROW), EVERY_COLUMN)
    assert not found.failures
    assert found.rows.to_pylist() == [{**EVERY_ROW, "m": [("k", "v")]}]


def test_every_type_is_written_as_fastavro_reads_it() -> None:
    rows = decode(EVERY_TYPE, written(EVERY_TYPE, EVERY_ROW), EVERY_COLUMN).rows
    made = AvroFormat(json.dumps(EVERY_TYPE)).encoder(EVERY_COLUMN)
    assert made.encode(rows).to_pylist() == written(EVERY_TYPE, EVERY_ROW)


PLAIN_TYPES = rows_of.nested_types(rows_of.NUMBER_TYPES | rows_of.TEXT_TYPES, rows_of.IDENTIFIERS)


@settings(deadline=None)
@given(rows_of.batches(PLAIN_TYPES, rows_of.IDENTIFIERS))
def test_what_is_written_is_what_fastavro_reads(rows: pa.RecordBatch) -> None:
    values = AvroFormat().encoder(rows.schema).encode(rows).to_pylist()
    parsed = fastavro.parse_schema(json.loads(schema_of(rows.schema)))
    read: list[Any] = [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values]
    assert written(json.loads(schema_of(rows.schema)), *read) == values
    assert len(read) == rows.num_rows


def test_fields_meet_columns_by_name_and_what_is_not_wanted_is_read_over() -> None:
    values = written(EVERY_TYPE, EVERY_ROW)
    columns = pa.schema([("new", pa.int8()), ("s", pa.string()), ("i", pa.float64()), ("l", pa.int64())])
    found = decode(EVERY_TYPE, values, columns, ["i", "new", "l"])
    assert found.rows.to_pylist() == [{"i": float(-(2**31)), "new": None, "l": 2**63 - 1}]
    for name in EVERY_COLUMN.names:
        only = decode(EVERY_TYPE, values, EVERY_COLUMN, [name]).rows.to_pylist()[0]
        assert only == {name: [("k", "v")] if name == "m" else EVERY_ROW[name]}


def test_a_schema_that_names_itself_can_be_read_over() -> None:
    tree = record(("v", "int"), ("next", ["null", "tree"]), name="tree")
    value: dict[str, Any] = {"v": 0, "next": None}
    for i in range(1, 300):
        value = {"v": i, "next": value}
    assert decode(tree, written(tree, value), pa.schema([("v", pa.int32())])).rows.to_pylist() == [{"v": 299}]
    deep = b"\0\2" * 100_000 + b"\0\0"
    assert "1,000 levels" in decode(tree, [deep], pa.schema([("v", pa.int32())])).failures[0].reason


@pytest.mark.parametrize(
    ("schema", "value", "kind", "reason"),
    [
        ("int", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", pa.int32(), "more than the 64 bits"),
        ("int", b"\xff\xff\xff\xff\x7f", pa.int32(), "more than the 32 bits"),
        ("int", b"\x80\x02", pa.int8(), "out of the type's range"),
        ("long", b"\x80", pa.int64(), "ends too early"),
        ("long", b"\2\2", pa.int64(), "and more bytes follow"),
        ("boolean", b"\2", pa.bool_(), "neither 0 nor 1"),
        ("double", b"\0" * 7, pa.float64(), "ends too early"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1a", pa.string(), "ends too early"),
        ("string", b"\1a", pa.string(), "length is negative"),
        ("string", b"\2\xff", pa.string(), "not UTF-8"),
        (["null", "long"], b"\4\0", pa.int64(), "union's index"),
        (["string", "long"], b"\0\2a", pa.int64(), "another type"),
        (
            {"type": "array", "items": "null"},
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\0",
            pa.list_(pa.null()),
            "elements without bytes",
        ),
        (
            {"type": "array", "items": "null"},
            b"\xc0\xa9\x07" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1" + b"\0",  # 60,000 and 2**63 - 1
            pa.list_(pa.null()),
            "elements without bytes",
        ),
        (
            {"type": "array", "items": "long"},
            b"\x80\x80\x80\x80\x10\0",
            pa.list_(pa.int64()),
            "ends too early",
        ),
        (
            {"type": "map", "values": "long"},
            b"\4\2a\0\2a\0\0",
            pa.map_(pa.string(), pa.int64()),
            "same key twice",
        ),
        (
            {"type": "map", "values": "long"},
            b"\4\0\0\0\0\0",  # two keys without a byte
            pa.map_(pa.string(), pa.int64()),
            "same key twice",
        ),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, b"\2", pa.string(), "enum's index"),
        (
            logical("bytes", "decimal", precision=30, scale=0),
            b"\4\x7f\xff",
            pa.decimal128(3, 0),
            "out of the type",
        ),
        (logical("bytes", "decimal", precision=30, scale=2), b"\2\1", pa.decimal128(9, 0), "not whole"),
        (  # ten times the number is 2**128 and a little
            logical("bytes", "decimal", precision=38, scale=0),
            b"\x20" + (2**128 // 10 + 1).to_bytes(16, "big"),
            pa.decimal128(38, 1),
            "out of the type",
        ),
        (logical("int", "time-millis"), b"\1", pa.time32("ms"), "out of the type"),
        (logical("int", "time-millis"), b"\x80\xf0\xb2\x52", pa.time64("us"), "out of the type"),  # 24:00:00
        (logical("long", "time-micros"), b"\xff\xff\x01", pa.time64("ns"), "out of the type"),
        (
            logical("bytes", "decimal", precision=99, scale=0),
            b"\x22\1" + b"\0" * 16,
            pa.decimal128(38, 0),
            "range",
        ),
    ],
)
def test_bytes_that_are_not_the_schemas_are_failures(
    schema: Any, value: bytes, kind: pa.DataType, reason: str
) -> None:
    found = decode(record(("v", schema)), [value, None, b""], pa.schema([("v", kind)]))
    assert reason in found.failures[0].reason
    assert found.row_count == 0


@given(
    number=st.integers(-(10**38) + 1, 10**38 - 1), written_scale=st.integers(0, 38), scale=st.integers(0, 38)
)
@example(number=2**128 // 10 + 1, written_scale=0, scale=1)
def test_a_decimal_of_another_scale_is_the_same_number_or_a_failure(
    number: int, written_scale: int, scale: int
) -> None:
    schema = record(("v", logical("bytes", "decimal", precision=38, scale=written_scale)))
    data = number.to_bytes(17, "big", signed=True)
    found = decode(schema, [b"\x22" + data], pa.schema([("v", pa.decimal128(38, scale))]))
    scaled, rest = divmod(number * 10**scale, 10**written_scale)
    if rest or abs(scaled) >= 10**38:
        assert found.failures
    else:
        assert found.rows["v"].to_pylist() == [
            Decimal((scaled < 0, tuple(map(int, str(abs(scaled)))), -scale))
        ]


def test_a_failure_inside_of_a_value_names_the_column_and_the_byte() -> None:
    inner = record(("ok", "boolean"), ("n", ["null", "int"]), name="inner")
    columns = pa.schema([("id", pa.int64()), ("r", pa.struct([("ok", pa.bool_()), ("n", pa.int32())]))])
    bad = [b"\2\7\0", b"\2\1\6", b"\2\1\2\xff\xff\xff\xff\x7f", b"\2\1", b"\xff" * 10]
    found = decode(record(("id", "long"), ("r", inner)), bad, columns)
    assert [one.reason for one in found.failures] == [
        "a boolean's byte is neither 0 nor 1 (field 'r.ok', byte 2)",
        "a union's index is not one of its types (field 'r.n', byte 3)",
        "a number has more than the 32 bits of the schema's int (field 'r.n', byte 8)",
        "the value ends too early (field 'r.n', byte 2)",
        "a number has more than the 64 bits of a long (field 'id', byte 10)",
    ]


@settings(deadline=None)
@given(st.binary(max_size=80), st.sampled_from(EVERY_COLUMN.names))
def test_any_bytes_end_in_a_row_or_a_failure(value: bytes, name: str) -> None:
    found = decode(EVERY_TYPE, [value], EVERY_COLUMN, [name])
    assert found.row_count + len(found.failures) == (1 if value else 0)


def test_a_huge_count_costs_no_memory() -> None:
    schema = record(("v", {"type": "array", "items": record(name="empty")}))
    value = b"\x80\x80\x80\x80\x80\x80\x10\0"
    kind = pa.list_(pa.struct([("missing", pa.int64())]))
    assert decode(schema, [value], pa.schema([("v", kind)])).failures


def test_a_union_of_null_and_a_record_is_read_and_written_as_the_record() -> None:
    columns = pa.schema([("i", pa.int32()), ("s", pa.string())])
    schema = record(("i", "int"), ("s", ["null", "string"]))
    rows: list[dict[str, Any]] = [{"i": 1, "s": "a"}, {"i": -5, "s": None}]
    plain = written(schema, *rows)
    unions: list[tuple[Any, bytes]] = [(["null", schema], b"\x02"), ([schema, "null"], b"\x00")]
    for union, branch in unions:
        values = [branch + one for one in plain]
        made = AvroFormat(json.dumps(union))
        null = (b"\x00", b"\x02")[branch == b"\x00"]
        found = made.decoder(columns).decode(pa.array([values[0], null, b"\x04", values[1]], pa.binary()))
        assert found.rows.to_pylist() == rows
        assert found.indices().to_pylist() == [0, 3]
        assert [one.value_index for one in found.failures] == [1, 2]
        assert made.encoder(columns).encode(found.rows).to_pylist() == values


@pytest.mark.parametrize(
    "union", [[], ["null"], ["null", "int"], ["int", record(("a", "int"))],
              [record(("a", "int")), record(("a", "int"), name="other")]],
)  # fmt: skip
def test_a_union_that_is_not_null_and_one_record_is_refused(union: list[Any]) -> None:
    with pytest.raises(SchemaError):
        AvroFormat(json.dumps(union)).decoder(pa.schema([("a", pa.int32())]))


def test_a_null_for_a_column_that_is_not_null_is_a_failure() -> None:
    schema = record(("v", ["null", "int"]))
    columns = pa.schema([pa.field("v", pa.int32(), nullable=False)])
    found = decode(schema, written(schema, {"v": None}, {"v": 1}), columns)
    assert (found.rows.to_pylist(), found.failures[0].value_index) == ([{"v": 1}], 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "5",
        '"nope"',
        '{"type":"record","name":"r","fields":[{"name":"a","type":"b"}]}',
        '{"type":"fixed","name":"f","size":-1}',
        "[" * 500 + "]" * 500,
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        from_options(AvroFormat, {"avro.schema": text}).decoder(pa.schema([("a", pa.int8())]))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "recrod"}, r"there is no type 'recrod' \(at its root\)"),
        (record(("a", record(("b", "strnig"), name="s"))), r"there is no type 'strnig' \(field 'a.b'\)"),
        ({"type": "record", "name": "r"}, r"'fields' is missing \(at its root\)"),
        (record(("a", {"type": "array"})), r"expected a type, got null \(field 'a\[\]'\)"),
        (record(("a", {"type": "fixed", "name": "f"})), r"'size' is missing \(field 'a'\)"),
        (
            record(
                ("a", {"type": "fixed", "name": "f", "size": 1}),
                ("b", {"type": "fixed", "name": "f", "size": 2}),
            ),
            r"type 'f' is defined twice.*\(field 'b'\)",
        ),
        (
            record(("a", {"type": "fixed", "name": "f", "size": "4"})),
            r"'size' must be a number, and is \"4\"",
        ),
        ([["null"]], r"a union is in a union \(at its root\)"),
    ],
)
def test_a_wrong_schema_is_told_with_option_and_path(schema: Any, reason: str) -> None:
    text = "The value of option 'value.avro.schema' is not an Avro schema: "
    with pytest.raises(SchemaError, match=text + reason):
        from_options(AvroFormat, {"value.avro.schema": json.dumps(schema)}, "value.")
    with pytest.raises(SchemaError, match=r"'avro.schema' is not an Avro schema: it is not JSON"):
        from_options(AvroFormat, {"avro.schema": "{"})


def test_a_decimal_without_precision_is_no_decimal() -> None:
    for wrong in (logical("bytes", "decimal"), logical("bytes", "decimal", precision=3, scale="x")):
        made = AvroFormat(json.dumps(record(("d", wrong))))
        with pytest.raises(SchemaError, match="Column 'd' is of type decimal128"):
            made.decoder(pa.schema([("d", pa.decimal128(3, 0))]))


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("name", ["avro", "avro-confluent"])
def test_flinks_option_for_timestamps_is_refused_with_the_cure(name: str, value: str) -> None:
    options = {f"value.{name}.timestamp_mapping.legacy": value, f"value.{name}.url": "http://localhost"}
    text = rf"'value.{name}.timestamp_mapping.legacy' is not supported.*'{name}.schema'.*'timestamp-millis'"
    with pytest.raises(UnsupportedOptionError, match=text):
        format_for(name, options, "value.")


def test_what_flink_wrote_is_read_with_a_schema_of_milliseconds() -> None:
    bytes_of_flink = bytes.fromhex("0202 0286b4cccaef66")
    schema = record(("a", ["null", "int"]), ("i", ["null", logical("long", "timestamp-millis")]))
    columns = pa.schema([("a", pa.int32()), ("i", pa.timestamp("us", "UTC"))])
    found = decode(schema, [bytes_of_flink], columns)
    assert found.rows["i"][0].as_py() == datetime(2026, 1, 2, 3, 4, 5, 123000, UTC)
    made = AvroFormat(json.dumps(schema))
    assert made.encoder(columns).encode(found.rows).to_pylist() == [bytes_of_flink]


def test_schemas_that_do_not_fit_the_table_are_refused_on_the_driver() -> None:
    made = AvroFormat(json.dumps(record(("a", "string"), ("b", "int"))))
    with pytest.raises(
        SchemaError, match="Column 'a' is of type int8 in the table and string in the Avro schema"
    ):
        made.decoder(pa.schema([("a", pa.int8())]))
    millis = AvroFormat(json.dumps(record(("t", ["null", logical("int", "time-millis")]))))
    text = r"'t' is of type timestamp\[us\] in the table and int \(time-millis\) in the Avro schema"
    for refuses in (millis.decoder, millis.encoder):
        with pytest.raises(SchemaError, match=text):
            refuses(pa.schema([("t", pa.timestamp("us"))]))
    for columns in ([("a", pa.string())], [("a", pa.string()), ("b", pa.int32()), ("c", pa.int8())]):
        with pytest.raises(SchemaError, match=r"no column|no field"):
            made.encoder(pa.schema(columns))
    with pytest.raises(SchemaError, match="cannot have a field 'a b'"):
        AvroFormat().encoder(pa.schema([("a b", pa.int8())]))


def test_the_schema_of_columns_is_flinks() -> None:
    columns = pa.schema(
        [pa.field("a", pa.int64(), nullable=False), ("s", pa.struct([("t", pa.timestamp("ms"))]))]
    )
    made = json.loads(schema_of(columns))
    assert (made["namespace"], made["name"]) == ("org.apache.flink.avro.generated", "record")
    assert made["fields"][0] == {"name": "a", "type": "long"}
    assert made["fields"][1]["default"] is None
    assert made["fields"][1]["type"][1]["name"] == "record_s"
    assert parse_schema(schema_of(columns)).names


def test_a_row_that_the_schema_cannot_hold_is_named() -> None:
    schema = record(("v", {"type": "enum", "name": "e", "symbols": ["A"]}))
    rows = pa.RecordBatch.from_pydict({"v": ["A", "B"]})
    with pytest.raises(RowError, match="column 'v' of row 1"):
        AvroFormat(json.dumps(schema)).encoder(rows.schema).encode(rows)
