"""Every property of Kafka's Java clients (4.3), and what becomes of it here.

Runs on the driver, and wherever settings are made from properties. Invariant: `PROPERTIES` names every
property that Kafka documents; a test compares it with Kafka's own list.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import OptionError
from penstock.options.config import KafkaProperties
from penstock.options.properties.common import COMMON_PROPERTIES
from penstock.options.properties.consumer import CONSUMER_PROPERTIES
from penstock.options.properties.declare import Handling, Property, Role
from penstock.options.properties.producer import PRODUCER_PROPERTIES
from penstock.options.properties.security import SASL_PROPERTIES, TLS_PROPERTIES

__all__ = ["GROUPS", "PROPERTIES", "Handling", "Property", "Role", "parse_property", "property_value"]

GROUPS: dict[str, tuple[Property, ...]] = {
    "Every client": COMMON_PROPERTIES,
    "Reading": CONSUMER_PROPERTIES,
    "Writing": PRODUCER_PROPERTIES,
    "Security: protocol and SASL": SASL_PROPERTIES,
    "Security: TLS": TLS_PROPERTIES,
}

PROPERTIES: dict[str, Property] = {declared.name: declared for group in GROUPS.values() for declared in group}


def parse_property(declared: Property, text: str, *, shown_as: str) -> Any:
    """Parse the value of a property.

    Args:
        declared: the property.
        text: what the user wrote.
        shown_as: the key as the user knows it, e.g. `kafka.acks`.

    Raises:
        OptionError: the value is not allowed. A secret is not shown.
    """
    try:
        return declared.type.parse(text)
    except ValueError as error:
        shown = "(not shown)" if declared.is_secret else f"'{text}'"
        raise OptionError(
            f"Option '{shown_as}' cannot be {shown}. Allowed: {error}.", option=shown_as, allowed=str(error)
        ) from None


def property_value(properties: KafkaProperties, name: str) -> Any:
    """Return the parsed value of a declared property, or its default (None where it has none)."""
    text = properties.get(name)
    if text is None:
        return PROPERTIES[name].default_value
    return parse_property(PROPERTIES[name], text, shown_as=properties.spelled(name))
