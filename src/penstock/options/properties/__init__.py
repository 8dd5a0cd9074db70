"""Every property of Kafka's Java clients (4.3) and what penstock does with it.

Runs on the driver, and on executors that make settings from properties. Invariant: `PROPERTIES` holds every
property that Kafka documents; a test compares it with Kafka's own list.
"""

from __future__ import annotations

from typing import Any

from penstock.options.config import KafkaProperties
from penstock.options.declare import parse_value
from penstock.options.properties._common import COMMON_PROPERTIES
from penstock.options.properties._consumer import CONSUMER_PROPERTIES
from penstock.options.properties._declare import ClientRole, Handling, Property
from penstock.options.properties._producer import PRODUCER_PROPERTIES
from penstock.options.properties._security import SASL_PROPERTIES, TLS_PROPERTIES

__all__ = ["GROUPS", "PROPERTIES", "ClientRole", "Handling", "Property", "default_of", "property_value"]

GROUPS: dict[str, tuple[Property, ...]] = {
    "Every client": COMMON_PROPERTIES,
    "Reading": CONSUMER_PROPERTIES,
    "Writing": PRODUCER_PROPERTIES,
    "Security: protocol and SASL": SASL_PROPERTIES,
    "Security: TLS": TLS_PROPERTIES,
}

PROPERTIES: dict[str, Property] = {declared.name: declared for group in GROUPS.values() for declared in group}


def default_of(name: str) -> Any:
    """Return the default of a declared property (None where it has none)."""
    return PROPERTIES[name].default


def property_value(properties: KafkaProperties, name: str) -> Any:
    """Return the parsed value of a declared property, or its default (None where it has none)."""
    text = properties.get(name)
    if text is None:
        return default_of(name)
    return parse_value(PROPERTIES[name].type, text, properties.spelled(name))
