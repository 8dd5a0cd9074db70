"""`debezium-avro-confluent`: each message names the schema of its table in the Schema Registry.

Runs on executors, and `source` on the driver. Invariant: the registry is asked once in a process for an id,
because an id never gets another schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.cdc._avro_schema import connect_schema
from penstock.cdc._envelope import columns_of, kinds_of, table_name
from penstock.cdc._exchanged import POSITION, TRANSACTION, Origin, origin_of
from penstock.cdc._messages import Changes, Schemas, SourceTable
from penstock.cdc._reading import KIND_COLUMN, Plan, joined, of_places
from penstock.cdc._unavailable import PLACEHOLDER
from penstock.cdc._with_json import pairs
from penstock.errors import SchemaError
from penstock.formats.avro.confluent import resolved_schema
from penstock.formats.base import RowFailure, failure
from penstock.formats.changelog.debezium_avro import DebeziumAvroConfluentFormat
from penstock.formats.confluent import NO_HEADER_REASON, WriterSchemas, schema_ids
from penstock.formats.schema_registry.client import registry_for

_SOURCE = pa.schema([("source", pa.struct([(TRANSACTION, pa.int64()), (POSITION, pa.int64())]))])


@dataclass(frozen=True)
class AvroMessages:
    """Debezium's Avro messages behind the header of the Schema Registry."""

    format: DebeziumAvroConfluentFormat
    placeholder: bytes = PLACEHOLDER
    has_schemas: bool = True

    def of_topic(self, topic: str) -> AvroMessages:
        """Return the same, because messages say their columns themselves."""
        return self

    def schemas(self, keys: pa.Array, values: pa.Array) -> Schemas:
        """Return the schema of each message; see `MessageFormat`. The registry is not asked."""
        value_ids, numbers = _numbered(values)
        key_ids, key_numbers = _numbered(keys)
        texts, key_texts = [str(one) for one in numbers], [str(one) for one in key_numbers]
        return pairs(value_ids, texts, key_ids, key_texts, failures=_failures(values, value_ids))

    def source(self, text: str) -> SourceTable:
        """Return the table of a schema; see `MessageFormat`."""
        value, _, key = text.partition("\n")
        envelope = self.described(int(value))
        fields = self.described(int(key)).get("fields") if key else None
        keys = tuple(str(one["field"]) for one in fields) if fields else None
        return SourceTable(table_name(envelope), columns_of(envelope), keys)

    def changes(self, keys: pa.Array, values: pa.Array, columns: pa.Schema) -> Changes:
        """Return the rows of messages; see `MessageFormat`."""
        ids, numbers = _numbered(values)
        parts, failures = [], _failures(values, ids)
        for at, number in enumerate(numbers):
            places = pa.array(np.flatnonzero(ids == at))
            try:
                plan = _plan(self, number, columns.serialize().to_pybytes())
            except SchemaError as error:
                failures += [failure(values, place, str(error)) for place in places.to_pylist()]
                continue
            parts.append(of_places(plan.changes(values.take(places)), places))
        return joined(parts, columns, failures)

    def origin(self, value: bytes) -> Origin:
        """Return what a message says of its change; see `MessageFormat`."""
        values = pa.array([value], pa.binary())
        schema = self.described(_numbered(values)[1][0])
        decoder = self.format.inner.decoder(_SOURCE)
        source = decoder.decode(values).rows.column("source").to_pylist()
        return origin_of(source[0], schema) if source else Origin()

    def described(self, schema_id: int) -> Mapping[str, Any]:
        """Return a registered schema in the JSON of Kafka Connect.

        Raises:
            SchemaError: the registry does not have it, or it is not Avro.
            SchemaRegistryError: the registry cannot be reached.
        """
        registry = registry_for(self.format.inner.subject.registry)
        found = WriterSchemas(registry, "AVRO").schema(schema_id)
        if isinstance(found, str):
            raise SchemaError(f"A message cannot be read: {found}. Nothing was written.", schema_id=schema_id)
        return connect_schema(resolved_schema(registry, found))


def _numbered(values: pa.Array) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], list[int]]:
    """Return for each message the index of its id, and the ids. Without a value or a header it is -1."""
    ids = schema_ids(values)
    known = pc.unique(ids.filter(pc.greater_equal(ids, 0)))
    at = pc.fill_null(pc.index_in(ids, value_set=known), -1)
    return at.to_numpy(zero_copy_only=False).astype(np.int32), known.to_pylist()


def _failures(values: pa.Array, ids: np.ndarray[tuple[int], np.dtype[np.int32]]) -> list[RowFailure]:
    bad = np.flatnonzero((ids < 0) & values.is_valid().to_numpy(zero_copy_only=False))
    return [failure(values, place, NO_HEADER_REASON) for place in bad.tolist()]


@lru_cache(maxsize=512)
def _plan(messages: AvroMessages, schema_id: int, columns: bytes) -> Plan:
    wanted = pa.ipc.read_schema(pa.py_buffer(columns))
    kinds = kinds_of(messages.described(schema_id), wanted)
    physical = pa.schema([pa.field(name, kind.physical) for name, kind in kinds.items()])
    decoder = replace(messages.format, needs_before=False).decoder(physical, [*physical.names, KIND_COLUMN])
    return Plan(decoder, wanted, kinds, messages.placeholder)
