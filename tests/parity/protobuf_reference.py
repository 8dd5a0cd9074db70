"""Protobuf messages to columns by the `protobuf` package: the judge of the native decoder.

A message that does not fit is found, and the others become rows. Maps come in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from penstock.formats.protobuf._fields import (
    FieldPair,
    entry_pairs,
    is_enum,
    is_message,
    is_timestamp,
    pairs_of,
)
from penstock.formats.protobuf._types import library

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

Messages: TypeAlias = Sequence[Any]
ColumnReader: TypeAlias = Callable[[Messages], pa.Array]
ArrayMaker: TypeAlias = Callable[[Sequence[Any]], pa.Array]

PIECE_BYTES = 1 << 20
"""Messages are several times larger as objects than as bytes, so they are read in pieces of this size."""

_NANOS = 10**9


class UnfitError(Exception):
    """A message has a value that its column cannot hold."""


class MessageReader:
    """Reads messages of one type to columns."""

    def __init__(
        self, descriptor: Any, schema: pa.Schema, *, reads_defaults: bool, may_lack: bool = False
    ) -> None:
        """Prepare.

        Args:
            descriptor: The message type.
            schema: The columns that are wanted.
            reads_defaults: Whether what a message does not have has its default, instead of null.
            may_lack: Whether columns may have no field; they are null then.

        Raises:
            SchemaError: a field and its column do not go together.
        """
        self._schema = schema
        self._class = library("message_factory").GetMessageClass(descriptor)
        self._decode_error = library("message").DecodeError
        pairs = pairs_of(descriptor, schema, "", writes=False, may_lack=may_lack)
        self._readers = [_column(pair, column, reads_defaults, may_lack) for pair, column in pairs]

    def read(self, values: Sequence[bytes]) -> tuple[list[pa.Array], list[int], list[tuple[int, str]]]:
        """Return the columns, the position of each row's value, and position and reason of each failure."""
        pieces: list[list[pa.Array]] = []
        positions: list[int] = []
        failures: list[tuple[int, str]] = []
        for start, stop in _pieces(values):
            messages = self._parsed(values, start, stop, failures)
            bad: dict[int, str] = {}
            arrays = self._arrays([message for _, message in messages], bad)
            pieces.append(arrays)
            positions.extend(at for i, (at, _) in enumerate(messages) if i not in bad)
            failures.extend((messages[i][0], reason) for i, reason in bad.items())
        columns = [
            pa.concat_arrays([piece[i] for piece in pieces]) if pieces else pa.array([], field.type)
            for i, field in enumerate(self._schema)
        ]
        return columns, positions, sorted(failures)

    def _parsed(
        self, values: Sequence[bytes], start: int, stop: int, failures: list[tuple[int, str]]
    ) -> list[tuple[int, Any]]:
        parse, messages = self._class.FromString, []
        for at in range(start, stop):
            try:
                message = parse(values[at])
                if not message.IsInitialized():
                    # Not FindInitializationErrors: in protobuf 7.36 it may crash the process.
                    failures.append((at, "a required field is missing"))
                    continue
            except self._decode_error:
                failures.append((at, f"the bytes are not a message '{self._class.DESCRIPTOR.full_name}'"))
                continue
            messages.append((at, message))
        return messages

    def _arrays(self, messages: list[Any], bad: dict[int, str]) -> list[pa.Array]:
        """Read all columns; positions of messages that do not fit are put into `bad`."""
        try:
            return [read(messages) for read in self._readers]
        except UnfitError:
            self._find_bad(messages, 0, bad)
        good = [message for i, message in enumerate(messages) if i not in bad]
        return [read(good) for read in self._readers]

    def _find_bad(self, messages: list[Any], start: int, bad: dict[int, str]) -> None:
        """Halve until only those are left that do not fit."""
        try:
            for read in self._readers:
                read(messages)
        except UnfitError as unfit:
            if len(messages) == 1:
                bad[start] = str(unfit)
                return
            half = len(messages) // 2
            self._find_bad(messages[:half], start, bad)
            self._find_bad(messages[half:], start + half, bad)


