"""`protobuf`: each value is one message, without header, as Flink's format of that name.

Runs on executors; options, descriptor files and generated classes are read on the driver. Invariant: a value
that is not a message of the table's type, or does not fit its columns, never becomes a row. Unknown fields,
and fields without a column, are ignored. An empty value is a message without fields, and gives a row.

As in Flink, a field that is absent in a message is null. A proto3 field without `optional` is never absent,
and gives its default. Empty arrays and maps are null. Nulls in arrays and maps are written as defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from penstock.formats import _native, _native_encode
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, RowFailure, selected
from penstock.formats.format_options import VERBATIM, FormatOptions, flag_option, format_option, options_of
from penstock.formats.native_rows import NativeEncoder, check_depth, check_names, decoded_rows
from penstock.formats.protobuf._plan import ProtobufPlan, reading_plan, writing_plan
from penstock.formats.protobuf._types import MessageType, check_installed, from_options
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec
from penstock.options.values import TEXT


class ProtobufOptions:
    """The options of one format."""

    def __init__(self, name: str) -> None:
        self.message_name = format_option(
            f"{name}.message-class-name",
            TEXT,
            "The message: its name in the descriptor file (as in Protobuf or as in Java). Without a "
            "descriptor file a generated Python class that the driver can import.",
        )
        self.descriptor_file = format_option(
            f"{name}.descriptor-file",
            TEXT,
            "Output of `protoc --include_imports --descriptor_set_out`; only the driver reads it. (Ours.)",
        )
        self.ignore_parse_errors = flag_option(
            f"{name}.ignore-parse-errors", "A value that cannot be read gives no row, instead of an error."
        )
        self.read_default_values = flag_option(
            f"{name}.read-default-values", "A field that is absent gives its default, instead of null."
        )
        self.null_literal = format_option(
            f"{name}.write-null-string-literal",
            VERBATIM,
            "The text that is written for a null in an array or map of strings.",
            default="",
        )

    def message_type(self, given: FormatOptions) -> MessageType:
        """Return the message type that the options name; see `from_options`."""
        file, name = self.descriptor_file, self.message_name
        return from_options(given.value(file), given.value(name), given.spelled(file), given.spelled(name))

    def rules(self, given: FormatOptions) -> dict[str, Any]:
        """Return the fields of a format that do not depend on where its messages are defined."""
        return {
            "ignore_parse_errors": given.flag(self.ignore_parse_errors),
            "read_default_values": given.flag(self.read_default_values),
            "null_literal": given.value(self.null_literal) or "",
        }


OPTIONS = ProtobufOptions("protobuf")
_OPTIONS = tuple(vars(OPTIONS).values())


@dataclass(frozen=True)
class ProtobufFormat:
    """Protobuf with its options."""

    name: ClassVar[str] = "protobuf"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    message_type: MessageType
    ignore_parse_errors: bool = False
    read_default_values: bool = False
    null_literal: str = ""

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> ProtobufFormat:
        given = options_of(cls.options, spec)
        check_installed(spec)
        return cls(OPTIONS.message_type(given), **OPTIONS.rules(given))

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        plan, wanted = plan_of_own(
            self.name, self.message_type, schema, columns, reads_defaults=self.read_default_values
        )
        return ProtobufDecoder(plan, wanted, self.ignore_parse_errors)

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_names(self.name, schema.names)
        check_depth(self.name, schema)
        plan = writing_plan(self.message_type.descriptor(), schema, self.null_literal)
        return protobuf_encoder(self.name, plan)


def plan_of_own(
    format_name: str,
    message_type: MessageType,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    *,
    reads_defaults: bool,
) -> tuple[ProtobufPlan, pa.Schema]:
    """Plan how to read a table's own message; returns the plan, and the schema of the columns to decode.

    Raises:
        SchemaError: a column of `schema` has no field, or a field of another type.
    """
    check_names(format_name, schema.names)
    check_depth(format_name, schema)
    descriptor = message_type.descriptor()
    if columns is not None:
        reading_plan(descriptor, schema, reads_defaults=reads_defaults)  # checks all columns
    wanted = selected(schema, columns)
    return reading_plan(descriptor, wanted, reads_defaults=reads_defaults), wanted


def ignoring(found: DecodedRows, more: Sequence[RowFailure] = ()) -> DecodedRows:
    """Return the rows without failures, which only count."""
    failure_count = len(found.failures) + len(more)
    return DecodedRows(found.rows, found.row_count, found.value_indices, [], failure_count)


class ProtobufDecoder:
    """Decodes values of one message type."""

    def __init__(self, plan: ProtobufPlan, schema: pa.Schema, ignore_parse_errors: bool) -> None:
        self._plan = plan
        self._schema = schema
        self._ignores = ignore_parse_errors

    def decode(self, values: pa.Array) -> DecodedRows:
        zeros = pa.repeat(pa.scalar(0, pa.int32()), len(values))
        decoded = _native.decode_protobuf(values, self._schema, [self._plan], zeros, zeros)
        found = decoded_rows(values, self._schema, None, decoded)
        return ignoring(found) if self._ignores else found


def protobuf_encoder(format_name: str, plan: ProtobufPlan, header: bytes = b"") -> Encoder:
    """Make an encoder of rows as messages, each after the same header."""
    return NativeEncoder(format_name, lambda rows: _native_encode.encode_protobuf(rows, plan, header))
