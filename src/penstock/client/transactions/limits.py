"""Ask for the settings of brokers and topics that transactions depend on.

Runs on the driver. Invariant: changes nothing. Returns None without the permission (DESCRIBE_CONFIGS), so
that the caller can continue with a safe assumption.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.errors import AuthorizationError

_log = logging.getLogger(__name__)

MAX_TIMEOUT_CONFIG = "transaction.max.timeout.ms"
NO_TRANSACTIONS = ("diskless.enable", "inkless.enable")
"""Settings that mark diskless topics (KIP-1150): they refuse transactions. The second is the older name."""

_TOPIC = 2
_BROKER = 4


def max_transaction_timeout_ms(connections: KafkaConnections, *, timeout_ms: int | None = None) -> int | None:
    """Return the longest transaction time-out that every broker allows; None: this user may not ask."""
    brokers = fetch_metadata(connections, [], timeout_ms=timeout_ms).brokers
    allowed = []
    for node_id in sorted(brokers):
        found = broker_config(connections, node_id, [MAX_TIMEOUT_CONFIG], timeout_ms=timeout_ms)
        if found is None:
            return None
        if (value := found.get(MAX_TIMEOUT_CONFIG)) is not None:
            allowed.append(int(value))
    return min(allowed, default=None)


def topic_config(
    connections: KafkaConnections, topic: str, names: Collection[str], *, timeout_ms: int | None = None
) -> dict[str, str | None] | None:
    """Return the settings of one topic; None: this user may not ask."""
    return _describe(connections, _TOPIC, topic, names, timeout_ms=timeout_ms)


def mark_of_no_transactions(
    connections: KafkaConnections, topic: str, *, timeout_ms: int | None = None
) -> str | None:
    """Return the setting by which a topic says that it has no transactions, e.g. "diskless.enable=true".

    None: it has none of these settings, or this user may not ask.
    """
    config = topic_config(connections, topic, NO_TRANSACTIONS, timeout_ms=timeout_ms)
    if config is None:
        _log.info("May not read whether topic %s is diskless. A broker would refuse transactions.", topic)
    return mark_in(config or {})


def mark_in(config: Mapping[str, str | None]) -> str | None:
    """Return the setting of a topic that says that it has no transactions; None if it has none."""
    values = {name: (config.get(name) or "").lower() for name in NO_TRANSACTIONS}
    return next((f"{name}=true" for name, value in values.items() if value == "true"), None)


def broker_config(
    connections: KafkaConnections, node_id: int, names: Collection[str], *, timeout_ms: int | None = None
) -> dict[str, str | None] | None:
    """Return settings of one broker; None: this user may not ask."""
    return _describe(connections, _BROKER, str(node_id), names, node_id=node_id, timeout_ms=timeout_ms)


def _describe(
    connections: KafkaConnections,
    resource_type: int,
    resource_name: str,
    names: Collection[str],
    *,
    node_id: int | None = None,
    timeout_ms: int | None = None,
) -> dict[str, str | None] | None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configuration_keys=list(names)
    )
    request = DescribeConfigsRequest(
        resources=[resource],
        include_synonyms=False,
        include_documentation=False,
        **versions.DESCRIBE_CONFIGS.bounds,
    )
    response: Any = connections.request(request, node_id=node_id, timeout_ms=timeout_ms)
    result = response.results[0]
    if result.error_code:
        error = error_from_code(
            result.error_code, f"Asking for the settings of {resource_name!r}", result.error_message
        )
        if isinstance(error, AuthorizationError):
            return None
        raise error
    return {config.name: config.value for config in result.configs}