def _pieces(values: Sequence[bytes]) -> list[tuple[int, int]]:
    pieces, start, size_bytes = [], 0, 0
    for at, value in enumerate(values):
        size_bytes += len(value)
        if size_bytes >= PIECE_BYTES or at - start >= 4_096:
            pieces.append((start, at + 1))
            start, size_bytes = at + 1, 0
    return [*pieces, (start, len(values))] if start < len(values) else pieces


# -- columns ------------------------------------------------------------------------------------------------


def _column(pair: FieldPair | None, column: pa.Field, reads_defaults: bool, may_lack: bool) -> ColumnReader:
    if pair is None:
        return _absent(column)
    if pair.kind == "single":
        read = _single_column(pair, reads_defaults, may_lack)
    elif pair.kind == "list":
        read = _list_column(pair, reads_defaults, may_lack)
    else:
        read = _map_column(pair, reads_defaults, may_lack)

    def checked(messages: Messages) -> pa.Array:
        try:
            found = read(messages)
        except (pa.ArrowInvalid, OverflowError, UnicodeDecodeError) as error:
            raise UnfitError(f"field '{pair.path}' does not fit into {column.type}: {error}") from None
        if not column.nullable and found.null_count:
            raise UnfitError(f"field '{pair.path}' is not there, and its column is declared NOT NULL")
        return found

    return checked


def _absent(column: pa.Field) -> ColumnReader:
    def read(messages: Messages) -> pa.Array:
        if messages and not column.nullable:
            raise UnfitError(f"the schema has no field '{column.name}', and its column is declared NOT NULL")
        return pa.nulls(len(messages), column.type)

    return read


def _single_column(pair: FieldPair, reads_defaults: bool, may_lack: bool) -> ColumnReader:
    name = pair.field.name
    get, has = attrgetter(name), _has(pair.field)
    make = _maker(pair, pair.field, pair.column.type, reads_defaults, may_lack)
    if reads_defaults or not pair.field.has_presence:
        return lambda messages: make(list(map(get, messages)))

    if is_message(pair.field) or pair.field.default_value:
        return lambda messages: make([get(one) if has(one, name) else None for one in messages])

    def read(messages: Messages) -> pa.Array:
        # What is not empty or zero, the default, is there; that saves half of the calls.
        values = map(get, messages)
        return make(
            [
                value or (value if has(one, name) else None)
                for one, value in zip(messages, values, strict=True)
            ]
        )

    return read


def _has(field: Any) -> Callable[[Any, str], bool]:
    """The class's own HasField: a field of that name would hide it on a message."""
    found: Callable[[Any, str], bool] = (
        library("message_factory").GetMessageClass(field.containing_type).HasField
    )
    return found


def _list_column(pair: FieldPair, reads_defaults: bool, may_lack: bool) -> ColumnReader:
    get, kind = attrgetter(pair.field.name), pair.column.type
    inner = FieldPair(pair.field, kind.value_field, f"{pair.path}[]")
    make = _maker(inner, pair.field, kind.value_type, reads_defaults, may_lack)
    keeps_empty = reads_defaults or not pair.column.nullable

    def read(messages: Messages) -> pa.Array:
        lists = [get(one) for one in messages]
        values = make(list(chain.from_iterable(lists)))
        return _nested(kind, [len(one) for one in lists], keeps_empty, [values])

    return read


