"""`json-confluent`: JSON behind the Schema Registry's header, as Confluent's serializers write it.

Runs on executors; options are read on the driver. Invariant: the value behind the header is read and
written exactly as in `json`. The registry is asked only for writing, because a JSON Schema says what is
allowed and not how to read it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.formats import _native
from penstock.formats.base import NO_METADATA, DecodedRows, Decoder, Encoder, failure
from penstock.formats.confluent import HEADER_BYTES, NO_HEADER, NO_HEADER_REASON, Subject, with_failures
from penstock.formats.format_options import FormatOptions, options_of
from penstock.formats.json.format import JSON_OPTIONS, JsonDecoder, JsonFormat
from penstock.formats.native_rows import check_schema
from penstock.formats.schema_registry.options import RegistryOptions
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

REGISTRY = RegistryOptions("json-confluent")


def _renamed(option: Option[Any]) -> Option[Any]:
    key = "json-confluent." + option.key.removeprefix("json.")
    return replace(option, key=key)


_OPTIONS = (*REGISTRY.all(), *(_renamed(option) for option in JSON_OPTIONS))


@dataclass(frozen=True)
class JsonConfluentFormat:
    """JSON with a Schema Registry."""

    name: ClassVar[str] = "json-confluent"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    subject: Subject
    inner: JsonFormat
    schema_text: str | None = None

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> JsonConfluentFormat:
        given = options_of(cls.options, spec)
        texts = {key.replace("json-confluent.", "json.", 1): text for key, text in given.texts.items()}
        inner = JsonFormat.from_format_options(FormatOptions(spec.prefix, texts), cls.name)
        return cls(Subject.from_options(REGISTRY, given, spec.topic), inner, given.value(REGISTRY.schema))

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        check_schema(self.name, schema)
        return JsonConfluentDecoder(JsonDecoder(self.inner, schema, columns, HEADER_BYTES))

    def encoder(self, schema: pa.Schema) -> Encoder:
        self.subject.check()
        text = self.schema_text or json.dumps(json_schema_of(schema))
        return JsonConfluentEncoder(self.subject, text, self.inner.encoder(schema))


class JsonConfluentDecoder:
    """Skips the header and decodes the JSON after it."""

    def __init__(self, inner: Decoder) -> None:
        self._inner = inner

    def decode(self, values: pa.Array) -> DecodedRows:
        ids = _native.schema_ids(values)
        has_no_header = pc.equal(ids, NO_HEADER)
        # A value without the header becomes null, which gives no row in JSON. Its failure is added below.
        is_whole = pc.any(has_no_header).as_py() is not True
        found = self._inner.decode(values if is_whole else pc.if_else(has_no_header, None, values))
        more = [failure(values, i, NO_HEADER_REASON) for i in pc.indices_nonzero(has_no_header).to_pylist()]
        return with_failures(found, more)


class JsonConfluentEncoder:
    """Encodes rows after the header of a schema. The schema is registered when the first rows come."""

    def __init__(self, subject: Subject, text: str, inner: Encoder) -> None:
        self._subject = subject
        self._text = text
        self._inner = inner

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Encode rows; see `Encoder.encode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached or does not take the schema.
        """
        header = pa.scalar(self._subject.header(self._text, "JSON"), pa.binary())
        return pc.binary_join_element_wise(header, self._inner.encode(rows), pa.scalar(b"", pa.binary()))


def json_schema_of(columns: pa.Schema) -> dict[str, Any]:
    return _object([*columns])


def _object(fields: Sequence[pa.Field]) -> dict[str, Any]:
    required = [one.name for one in fields if not one.nullable]
    made: dict[str, Any] = {"type": "object", "properties": {one.name: _schema_of(one) for one in fields}}
    return made | ({"required": required} if required else {})


def _schema_of(one: pa.Field) -> dict[str, Any]:
    made = _bare_schema_of(one.type)
    return {"oneOf": [{"type": "null"}, made]} if one.nullable else made


def _bare_schema_of(kind: pa.DataType) -> dict[str, Any]:
    if pt.is_struct(kind):
        return _object([kind.field(i) for i in range(kind.num_fields)])
    if pt.is_list(kind):
        return {"type": "array", "items": _schema_of(kind.value_field)}
    if pt.is_map(kind):
        return {"type": "object", "additionalProperties": _schema_of(kind.item_field)}
    # NaN and the infinities are written as strings, because JSON does not have these numbers.
    kinds: tuple[tuple[Any, Any], ...] = (
        (pt.is_boolean, "boolean"),
        (pt.is_signed_integer, "integer"),
        (pt.is_decimal, "number"),
        (pt.is_floating, ["number", "string"]),
    )
    return {"type": next((name for test, name in kinds if test(kind)), "string")}
