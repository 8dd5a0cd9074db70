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

from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, failure, selected
from penstock.formats.format_options import VERBATIM, flag_option, format_option, options_of
from penstock.formats.native_rows import check_names
from penstock.formats.protobuf._read import MessageReader
from penstock.formats.protobuf._types import MessageType, from_options
from penstock.formats.protobuf._write import MessageWriter
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
        """Read the format's options.

        Raises:
            OptionError: an option is unknown or has a value that is not allowed, or the message does not
            exist.
            MissingOptionError: the message is not named.
        """
        given = options_of(cls.options, spec)
        return cls(
            from_options(
                given.value(OPTIONS.descriptor_file),
                given.value(OPTIONS.message_name),
                given.spelled(OPTIONS.message_name),
            ),
            given.flag(OPTIONS.ignore_parse_errors),
            given.flag(OPTIONS.read_default_values),
            given.value(OPTIONS.null_literal) or "",
        )

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        """Make a decoder; see `Format.decoder`."""
        check_names(self.name, schema.names)
        descriptor = self.message_type.descriptor()
        if columns is not None:
            MessageReader(descriptor, schema, reads_defaults=False)  # checks all columns
        wanted = selected(schema, columns)
        reader = MessageReader(descriptor, wanted, reads_defaults=self.read_default_values)
        return ProtobufDecoder(reader, wanted, self.ignore_parse_errors)

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder; see `Format.encoder`."""
        check_names(self.name, schema.names)
        return ProtobufEncoder(
            MessageWriter(self.name, self.message_type.descriptor(), schema, self.null_literal)
        )


class ProtobufDecoder:
    """Decodes values of one message type."""

    def __init__(self, reader: MessageReader, schema: pa.Schema, ignore_parse_errors: bool) -> None:
        self._reader = reader
        self._schema = schema
        self._ignores = ignore_parse_errors

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode values; see `Decoder.decode`."""
        indexed = [(i, value) for i, value in enumerate(values.to_pylist()) if value is not None]
        columns, positions, failed = self._reader.read([value for _, value in indexed])
        is_whole = len(positions) == len(values)
        return DecodedRows(
            pa.RecordBatch.from_arrays(columns, schema=self._schema),
            len(positions),
            None if is_whole else pa.array([indexed[at][0] for at in positions], pa.int32()),
            [] if self._ignores else [failure(values, indexed[at][0], reason) for at, reason in failed],
            len(failed) if self._ignores else 0,
        )


class ProtobufEncoder:
    """Encodes rows as messages, each after the same header."""

    def __init__(self, writer: MessageWriter, header: bytes = b"") -> None:
        self._writer = writer
        self._header = header

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Encode rows; see `Encoder.encode`."""
        return self._writer.write(rows, self._header)
