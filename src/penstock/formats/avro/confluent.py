"""`avro-confluent`: Avro behind the Schema Registry's header, as Flink's format of that name.

Runs on executors; options are read on the driver. Invariant: every value is read with the schema that its
own header names, so one batch may hold values of many schemas. A field is read into the column of its name,
so schemas may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError, SchemaRegistryError
from penstock.formats import _native
from penstock.formats.avro._plan import AvroPlan, reading_plan, writing_plan
from penstock.formats.avro.format import avro_encoder, legacy_timestamps
from penstock.formats.avro.schema import Schema, parse_schema, schema_of
from penstock.formats.base import NO_METADATA, DecodedRows, Encoder, RowFailure, failure, selected
from penstock.formats.confluent import (
    HEADER_BYTES,
    NO_HEADER,
    NO_HEADER_REASON,
    RegisteringEncoder,
    Subject,
    WriterSchemas,
    with_failures,
)
from penstock.formats.format_options import FormatOptions, options_of
from penstock.formats.native_rows import check_schema, decoded_rows
from penstock.formats.schema_registry.client import Reference, RegisteredSchema, SchemaRegistry, registry_for
from penstock.formats.schema_registry.options import RegistryOptions
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

REGISTRY = RegistryOptions("avro-confluent")
_OPTIONS = (*REGISTRY.all(), legacy_timestamps("avro-confluent"))


@dataclass(frozen=True)
class AvroConfluentFormat:
    """Avro with a Schema Registry."""

    name: ClassVar[str] = "avro-confluent"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    subject: Subject
    schema_text: str | None = None

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> AvroConfluentFormat:
        return cls.from_options(REGISTRY, options_of(cls.options, spec), spec.topic)

    @classmethod
    def from_options(
        cls, registry: RegistryOptions, given: FormatOptions, topic: str | None
    ) -> AvroConfluentFormat:
        """Return the format of options that may be declared for another format; errors as `from_spec`."""
        text = given.value(registry.schema)
        if text is not None:
            parse_schema(text, option=given.spelled(registry.schema))
        return cls(Subject.from_options(registry, given, topic), text)

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> AvroConfluentDecoder:
        check_schema(self.name, schema)
        return AvroConfluentDecoder(registry_for(self.subject.registry), selected(schema, columns))

    def encoder(self, schema: pa.Schema) -> Encoder:
        check_schema(self.name, schema)
        self.subject.check()
        text = self.schema_text or schema_of(schema)
        plan = writing_plan(parse_schema(text), schema)
        return RegisteringEncoder(partial(_registered, self.subject, text, plan))


class AvroConfluentDecoder:
    """Decodes values, each by the schema that its header names."""

    def __init__(self, registry: SchemaRegistry, schema: pa.Schema) -> None:
        self._registry = registry
        self._schemas = WriterSchemas(registry, "AVRO")
        self._schema = schema
        self._plans: dict[int, AvroPlan | str] = {}  # a text says why there is no plan
        self._read: dict[int, Schema] = {}

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode values; see `Decoder.decode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or a schema refers to others that it does
                not have.
        """
        ids = _native.schema_ids(values)
        self._schemas.start_batch()
        good, reasons = {}, {NO_HEADER: NO_HEADER_REASON}
        for schema_id in pc.unique(ids).to_pylist():
            if schema_id < 0:
                continue
            plan = self._plan(schema_id)
            if isinstance(plan, str):
                reasons[schema_id] = plan
            else:
                good[schema_id] = plan
        known = pa.array(list(good), pa.int32())
        plan_of_value = pc.fill_null(pc.index_in(ids, value_set=known), -1).cast(pa.int32())
        plans = list(good.values())
        decoded = _native.decode_avro(values, self._schema, plans, plan_of_value, HEADER_BYTES)
        found = decoded_rows(values, self._schema, None, decoded)
        failures = [_with_types(one, plans[plan_of_value[one.value_index].as_py()]) for one in found.failures]
        return with_failures(replace(found, failures=failures), _unreadable(values, ids, reasons))

    def writer_schema(self, value: pa.Array) -> Schema | None:
        """Return the schema of a value that was decoded; None if it has none that can be read."""
        return self._read.get(_native.schema_ids(value)[0].as_py())

    def _plan(self, schema_id: int) -> AvroPlan | str:
        """Return the plan for an id, or why there is none."""
        if schema_id in self._plans:
            return self._plans[schema_id]
        found = self._schemas.schema(schema_id)
        if isinstance(found, str):
            return found
        try:
            schema = resolved_schema(self._registry, found)
            self._read[schema_id] = schema
            self._plans[schema_id] = reading_plan(schema, self._schema)
        except SchemaError as error:
            self._plans[schema_id] = f"schema {schema_id}: {error}"
        return self._plans[schema_id]


def _unreadable(values: pa.Array, ids: pa.Array, reasons: Mapping[int, str]) -> list[RowFailure]:
    bad = pc.is_in(ids, value_set=pa.array(list(reasons), pa.int32()))
    positions = pc.indices_nonzero(bad).to_pylist()
    return [failure(values, i, reasons[ids[i].as_py()]) for i in positions]


def _with_types(one: RowFailure, plan: AvroPlan) -> RowFailure:
    """Add both types to the reason where a column cannot hold a value's type."""
    for mismatch in plan.mismatches:
        if one.reason.startswith(f"the value has another type (field '{mismatch.path}',"):
            types = f"{mismatch.column_type} in the table, {mismatch.schema_type} in the writer's schema"
            return replace(one, reason=f"{one.reason}: {types}")
    return one


def _registered(subject: Subject, text: str, plan: AvroPlan) -> Encoder:
    return avro_encoder(AvroConfluentFormat.name, plan, subject.header(text))


DEPTH_MAX = 100
REFERENCES_MAX = 1_000


def resolved_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> Schema:
    """Parse a registered schema together with all schemas that it refers to; each is asked for once.

    Raises:
        SchemaError: the schema has no references and is not an Avro schema.
        SchemaRegistryError: the registry cannot be reached, or a schema that is referred to is missing, or
            there are too many, or together they are not an Avro schema. It stops the query, because the
            records are not bad.
    """
    if not schema.references:
        return parse_schema(schema.text)
    found: dict[Reference, str] = {}
    _gather(registry, schema, found, 0)
    try:
        return parse_schema(schema.text, referenced=list(found.values()))
    except SchemaError as error:
        raise _unusable(schema, str(error)) from None


def _gather(
    registry: SchemaRegistry, schema: RegisteredSchema, found: dict[Reference, str], depth: int
) -> None:
    for reference in schema.references:
        if reference in found:
            continue
        if depth >= DEPTH_MAX or len(found) >= REFERENCES_MAX:
            limits = f"{REFERENCES_MAX:,} other schemas or over more than {DEPTH_MAX} levels"
            raise _unusable(schema, f"it refers to more than {limits}.")
        other = registry.referenced(reference)
        if other.schema_type != "AVRO":
            raise _unusable(schema, f"it refers to '{reference.name}', which is of type {other.schema_type}.")
        found[reference] = other.text
        _gather(registry, other, found, depth + 1)


def _unusable(schema: RegisteredSchema, why: str) -> SchemaRegistryError:
    return SchemaRegistryError(
        f"Schema {schema.schema_id} of the Schema Registry cannot be read with the schemas that it refers "
        f"to: {why} No record was decoded with it; the query can be started again.",
        schema_id=schema.schema_id,
    )
