"""Check the Kafka properties of a user before anything connects.

Runs on the driver. Invariant: the result holds only known properties with allowed values; a property that
would change what is read or written is never dropped without an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import UnsupportedOptionError
from penstock.options.config import KafkaProperties
from penstock.options.declare import Dialect, parse_value
from penstock.options.properties import PROPERTIES, ClientRole, Handling, Property
from penstock.options.properties.references import DETAILS, can_refer, has_reference, providers_of
from penstock.options.unknown import judge_property, refusal_of
from penstock.options.wording import PROPERTY_PREFIX, worded


def check_properties(given: Mapping[str, str], *, dialect: Dialect, role: ClientRole) -> KafkaProperties:
    """Check properties and return those that a consumer or a producer reads.

    Args:
        given: Java names (any case) to values, without the dialect's prefix.
        dialect: FLINK or SPARK. Spark's dialect refuses a few more.
        role: CONSUMER or PRODUCER. Properties of the other one are ignored, because one table can serve both.

    Raises:
        OptionError: a value is not allowed, or a name misspells a known one.
        UnsupportedOptionError: a property or its value is known and not supported.
    """
    kept = []
    providers = providers_of(given, PROPERTY_PREFIX[dialect])
    for name, text in sorted(given.items()):
        declared = PROPERTIES.get(name)
        if name.startswith(DETAILS):
            kept.append((name, text))
        elif declared is None:
            judge_property(name, dialect)
        elif declared.role in (ClientRole.COMMON, ClientRole.ADMIN, role):
            _check_one(declared, text, dialect, is_reference=has_reference(text, providers))
            kept.append((name, text))
    return KafkaProperties(tuple(kept), PROPERTY_PREFIX[dialect])


def _check_one(declared: Property, text: str, dialect: Dialect, *, is_reference: bool) -> None:
    key = PROPERTY_PREFIX[dialect] + declared.name
    refusal = refusal_of(declared, dialect)
    if refusal is not None:
        is_unsupported = declared.handling is Handling.UNSUPPORTED
        what = "is not supported." if is_unsupported else "cannot be set:"
        raise UnsupportedOptionError(f"Option '{key}' {what} {worded(refusal, dialect)}.", option=key)
    if is_reference:
        _check_place_of_reference(declared, key)
        return  # its text is known where it is looked up
    parse_value(declared.type, text, key)
    instead = declared.unsupported_values.get(text.strip().lower())
    if instead is not None:
        raise UnsupportedOptionError(
            f"Option '{key}' cannot be '{text.strip()}': {worded(instead, dialect)}.", option=key
        )


def _check_place_of_reference(declared: Property, key: str) -> None:
    if not can_refer(declared.name):
        raise UnsupportedOptionError(
            f"Option '{key}' holds a reference such as ${{env:NAME}}. Only 'bootstrap.servers', 'ssl.*', "
            "'sasl.*' and 'security.*' can hold references. Nothing was read or written. Write the value "
            "itself.",
            option=key,
        )
