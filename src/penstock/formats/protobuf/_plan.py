"""Makes the plan that the native code follows (native/protobuf.h), from a message type and a table's columns.

Runs on driver and executors. Invariant: a plan has every field of every message that a value may hold, also
fields without a column, because a message with a broken part is not valid. Columns meet fields by name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

import pyarrow as pa

from penstock.formats.protobuf._fields import (
    FieldPair,
    entry_pairs,
    is_enum,
    is_message,
    is_timestamp,
    mismatch,
    pairs_of,
)

_FIELD = struct.Struct("@10iq")
_MESSAGE = struct.Struct("@8i")

# FieldDescriptor.TYPE_*: the numbers are Protobuf's own and never change.
_DOUBLE, _FLOAT, _INT64, _INT32, _STRING, _BYTES = 1, 2, 3, 5, 9, 12
_UTF8_NOT_VERIFIED = 3
"""FeatureSet.UTF8_VALIDATION_NONE: proto2's default."""


class _Flag(IntFlag):
    """Kept in step with native/protobuf.h."""

    REPEATED = 1
    MAP = 2
    CHECKS_UTF8 = 4
    CLOSED_ENUM = 8
    GIVES_DEFAULT = 16
    IS_REQUIRED = 32
    HAS_REQUIRED = 64
    IS_PACKED = 128
    HAS_PRESENCE = 256


class _MessageFlag(IntFlag):
    """Kept in step with native/protobuf.h."""

    IS_TIMESTAMP = 1
    IS_ENTRY = 2


@dataclass(frozen=True)
class ProtobufPlan:
    """A plan in the native layout."""

    messages: bytes
    fields: bytes
    columns: bytes
    enum_numbers: bytes
    enum_symbols: bytes
    symbols: bytes
    symbol_offsets: bytes
    field_count_max: int


@dataclass
class _Field:
    number: int
    type: int
    flags: int
    name: int
    target: int = -1
    message: int = -1
    first_value: int = 0
    value_count: int = 0
    next_in_oneof: int = -1
    default_text: int = 0
    default_bits: int = 0

    def pack(self) -> bytes:
        return _FIELD.pack(
            self.number,
            self.type,
            self.flags,
            self.target,
            self.message,
            self.first_value,
            self.value_count,
            self.next_in_oneof,
            self.name,
            self.default_text,
            self.default_bits,
        )


@dataclass
class _Message:
    flags: int = 0
    checked: int = -1
    fields: list[_Field] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)


def reading_plan(
    descriptor: Any, columns: pa.Schema, *, reads_defaults: bool, may_lack: bool = False
) -> ProtobufPlan:
    """Plan how messages of one type become columns.

    Args:
        descriptor: The message type.
        columns: The columns.
        reads_defaults: Whether an absent field gives its default, instead of null.
        may_lack: Whether columns may have no field; they are null then.

    Raises:
        SchemaError: a column has no field, or a field of another type.
    """
    return _Compiler(reads_defaults=reads_defaults, may_lack=may_lack).plan(descriptor, columns)


def writing_plan(descriptor: Any, columns: pa.Schema, null_literal: str) -> ProtobufPlan:
    """Plan how columns become messages of one type.

    Args:
        descriptor: The message type.
        columns: The columns.
        null_literal: The text that is written for a null in an array or map of strings.

    Raises:
        SchemaError: a column has no field, or a field of another type.
    """
    return _Compiler(writes=True, null_literal=null_literal).plan(descriptor, columns)


