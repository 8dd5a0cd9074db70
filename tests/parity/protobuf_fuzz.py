"""Fuzzes Protobuf: random message types, columns, values and rows, as google.protobuf reads and writes them.

The harnesses `protobuf` and `protobuf-types` of tests/fuzz run this in processes of their own, under
sanitizers if there are any.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.errors import RowError, SchemaError
from penstock.formats import _native, _native_encode
from penstock.formats.protobuf._plan import reading_plan, writing_plan
from penstock.formats.protobuf._types import MessageType, library
from tests.parity.protobuf_reference import MessageReader
from tests.parity.protobuf_reference_writer import MessageWriter

descriptor_pb2: Any = library("descriptor_pb2")
F = descriptor_pb2.FieldDescriptorProto
INTEGERS = (3, 5, 13, 15, 16, 17, 18, 7)
SCALARS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18)
KEYS = (3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18)
WIRE_OF_TYPE = {1: 1, 2: 5, 6: 1, 7: 5, 15: 5, 16: 1, 9: 2, 12: 2, 10: 3, 11: 2}
ODD_NUMBERS = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    300,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
TEXTS = (b"", b"a", b"key", b"\xc3\xa9", "\U0001f600".encode(), b"\xc3\x28", b"\xed\xa0\x80", b"long " * 30)
VALUES_PER_TYPE = 60
ROWS_PER_TYPE = 20


class Fuzz:
    """Makes message types, columns and values from a seed, and compares the two decoders."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0
        self.reasons: dict[int, object] = {}

    def run_once(self) -> None:
        """Compare one message type, with many values."""
        descriptor = self._descriptor()
        schema = pa.schema(self._columns(descriptor, 0))
        defaults = self.chance.random() < 0.3
        values = [self._mutated(self._message(descriptor, 0)) for _ in range(VALUES_PER_TYPE)]
        found = self._native(descriptor, schema, values, defaults)
        reader = MessageReader(descriptor, schema, reads_defaults=defaults)
        columns, positions, failures = reader.read(values)
        for position in range(len(values)):
            is_row = position in positions
            if is_row != (position in found):
                reason = dict(failures).get(position) or self.reasons.get(position)
                raise AssertionError(self._case(descriptor, schema, values[position], f"{is_row=} {reason}"))
        expected = pa.RecordBatch.from_arrays(columns, schema=schema)
        for row, position in enumerate(positions):
            wanted = [plain(column[row]) for column in expected.columns]
            if repr(wanted) != repr(found[position]):
                raise AssertionError(
                    self._case(
                        descriptor, schema, values[position], f"{wanted}\n{found[position]} {defaults=}"
                    )
                )
        self.count += len(values)
        self._write(descriptor, schema)

    def _write(self, descriptor: Any, schema: pa.Schema) -> None:
        """Compare what is written of random rows, one by one and together."""
        schema = pa.schema([one.with_nullable(True) for one in schema])
        if not len(schema):
            return  # Arrow has no rows without columns
        try:
            writer = MessageWriter("protobuf", descriptor, schema, "nil")
        except SchemaError:
            return  # a double column of a float field, which can only be read
        plan = writing_plan(descriptor, schema, "nil")
        rows = [[self._value(one) for one in schema] for _ in range(ROWS_PER_TYPE)]
        good = []
        for row in rows:
            batch = self._batch([row], schema)
            wanted = _outcome(partial(writer.write, batch, b"head"))
            found = _outcome(partial(_native_encode.encode_protobuf, batch, plan, b"head"))
            if not _is_same(descriptor, wanted, found):
                raise AssertionError(self._case(descriptor, schema, b"", f"{row}\n{wanted}\n{found}"))
            if found is not None:
                good.append((row, found[0]))
        batch = self._batch([rows[0], *(row for row, _ in good)], schema).slice(1)
        found = _native_encode.encode_protobuf(batch, plan, b"head").to_pylist()
        assert found == [value for _, value in good]

    def _batch(self, rows: list[list[Any]], schema: pa.Schema) -> pa.RecordBatch:
        columns = [pa.array([row[i] for row in rows], one.type) for i, one in enumerate(schema)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _value(self, column: pa.Field) -> Any:
        """Make a value of a column; null now and then where it may be."""
        kind = column.type
        if column.nullable and self.chance.random() < 0.15:
            return None
        if pa.types.is_struct(kind):
            fields = [kind.field(i) for i in range(kind.num_fields)]
            return {one.name: self._value(one) for one in fields}
        if pa.types.is_map(kind):
            return [(self._value(kind.key_field), self._value(kind.item_field)) for _ in range(3)]
        if pa.types.is_list(kind):
            return [self._value(kind.value_field) for _ in range(self.chance.randrange(4))]
        return self._whole(kind) if pa.types.is_integer(kind) else self.chance.choice(self._choices(kind))

    def _whole(self, kind: pa.DataType) -> int:
        wide = (-1, -128, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**63 - 1, -(2**63))
        number = self.chance.choice((0, 1, 2, 7, 100) if self.chance.random() < 0.8 else wide)
        return number if abs(number) < 2 ** (kind.bit_width - 1) else 3

    def _choices(self, kind: pa.DataType) -> tuple[Any, ...]:
        is_odd = self.chance.random() < 0.1
        if pa.types.is_timestamp(kind):
            return (0, 1, -1, 1_700_000_000, 2**62 if is_odd else 253_402_300_799)
        if pa.types.is_decimal(kind):
            return (Decimal(-1), Decimal(2**64)) if is_odd else (Decimal(0), Decimal(1), Decimal(2**64 - 1))
        if pa.types.is_floating(kind):
            return (0.0, -0.0, 1.5, float("inf"), float("nan"))
        if pa.types.is_boolean(kind):
            return (True, False)
        names = ("V0", "V1", "7", "-5") if is_odd else ("V0", "V1")
        return TEXTS if pa.types.is_binary(kind) else ("", "\u00e9", "long " * 60, *names)

    def _native(
        self, descriptor: Any, schema: pa.Schema, values: list[bytes], defaults: bool
    ) -> dict[int, list[Any]]:
        """Decode together, or in slices; return the row of each value that has one."""
        array = pa.array([b"before", *values], pa.binary())[1:]
        zeros = pa.repeat(pa.scalar(0, pa.int32()), len(array))
        plan = reading_plan(descriptor, schema, reads_defaults=defaults)
        columns, count, indices, failed, _ = _native.decode_protobuf(array, schema, [plan], zeros, zeros)
        rows = pa.RecordBatch.from_arrays(list(columns), schema=schema)
        rows.validate(full=True)
        self.reasons = {one[0]: one[1:] for one in failed}
        at = range(count) if indices is None else indices.to_pylist()
        assert count + len(failed) == len(values)
        return {position: [plain(column[row]) for column in columns] for row, position in enumerate(at)}

    def _case(self, descriptor: Any, schema: pa.Schema, value: bytes, what: str) -> str:
        made = descriptor_pb2.FileDescriptorProto()
        descriptor.file.CopyToProto(made)
        return f"{made}\n{schema}\n{value.hex()}\n{what}"

    # Message types

    def _descriptor(self) -> Any:
        pick, chance = self.chance.choice, self.chance.random
        is_proto2 = chance() < 0.5
        made = descriptor_pb2.FileDescriptorProto(
            name="fuzz.proto", package="f", syntax="proto2" if is_proto2 else "proto3"
        )
        made.dependency.append("google/protobuf/timestamp.proto")
        enum = made.enum_type.add(name="E")
        for i, number in enumerate((0, 1, 2, -5, 70_000)[: self.chance.randrange(1, 6)]):
            enum.value.add(name=f"V{i}", number=number)
        names = [f"M{i}" for i in range(self.chance.randrange(1, 4))]
        for name in names:
            message = made.message_type.add(name=name)
            if is_proto2 and chance() < 0.3:
                message.extension_range.add(start=100, end=200)
            numbers = self.chance.sample([*range(1, 20), 70, 3_000, 2**29 - 1], self.chance.randrange(1, 9))
            for number in numbers:
                self._add_field(message, number, pick(names), is_proto2)
            self._add_oneof(message, is_proto2)
        for message in made.message_type:
            if message.extension_range:
                made.extension.add(
                    name=f"x{message.name}",
                    number=100,
                    type=F.TYPE_MESSAGE,
                    type_name=f".f.{pick(names)}",
                    label=pick((1, 3)),
                    extendee=f".f.{message.name}",
                )
        files = descriptor_pb2.FileDescriptorSet(file=[made]).SerializeToString()
        return MessageType("f.M0", files).descriptor()

    def _add_field(self, message: Any, number: int, other: str, is_proto2: bool) -> None:
        chance, name = self.chance.random(), f"f{number}"
        label = self.chance.choice((1, 1, 3))
        if chance < 0.12:
            self._add_map(message, number, other)
        elif chance < 0.3:
            message.field.add(
                name=name, number=number, type=F.TYPE_MESSAGE, type_name=f".f.{other}", label=label
            )
        elif chance < 0.38:
            kind = ".google.protobuf.Timestamp"
            message.field.add(name=name, number=number, type=F.TYPE_MESSAGE, type_name=kind, label=label)
        elif chance < 0.46 and is_proto2:
            inner = message.nested_type.add(name=f"G{number}")
            for at in range(1, 4):
                self._add_scalar(inner, at, is_proto2)
            message.field.add(
                name=f"g{number}",
                number=number,
                type=F.TYPE_GROUP,
                label=label,
                type_name=f".f.{message.name}.G{number}",
            )
        else:
            self._add_scalar(message, number, is_proto2)

    def _add_scalar(self, message: Any, number: int, is_proto2: bool) -> None:
        kind, label = self.chance.choice(SCALARS), self.chance.choice((1, 1, 1, 3))
        made = message.field.add(name=f"f{number}", number=number, type=kind, label=label)
        if kind == F.TYPE_ENUM:
            made.type_name = ".f.E"
        if label == 3 and kind not in (9, 12) and self.chance.random() < 0.5:
            made.options.packed = self.chance.random() < 0.5
        if label == 1 and is_proto2 and self.chance.random() < 0.15:
            made.label = 2
        elif label == 1 and is_proto2 and self.chance.random() < 0.3:
            defaults = {
                9: "d\u00e9",
                12: "\\377x",
                8: "true",
                1: "-1.5",
                2: "nan",
                14: "V0",
                4: str(2**64 - 1),
            }
            made.default_value = defaults.get(kind, "7")
        elif label == 1 and not is_proto2 and self.chance.random() < 0.3:
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_f{number}")

    def _add_map(self, message: Any, number: int, other: str) -> None:
        entry = message.nested_type.add(name=f"F{number}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=self.chance.choice(KEYS), label=1)
        value = entry.field.add(name="value", number=2, type=self.chance.choice((*SCALARS, 11, 11)), label=1)
        if value.type == F.TYPE_ENUM:
            value.type_name = ".f.E"
        if value.type == F.TYPE_MESSAGE:
            value.type_name = self.chance.choice((f".f.{other}", ".google.protobuf.Timestamp"))
        message.field.add(
            name=f"f{number}",
            number=number,
            type=F.TYPE_MESSAGE,
            label=3,
            type_name=f".f.{message.name}.F{number}Entry",
        )

    def _add_oneof(self, message: Any, is_proto2: bool) -> None:
        """Put some of the singular fields into a oneof; real ones stand before those of `optional` fields."""
        singles = [
            one
            for one in message.field
            if one.label == 1 and not one.proto3_optional and not one.HasField("default_value")
        ]
        chosen = self.chance.sample(singles, min(len(singles), self.chance.randrange(4)))
        if len(chosen) < 2:
            return
        synthetic = [one.name for one in message.oneof_decl]
        del message.oneof_decl[:]
        for name in ("choice", *synthetic):
            message.oneof_decl.add(name=name)
        for one in message.field:
            if one.proto3_optional:
                one.oneof_index += 1
        for one in chosen:
            one.oneof_index = 0

    # Columns

    def _columns(self, descriptor: Any, depth: int) -> list[pa.Field]:
        found = []
        for one in descriptor.fields:
            if self.chance.random() < 0.25:
                continue
            kind = self._column_type(one, depth)
            if kind is not None:
                found.append(pa.field(one.name, kind, nullable=self.chance.random() < 0.95))
        self.chance.shuffle(found)
        if not found and depth:
            return [
                pa.field(one.name, kind) for one in descriptor.fields if (kind := self._column_type(one, 9))
            ][:1]
        return found

    def _column_type(self, one: Any, depth: int) -> pa.DataType | None:
        if one.is_repeated and one.message_type is not None and one.message_type.GetOptions().map_entry:
            fields = one.message_type.fields_by_name
            key, value = self._value_type(fields["key"], depth), self._value_type(fields["value"], depth)
            return None if value is None else pa.map_(key, value)
        kind = self._value_type(one, depth)
        return kind if kind is None or not one.is_repeated else pa.list_(kind)

    def _value_type(self, one: Any, depth: int) -> pa.DataType | None:
        pick = self.chance.choice
        if one.type in (F.TYPE_MESSAGE, F.TYPE_GROUP):
            if one.message_type.name == "Timestamp" and self.chance.random() < 0.7:
                return pa.timestamp(pick(("s", "ms", "us", "ns")), "UTC")
            columns = self._columns(one.message_type, depth + 1) if depth < 3 else []
            return pa.struct(columns) if columns else None
        kinds: dict[int, tuple[pa.DataType, ...]] = {
            1: (pa.float64(),),
            2: (pa.float32(), pa.float64()),
            8: (pa.bool_(),),
            9: (pa.string(),),
            12: (pa.binary(),),
            14: (pa.string(), pa.string(), pa.int32(), pa.int8()),
            4: (pa.decimal128(20, 0), pa.int64()),
            6: (pa.decimal128(22, 0), pa.int64()),
        }
        return pick(kinds.get(one.type, (pa.int64(), pa.int64(), pa.int32(), pa.int8())))

    # Values

    def _message(self, descriptor: Any, depth: int) -> bytes:
        """Write fields in any order: repeated, merged, unknown, of other wire types."""
        chance, parts = self.chance.random, []
        fields = list(descriptor.fields)
        for _ in range(self.chance.choice((0, 1, 3, 6, 12)) if depth < 6 else 0):
            one = self.chance.choice(fields)
            if chance() < 0.04:
                parts.append(self._unknown(self.chance.choice((one.number, 21, 100, 2**29 - 1)), 0))
            else:
                parts.append(self._occurrence(one, depth))
        if chance() < 0.8:
            parts.extend(self._occurrence(one, depth) for one in fields if one.is_required)
        return b"".join(parts)

    def _occurrence(self, one: Any, depth: int) -> bytes:
        if one.type == F.TYPE_GROUP:
            return (
                varint(one.number << 3 | 3)
                + self._message(one.message_type, depth + 1)
                + varint(one.number << 3 | 4)
            )
        if one.type == F.TYPE_MESSAGE:
            if one.message_type.name == "Timestamp":
                inner = self._timestamp()
            else:
                inner = self._message(one.message_type, depth + 1)
            return varint(one.number << 3 | 2) + varint(len(inner)) + inner
        if one.is_repeated and one.type not in (9, 12) and self.chance.random() < 0.5:
            packed = b"".join(self._scalar(one) for _ in range(self.chance.randrange(5)))
            return varint(one.number << 3 | 2) + varint(len(packed)) + packed
        return varint(one.number << 3 | WIRE_OF_TYPE.get(one.type, 0)) + self._scalar(one)

    def _timestamp(self) -> bytes:
        seconds, nanos = (
            self.chance.choice((0, 1, 1_700_000_000, 2**63)),
            self.chance.choice((0, 5, 999_999_999, 10**9)),
        )
        if self.chance.random() < 0.9:
            seconds, nanos = seconds % 2**33, nanos % 10**9
        return b"\x08" + varint(seconds) + b"\x10" + varint(nanos)

    def _scalar(self, one: Any) -> bytes:
        pick = self.chance.choice
        wire = WIRE_OF_TYPE.get(one.type, 0)
        if wire == 2:
            text = pick(TEXTS) if one.type == 12 or self.chance.random() < 0.1 else pick(TEXTS[:5])
            return varint(len(text)) + text
        if one.type == 1:
            return struct.pack("<d", pick((0.0, -0.0, 1.5, float("inf"))))
        if one.type == 2:
            return struct.pack("<f", pick((0.0, -0.0, 1.5, float("inf"))))
        number = pick(ODD_NUMBERS[:6] if self.chance.random() < 0.9 else ODD_NUMBERS)
        if wire:
            return (number % 2**32).to_bytes(4, "little") if wire == 5 else number.to_bytes(8, "little")
        if self.chance.random() < 0.02:
            return varint(number)[:-1] + bytes([varint(number)[-1] | 0x80, 0x80, 0])  # longer than it need be
        return varint(number)

    def _unknown(self, number: int, depth: int) -> bytes:
        wire = self.chance.choice((0, 1, 2, 3, 5))
        content = {0: b"\x05", 1: bytes(8), 2: b"\x02xx", 5: bytes(4)}.get(wire)
        if content is None:
            inner = b"" if depth > 2 else self._unknown(self.chance.choice((1, 5, 2_000)), depth + 1)
            content = inner + varint(number << 3 | 4)
        return varint(number << 3 | wire) + content

    def _mutated(self, value: bytes) -> bytes:
        if self.chance.random() < 0.7 or not value:
            return value
        data, kind = bytearray(value), self.chance.randrange(4)
        at = self.chance.randrange(len(data))
        if kind == 0:
            data[at] = self.chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, self.chance.randrange(256)))
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = self.chance.choice(
                (b"\xff" * 12, b"\x80\x80\x00", b"\x0b", b"\x0c", b"\x00", b"\x07")
            )
        else:
            del data[at : at + self.chance.randrange(1, 4)]
        return bytes(data)


