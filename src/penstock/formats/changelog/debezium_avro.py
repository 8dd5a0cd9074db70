"""`debezium-avro-confluent`: change events of Debezium in Avro behind the Schema Registry's header.

Runs on executors; options are read on the driver. Invariant: the envelope is read and written exactly as a
row of `avro-confluent`, and its changes as in `debezium-json`. As in Flink, it has no metadata of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from penstock.formats.avro.confluent import AvroConfluentDecoder, AvroConfluentFormat
from penstock.formats.avro.format import legacy_timestamps
from penstock.formats.avro.schema import schema_of
from penstock.formats.base import Decoder, Encoder
from penstock.formats.changelog._envelopes import ChangelogDecoder, Envelopes, Tool, envelopes_to_write
from penstock.formats.changelog._layouts import BeforeAfter
from penstock.formats.changelog._left_out import avro_fields
from penstock.formats.changelog._metadata import metadata_schema
from penstock.formats.changelog._problems import Problems
from penstock.formats.changelog.debezium_json import NO_BEFORE, OPERATIONS, TRUNCATE
from penstock.formats.format_options import options_of
from penstock.formats.schema_registry.options import RegistryOptions
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

_NAME = "debezium-avro-confluent"
_TOOL = Tool(BeforeAfter(NO_BEFORE), "op", OPERATIONS, truncate=TRUNCATE)

REGISTRY = RegistryOptions(_NAME)


@dataclass(frozen=True)
class DebeziumAvroConfluentFormat:
    """Debezium's messages in Avro, with a Schema Registry."""

    name: ClassVar[str] = _NAME
    metadata: ClassVar[pa.Schema] = metadata_schema(())
    options: ClassVar[Sequence[Option[Any]]] = (*REGISTRY.all(), legacy_timestamps(_NAME))

    inner: AvroConfluentFormat
    needs_before: bool = True
    """Whether an update without its old row is bad. If not, it gives only its new row."""

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> DebeziumAvroConfluentFormat:
        given = options_of(cls.options, spec)
        return cls(AvroConfluentFormat.from_options(REGISTRY, given, spec.topic))

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        tool = replace(_TOOL, layout=BeforeAfter(NO_BEFORE, needs_old=self.needs_before))
        return _DebeziumAvroDecoder(tool, self.inner, schema, columns)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _DebeziumAvroEncoder(self.inner, schema)


class _DebeziumAvroDecoder(ChangelogDecoder):
    def __init__(
        self, tool: Tool, inner: AvroConfluentFormat, schema: pa.Schema, columns: Sequence[str] | None
    ) -> None:
        super().__init__(tool, schema, columns, ignores_errors=False)
        self._inner: AvroConfluentDecoder = inner.decoder(pa.schema(self._fields()))

    def _envelopes(self, values: pa.Array) -> Envelopes:
        found = self._inner.decode(values)
        columns = dict(zip(found.rows.schema.names, found.rows.columns, strict=True))
        return Envelopes(values, columns, found.indices(), found.failures, found.ignored_count, Problems())

    def _row_fields(self, values: pa.Array, index: int) -> frozenset[str]:
        schema = self._inner.writer_schema(values.slice(index, 1))
        if schema is None:
            return frozenset()
        return avro_fields(schema.root, [one.name for one in _TOOL.layout.fields(self._row)])


class _DebeziumAvroEncoder:
    def __init__(self, inner: AvroConfluentFormat, schema: pa.Schema) -> None:
        self._names = schema.names
        columns = pa.schema([*_TOOL.layout.fields(schema), pa.field("op", pa.string())])
        # Flink's schema, so that both may write into one topic: a union of null and the envelope.
        text = inner.schema_text or f'["null", {schema_of(columns)}]'
        self._inner = replace(inner, schema_text=text).encoder(columns)

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        return self._inner.encode(envelopes_to_write(_TOOL, rows, self._names, _NAME))
