"""`avro-confluent`: Avro behind the Schema Registry's header, as Flink's format of that name.

Runs on executors; options are read on the driver. Invariant: every value is read with the schema that its
own header names, so one batch may hold many; fields meet columns by name, which is how schemas may
change. A value with an unknown id is a bad record; a registry that does not answer stops the query,
because its records are not bad.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import MissingOptionError, SchemaError
from penstock.formats import _native
from penstock.formats.avro._plan import AvroPlan, reading_plan, writing_plan
from penstock.formats.avro._references import resolved_schema
from penstock.formats.avro.format import AvroEncoder, legacy_timestamps
from penstock.formats.avro.schema import parse_schema, schema_of
from penstock.formats.base import (
    NO_METADATA,
    DecodedRows,
    Decoder,
    Encoder,
    RowFailure,
    failure,
    selected,
)
from penstock.formats.format_options import options_of
from penstock.formats.native_rows import check_schema, decoded_rows
from penstock.formats.schema_registry.client import RegistrySettings, SchemaRegistry, registry_for
from penstock.formats.schema_registry.options import RegistryOptions
from penstock.options.declare import Option
from penstock.options.table_spec import FormatSpec

HEADER_BYTES = 5
NO_HEADER = -2
LOOKUPS_PER_BATCH_MAX = 50
"""New ids that one batch may make us ask for: honest topics have a few, made-up ids may be millions."""

REGISTRY = RegistryOptions("avro-confluent")
_OPTIONS = (*REGISTRY.all(), legacy_timestamps("avro-confluent"))


@dataclass(frozen=True)
class AvroConfluentFormat:
    """Avro with a Schema Registry."""

    name: ClassVar[str] = "avro-confluent"
    metadata: ClassVar[pa.Schema] = NO_METADATA
    options: ClassVar[Sequence[Option[Any]]] = _OPTIONS

    registry: RegistrySettings
    subject: str | None = None
    schema_text: str | None = None
    registers: bool = True

    @classmethod
    def from_spec(cls, spec: FormatSpec) -> AvroConfluentFormat:
        """Read the format's options.

        Raises:
            OptionError: an option is unknown or has a value that is not allowed.
            MissingOptionError: no URL of a registry.
            SchemaError: the schema to write is not an Avro schema.
        """
        given = options_of(cls.options, spec)
        text = given.value(REGISTRY.schema)
        if text is not None:
            parse_schema(text, option=given.spelled(REGISTRY.schema))
        subject = REGISTRY.subject_of(given, spec.topic)
        return cls(REGISTRY.settings(given), subject, text, given.flag(REGISTRY.auto_register))

    def decoder(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> Decoder:
        """Make a decoder; see `Format.decoder`."""
        check_schema(self.name, schema)
        return AvroConfluentDecoder(registry_for(self.registry), selected(schema, columns))

    def encoder(self, schema: pa.Schema) -> Encoder:
        """Make an encoder; see `Format.encoder`."""
        check_schema(self.name, schema)
        if self.subject is None:
            raise MissingOptionError(
                "Option 'avro-confluent.subject' is required where no single 'topic' gives the subject "
                "its name.",
                option="avro-confluent.subject",
            )
        text = self.schema_text or schema_of(schema)
        return AvroConfluentEncoder(self, self.subject, text, writing_plan(parse_schema(text), schema))


class AvroConfluentDecoder:
    """Decodes values, each by the schema that its header names."""

    def __init__(self, registry: SchemaRegistry, schema: pa.Schema) -> None:
        self._registry = registry
        self._schema = schema
        self._plans: dict[int, AvroPlan | str] = {}  # a text is why there is none

    def decode(self, values: pa.Array) -> DecodedRows:
        """Decode values; see `Decoder.decode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or a schema refers to others that it does
                not have.
        """
        ids = _native.schema_ids(values)
        lookups = 0
        good, reasons = {}, {NO_HEADER: "the value does not begin with the Schema Registry's header"}
        for schema_id in pc.unique(ids).to_pylist():
            if schema_id < 0:
                continue
            lookups += not self._registry.is_cached(schema_id)
            plan = self._plan(schema_id, may_ask=lookups <= LOOKUPS_PER_BATCH_MAX)
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
        return _with_failures(replace(found, failures=failures), _unreadable(values, ids, reasons))

    def _plan(self, schema_id: int, *, may_ask: bool) -> AvroPlan | str:
        """Return the plan for an id, or why there is none."""
        if schema_id in self._plans:
            return self._plans[schema_id]
        if not may_ask:
            return f"schema id {schema_id} is one of more than {LOOKUPS_PER_BATCH_MAX} new ones in one batch"
        found = self._registry.schema(schema_id)
        if found is None:
            return f"the Schema Registry does not know schema id {schema_id}"
        if found.schema_type != "AVRO":
            return f"schema {schema_id} is of type {found.schema_type}, not AVRO"
        try:
            self._plans[schema_id] = reading_plan(resolved_schema(self._registry, found), self._schema)
        except SchemaError as error:
            self._plans[schema_id] = f"schema {schema_id}: {error}"
        return self._plans[schema_id]


def _unreadable(values: pa.Array, ids: pa.Array, reasons: Mapping[int, str]) -> list[RowFailure]:
    bad = pc.is_in(ids, value_set=pa.array(list(reasons), pa.int32()))
    positions = pc.indices_nonzero(bad).to_pylist()
    return [failure(values, i, reasons[ids[i].as_py()]) for i in positions]


def _with_types(one: RowFailure, plan: AvroPlan) -> RowFailure:
    """Add both types to the reason of a value whose type the column cannot hold."""
    for mismatch in plan.mismatches:
        if one.reason.startswith(f"the value has another type (field '{mismatch.path}',"):
            types = f"{mismatch.column_type} in the table, {mismatch.schema_type} in the writer's schema"
            return replace(one, reason=f"{one.reason}: {types}")
    return one


def _with_failures(found: DecodedRows, more: list[RowFailure]) -> DecodedRows:
    if not more:
        return found
    failures = sorted([*found.failures, *more], key=lambda one: one.value_index)
    return DecodedRows(found.rows, found.row_count, found.value_indices, failures, found.ignored_count)


class AvroConfluentEncoder:
    """Encodes rows behind the header of a schema that is registered when the first rows come."""

    def __init__(self, options: AvroConfluentFormat, subject: str, text: str, plan: AvroPlan) -> None:
        self._options = options
        self._subject = subject
        self._text = text
        self._plan = plan
        self._encoder: AvroEncoder | None = None

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Encode rows; see `Encoder.encode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached or does not take the schema.
        """
        if self._encoder is None:
            registry = registry_for(self._options.registry)
            schema_id = registry.schema_id(self._subject, self._text, registers=self._options.registers)
            header = b"\0" + schema_id.to_bytes(4, "big")
            self._encoder = AvroEncoder(self._options.name, self._plan, header)
        return self._encoder.encode(rows)
