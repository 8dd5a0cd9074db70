"""What the `*-confluent` formats share: the header of a value, schemas by id, and the subject to write under.

Runs on executors; `Subject` is made on the driver. Invariant: a value without the header, or with an id that
the registry does not know, is a bad record. A registry that does not answer stops the query instead, because
then the records are not bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.errors import MissingOptionError
from penstock.formats import _native
from penstock.formats.base import DecodedRows, Encoder, RowFailure
from penstock.formats.format_options import FormatOptions
from penstock.formats.schema_registry.client import (
    Reference,
    RegisteredSchema,
    RegistrySettings,
    SchemaRegistry,
    registry_for,
)
from penstock.formats.schema_registry.options import RegistryOptions

HEADER_BYTES = 5
"""A zero byte and the schema's id in four bytes, the highest first."""

NO_HEADER = -2
"""What `_native.schema_ids` gives for a value without the header."""

NO_HEADER_REASON = "the value does not begin with the Schema Registry's header"

LOOKUPS_PER_BATCH_MAX = 50
"""How many new ids one batch may ask for. Real topics have a few; made-up ids may be millions."""


def schema_ids(values: pa.Array) -> pa.Int32Array:
    """Return the id in the header of each value; negative for a value without a header, and for no value."""
    return _native.schema_ids(values)


class WriterSchemas:
    """Schemas by the ids in the headers of values.

    Args:
        registry: Where they are registered.
        schema_type: AVRO, JSON or PROTOBUF; a schema of another type is a reason to fail.
        form: See `SchemaRegistry.schema`.
    """

    def __init__(self, registry: SchemaRegistry, schema_type: str, form: str = "") -> None:
        self._registry = registry
        self._schema_type = schema_type
        self._form = form
        self._lookup_count = 0

    def start_batch(self) -> None:
        self._lookup_count = 0

    def schema(self, schema_id: int) -> RegisteredSchema | str:
        """Return the schema of an id, or why a value with this id cannot be decoded.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or refuses.
        """
        if not self._registry.is_cached(schema_id, self._form):
            self._lookup_count += 1
            if self._lookup_count > LOOKUPS_PER_BATCH_MAX:
                return f"schema id {schema_id} is one of over {LOOKUPS_PER_BATCH_MAX} new ids in one batch"
        found = self._registry.schema(schema_id, self._form)
        if found is None:
            return f"the Schema Registry does not know schema id {schema_id}"
        if found.schema_type != self._schema_type:
            return f"expected schema {schema_id} to be of type {self._schema_type}, got {found.schema_type}"
        return found


def with_failures(found: DecodedRows, more: Sequence[RowFailure]) -> DecodedRows:
    """Return the rows with more failures, in the order of the values."""
    if not more:
        return found
    failures = sorted([*found.failures, *more], key=lambda one: one.value_index)
    return replace(found, failures=failures)


@dataclass(frozen=True)
class Subject:
    """Where the schema of written values is registered. `name` is None where nothing gives it."""

    registry: RegistrySettings
    name: str | None
    registers: bool = True
    option: str = field(default="", compare=False)
    """How the user spells the option of the name, for messages."""

    @classmethod
    def from_options(cls, options: RegistryOptions, given: FormatOptions, topic: str | None) -> Subject:
        """Read the registry and the subject of one format.

        Raises:
            OptionError: a value is not allowed.
            MissingOptionError: no URL of a registry.
        """
        return cls(
            options.settings(given),
            options.subject_of(given, topic),
            given.flag(options.auto_register),
            given.spelled(options.subject),
        )

    def check(self) -> None:
        """Raise MissingOptionError where the subject has no name."""
        if self.name is None:
            raise MissingOptionError(
                f"Option '{self.option}' is required, because no single 'topic' gives the subject its name.",
                option=self.option,
            )

    def header(self, text: str, schema_type: str = "AVRO", references: tuple[Reference, ...] = ()) -> bytes:
        """Return the header of values that are written with a schema; the registry is asked once.

        Raises:
            SchemaRegistryError: the registry cannot be reached, or does not have or take the schema.
        """
        schema_id = registry_for(self.registry).schema_id(
            self.name or "", text, schema_type, references, registers=self.registers
        )
        return b"\0" + schema_id.to_bytes(HEADER_BYTES - 1, "big")


class RegisteringEncoder:
    """Encodes rows after the header of a schema. The schema is registered when the first rows come.

    Args:
        make: Registers the schema and makes the encoder that writes its header.
    """

    def __init__(self, make: Callable[[], Encoder]) -> None:
        self._make = make
        self._encoder: Encoder | None = None

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """Encode rows; see `Encoder.encode`.

        Raises:
            SchemaRegistryError: the registry cannot be reached or does not take the schema.
        """
        if self._encoder is None:
            self._encoder = self._make()
        return self._encoder.encode(rows)
