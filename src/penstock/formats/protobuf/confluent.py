"""`protobuf-confluent`: Protobuf behind the Schema Registry's header, as Confluent's serializers write it.

The header is a zero byte, the schema's id, and the place of the message in the schema (a path of indexes).
Runs on executors; options are read on the driver. Invariant: a table with its own message reads every value
with that message, and does not ask the registry. Other tables read every value with the schema and message
that its header names, so one batch may hold many.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, failure, selected
from penstock.formats.confluent import HEADER_BYTES, NO_HEADER_REASON, Subject, WriterSchemas
from penstock.formats.format_options import options_of
from penstock.formats.native_rows import check_names
from penstock.formats.protobuf._read import MessageReader
from penstock.formats.protobuf._types import MessageType, from_options, library, message_of, pool_of
from penstock.formats.protobuf._write import MessageWriter
from penstock.formats.protobuf.format import ProtobufEncoder, ProtobufOptions
from penstock.formats.protobuf.schema import type_for
from penstock.formats.schema_registry.client import (
    Reference,
    RegisteredSchema,
    SchemaRegistry,
    registry_for,
)
from penstock.formats.schema_registry.options import RegistryOptions
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

INDEXES_MAX = 100

_SERIALIZED = "serialized"
_WELL_KNOWN = "google/protobuf/"

REGISTRY = RegistryOptions("protobuf-confluent")
OPTIONS = ProtobufOptions("protobuf-confluent")
# Here a descriptor file or a class gives the schema, not a text.
_OPTIONS = (
    *(option for option in REGISTRY.all() if option is not REGISTRY.schema),
    *vars(OPTIONS).values(),
)


@dataclass(frozen=True)
class ProtobufConfluentFormat:
    """Protobuf with a Schema Registry."""

    name: ClassVar[str] = "protobuf-confluent"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    subject: Subject
    message_type: MessageType | None = None
    ignore_parse_errors: bool = False
    read_default_values: bool = False
    null_literal: str = ""

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> ProtobufConfluentFormat:
        """Read the format's options.

        Raises:
            OptionError: an option is unknown or has a value that is not allowed, or the message does not
            exist.
            MissingOptionError: no URL of a registry.
        """
        given = options_of(cls.options, spec)
        file, name = given.value(OPTIONS.descriptor_file), given.value(OPTIONS.message_name)
        library("message")
        has_message = file is not None or name is not None
        return cls(
            Subject.from_options(REGISTRY, given, spec.topic),
            from_options(file, name, given.spelled(OPTIONS.message_name)) if has_message else None,
            given.flag(OPTIONS.ignore_parse_errors),
            given.flag(OPTIONS.read_default_values),
            given.value(OPTIONS.null_literal) or "",
        )

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        """Make a decoder; see `Format.decoder`."""
        check_names(self.name, schema.names)
        wanted = selected(schema, columns)
        defaults = self.read_default_values
        if self.message_type is None:
            type_for(schema)  # checks that a message can have these types
            found: Readers = _WriterReaders(registry_for(self.subject.registry), wanted, defaults)
        else:
            descriptor = self.message_type.descriptor()
            MessageReader(descriptor, schema, reads_defaults=defaults)
            reader = MessageReader(descriptor, wanted, reads_defaults=defaults)
            found = _OneReader(reader)
        return ProtobufConfluentDecoder(found, wanted, self.ignore_parse_errors)

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder; see `Format.encoder`."""
        check_names(self.name, schema.names)
        self.subject.check()
        message_type = self.message_type or type_for(schema)
        writer = MessageWriter(self.name, message_type.descriptor(), schema, self.null_literal)
        return ProtobufConfluentEncoder(self.subject, message_type, writer)


# -- reading ------------------------------------------------------------------------------------------------


class Readers(Protocol):
    """Readers of messages by the headers of values."""

    def start_batch(self) -> None:
        """Begin to count the questions of a batch."""
        ...

    def reader(self, schema_id: int, indexes: tuple[int, ...]) -> MessageReader | str:
        """Return the reader for a schema id and message indexes, or why there is no reader."""
        ...


class _OneReader:
    """The reader of the table's own message, for every header."""

    def __init__(self, reader: MessageReader) -> None:
        self._reader = reader

    def start_batch(self) -> None:
        """See `Readers`."""

    def reader(self, _schema_id: int, _indexes: tuple[int, ...]) -> MessageReader | str:
        """See `Readers`."""
        return self._reader


