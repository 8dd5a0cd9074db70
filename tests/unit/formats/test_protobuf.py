"""Protobuf values to typed rows and back: the protobuf package as the judge, hostile bytes, registries."""

from __future__ import annotations

import base64
import sys
import time
import types
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import MissingExtraError, MissingOptionError, OptionError, RowError, SchemaError
from penstock.formats import DecodedRows, Format, _native
from penstock.formats.confluent import LOOKUPS_PER_BATCH_MAX
from penstock.formats.protobuf._types import MessageType, library
from penstock.formats.protobuf.confluent import read_header, write_indexes
from penstock.formats.protobuf.schema import type_for
from tests.registry_server import Registry, running_registry
from tests.table_specs import format_for

descriptor_pb2: Any = library("descriptor_pb2")
F = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "i32": F.TYPE_INT32,
    "s32": F.TYPE_SINT32,
    "u32": F.TYPE_UINT32,
    "fx32": F.TYPE_FIXED32,
    "i64": F.TYPE_INT64,
    "sf64": F.TYPE_SFIXED64,
    "u64": F.TYPE_UINT64,
    "f": F.TYPE_FLOAT,
    "d": F.TYPE_DOUBLE,
    "b": F.TYPE_BOOL,
    "s": F.TYPE_STRING,
    "by": F.TYPE_BYTES,
}
TYPES = {
    "i32": pa.int32(),
    "s32": pa.int32(),
    "u32": pa.int64(),
    "fx32": pa.int64(),
    "i64": pa.int64(),
    "sf64": pa.int64(),
    "u64": pa.decimal128(20, 0),
    "f": pa.float32(),
    "d": pa.float64(),
    "b": pa.bool_(),
    "s": pa.string(),
    "by": pa.binary(),
}
EXTREMES: dict[str, Any] = {
    "i32": -(2**31),
    "s32": 2**31 - 1,
    "u32": 2**32 - 1,
    "fx32": 2**32 - 1,
    "i64": -(2**63),
    "sf64": 2**63 - 1,
    "u64": 2**64 - 1,
    "f": 1.5,
    "d": -0.1,
    "b": True,
    "s": "é😀",
    "by": b"\0\xff",
}


def field(message: Any, name: str, number: int, kind: int, type_name: str = "", label: int = 1) -> None:
    message.field.add(name=name, number=number, type=kind, type_name=type_name or None, label=label)