class _Compiler:
    def __init__(
        self,
        *,
        reads_defaults: bool = False,
        may_lack: bool = False,
        writes: bool = False,
        null_literal: str = "",
    ) -> None:
        self._reads_defaults = reads_defaults
        self._may_lack = may_lack
        self._writes = writes
        self._null_literal = null_literal.encode()
        self._messages: list[_Message] = []
        self._checked: dict[str, int] = {}
        self._required: dict[str, bool] = {}
        self._enums: dict[str, tuple[int, int]] = {}
        self._numbers: list[int] = []
        self._number_symbols: list[int] = []
        self._symbols: list[bytes] = []

    def plan(self, descriptor: Any, columns: pa.Schema) -> ProtobufPlan:
        self._row(descriptor, list(columns), "")
        messages: list[bytes] = []
        fields: list[bytes] = []
        targets: list[int] = []
        for one in self._messages:
            counts = (len(one.fields), len(targets), len(one.columns))
            required = sum(bool(of.flags & _Flag.IS_REQUIRED) for of in one.fields)
            messages.append(_MESSAGE.pack(len(fields), *counts, required, one.flags, one.checked, 0))
            fields.extend(of.pack() for of in one.fields)
            targets.extend(one.columns)
        offsets = [0]
        for symbol in self._symbols:
            offsets.append(offsets[-1] + len(symbol))
        return ProtobufPlan(
            b"".join(messages),
            b"".join(fields),
            _packed(targets),
            _packed(self._numbers),
            _packed(self._number_symbols),
            b"".join(self._symbols),
            _packed(offsets),
            max(len(one.fields) for one in self._messages),
        )

    # -- messages

    def _row(self, descriptor: Any, columns: list[pa.Field], path: str) -> int:
        """Add a message whose fields become the columns of a row."""
        index, made = self._added()
        pairs = pairs_of(descriptor, columns, path, writes=self._writes, may_lack=self._may_lack)
        of_number = {pair.field.number: (i, pair) for i, (pair, _) in enumerate(pairs) if pair is not None}
        position = {}
        for one in _all_fields(descriptor):
            target, pair = of_number.get(one.number, (-1, None))
            position[one.number] = len(made.fields)
            made.fields.append(self._field(one, pair, target))
        _close_oneofs(descriptor, made.fields, position)
        made.columns = [-1 if pair is None else position[pair.field.number] for pair, _ in pairs]
        made.checked = self._check(descriptor)
        return index

    def _entry(self, pair: FieldPair) -> int:
        """Add the entry of a map, whose two fields become the map's two columns."""
        index, made = self._added()
        made.flags = _MessageFlag.IS_ENTRY
        for target, one in enumerate(entry_pairs(pair)):
            made.fields.append(self._field(one.field, one, target))
            made.fields[-1].flags |= _Flag.GIVES_DEFAULT
            made.columns.append(target)
        made.checked = self._check(pair.field.message_type)
        return index

    def _timestamp(self, pair: FieldPair) -> int:
        index, made = self._added()
        made.flags = _MessageFlag.IS_TIMESTAMP
        targets = {"seconds": (0, _INT64), "nanos": (1, _INT32)}
        for one in _all_fields(pair.field.message_type):
            target, kind = targets.get(one.name, (-1, one.type))
            if one.type != kind or (target >= 0 and one.is_repeated):
                raise mismatch(pair, pair.column.type)
            made.fields.append(self._field(one, None, -1))
            made.fields[-1].target = target
        made.checked = self._check(pair.field.message_type)
        return index

    def _check(self, descriptor: Any) -> int:
        """Add a message without columns, once for each type. A plan to write needs none."""
        if self._writes:
            return -1
        if descriptor.full_name in self._checked:
            return self._checked[descriptor.full_name]
        index, made = self._added()
        self._checked[descriptor.full_name] = made.checked = index
        if descriptor.GetOptions().map_entry:
            made.flags = _MessageFlag.IS_ENTRY
        fields = _all_fields(descriptor)
        for one in fields:
            made.fields.append(self._field(one, None, -1))
        _close_oneofs(descriptor, made.fields, {one.number: i for i, one in enumerate(fields)})
        return index

    def _added(self) -> tuple[int, _Message]:
        self._messages.append(_Message())
        return len(self._messages) - 1, self._messages[-1]

    # -- fields

    def _field(self, one: Any, pair: FieldPair | None, target: int) -> _Field:
        made = _Field(one.number, one.type, self._flags(one, pair), self._symbol(one.name.encode()), target)
        if is_enum(one):
            made.first_value, made.value_count = self._enum(one.enum_type)
        if is_message(one):
            made.message = self._check(one.message_type) if pair is None else self._inner(one, pair)
        elif pair is not None and self._writes:
            self._set_default(made, self._instead_of_null(one))
        elif pair is not None and not one.is_repeated:
            self._set_default(made, one.default_value)
        return made

    def _instead_of_null(self, one: Any) -> Any:
        """Return what is written for a null among elements, as in Flink."""
        if is_enum(one):
            return one.enum_type.values[0].number
        return {_STRING: self._null_literal, _BYTES: b""}.get(one.type, 0)

    def _inner(self, one: Any, pair: FieldPair) -> int:
        if pair.kind == "map":
            return self._entry(pair)
        kind = pair.column.type
        path = pair.path
        if pair.kind == "list":
            kind, path = kind.value_type, f"{path}[]"
        if is_timestamp(one, kind):
            return self._timestamp(pair)
        return self._row(one.message_type, [kind.field(i) for i in range(kind.num_fields)], path)

    def _flags(self, one: Any, pair: FieldPair | None) -> int:
        flags = _Flag(0)
        if one.is_repeated:
            is_map = is_message(one) and one.message_type.GetOptions().map_entry
            flags |= _Flag.MAP if is_map else _Flag.REPEATED
        if one.type == _STRING and _verifies_utf8(one):
            flags |= _Flag.CHECKS_UTF8
        if is_enum(one) and one.enum_type.is_closed:
            flags |= _Flag.CLOSED_ENUM
        if one.is_required:
            flags |= _Flag.IS_REQUIRED
        if is_message(one) and self._has_required(one.message_type):
            flags |= _Flag.HAS_REQUIRED
        if one.is_repeated and one.is_packed:
            flags |= _Flag.IS_PACKED
        if one.has_presence or one.containing_type.GetOptions().map_entry:
            flags |= _Flag.HAS_PRESENCE
        if pair is None or self._reads_defaults:
            return flags | _Flag.GIVES_DEFAULT
        always_has_value = not pair.column.nullable if one.is_repeated else not one.has_presence
        return flags | (_Flag.GIVES_DEFAULT if always_has_value else 0)

    def _has_required(self, descriptor: Any) -> bool:
        """Return whether a required field is in a message, at any depth."""
        if descriptor.full_name not in self._required:
            found = _reachable(descriptor)
            self._required[descriptor.full_name] = any(
                of.is_required for one in found for of in _all_fields(one)
            )
        return self._required[descriptor.full_name]

    def _set_default(self, made: _Field, value: Any) -> None:
        if isinstance(value, str | bytes):
            made.default_text = self._symbol(value.encode() if isinstance(value, str) else value)
        elif made.type in (_DOUBLE, _FLOAT):
            packed = struct.pack("<d", value) if made.type == _DOUBLE else struct.pack("<f4x", value)
            made.default_bits = int.from_bytes(packed, "little", signed=True)
        else:
            bits = int(value) & 0xFFFF_FFFF_FFFF_FFFF
            made.default_bits = bits - (1 << 64) if bits >> 63 else bits

    def _enum(self, enum: Any) -> tuple[int, int]:
        """Add the values of an enum: by name to write, else by number with the first name of each."""
        if enum.full_name not in self._enums:
            values = [(value.number, value.name.encode()) for value in enum.values]
            if self._writes:
                values.sort(key=lambda value: value[1])
            else:
                values = sorted(dict(reversed(values)).items())
            self._enums[enum.full_name] = len(self._numbers), len(values)
            for number, name in values:
                self._numbers.append(number)
                self._number_symbols.append(self._symbol(name))
        return self._enums[enum.full_name]

    def _symbol(self, text: bytes) -> int:
        self._symbols.append(text)
        return len(self._symbols) - 1