class _WriterReaders:
    """Readers by the schemas that values were written with."""

    def __init__(self, registry: SchemaRegistry, schema: pa.Schema, reads_defaults: bool) -> None:
        self._registry = registry
        self._schemas = WriterSchemas(registry, "PROTOBUF", _SERIALIZED)
        self._schema = schema
        self._reads_defaults = reads_defaults
        self._pools: dict[int, tuple[Any, Any] | str] = {}
        self._readers: dict[tuple[int, tuple[int, ...]], MessageReader | str] = {}

    def start_batch(self) -> None:
        """See `Readers`."""
        self._schemas.start_batch()

    def reader(self, schema_id: int, indexes: tuple[int, ...]) -> MessageReader | str:
        """See `Readers`."""
        key = (schema_id, indexes)
        if key not in self._readers:
            pool = self._pool(schema_id)
            if isinstance(pool, str):
                return pool
            if len(self._readers) > 1_000:
                self._readers.clear()  # bounded, because indexes may be made up
            self._readers[key] = self._made(schema_id, indexes, *pool)
        return self._readers[key]

    def _made(self, schema_id: int, indexes: tuple[int, ...], root: Any, pool: Any) -> MessageReader | str:
        try:
            descriptor = message_of(pool, _name_at(root, indexes))
            return MessageReader(descriptor, self._schema, reads_defaults=self._reads_defaults, may_lack=True)
        except (SchemaError, IndexError) as error:
            return f"schema {schema_id}, message {list(indexes)}: {error}"

    def _pool(self, schema_id: int) -> tuple[Any, Any] | str:
        if schema_id in self._pools:
            return self._pools[schema_id]
        found = self._schemas.schema(schema_id)
        if isinstance(found, str):
            return found
        try:
            root = _file(f"schema-{schema_id}.proto", found.text)
            imported: dict[str, Any] = {}
            _import_all(self._registry, found, imported, 0)
            self._pools[schema_id] = (root, pool_of([root, *imported.values()]))
        except SchemaError as error:
            self._pools[schema_id] = f"schema {schema_id}: {error}"
        return self._pools[schema_id]


def _import_all(
    registry: SchemaRegistry, schema: RegisteredSchema, imported: dict[str, Any], depth: int
) -> None:
    if depth > INDEXES_MAX or len(imported) > 1_000:
        raise SchemaError("it imports too many other schemas")
    for reference in schema.references:
        if reference.name not in imported:
            other = registry.referenced(reference, _SERIALIZED)
            imported[reference.name] = _file(reference.name, other.text)
            _import_all(registry, other, imported, depth + 1)


def _file(name: str, text: str) -> Any:
    try:
        found = library("descriptor_pb2").FileDescriptorProto.FromString(
            base64.b64decode(text, validate=True)
        )
    except (binascii.Error, ValueError, library("message").DecodeError):
        raise SchemaError(
            "the registry did not return a serialized file (`?format=serialized`). Set "
            "'protobuf-confluent.descriptor-file' to read without the registry's schemas."
        ) from None
    # The registry names every file "default". Imports use the names of the references.
    found.name = name
    return found