def _map_column(pair: FieldPair, reads_defaults: bool, may_lack: bool) -> ColumnReader:
    get, kind = attrgetter(pair.field.name), pair.column.type
    key, item = entry_pairs(pair)
    make_keys = _maker(key, key.field, kind.key_type, reads_defaults, may_lack)
    make_items = _maker(item, item.field, kind.item_type, reads_defaults, may_lack)
    keeps_empty = reads_defaults or not pair.column.nullable
    entries = pa.struct([kind.key_field, kind.item_field])

    def read(messages: Messages) -> pa.Array:
        maps = [get(one) for one in messages]
        ordered = [sorted(one, key=lambda key: (isinstance(key, bytes), key)) for one in maps]
        keys = make_keys(list(chain.from_iterable(ordered)))
        items = make_items([one[key] for one, keys in zip(maps, ordered, strict=True) for key in keys])
        both = pa.Array.from_buffers(entries, len(keys), [None], children=[keys, items])
        return _nested(kind, [len(one) for one in ordered], keeps_empty, [both])

    return read


def _nested(
    kind: pa.DataType, lengths: Sequence[int], keeps_empty: bool, children: list[pa.Array]
) -> pa.Array:
    offsets, total = [0], 0
    for length in lengths:
        total += length
        offsets.append(total)
    validity = None if keeps_empty else _validity([length > 0 for length in lengths])
    buffer = pa.array(offsets, pa.int32()).buffers()[1]
    return pa.Array.from_buffers(kind, len(lengths), [validity, buffer], children=children)


def _validity(flags: Sequence[bool]) -> pa.Buffer | None:
    return None if all(flags) else pa.array(flags, pa.bool_()).buffers()[1]


# -- values -------------------------------------------------------------------------------------------------


def _maker(
    pair: FieldPair, field: Any, kind: pa.DataType, reads_defaults: bool, may_lack: bool
) -> ArrayMaker:
    """What makes an array of a field's values, None among them."""
    if is_message(field):
        if is_timestamp(field, kind):
            return _timestamps(kind)
        return _structs(pair, field, kind, reads_defaults, may_lack)
    if is_enum(field) and pt.is_string(kind):
        names = enum_names(field)
        # A number without a name comes from a newer schema; its digits keep it apart and can be written.
        return lambda values: pa.array(
            [None if one is None else names.get(one) or str(one) for one in values], kind
        )
    if is_uint64(field) and pt.is_decimal(kind):
        return lambda values: pa.array([None if one is None else Decimal(one) for one in values], kind)
    return lambda values: pa.array(values, kind)


def _structs(
    pair: FieldPair, field: Any, kind: pa.DataType, reads_defaults: bool, may_lack: bool
) -> ArrayMaker:
    message_type = field.message_type
    columns = [kind.field(i) for i in range(kind.num_fields)]
    pairs = pairs_of(message_type, columns, pair.path, writes=False, may_lack=may_lack)
    readers = [_column(found, column, reads_defaults, may_lack) for found, column in pairs]

    def make(values: Sequence[Any]) -> pa.Array:
        present = [one for one in values if one is not None]
        children = [read(present) for read in readers]
        if len(present) == len(values):
            return pa.Array.from_buffers(kind, len(values), [None], children=children)
        found = pa.Array.from_buffers(kind, len(present), [None], children=children)
        positions, at = [], 0
        for one in values:
            positions.append(None if one is None else at)
            at += one is not None
        return found.take(pa.array(positions, pa.int32()))

    return make


def _timestamps(kind: pa.DataType) -> ArrayMaker:
    per_second = PER_SECOND[kind.unit]
    nanos_each = _NANOS // per_second

    def stored(one: Any) -> int:
        if not 0 <= one.nanos < _NANOS:
            raise OverflowError(f"{one.nanos} nanoseconds are not part of a second")
        return int(one.seconds * per_second + one.nanos // nanos_each)

    def make(values: Sequence[Any]) -> pa.Array:
        return pa.array([None if one is None else stored(one) for one in values], pa.int64()).view(kind)

    return make


def is_uint64(field: Any) -> bool:
    """Return whether a field may hold a number that is too large for a bigint."""
    return bool(field.cpp_type == field.CPPTYPE_UINT64)


def enum_names(field: Any) -> dict[int, str]:
    """Return the names of an enum's numbers. The first name counts where two have the same number."""
    names: dict[int, str] = {}
    for value in field.enum_type.values:
        names.setdefault(value.number, value.name)
    return names
