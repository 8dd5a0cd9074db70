"""The rules of Protobuf's wire format, with google.protobuf as the judge, and hostile bytes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.formats import DecodedRows
from penstock.formats.protobuf._types import MessageType, library
from tests.table_specs import format_for

descriptor_pb2: Any = library("descriptor_pb2")
F = descriptor_pb2.FieldDescriptorProto


def the_file() -> Any:
    """A message of proto2 with all that proto3 left out."""
    made = descriptor_pb2.FileDescriptorProto(name="old.proto", package="old", syntax="proto2")
    enum = made.enum_type.add(name="Color")
    for number, name in ((0, "RED"), (7, "BLUE")):
        enum.value.add(name=name, number=number)
    message = made.message_type.add(name="M")
    message.extension_range.add(start=100, end=200)
    message.oneof_decl.add(name="choice")
    add = message.field.add
    add(name="n", number=1, type=F.TYPE_INT32, label=1)
    add(name="s", number=2, type=F.TYPE_STRING, label=1, oneof_index=0)
    add(name="m", number=3, type=F.TYPE_MESSAGE, type_name=".old.M", label=1, oneof_index=0)
    add(name="sub", number=4, type=F.TYPE_MESSAGE, type_name=".old.M", label=1)
    add(name="subs", number=5, type=F.TYPE_MESSAGE, type_name=".old.M", label=3)
    add(name="color", number=6, type=F.TYPE_ENUM, type_name=".old.Color", label=1)
    add(name="colors", number=7, type=F.TYPE_ENUM, type_name=".old.Color", label=3)
    add(name="group", number=8, type=F.TYPE_GROUP, type_name=".old.M.Group", label=1)
    add(name="by_key", number=9, type=F.TYPE_MESSAGE, type_name=".old.M.ByKeyEntry", label=3)
    add(name="needy", number=10, type=F.TYPE_MESSAGE, type_name=".old.Needy", label=1)
    add(name="by_needy", number=11, type=F.TYPE_MESSAGE, type_name=".old.M.ByNeedyEntry", label=3)
    entry = message.nested_type.add(name="ByNeedyEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=F.TYPE_MESSAGE, type_name=".old.Needy", label=1)
    message.nested_type.add(name="Group").field.add(name="x", number=1, type=F.TYPE_INT32, label=1)
    entry = message.nested_type.add(name="ByKeyEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=F.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=F.TYPE_MESSAGE, type_name=".old.M", label=1)
    needy = made.message_type.add(name="Needy")
    for number, name in ((1, "one"), (2, "two")):
        needy.field.add(name=name, number=number, type=F.TYPE_INT32, label=2)
    made.extension.add(
        name="more", number=100, type=F.TYPE_MESSAGE, type_name=".old.Needy", label=1, extendee=".old.M"
    )
    return made


FILES = descriptor_pb2.FileDescriptorSet(file=[the_file()]).SerializeToString()
MESSAGE: Any = library("message_factory").GetMessageClass(MessageType("old.M", FILES).descriptor())
INNER = pa.struct([("n", pa.int32()), ("s", pa.string())])
COLUMNS = pa.schema(
    [
        ("n", pa.int32()),
        ("s", pa.string()),
        ("m", INNER),
        ("sub", pa.struct([("n", pa.int32()), ("s", pa.string()), ("subs", pa.list_(INNER))])),
        ("color", pa.string()),
        ("colors", pa.list_(pa.string())),
        ("group", pa.struct([("x", pa.int32())])),
        ("by_key", pa.map_(pa.string(), INNER)),
        ("needy", pa.struct([("one", pa.int32()), ("two", pa.int32())])),
    ]
)
NOTHING = dict.fromkeys(COLUMNS.names)


def decode(*values: bytes, columns: pa.Schema = COLUMNS) -> DecodedRows:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.desc"
        path.write_bytes(FILES)
        options = {"protobuf.descriptor-file": str(path), "protobuf.message-class-name": "old.M"}
        decoder = format_for("protobuf", options).decoder(columns)
    found = decoder.decode(pa.array(values, pa.binary()))
    found.rows.validate(full=True)
    return found


def part(**fields: Any) -> bytes:
    data: bytes = MESSAGE(**fields).SerializePartialToString()
    return data


def sized(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


RULES: dict[str, tuple[bytes, dict[str, Any]]] = {
    "the last value counts": (part(n=1) + part(n=2), {"n": 2}),
    "messages are merged": (
        part(sub={"n": 1, "subs": [{"n": 5}]}) + part(n=9) + part(sub={"s": "x", "subs": [{"n": 6}]}),
        {"n": 9, "sub": {"n": 1, "s": "x", "subs": [{"n": 5, "s": None}, {"n": 6, "s": None}]}},
    ),
    "a oneof clears its other fields": (part(m={"n": 1}) + part(s="x"), {"s": "x"}),
    "a message that a oneof cleared is not merged": (
        part(m={"n": 1}) + part(s="x") + part(m={"s": "y"}),
        {"m": {"n": None, "s": "y"}},
    ),
    "a message of a oneof is merged with itself": (
        part(m={"n": 1}) + part(m={"s": "y"}),
        {"m": {"n": 1, "s": "y"}},
    ),
    "an unknown number of a closed enum is skipped": (b"\x30\x07\x30\x05", {"color": "BLUE"}),
    "and skipped in a list": (b"\x38\x00\x38\x05\x3a\x03\x07\x05\x00", {"colors": ["RED", "BLUE", "RED"]}),
    "a group": (b"\x43\x08\x05\x44", {"group": {"x": 5}}),
    "groups are merged": (b"\x43\x44\x43\x08\x06\x08\x05\x44", {"group": {"x": 5}}),
    "a group that ends with a large byte": (b"\x43\x15\xff\xff\xff\xff\x44", {"group": {"x": None}}),
    "a message where the group should be": (b"\x42\x02\x08\x05", {}),
    "another wire type": (b"\x0d\x01\0\0\0", {}),
    "numbers of 64 bits are cut to 32": (b"\x08" + varint(2**32 + 5), {"n": 5}),
    "maps are in the order of their keys, the last value counts": (
        part(by_key={"b": {"n": 1}}) + part(by_key={"a": {"n": 2}}) + part(by_key={"b": {"s": "x"}}),
        {"by_key": [("a", {"n": 2, "s": None}), ("b", {"n": None, "s": "x"})]},
    ),
    "an entry without key and value": (b"\x4a\x00", {"by_key": [("", {"n": None, "s": None})]}),
    "required fields may come in parts": (
        b"\x52\x02\x08\x01\x52\x02\x10\x02",
        {"needy": {"one": 1, "two": 2}},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_the_wire_format(rule: str) -> None:
    value, expected = RULES[rule]
    MESSAGE.FromString(value)
    found = decode(value)
    assert found.failures == []
    assert found.rows.to_pylist() == [NOTHING | expected]


BROKEN: dict[str, tuple[bytes, str]] = {
    "a part of a merged message": (sized(4, b"\x08") + sized(4, b"\x05"), "ends too early (field 'sub'"),
    "a value that a oneof cleared": (sized(3, b"\x08") + part(s="x"), "ends too early"),
    "an entry that another replaces": (
        sized(9, b"\x0a\x01a\x12\x01\x08") + part(by_key={"a": {}}),
        "ends too early",
    ),
    "a message without a column": (sized(5, b"\x08"), "ends too early"),
    "an extension": (sized(100, b"\x08"), "ends too early"),
    "a required field": (sized(10, b"\x08\x01"), "a required field is missing: 'two' (field 'needy'"),
    "a required field of an extension": (sized(100, b"\x08\x01"), "a required field is missing: 'two'"),
    "a required field of an entry without a value": (sized(11, b""), "a required field is missing: 'one'"),
    "the end of another group": (b"\x43\x4c", "a group does not end"),
    "a group without an end": (b"\x43", "ends too early"),
    "a field number of zero": (b"\x00\x01", "number or wire type"),
    "a number of eleven bytes": (b"\x08" + b"\xff" * 10 + b"\x01", "64 bits"),
    "text that is not UTF-8": (sized(2, b"\xc3\x28"), "not UTF-8 (field 's'"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_message_is_a_failure_and_its_neighbours_are_rows(broken: str) -> None:
    value, reason = BROKEN[broken]
    good = part(n=4, sub={"subs": [{"n": 1}]}, by_key={"k": {"n": 2}}, colors=[7])
    found = decode(good, value, good)
    assert [one.value_index for one in found.failures] == [1]
    assert reason in found.failures[0].reason
    assert found.rows.slice(0, 1).equals(found.rows.slice(1, 1))
    assert found.indices().to_pylist() == [0, 2]


@pytest.mark.parametrize(
    "inside", [b"\x00\x05", b"\x80\x80\x00\x05", b"\x07", b"\x00", b"\xf8\xff\xff\xff\x1f\x05"]
)
def test_a_group_that_is_skipped_is_judged_as_in_google_protobuf(inside: bytes) -> None:
    value = b"\xe3\x03" + inside + b"\xe4\x03"  # no field has the number 60
    try:
        MESSAGE.FromString(value)
        is_good = True
    except library("message").DecodeError:
        is_good = False
    assert bool(decode(value).failures) != is_good


def nested(depth: int, *, inside: bytes = b"", twice: bool = False, number: int = 4) -> bytes:
    value = inside
    for _ in range(depth):
        value = sized(number, value) + (sized(number, b"") if twice else b"")
    return value


def test_the_depth_is_limited_as_in_google_protobuf() -> None:
    decoded = library("message").DecodeError
    for depth in range(95, 106):
        for value in (nested(depth), nested(depth, number=5), b"\x0b" * depth + b"\x0c" * depth):
            try:
                MESSAGE.FromString(value)
                is_good = True
            except decoded:
                is_good = False
            assert bool(decode(value).failures) != is_good, depth


def wide_column(depth: int) -> pa.DataType:
    kind = INNER
    for _ in range(depth):
        kind = pa.struct([("sub", kind), ("by_key", pa.map_(pa.string(), kind))])
    return kind


def hostile() -> dict[str, bytes]:
    entries = b"".join(sized(9, sized(1, b"%d" % -number)) for number in range(50_000))
    in_maps = b"\x08\x01"
    for _ in range(40):
        in_maps = b"".join(sized(9, sized(1, key) + sized(2, in_maps)) for key in (b"b", b"a"))[: 1 << 20]
    return {
        "merged at every level": nested(99, inside=b"\x08\x05", twice=True),
        "merged at every level of a oneof": nested(99, twice=True, number=3),
        "many parts of one message": sized(4, b"") * 300_000,
        "many entries, in the wrong order": entries,
        "the same key again and again": sized(9, sized(1, b"key")) * 100_000,
        "many empty groups": b"\x43\x44" * 300_000,
        "a length of 4 GiB": b"\x12\xff\xff\xff\xff\x0f",
        "a packed length of 4 GiB": b"\x3a\xff\xff\xff\xff\x0f\x00",
        "maps in maps": in_maps,
        "groups in groups without an end": b"\x0b" * 1_000_000,
    }


@pytest.mark.parametrize("name", hostile())
def test_hostile_bytes_cost_time_in_proportion(name: str) -> None:
    columns = pa.schema([("sub", wide_column(6)), ("by_key", pa.map_(pa.string(), wide_column(2)))])
    started = time.process_time()
    found = decode(hostile()[name], columns=columns)
    assert found.row_count + len(found.failures) == 1
    assert time.process_time() - started < 5