def _outcome(action: Callable[[], Any]) -> Any:
    """Return what an action returns, None where a row cannot be written."""
    try:
        return action().to_pylist()
    except (RowError, _native_encode.RowFailed):
        return None


def _is_same(descriptor: Any, wanted: list[bytes] | None, found: list[bytes] | None) -> bool:
    """Return whether two outcomes are the same but for the order of map entries, which has no meaning."""
    if wanted == found:
        return True
    if wanted is None or found is None or len(wanted[0]) != len(found[0]):
        return False
    message = library("message_factory").GetMessageClass(descriptor)
    one, other = (_text(message.FromString(outcome[0].removeprefix(b"head"))) for outcome in (wanted, found))
    return one == other


def _text(message: Any) -> str:
    """Return a message as text, where the entries of maps are sorted."""
    text: str = library("text_format").MessageToString(message, print_unknown_fields=True)
    return text


def plain(value: pa.Scalar) -> Any:
    """Return a value for comparison; timestamps as numbers, because datetime ends with the year 9999."""
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_timestamp(kind):
        return value.value
    if pa.types.is_struct(kind):
        return [plain(value[i]) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        entries = value.values
        return [(plain(one[0]), plain(one[1])) for one in entries]
    if pa.types.is_list(kind):
        return [plain(one) for one in value.values]
    return value.as_py()


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
