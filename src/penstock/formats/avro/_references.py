"""The schemas that an Avro schema of a Schema Registry refers to.

Runs on executors. Invariant: depth and number are bounded, and each schema is asked for once. A schema that
cannot be read stops the query, because the records are not bad.
"""

from __future__ import annotations

from penstock.errors import SchemaError, SchemaRegistryError
from penstock.formats.avro.schema import Schema, parse_schema
from penstock.formats.schema_registry.client import Reference, RegisteredSchema, SchemaRegistry

DEPTH_MAX = 100
REFERENCES_MAX = 1_000


def resolved_schema(registry: SchemaRegistry, schema: RegisteredSchema) -> Schema:
    """Parse a registered schema together with all schemas that it refers to.

    Raises:
        SchemaError: the schema has no references and is not an Avro schema.
        SchemaRegistryError: the registry cannot be reached, or a schema that is referred to is missing, or
            there are too many, or together they are not an Avro schema.
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
