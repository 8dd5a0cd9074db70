"""`protobuf-confluent`: Protobuf behind the Schema Registry's header, as Confluent's serializers write it.

The header is a zero byte, the schema's id, and the path of the message in the schema (indexes).
Runs on executors; options are read on the driver. Invariant: a table with its own message reads every value
with that message, and does not ask the registry. Other tables read every value with the schema and message
that its header names, so one batch may hold many.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.formats import _native
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, failure, selected
from penstock.formats.confluent import (
    HEADER_BYTES,
    NO_HEADER,
    NO_HEADER_REASON,
    RegisteringEncoder,
    Subject,
    WriterSchemas,
    with_failures,
)
from penstock.formats.format_options import options_of
from penstock.formats.native_rows import check_depth, check_names, decoded_rows
from penstock.formats.protobuf._plan import ProtobufPlan, reading_plan, writing_plan
from penstock.formats.protobuf._types import MessageType, check_installed, library, message_of, pool_of
from penstock.formats.protobuf.format import ProtobufOptions, ignoring, plan_of_own, protobuf_encoder
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

IMPORTS_DEPTH_MAX = 100

_BROKEN_INDEXES = -3
"""What `_native.message_headers` gives for a header with message indexes that are not valid."""

_BROKEN_INDEXES_REASON = "the message indexes after the schema id are not valid"

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
        given = options_of(cls.options, spec)
        check_installed(spec)
        named = (given.value(OPTIONS.descriptor_file), given.value(OPTIONS.message_name))
        has_message = any(each is not None for each in named)
        return cls(
            Subject.from_options(REGISTRY, given, spec.topic),
            OPTIONS.message_type(given) if has_message else None,
            **OPTIONS.rules(given),
        )

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        defaults = self.read_default_values
        if self.message_type is None:
            check_names(self.name, schema.names)
            check_depth(self.name, schema)
            type_for(schema)  # checks that a message can have these types
            wanted = selected(schema, columns)
            found: Plans = _WriterPlans(registry_for(self.subject.registry), wanted, defaults)
        else:
            plan, wanted = plan_of_own(self.name, self.message_type, schema, columns, reads_defaults=defaults)
            found = _OnePlan(plan)
        return ProtobufConfluentDecoder(found, wanted, self.ignore_parse_errors)

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_names(self.name, schema.names)
        self.subject.check()
        message_type = self.message_type or type_for(schema)
        check_depth(self.name, schema)
        plan = writing_plan(message_type.descriptor(), schema, self.null_literal)
        return RegisteringEncoder(partial(_registered, self.subject, message_type, plan))


# -- reading ------------------------------------------------------------------------------------------------


class Plans(Protocol):
    """Plans by the headers of values."""

    def start_batch(self) -> None:
        """Begin to count the questions of a batch."""
        ...

    def plan(self, schema_id: int, indexes: tuple[int, ...]) -> ProtobufPlan | str:
        """Return the plan for a schema id and message indexes, or why there is no plan."""
        ...


class _OnePlan:
    """The plan of the table's own message, for every header."""

    def __init__(self, plan: ProtobufPlan) -> None:
        self._plan = plan

    def start_batch(self) -> None:
        pass

    def plan(self, _schema_id: int, _indexes: tuple[int, ...]) -> ProtobufPlan | str:
        return self._plan


class _WriterPlans:
    """Plans by the schemas that values were written with."""

    def __init__(self, registry: SchemaRegistry, schema: pa.Schema, reads_defaults: bool) -> None:
        self._registry = registry
        self._schemas = WriterSchemas(registry, "PROTOBUF", _SERIALIZED)
        self._schema = schema
        self._reads_defaults = reads_defaults
        self._pools: dict[int, tuple[Any, Any] | str] = {}
        self._plans: dict[tuple[int, tuple[int, ...]], ProtobufPlan | str] = {}

    def start_batch(self) -> None:
        self._schemas.start_batch()

    def plan(self, schema_id: int, indexes: tuple[int, ...]) -> ProtobufPlan | str:
        key = (schema_id, indexes)
        if key not in self._plans:
            pool = self._pool(schema_id)
            if isinstance(pool, str):
                return pool
            if len(self._plans) > 1_000:
                self._plans.clear()  # bounded, because indexes may be made up
            self._plans[key] = self._made(schema_id, indexes, *pool)
        return self._plans[key]

    def _made(self, schema_id: int, indexes: tuple[int, ...], root: Any, pool: Any) -> ProtobufPlan | str:
        try:
            descriptor = message_of(pool, _name_at(root, indexes))
            return reading_plan(descriptor, self._schema, reads_defaults=self._reads_defaults, may_lack=True)
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
    if depth > IMPORTS_DEPTH_MAX or len(imported) > 1_000:
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