def _all_fields(descriptor: Any) -> list[Any]:
    extensions = descriptor.file.pool.FindAllExtensions(descriptor) if descriptor.is_extendable else ()
    return sorted([*descriptor.fields, *extensions], key=lambda one: one.number)


def _reachable(descriptor: Any) -> Iterable[Any]:
    """Return a message type and all message types that are in it."""
    found, todo = {descriptor.full_name: descriptor}, [descriptor]
    while todo:
        for one in _all_fields(todo.pop()):
            if is_message(one) and one.message_type.full_name not in found:
                found[one.message_type.full_name] = one.message_type
                todo.append(one.message_type)
    return found.values()


def _close_oneofs(descriptor: Any, fields: Sequence[_Field], position: dict[int, int]) -> None:
    """Make a ring of the fields of each oneof. `optional` fields of proto3 are alone in theirs."""
    for oneof in descriptor.oneofs:
        members = [position[one.number] for one in oneof.fields]
        if len(members) > 1:
            for i, at in enumerate(members):
                fields[at].next_in_oneof = members[(i + 1) % len(members)]


def _verifies_utf8(one: Any) -> bool:
    # No public way tells it for all editions; the file's syntax does not.
    return bool(one._GetFeatures().utf8_validation != _UTF8_NOT_VERIFIED)  # noqa: SLF001 - see above


def _packed(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"@{len(numbers)}i", *numbers)


__all__ = ["ProtobufPlan", "reading_plan", "writing_plan"]