def the_file(syntax: str = "proto3") -> Any:
    """All scalars, an enum, a oneof, repeated fields, maps, a message in itself, a Timestamp."""
    made = descriptor_pb2.FileDescriptorProto(name="shop/all_types.proto", package="shop", syntax=syntax)
    made.dependency.append("google/protobuf/timestamp.proto")
    made.enum_type.add(name="Color").value.add(name="RED", number=0)
    made.enum_type[0].value.add(name="BLUE", number=7)
    message = made.message_type.add(name="All")
    for number, (name, kind) in enumerate(SCALARS.items(), start=1):
        field(message, name, number, kind)
    field(message, "color", 20, F.TYPE_ENUM, ".shop.Color")
    field(message, "at", 21, F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    field(message, "next", 22, F.TYPE_MESSAGE, ".shop.All")
    field(message, "numbers", 23, F.TYPE_INT32, label=3)
    field(message, "colors", 24, F.TYPE_ENUM, ".shop.Color", label=3)
    field(message, "many", 25, F.TYPE_MESSAGE, ".shop.All", label=3)
    entry = message.nested_type.add(name="NamesEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, F.TYPE_INT64)
    field(entry, "value", 2, F.TYPE_STRING)
    field(message, "names", 26, F.TYPE_MESSAGE, ".shop.All.NamesEntry", label=3)
    message.oneof_decl.add(name="choice")
    for number, name in ((30, "left"), (31, "right")):
        field(message, name, number, F.TYPE_STRING)
        message.field[-1].oneof_index = 0
    message.nested_type.add(name="Inner").field.add(name="x", number=1, type=F.TYPE_INT32, label=1)
    return made


def type_named(name: str, *files: Any) -> MessageType:
    return MessageType(name, descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def class_of(name: str, *files: Any) -> Any:
    return library("message_factory").GetMessageClass(type_named(name, *files).descriptor())


ALL = class_of("shop.All", the_file())


@pytest.fixture
def descriptor_file(tmp_path: Path) -> Path:
    path = tmp_path / "all.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[the_file()]).SerializeToString())
    return path


@pytest.fixture
def shop(descriptor_file: Path) -> Format:
    return made(descriptor_file)


def made(path: Path, name: str = "shop.All", **more: str) -> Format:
    options = {"descriptor-file": str(path), "message-class-name": name, **more}
    return format_for("protobuf", {f"protobuf.{key}": text for key, text in options.items()})


def decode(one: Format, values: list[bytes | None], columns: pa.Schema) -> DecodedRows:
    found = one.decoder(columns).decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    assert found.rows.schema == columns
    return found


def test_every_scalar_reads_and_writes_as_the_protobuf_package_has_it(shop: Format) -> None:
    columns = pa.schema(list(TYPES.items()))
    values = [ALL(**EXTREMES).SerializeToString(), ALL().SerializeToString()]
    found = decode(shop, values, columns)
    first, second = found.rows.to_pylist()
    assert first == {**EXTREMES, "u64": Decimal(2**64 - 1)}
    # proto3's fields without `optional` cannot be absent.
    assert second == {name: type(value)() for name, value in first.items()}
    written = shop.encoder(columns).encode(found.rows).to_pylist()
    assert [ALL.FromString(value) for value in written] == [ALL(**EXTREMES), ALL()]


def test_enums_oneofs_nested_messages_and_times(shop: Format) -> None:
    message = ALL(color=7, left="l", numbers=[1, 2], colors=[0, 7, 9], names={2: "b", 1: "a"})
    message.at.seconds, message.at.nanos = -1, 999_999_999
    message.next.next.i32 = 5
    message.many.add(i32=1)
    inner = pa.struct([("i32", pa.int32())])
    columns = pa.schema(
        [
            ("color", pa.string()),
            ("left", pa.string()),
            ("right", pa.string()),
            ("numbers", pa.list_(pa.int64())),
            ("colors", pa.list_(pa.string())),
            ("names", pa.map_(pa.int64(), pa.string())),
            ("at", pa.timestamp("us", "UTC")),
            ("next", pa.struct([("next", inner), ("many", pa.list_(inner))])),
            ("many", pa.list_(inner)),
        ]
    )
    found = decode(shop, [message.SerializeToString(), b""], columns)
    assert found.rows.to_pylist() == [
        {
            "color": "BLUE",
            "left": "l",
            "right": None,
            "numbers": [1, 2],
            "colors": ["RED", "BLUE", "9"],  # a number that only a newer schema names
            "names": [(1, "a"), (2, "b")],
            "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            "next": {"next": {"i32": 5}, "many": None},
            "many": [{"i32": 1}],
        },
        {
            "color": "RED",
            "left": None,
            "right": None,
            "numbers": None,
            "colors": None,
            "names": None,
            "at": None,
            "next": None,
            "many": None,
        },
    ]
    message.at.nanos = 999_999_000  # what microseconds hold
    written = shop.encoder(columns).encode(found.rows).to_pylist()
    assert [ALL.FromString(value) for value in written] == [message, ALL()]
    as_numbers = pa.schema([("color", pa.int32()), ("at", pa.struct([("seconds", pa.int64())]))])
    assert decode(shop, [message.SerializeToString()], as_numbers).rows.to_pylist() == [
        {"color": 7, "at": {"seconds": -1}}
    ]


def test_defaults_are_read_where_they_are_asked_for(descriptor_file: Path) -> None:
    columns = pa.schema(
        [
            ("left", pa.string()),
            ("numbers", pa.list_(pa.int32())),
            ("names", pa.map_(pa.int64(), pa.string())),
            ("next", pa.struct([("left", pa.string())])),
        ]
    )
    found = decode(made(descriptor_file, **{"read-default-values": "true"}), [b""], columns)
    assert found.rows.to_pylist() == [{"left": "", "numbers": [], "names": [], "next": {"left": ""}}]


def test_nulls_among_elements_are_written_as_defaults(descriptor_file: Path) -> None:
    schema = pa.schema(
        [
            ("numbers", pa.list_(pa.int32())),
            ("names", pa.map_(pa.int64(), pa.string())),
            ("many", pa.list_(pa.struct([("i32", pa.int32())]))),
        ]
    )
    row = {"numbers": [1, None], "names": [(1, None)], "many": [None, {"i32": 3}]}
    rows = pa.RecordBatch.from_pylist([{}, row], schema=schema)
    encoder = made(descriptor_file, **{"write-null-string-literal": "nil"}).encoder(schema)
    written = encoder.encode(rows.slice(1)).to_pylist()
    expected = ALL(numbers=[1, 0], names={1: "nil"})
    expected.many.add()
    expected.many.add(i32=3)
    assert ALL.FromString(written[0]) == expected


@pytest.mark.parametrize(
    ("column", "kind", "value", "reason"),
    [
        ("i64", pa.int32(), ALL(i64=2**31), "out of the type's range"),
        ("u32", pa.int32(), ALL(u32=2**31), "out of the type's range"),
        ("u64", pa.int64(), ALL(u64=2**63), "out of the type's range"),
        ("i32", pa.int8(), ALL(i32=128), "out of the type's range"),
        ("numbers", pa.list_(pa.int8()), ALL(numbers=[1, 300]), "out of the type's range"),
        ("at", pa.timestamp("us", "UTC"), ALL(at={"seconds": 2**62}), "out of the type's range"),
        ("at", pa.timestamp("us", "UTC"), ALL(at={"nanos": -1}), "not part of a second"),
        ("left", pa.field("left", pa.string(), nullable=False), ALL(), "NOT NULL"),
    ],
)
def test_values_that_columns_cannot_hold_are_failures(
    shop: Format, column: str, kind: Any, value: Any, reason: str
) -> None:
    columns = pa.schema([kind if isinstance(kind, pa.Field) else pa.field(column, kind)])
    good = ALL(left="x", numbers=[1]).SerializeToString()
    found = decode(shop, [good, None, value.SerializeToString(), good], columns)
    assert [failure.value_index for failure in found.failures] == [2]
    assert reason in found.failures[0].reason
    assert f"'{column}" in found.failures[0].reason
    assert found.indices().to_pylist() == [0, 3]


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_times_are_read_to_the_ends_of_the_columns_range(shop: Format, unit: str, per_second: int) -> None:
    columns = pa.schema([("at", pa.timestamp(unit, "UTC"))])
    wanted = [-(2**63), -(2**63) + 1, -per_second - 1, -per_second, -1, 0, 1, 2**63 - 1]
    beyond = [-(2**63) - 1, 2**63] if unit != "s" else []

    def message(value: int) -> bytes:
        seconds, fraction = divmod(value, per_second)
        nanos = fraction * (10**9 // per_second)
        encoded: bytes = ALL(at={"seconds": seconds, "nanos": nanos}).SerializeToString()
        return encoded

    found = decode(shop, [message(value) for value in wanted + beyond], columns)
    assert found.rows["at"].cast(pa.int64()).to_pylist() == wanted
    assert [one.value_index for one in found.failures] == list(range(len(wanted), len(wanted + beyond)))


def test_bytes_that_are_no_message_are_failures_or_ignored(shop: Format, descriptor_file: Path) -> None:
    good = ALL(i32=4).SerializeToString()
    bad: list[bytes | None] = [
        b"\x08",  # a number that does not end
        b"\x0a\xff\xff\xff\xff\x0f",  # a text of 4 GiB
        b"\x5a\x02\xc3\x28",  # field 11 is text: not UTF-8
        b"\x07\x00",  # no such wire type
        b"\x0c",  # the end of a group that never began
        b"\xb2\x01\x05\x08",  # a message inside that ends too soon
    ]
    columns = pa.schema([("i32", pa.int32()), ("s", pa.string())])
    found = decode(shop, [good, *bad, good], columns)
    assert [failure.value_index for failure in found.failures] == list(range(1, len(bad) + 1))
    assert found.rows.column(0).to_pylist() == [4, 4]
    ignoring = made(descriptor_file, **{"ignore-parse-errors": "true"})
    found = decode(ignoring, [good, *bad, good], columns)
    assert (found.failures, found.ignored_count, found.row_count) == ([], len(bad), 2)


def test_unknown_fields_are_left_alone_even_in_great_number(shop: Format) -> None:
    unknown = b"".join(b"\xc2\x3e\x01x" for _ in range(100_000))  # field 1000
    columns = pa.schema([("i32", pa.int32())])
    found = decode(shop, [unknown + ALL(i32=4).SerializeToString() + unknown], columns)
    assert found.rows.to_pylist() == [{"i32": 4}]


def test_messages_that_nest_without_end_fail_in_time(shop: Format) -> None:
    value = b""
    for _ in range(20_000):
        size, length = len(value), bytearray()
        while size >= 0x80:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        value = b"\xb2\x01" + bytes([*length, size]) + value  # field 22 is the message itself
    started = time.monotonic()
    found = decode(shop, [value], pa.schema([("i32", pa.int32())]))
    assert [failure.value_index for failure in found.failures] == [0]
    assert time.monotonic() - started < 20


@settings(deadline=None)
@given(st.lists(st.none() | st.binary(max_size=60), max_size=5))
def test_any_bytes_end_in_a_row_or_a_failure(values: list[bytes | None]) -> None:
    schema = pa.schema(
        [("s", pa.string()), ("numbers", pa.list_(pa.int8())), ("names", pa.map_(pa.int64(), pa.string()))]
    )
    decoder = format_for("protobuf", {"protobuf.message-class-name": "shop_pb2.All"}).decoder(schema)
    found = decoder.decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    there = {i for i, value in enumerate(values) if value is not None}
    assert {*found.indices().to_pylist(), *(one.value_index for one in found.failures)} == there


@pytest.fixture(autouse=True, scope="module")
def _generated_module() -> Iterator[None]:
    module = types.ModuleType("shop_pb2")
    module.All = ALL  # type: ignore[attr-defined]  # what protoc would have generated
    sys.modules["shop_pb2"] = module
    yield
    del sys.modules["shop_pb2"]


def test_messages_are_found_by_class_and_by_their_names_in_protobuf_and_java(descriptor_file: Path) -> None:
    names = ["shop.All", "shop.AllTypes$All", "shop.All.Inner", "shop.AllTypes$All$Inner"]
    found = [made(descriptor_file, name).message_type.full_name for name in names]  # type: ignore[attr-defined]
    assert found == ["shop.All", "shop.All", "shop.All.Inner", "shop.All.Inner"]
    from_class = format_for("protobuf", {"value.protobuf.message-class-name": "shop_pb2.All"}, "value.")
    assert decode(from_class, [b"\x08\x05"], pa.schema([("i32", pa.int32())])).rows.to_pylist() == [
        {"i32": 5}
    ]


def test_what_names_no_message_is_an_error_on_the_driver(descriptor_file: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingOptionError, match=r"'protobuf\.message-class-name' is required"):
        format_for("protobuf", {})
    with pytest.raises(MissingOptionError, match=r"has 2 messages: shop\.All, shop\.All\.Inner"):
        format_for("protobuf", {"protobuf.descriptor-file": str(descriptor_file)})
    with pytest.raises(OptionError, match=r"'shop\.Nope', which is not a message of"):
        made(descriptor_file, "shop.Nope")
    with pytest.raises(OptionError, match="cannot be read"):
        made(tmp_path / "nope")
    with pytest.raises(OptionError, match="cannot import the generated Python class"):
        format_for("protobuf", {"protobuf.message-class-name": "shop_pb2.Nope"})
    broken = tmp_path / "broken"
    broken.write_bytes(b"\xff\xff")
    with pytest.raises(OptionError, match="not a descriptor file"):
        made(broken)
    importing = descriptor_pb2.FileDescriptorProto(name="a.proto", dependency=["b.proto"])
    broken.write_bytes(descriptor_pb2.FileDescriptorSet(file=[importing]).SerializeToString())
    with pytest.raises(OptionError, match="--include_imports"):
        made(broken)


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(OptionError, match=r"pip install 'pyspark-penstock\[protobuf\]'"):
        library("message")


@pytest.mark.parametrize("name", ["protobuf", "protobuf-confluent"])
@pytest.mark.parametrize("option", ["message-class-name", "descriptor-file"])
def test_the_missing_package_is_told_before_a_class_or_file_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    given = {f"value.{name}.{option}": "x_pb2.Order"}
    if name == "protobuf-confluent":
        given["value.protobuf-confluent.url"] = "http://localhost:1"
    with pytest.raises(MissingExtraError) as found:
        format_for(name, given, "value.")
    assert found.value.facts["option"] == "value.format"


@pytest.mark.parametrize(
    "wrong",
    [
        pa.field("nope", pa.int32()),
        pa.field("i32", pa.string()),
        pa.field("numbers", pa.int32()),
        pa.field("i32", pa.list_(pa.int32())),
        pa.field("names", pa.map_(pa.int64(), pa.int32())),
        pa.field("next", pa.struct([("i32", pa.date32())])),
        pa.field("d", pa.float32()),
    ],
)
def test_columns_of_another_type_are_found_on_the_driver(shop: Format, wrong: pa.Field) -> None:
    with pytest.raises(SchemaError, match=wrong.name):
        shop.decoder(pa.schema([("s", pa.string()), wrong]), ["s"])


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("i32", pa.int64(), 2**31),
        ("u32", pa.int64(), -1),
        ("color", pa.string(), "GREEN"),
        ("numbers", pa.list_(pa.int64()), [1, 2**40]),
        ("many", pa.list_(pa.struct([("i32", pa.int64())])), [{"i32": 2**31}]),
        ("names", pa.map_(pa.int64(), pa.string()), [(1, "a"), (1, "b")]),
        ("at", pa.timestamp("s", "UTC"), 253_402_300_800),
    ],
)
def test_rows_that_a_message_cannot_hold_name_row_and_column(
    shop: Format, column: str, kind: pa.DataType, value: Any
) -> None:
    array = (
        pa.array([None, value], pa.int64()).cast(kind) if column == "at" else pa.array([None, value], kind)
    )
    rows = pa.RecordBatch.from_arrays([array], names=[column])
    with pytest.raises(RowError, match=rf"column '{column}.*' of row 1"):
        shop.encoder(rows.schema).encode(rows)


def test_required_fields_that_are_missing_are_errors_on_both_sides(tmp_path: Path) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="old.proto", syntax="proto2")
    message = file.message_type.add(name="Old")
    field(message, "must", 1, F.TYPE_INT32, label=2)
    field(message, "may", 2, F.TYPE_STRING)
    file.message_type[0].field[1].default_value = "d"
    path = tmp_path / "old.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    old = made(path, "Old")
    columns = pa.schema([("must", pa.int32()), ("may", pa.string())])
    found = decode(old, [b"", b"\x08\x01", b"\x08\x01\x12\x02\xc3\x28"], columns)
    assert found.rows.to_pylist() == [{"must": 1, "may": None}]
    assert [failure.value_index for failure in found.failures] == [0, 2]  # proto2 checks no UTF-8 itself
    assert "must" in found.failures[0].reason
    rows = pa.RecordBatch.from_pylist([{"must": 1}, {"may": "x"}], schema=columns)
    with pytest.raises(RowError, match=r"row 1 of the batch: .*must"):
        old.encoder(columns).encode(rows)
    with_defaults = made(path, "Old", **{"read-default-values": "true"})
    assert decode(with_defaults, [b"\x08\x01"], columns).rows.to_pylist() == [{"must": 1, "may": "d"}]


def test_fields_may_be_called_like_methods_and_keywords(tmp_path: Path) -> None:
    columns = pa.schema([(name, pa.int32()) for name in ("HasField", "from", "DESCRIPTOR", "class", "_x")])
    path = tmp_path / "names.desc"
    path.write_bytes(type_for(columns).files)
    rows = pa.RecordBatch.from_pylist([{"HasField": 1, "from": 2}, {"DESCRIPTOR": 3}], schema=columns)
    one = made(path, "penstock.Row")
    assert decode(one, one.encoder(columns).encode(rows).to_pylist(), columns).rows.equals(rows)


def test_types_that_protobuf_does_not_have() -> None:
    for kind in (
        pa.decimal128(10, 2),
        pa.date32(),
        pa.timestamp("us"),
        pa.list_(pa.list_(pa.int32())),
        pa.map_(pa.string(), pa.list_(pa.int32())),
        pa.map_(pa.float64(), pa.int32()),
    ):
        with pytest.raises(SchemaError, match="Protobuf has"):
            type_for(pa.schema([("x", kind)]))
    with pytest.raises(SchemaError, match="cannot have a field"):
        type_for(pa.schema([("a b", pa.int32())]))


def test_the_same_rows_always_give_the_same_bytes_and_back(shop: Format) -> None:
    columns = pa.schema([("names", pa.map_(pa.int64(), pa.string()))])
    entries = [(number, str(number)) for number in range(100)]
    rows = pa.RecordBatch.from_pylist([{"names": entries[::-1]}, {"names": entries}], schema=columns)
    first, second = shop.encoder(columns).encode(rows).to_pylist()
    assert first == second
    assert decode(shop, [first], columns).rows.to_pylist() == [{"names": entries}]


# -- behind the Schema Registry's header ---------------------------------------------------------------------


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def confluent(registry: Registry, **more: str) -> Format:
    named = {f"protobuf-confluent.{name}": text for name, text in more.items()}
    return format_for(
        "protobuf-confluent", {"protobuf-confluent.url": registry.url, "topic": "orders", **named}
    )


def serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


COLUMNS = pa.schema([("i32", pa.int32()), ("s", pa.string())])


def test_one_batch_may_hold_many_schemas_and_messages(registry: Registry) -> None:
    schema_id = registry.register("orders-value", serialized(the_file()), "PROTOBUF")
    other = descriptor_pb2.FileDescriptorProto(name="other.proto", syntax="proto3")
    field(other.message_type.add(name="Other"), "s", 1, F.TYPE_STRING)
    field(other.message_type[0].nested_type.add(name="Deep"), "i32", 9, F.TYPE_INT64)
    other_id = registry.register("orders-value", serialized(other), "PROTOBUF")
    avro_id = registry.register("orders-value", {"type": "record", "name": "r", "fields": []})
    message = ALL(i32=1, s="a").SerializeToString()
    values = [
        header(schema_id) + b"\0" + message,
        header(other_id) + b"\x04\0\0" + b"\x48\x05",  # Other.Deep
        header(other_id) + b"\0" + b"\x0a\x01b",
        header(schema_id) + b"\x02\0" + message,  # the path of one index, written out
        header(other_id) + b"\x02\x06",  # a fourth message
        header(avro_id) + b"\0",
        header(99) + b"\0",
        message,
        None,
        b"",
        header(schema_id),
        header(schema_id) + b"\xff\xff\xff\xff\xff\xff",
        header(schema_id) + b"\0\x08",
    ]
    found = decode(confluent(registry), values, COLUMNS)
    assert found.rows.to_pylist() == [
        {"i32": 1, "s": "a"},
        {"i32": 5, "s": None},
        {"i32": None, "s": "b"},
        {"i32": 1, "s": "a"},
    ]
    assert found.indices().to_pylist() == [0, 1, 2, 3]
    assert [failure.value_index for failure in found.failures] == [4, 5, 6, 7, 10, 11, 12]
    assert "does not have this message" in found.failures[0].reason
    assert "of type PROTOBUF, got AVRO" in found.failures[1].reason
    assert "does not know schema id 99" in found.failures[2].reason
    ignoring = decode(confluent(registry, **{"ignore-parse-errors": "true"}), values, COLUMNS)
    assert (ignoring.row_count, ignoring.failures, ignoring.ignored_count) == (4, [], 7)


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def test_a_message_of_the_tables_own_needs_no_registry_to_read(
    registry: Registry, descriptor_file: Path
) -> None:
    own = confluent(
        registry, **{"descriptor-file": str(descriptor_file), "message-class-name": "shop.All.Inner"}
    )
    found = decode(own, [header(77) + b"\0\x08\x05"], pa.schema([("x", pa.int32())]))
    assert found.rows.to_pylist() == [{"x": 5}]
    assert registry.requests == []
    rows = pa.RecordBatch.from_pylist([{"x": 6}])
    rows = rows.cast(pa.schema([("x", pa.int32())]))
    written = own.encoder(rows.schema).encode(rows).to_pylist()
    # Two indexes, the first message and the second message in it (the first is the map's entry).
    assert written == [header(1) + b"\x04\0\x02\x08\x06"]
    assert registry.subjects == {"orders-value": [1]}
    assert registry.schemas[1]["schemaType"] == "PROTOBUF"
    assert registry.requests == ["POST /subjects/orders-value/versions"]


def test_imports_are_registered_and_read_as_references(registry: Registry, tmp_path: Path) -> None:
    base = descriptor_pb2.FileDescriptorProto(name="lib/base.proto", package="lib", syntax="proto3")
    field(base.message_type.add(name="Base"), "x", 1, F.TYPE_INT32)
    top = descriptor_pb2.FileDescriptorProto(name="top.proto", dependency=["lib/base.proto"], syntax="proto3")
    field(top.message_type.add(name="Top"), "base", 1, F.TYPE_MESSAGE, ".lib.Base")
    path = tmp_path / "top.desc"
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[base, top]).SerializeToString())
    own = confluent(registry, **{"descriptor-file": str(path), "message-class-name": "Top"})
    columns = pa.schema([("base", pa.struct([("x", pa.int32())]))])
    rows = pa.RecordBatch.from_pylist([{"base": {"x": 4}}], schema=columns)
    values = own.encoder(columns).encode(rows).to_pylist()
    assert registry.subjects == {"lib/base.proto": [1], "orders-value": [2]}
    assert registry.schemas[2]["references"] == [
        {"name": "lib/base.proto", "subject": "lib/base.proto", "version": 1}
    ]
    assert decode(confluent(registry), values, columns).rows.equals(rows)


def test_made_up_ids_and_indexes_cost_a_bounded_number_of_questions(registry: Registry) -> None:
    values: list[bytes | None] = [header(number) + b"\0" for number in range(1_000, 2_000)]
    found = decode(confluent(registry), values, COLUMNS)
    assert len(found.failures) == 1_000
    assert len(registry.requests) == LOOKUPS_PER_BATCH_MAX


def test_a_registry_that_gives_text_makes_bad_records_that_say_what_to_do(registry: Registry) -> None:
    schema_id = registry.register("orders-value", 'syntax = "proto3";', "PROTOBUF")
    found = decode(confluent(registry), [header(schema_id) + b"\0"], COLUMNS)
    assert "descriptor-file" in found.failures[0].reason


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5))
def test_message_indexes_read_as_they_were_written(indexes: list[int]) -> None:
    values = pa.array([header(5) + write_indexes(indexes) + b"rest"], pa.binary())
    codes, starts, (found,) = _native.message_headers(values)
    assert (codes.to_pylist(), starts.to_pylist()) == ([0], [len(found)])
    assert values[0].as_py()[len(found) :] == b"rest"
    assert read_header(found) == (5, tuple(indexes))
