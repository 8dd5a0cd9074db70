"""Say why a property cannot be set to any value.

Runs on the driver. Invariant: Spark's dialect refuses what Spark's own source and sink refuse.
"""

from __future__ import annotations

from penstock.options.declare import Dialect
from penstock.options.properties import Handling, Property

_IN_SPARKS_DIALECT = {
    "auto.offset.reset": "say where a new query begins with 'startingOffsets', and what happens when records "
    "are gone with 'failOnDataLoss'",
    "enable.auto.commit": "Spark's checkpoint keeps the position; only penstock commits offsets, after it",
    "key.deserializer": "keys are read as bytes; decode them with Spark, e.g. CAST(key AS STRING)",
    "value.deserializer": "values are read as bytes; decode them with Spark, e.g. CAST(value AS STRING)",
    "key.serializer": "keys are written as bytes; encode them with Spark, e.g. CAST(key AS BINARY)",
    "value.serializer": "values are written as bytes; encode them with Spark, e.g. to_json",
}


def refusal_of(declared: Property, dialect: Dialect) -> str | None:
    """Return why the property cannot be set in the dialect and what to do; None where it can."""
    if dialect is Dialect.SPARK and declared.name in _IN_SPARKS_DIALECT:
        return _IN_SPARKS_DIALECT[declared.name]
    if declared.handling is Handling.UNSUPPORTED:
        return declared.doc.rstrip(".")
    return None