def _name_at(root: Any, indexes: Sequence[int]) -> str:
    """Return the full name of the message at a path of indexes.

    Raises:
        IndexError: the schema does not have this message.
    """
    messages, names = root.message_type, [root.package] if root.package else []
    for index in indexes:
        if not 0 <= index < len(messages):
            raise IndexError("the schema does not have this message")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def read_header(value: bytes) -> tuple[int, tuple[int, ...], int]:
    """Read a value's header: schema id, message indexes, and where the message begins.

    Raises:
        ValueError: the value does not begin with a header.
    """
    if len(value) <= HEADER_BYTES or value[0] != 0:
        raise ValueError(NO_HEADER_REASON)
    schema_id = int.from_bytes(value[1:HEADER_BYTES], "big")
    count, at = _zigzag(value, HEADER_BYTES)
    if not 0 <= count <= INDEXES_MAX:
        raise ValueError("the message indexes after the schema id are not valid")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        indexes.append(index)
    return schema_id, tuple(indexes) or (0,), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(value):
            break
        byte = value[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("the message indexes after the schema id are not valid")


class ProtobufConfluentDecoder:
    """Decodes values, each by the message that its header names."""

    def __init__(self, readers: Readers, schema: pa.Schema, ignore_parse_errors: bool) -> None:
        self._readers = readers
        self._schema = schema
        self._ignores = ignore_parse_errors

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode values; see `Decoder.decode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached.
        """
        reasons: dict[int, str] = {}
        groups = self._grouped(values, reasons)
        parts: list[list[pa.Array]] = []
        indices: list[int] = []
        for reader, (at, messages) in groups.items():
            columns, positions, failed = reader.read(messages)
            parts.append(columns)
            indices.extend(at[i] for i in positions)
            reasons.update((at[i], reason) for i, reason in failed)
        rows = self._rows(parts)
        if len(parts) > 1:
            order = sorted(range(len(indices)), key=indices.__getitem__)
            rows, indices = rows.take(pa.array(order, pa.int32())), sorted(indices)
        failures = [] if self._ignores else [failure(values, i, reasons[i]) for i in sorted(reasons)]
        whole = len(indices) == len(values)
        return DecodedRows(
            rows,
            len(indices),
            None if whole else pa.array(indices, pa.int32()),
            failures,
            len(reasons) if self._ignores else 0,
        )

    def _grouped(
        self, values: pa.Array, reasons: dict[int, str]
    ) -> dict[MessageReader, tuple[list[int], list[bytes]]]:
        """Return the values of each reader. Null and empty values are left out."""
        groups: dict[MessageReader, tuple[list[int], list[bytes]]] = {}
        self._readers.start_batch()
        for at, value in enumerate(values.to_pylist()):
            if not value:
                continue
            try:
                schema_id, indexes, start = read_header(value)
            except ValueError as error:
                reasons[at] = str(error)
                continue
            reader = self._readers.reader(schema_id, indexes)
            if isinstance(reader, str):
                reasons[at] = reader
                continue
            positions, messages = groups.setdefault(reader, ([], []))
            positions.append(at)
            messages.append(value[start:])
        return groups

    def _rows(self, parts: list[list[pa.Array]]) -> pa.RecordBatch:
        columns = [
            pa.concat_arrays([part[i] for part in parts]) if parts else pa.array([], field.type)
            for i, field in enumerate(self._schema)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


# -- writing ------------------------------------------------------------------------------------------------


class ProtobufConfluentEncoder:
    """Encodes rows after the header of a schema. The schema is registered when the first rows come."""

    def __init__(self, subject: Subject, message_type: MessageType, writer: MessageWriter) -> None:
        self._subject = subject
        self._message_type = message_type
        self._writer = writer
        self._encoder: ProtobufEncoder | None = None

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Encode rows; see `Encoder.encode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached or does not take the schema.
        """
        if self._encoder is None:
            self._encoder = ProtobufEncoder(self._writer, self._header())
        return self._encoder.encode(rows)

    def _header(self) -> bytes:
        files = library("descriptor_pb2").FileDescriptorSet.FromString(self._message_type.files).file
        by_name = {one.name: one for one in files}
        root, indexes = _place(files, self._message_type.full_name)
        references = self._references(registry_for(self._subject.registry), by_name, root)
        return self._subject.header(_text(root), "PROTOBUF", references) + write_indexes(indexes)

    def _references(
        self, registry: SchemaRegistry, by_name: Mapping[str, Any], one: Any
    ) -> tuple[Reference, ...]:
        """Register the imports of a file, each under its own name, as Confluent's serializers do."""
        found = []
        for name in one.dependency:
            if name.startswith(_WELL_KNOWN):
                continue  # every registry has these
            below = self._references(registry, by_name, by_name[name])
            text = _text(by_name[name])
            registry.schema_id(name, text, "PROTOBUF", below, registers=self._subject.registers)
            found.append(Reference(name, name, registry.version(name, text, "PROTOBUF", below)))
        return tuple(found)


def _text(one: Any) -> str:
    return base64.b64encode(one.SerializeToString(deterministic=True)).decode()


def _place(files: Sequence[Any], full_name: str) -> tuple[Any, list[int]]:
    """Return the file of a message, and the message's path of indexes in that file."""
    for one in files:
        begin = f"{one.package}." if one.package else ""
        indexes = _path(one.message_type, full_name.removeprefix(begin).split("."))
        if full_name.startswith(begin) and indexes is not None:
            return one, indexes
    raise SchemaError(f"The Protobuf message '{full_name}' does not exist.", message_type=full_name)


def _path(messages: Sequence[Any], names: Sequence[str]) -> list[int] | None:
    indexes = []
    for name in names:
        index = next((i for i, one in enumerate(messages) if one.name == name), None)
        if index is None:
            return None
        indexes.append(index)
        messages = messages[index].nested_type
    return indexes


def write_indexes(indexes: Sequence[int]) -> bytes:
    """Write message indexes. One zero byte is the first message, by far the most common."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(2 * number) for number in (len(indexes), *indexes))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