def read_header(header: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the schema id and the message indexes of a header that `_native.message_headers` has found."""
    schema_id = int.from_bytes(header[1:HEADER_BYTES], "big")
    numbers, at = [], HEADER_BYTES
    while at < len(header):
        number, at = _zigzag(header, at)
        numbers.append(number)
    return schema_id, tuple(numbers[1:]) or (0,)


def _zigzag(header: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while header[at] >= 0x80:
        number |= (header[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    number |= header[at] << shift
    return (number >> 1) ^ -(number & 1), at + 1


class ProtobufConfluentDecoder:
    """Decodes values, each by the message that its header names."""

    def __init__(self, plans: Plans, schema: pa.Schema, ignore_parse_errors: bool) -> None:
        self._plans = plans
        self._schema = schema
        self._ignores = ignore_parse_errors

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode values; see `Decoder.decode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached.
        """
        codes, starts, headers = _native.message_headers(values)
        plans, plan_of_header, reasons = self._planned(headers)
        # The last entry is for values without a header, whose codes are negative.
        positions = pc.if_else(pc.less(codes, 0), len(headers), codes)
        plan_of_value = pa.array([*plan_of_header, -1], pa.int32()).take(positions)
        decoded = _native.decode_protobuf(values, self._schema, plans, plan_of_value, starts)
        found = decoded_rows(values, self._schema, None, decoded)
        bad = pc.indices_nonzero(pc.is_in(codes, value_set=pa.array(list(reasons), pa.int32())))
        more = [failure(values, i, reasons[codes[i].as_py()]) for i in bad.to_pylist()]
        return ignoring(found, more) if self._ignores else with_failures(found, more)

    def _planned(self, headers: Sequence[bytes]) -> tuple[list[ProtobufPlan], list[int], dict[int, str]]:
        """Return the plans, for each header its plan or -1, and why values of a code cannot be read."""
        self._plans.start_batch()
        plans: list[ProtobufPlan] = []
        plan_of_header: list[int] = []
        reasons = {NO_HEADER: NO_HEADER_REASON, _BROKEN_INDEXES: _BROKEN_INDEXES_REASON}
        for code, header in enumerate(headers):
            plan = self._plans.plan(*read_header(header))
            if isinstance(plan, str):
                reasons[code] = plan
            else:
                plans.append(plan)
            plan_of_header.append(-1 if isinstance(plan, str) else len(plans) - 1)
        return plans, plan_of_header, reasons


# -- writing ------------------------------------------------------------------------------------------------


def _registered(subject: Subject, message_type: MessageType, plan: ProtobufPlan) -> Encoder:
    files = library("descriptor_pb2").FileDescriptorSet.FromString(message_type.files).file
    by_name = {one.name: one for one in files}
    root, indexes = _file_and_path(files, message_type.full_name)
    references = _references(registry_for(subject.registry), subject, by_name, root)
    header = subject.header(_text(root), "PROTOBUF", references) + write_indexes(indexes)
    return protobuf_encoder(ProtobufConfluentFormat.name, plan, header)


def _references(
    registry: SchemaRegistry, subject: Subject, by_name: Mapping[str, Any], one: Any
) -> tuple[Reference, ...]:
    """Register the imports of a file, each under its own name, as Confluent's serializers do."""
    found = []
    for name in one.dependency:
        if name.startswith(_WELL_KNOWN):
            continue  # every registry has these
        below = _references(registry, subject, by_name, by_name[name])
        text = _text(by_name[name])
        registry.schema_id(name, text, "PROTOBUF", below, registers=subject.registers)
        found.append(Reference(name, name, registry.version(name, text, "PROTOBUF", below)))
    return tuple(found)


def _text(one: Any) -> str:
    return base64.b64encode(one.SerializeToString(deterministic=True)).decode()


def _file_and_path(files: Sequence[Any], full_name: str) -> tuple[Any, list[int]]:
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
