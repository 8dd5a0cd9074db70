"""Properties as the user gave them, checked on the driver before anything connects.

Invariant: what is returned holds known properties with allowed values only; nothing is dropped in
silence that would change what is read or written.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping

from penstock.errors import UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties import PROPERTIES, Handling, Property, Role, parse_property
from penstock.options.warn import warn_once

_log = logging.getLogger("penstock.options")

_ALIASES = {"sasl.mechanisms": "sasl.mechanism", "broker.list": "bootstrap.servers"}
"""librdkafka's names that difflib would not find, or not first."""

_REFUSED_IN_SPARKS_DIALECT = {
    "auto.offset.reset": "say where a new query begins with 'startingOffsets', and what happens when records "
    "are gone with 'failOnDataLoss'",
    "enable.auto.commit": "Spark's checkpoint keeps the position; nothing is committed behind its back",
    "key.deserializer": "keys are read as bytes; decode them with Spark, e.g. CAST(key AS STRING)",
    "value.deserializer": "values are read as bytes; decode them with Spark, e.g. CAST(value AS STRING)",
    "key.serializer": "keys are written as bytes; encode them with Spark, e.g. CAST(key AS BINARY)",
    "value.serializer": "values are written as bytes; encode them with Spark, e.g. to_json",
}


def check_properties(given: Mapping[str, str], *, prefix: str, role: Role) -> KafkaProperties:
    """Check properties and return those that the side asked for reads.

    Args:
        given: Java names (any case) to values, without the dialect's prefix.
        prefix: `properties.` or `kafka.`; for messages, and Spark's dialect refuses a few more.
        role: CONSUMER or PRODUCER. The other one's properties are let pass: one table serves both.

    Raises:
        OptionError: a value is not allowed.
        UnsupportedOptionError: a property, or this value of it, would be ignored where it must not be.
    """
    kept = []
    for name, text in sorted(given.items()):
        declared = PROPERTIES.get(name)
        if declared is None:
            _warn_unknown(name, prefix)
        elif declared.role in (Role.COMMON, Role.ADMIN, role):
            _check_one(declared, text, prefix)
            kept.append((name, text))
    return KafkaProperties(tuple(kept))


def _check_one(declared: Property, text: str, prefix: str) -> None:
    key = prefix + declared.name
    if prefix == "kafka." and declared.name in _REFUSED_IN_SPARKS_DIALECT:
        raise UnsupportedOptionError(
            f"Option '{key}' cannot be set: {_REFUSED_IN_SPARKS_DIALECT[declared.name]}.", option=key
        )
    if declared.handling is Handling.UNSUPPORTED:
        raise UnsupportedOptionError(f"Option '{key}' is not supported. {declared.doc}", option=key)
    parse_property(declared, text, shown_as=key)
    instead = declared.unsupported_values.get(text.strip().lower())
    if instead is not None:
        raise UnsupportedOptionError(f"Option '{key}' cannot be '{text.strip()}': {instead}.", option=key)


def _warn_unknown(name: str, prefix: str) -> None:
    near = [_ALIASES[name]] if name in _ALIASES else difflib.get_close_matches(name, PROPERTIES, n=1)
    hint = f" Did you mean '{prefix}{near[0]}'?" if near else " Kafka's Java clients have no such property."
    warn_once(_log, f"Unknown option '{prefix}{name}' is ignored.{hint}")
