"""Columns to Protobuf messages by the `protobuf` package: the judge of the native encoder.

The order of map entries is not to be compared, because protobuf 7.36.2 sorts them wrongly. Its
SerializeToString() is not used: it can end the process with a segmentation fault if required fields lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.errors import RowError
from penstock.formats.protobuf._fields import (
    FieldPair,
    entry_pairs,
    is_enum,
    is_message,
    is_timestamp,
    pairs_of,
)
from penstock.formats.protobuf._types import library
from tests.parity.protobuf_reference import PER_SECOND

Rows: TypeAlias = Sequence[int]
"""The row of the batch that each message belongs to."""
ColumnWriter: TypeAlias = Callable[[Sequence[Any], pa.Array, Rows], None]

_NANOS = 10**9
_SECONDS_MIN, _SECONDS_MAX = -62_135_596_800, 253_402_300_799  # the years 1 to 9999, as Protobuf has it


class UnwritableError(Exception):
    """A row has a value that its field cannot hold."""

    def __init__(self, row: int, path: str, reason: str) -> None:
        super().__init__(reason)
        self.row, self.path, self.reason = row, path, reason


class MessageWriter:
    """Writes columns as messages of one type."""

    def __init__(self, format_name: str, descriptor: Any, schema: pa.Schema, null_literal: str) -> None:
        """Prepare.

        Args:
            format_name: For messages.
            descriptor: The message type.
            schema: The columns.
            null_literal: What a null in an array or map of strings is written as.

        Raises:
            SchemaError: a field and its column do not go together.
        """
        self._format_name = format_name
        self._class = library("message_factory").GetMessageClass(descriptor)
        self._writers = _columns(descriptor, [*schema], "", null_literal)

    def write(self, rows: pa.RecordBatch, header: bytes = b"") -> pa.Array:
        """Return a value for each row, behind `header`.

        Raises:
            RowError: a row cannot be written.
        """
        messages = [self._class() for _ in range(rows.num_rows)]
        try:
            for write, column in zip(self._writers, rows.columns, strict=True):
                write(messages, column, range(rows.num_rows))
            values = [header + self._serialized(row, one) for row, one in enumerate(messages)]
        except UnwritableError as failed:
            raise self._row_error(failed) from None
        return pa.array(values, pa.binary())

    def _serialized(self, row: int, message: Any) -> bytes:
        if not message.IsInitialized():
            raise UnwritableError(row, "", "a required field is missing")
        value: bytes = message.SerializePartialToString()
        return value

    def _row_error(self, failed: UnwritableError) -> RowError:
        where = f"column '{failed.path}' of row {failed.row}" if failed.path else f"row {failed.row}"
        return RowError(
            f"Format '{self._format_name}' cannot write {where} of the batch: {failed.reason}. Nothing of "
            "the batch was written by this call; correct or filter the row.",
            row=failed.row,
            column=failed.path,
            format=self._format_name,
        )


def _columns(descriptor: Any, columns: list[pa.Field], path: str, null_literal: str) -> list[ColumnWriter]:
    writers = {"single": _single_column, "list": _list_column, "map": _map_column}
    return [
        writers[pair.kind](pair, null_literal)
        for pair, _ in pairs_of(descriptor, columns, path, writes=True)
        if pair is not None
    ]


def _single_column(pair: FieldPair, null_literal: str) -> ColumnWriter:
    name = pair.field.name
    if is_message(pair.field):
        fill = _filler(pair, pair.field, pair.column.type, null_literal)

        def write_messages(messages: Sequence[Any], column: pa.Array, rows: Rows) -> None:
            present = pc.indices_nonzero(column.is_valid()).to_pylist()
            inner = [getattr(messages[i], name) for i in present]
            for one in inner:
                one.SetInParent()
            fill(inner, column.filter(column.is_valid()), [rows[i] for i in present])

        return write_messages
    convert = _converter(pair.field, pair.column.type)

    def write(messages: Sequence[Any], column: pa.Array, rows: Rows) -> None:
        at = 0
        try:
            for at, value in enumerate(column.to_pylist()):
                if value is not None:
                    setattr(messages[at], name, convert(value))
        except (ValueError, TypeError) as error:
            raise UnwritableError(rows[at], pair.path, str(error)) from None

    return write


def _list_column(pair: FieldPair, null_literal: str) -> ColumnWriter:
    name, kind, path = pair.field.name, pair.column.type, f"{pair.path}[]"
    if is_message(pair.field):
        fill = _filler(
            FieldPair(pair.field, kind.value_field, path), pair.field, kind.value_type, null_literal
        )

        def write_messages(messages: Sequence[Any], column: pa.Array, rows: Rows) -> None:
            inner: list[Any] = []
            owners: list[int] = []
            for message, count, row in zip(messages, _lengths(column), rows, strict=True):
                target = getattr(message, name)
                inner.extend(target.add() for _ in range(count))
                owners.extend([row] * count)
            _fill_present(fill, inner, column.flatten(), owners)

        return write_messages
    convert = _converter(pair.field, kind.value_type)
    default = _default(pair.field, null_literal)

    def write(messages: Sequence[Any], column: pa.Array, rows: Rows) -> None:
        at = 0
        try:
            for at, values in enumerate(column.to_pylist()):
                getattr(messages[at], name).extend(
                    default if value is None else convert(value) for value in values or ()
                )
        except (ValueError, TypeError) as error:
            raise UnwritableError(rows[at], path, str(error)) from None

    return write


def _map_column(pair: FieldPair, null_literal: str) -> ColumnWriter:
    key, item = entry_pairs(pair)
    name, path = pair.field.name, key.path
    has_messages = is_message(item.field)
    fill = _filler(item, item.field, pair.column.type.item_type, null_literal) if has_messages else None
    convert = _converter(item.field, pair.column.type.item_type)
    convert_key = _converter(key.field, pair.column.type.key_type)
    default = None if has_messages else _default(item.field, null_literal)

    def write_one(target: Any, keys: list[Any], items: list[Any] | None) -> list[Any]:
        """Put the entries into a map; returns its messages, to be filled."""
        inner = [target[one] for one in keys] if items is None else []
        for one, value in zip(keys, items or (), strict=False):
            target[one] = default if value is None else convert(value)
        if len(target) < len(keys):
            raise ValueError("a key is there twice")
        return inner

    def write(messages: Sequence[Any], column: pa.Array, rows: Rows) -> None:
        keys, values = _entries(column)
        names, plain = (
            [convert_key(one) for one in keys.to_pylist()],
            None if has_messages else values.to_pylist(),
        )
        inner: list[Any] = []
        owners: list[int] = []
        at, start = 0, 0
        try:
            for at, count in enumerate(_lengths(column)):
                items = None if plain is None else plain[start : start + count]
                inner += write_one(getattr(messages[at], name), names[start : start + count], items)
                owners += [rows[at]] * count
                start += count
        except (ValueError, TypeError) as error:
            raise UnwritableError(rows[at], path, str(error)) from None
        if fill is not None:
            _fill_present(fill, inner, values, owners)

    return write


def _lengths(column: pa.Array) -> list[int]:
    """The number of elements of each list or map; 0 for null."""
    return [length or 0 for length in pc.list_value_length(_as_list(column)).to_pylist()]


def _entries(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The keys and values of all maps, those under null maps left out."""
    entries = _as_list(column).flatten()
    return entries.field(0), entries.field(1)


