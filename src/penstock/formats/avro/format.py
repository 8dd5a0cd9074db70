"""`avro`: each value is one record in Avro's binary encoding, without header, as Flink's format of that name.

Runs on executors; options are read on the driver. Decoding and encoding are native (native/avro_decode.c).
Invariant: all values are read with one writer's schema: `avro.schema` if it is set, else the schema made from
the table's columns. Bytes after the end of the record are an error, because they usually mean a wrong schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from penstock.formats import _native, _native_encode
from penstock.formats.avro._plan import AvroPlan, reading_plan, writing_plan
from penstock.formats.avro.schema import parse_schema, schema_of
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, selected
from penstock.formats.format_options import VERBATIM, format_option, options_of, refused_option
from penstock.formats.native_rows import NativeEncoder, check_schema, decoded_rows
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec
from penstock.options.values import choice


def legacy_timestamps(name: str) -> Option[Any]:
    """Declare Flink's option for timestamps of the format `name`, which is refused here."""
    return refused_option(
        f"{name}.timestamp_mapping.legacy",
        "How Flink maps timestamps to Avro. Here they are microseconds (`timestamp-micros` of TIMESTAMP, "
        "`local-timestamp-micros` of TIMESTAMP_NTZ). Flink writes milliseconds with every setting. For a "
        f"topic that Flink reads or writes, set `{name}.schema` to a schema with `timestamp-millis` "
        "(docs/schemas.md).",
    )


SCHEMA = format_option(
    "avro.schema",
    VERBATIM,
    "The schema of the values, in JSON. (Ours.)",
    default_text="made from the table's columns",
)
ENCODING = format_option(
    "avro.encoding", choice("binary"), "Avro's JSON encoding is not supported.", default="binary"
)
LEGACY_TIMESTAMPS = legacy_timestamps("avro")
_OPTIONS = (SCHEMA, ENCODING, LEGACY_TIMESTAMPS)


@dataclass(frozen=True)
class AvroFormat:
    """Avro with its options."""

    name: ClassVar[str] = "avro"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    schema_text: str | None = None

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> AvroFormat:
        given = options_of(cls.options, spec)
        given.value(ENCODING)
        text = given.value(SCHEMA)
        if text is not None:
            parse_schema(text, option=given.spelled(SCHEMA))
        return cls(text)

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        check_schema(self.name, schema)
        written = parse_schema(self.schema_text or schema_of(schema))
        plan = reading_plan(written, schema)
        if plan.mismatches:
            raise plan.mismatches[0].error()
        return AvroDecoder(reading_plan(written, selected(schema, columns)), selected(schema, columns))

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_schema(self.name, schema)
        plan = writing_plan(parse_schema(self.schema_text or schema_of(schema)), schema)
        return avro_encoder(self.name, plan)


class AvroDecoder:
    """Decodes Avro values of one schema to rows."""

    def __init__(self, plan: AvroPlan, schema: pa.Schema) -> None:
        self._plan = plan
        self._schema = schema

    def decode(self, values: pa.Array) -> DecodedRows:
        plan_of_value = pa.array([0] * len(values), pa.int32())
        decoded = _native.decode_avro(values, self._schema, [self._plan], plan_of_value, 0)
        return decoded_rows(values, self._schema, None, decoded)


def avro_encoder(format_name: str, plan: AvroPlan, header: bytes = b"") -> Encoder:
    """Make an encoder of rows as Avro values, each after the same header."""
    return NativeEncoder(format_name, lambda rows: _native_encode.encode_avro(rows, plan, header))
