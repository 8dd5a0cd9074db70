"""Check that the properties of a producer fit each other and the delivery guarantee.

Runs on the driver, so that a contradiction stops a query before a job starts, and wherever settings are made.
Invariant: the properties in a `DeliveryProperties` contradict neither each other nor the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import OptionError
from penstock.options.config import DeliveryGuarantee, KafkaProperties
from penstock.options.properties import property_value

_IN_FLIGHT = "max.in.flight.requests.per.connection"
_IN_FLIGHT_WITH_IDEMPOTENCE_MAX = 5


@dataclass(frozen=True)
class DeliveryProperties:
    """The properties that depend on one another. `acks` is -1 (all), 0 or 1."""

    acks: int
    enable_idempotence: bool
    max_in_flight: int
    delivery_timeout_ms: int


def delivery_properties(properties: KafkaProperties, guarantee: DeliveryGuarantee) -> DeliveryProperties:
    """Return the properties that depend on one another, after the checks.

    Raises:
        OptionError: a property is malformed, or contradicts another or the guarantee.
    """
    idempotence = property_value(properties, "enable.idempotence")
    found = DeliveryProperties(
        acks=property_value(properties, "acks"),
        enable_idempotence=guarantee is not DeliveryGuarantee.NONE if idempotence is None else idempotence,
        max_in_flight=property_value(properties, _IN_FLIGHT),
        delivery_timeout_ms=_delivery_timeout_ms(properties),
    )
    _check_guarantee(found, guarantee, properties.spelled)
    _check_idempotence(found, properties)
    return found


def _delivery_timeout_ms(properties: KafkaProperties) -> int:
    """Return the time-out. As in Java, it must leave time for one request; the default is raised to do so."""
    linger_ms = property_value(properties, "linger.ms")
    request_timeout_ms = property_value(properties, "request.timeout.ms")
    delivery_timeout_ms: int = property_value(properties, "delivery.timeout.ms")
    room_ms: int = linger_ms + request_timeout_ms
    if delivery_timeout_ms >= room_ms:
        return delivery_timeout_ms
    key = properties.spelled
    if properties.get("delivery.timeout.ms") is not None:
        raise OptionError(
            f"Option '{key('delivery.timeout.ms')}' cannot be {delivery_timeout_ms}: it must be at least "
            f"'{key('linger.ms')}' + '{key('request.timeout.ms')}' = {linger_ms} + {request_timeout_ms}.",
            option=key("delivery.timeout.ms"),
        )
    return room_ms


def _check_guarantee(
    found: DeliveryProperties, guarantee: DeliveryGuarantee, key: Callable[[str], str]
) -> None:
    if guarantee is not DeliveryGuarantee.NONE and found.acks != -1:
        raise OptionError(
            f"Option '{key('acks')}' = '{found.acks}' contradicts the delivery guarantee "
            f"{guarantee.value}: a record that only one broker has is lost when that broker fails. Set "
            f"'{key('acks')}' = 'all', or 'sink.delivery-guarantee' = 'none'.",
            option=key("acks"),
        )
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE and not found.enable_idempotence:
        raise OptionError(
            f"Option '{key('enable.idempotence')}' = 'false' contradicts the delivery guarantee "
            "exactly-once: leave it out.",
            option=key("enable.idempotence"),
        )


def _check_idempotence(found: DeliveryProperties, properties: KafkaProperties) -> None:
    if not found.enable_idempotence:
        return
    key = properties.spelled
    rest = (
        f"Change it, or set '{key('enable.idempotence')}' = 'false' and accept doubled and unordered records."
    )
    if found.acks != -1:
        raise OptionError(
            f"Option '{key('acks')}' = '{found.acks}' contradicts an idempotent producer, which needs "
            f"'all'. {rest}",
            option=key("acks"),
        )
    if found.max_in_flight > _IN_FLIGHT_WITH_IDEMPOTENCE_MAX:
        raise OptionError(
            f"Option '{key(_IN_FLIGHT)}' = '{found.max_in_flight}' contradicts an "
            f"idempotent producer: brokers remember {_IN_FLIGHT_WITH_IDEMPOTENCE_MAX} batches. {rest}",
            option=key(_IN_FLIGHT),
        )
    if property_value(properties, "enable.idempotence") and property_value(properties, "retries") == 0:
        raise OptionError(
            f"Option '{key('retries')}' = '0' contradicts '{key('enable.idempotence')}' = 'true'. {rest}",
            option=key("retries"),
        )