def _as_list(column: pa.Array) -> pa.Array:
    kind = column.type
    if not pt.is_map(kind):
        return column
    return column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))


def _fill_present(fill: ColumnWriter, inner: list[Any], values: pa.Array, rows: Rows) -> None:
    """Fill the messages of elements that are there; the others stay empty, as in Flink."""
    if values.null_count:
        present = pc.indices_nonzero(values.is_valid()).to_pylist()
        inner, rows = [inner[i] for i in present], [rows[i] for i in present]
        values = values.filter(values.is_valid())
    fill(inner, values, rows)


def _filler(pair: FieldPair, field: Any, kind: pa.DataType, null_literal: str) -> ColumnWriter:
    """What fills messages from an array without nulls."""
    if is_timestamp(field, kind):
        return _timestamps(pair, kind)
    columns = [kind.field(i) for i in range(kind.num_fields)]
    writers = _columns(field.message_type, columns, pair.path, null_literal)

    def fill(messages: Sequence[Any], values: pa.Array, rows: Rows) -> None:
        for i, write in enumerate(writers):
            write(messages, values.field(i), rows)

    return fill


def _timestamps(pair: FieldPair, kind: pa.DataType) -> ColumnWriter:
    per_second = PER_SECOND[kind.unit]

    def fill(messages: Sequence[Any], values: pa.Array, rows: Rows) -> None:
        for message, value, row in zip(messages, values.view(pa.int64()).to_pylist(), rows, strict=True):
            seconds, rest = divmod(value, per_second)
            if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
                reason = "Protobuf has timestamps of the years 1 to 9999 only"
                raise UnwritableError(row, pair.path, reason)
            message.seconds, message.nanos = seconds, rest * (_NANOS // per_second)

    return fill


def _converter(field: Any, kind: pa.DataType) -> Callable[[Any], Any]:
    if is_enum(field) and pt.is_string(kind):
        numbers: dict[str, int] = {value.name: value.number for value in field.enum_type.values}

        def number(name: str) -> int:
            if name in numbers:
                return numbers[name]
            if name.removeprefix("-").isdecimal():
                return int(name)
            raise ValueError(f"'{name[:50]}' is not a value of the enum {field.enum_type.full_name}")

        return number
    return int if pt.is_decimal(kind) else _same


def _same(value: Any) -> Any:
    return value


def _default(field: Any, null_literal: str) -> Any:
    """What stands for a null among the elements of an array or map, which Protobuf does not have."""
    if field.cpp_type == field.CPPTYPE_STRING:
        return b"" if field.type == field.TYPE_BYTES else null_literal
    if is_enum(field):
        return int(field.enum_type.values[0].number)
    return 0
