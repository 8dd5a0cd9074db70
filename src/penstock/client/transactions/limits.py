"""Ask for the settings of brokers and topics that transactions depend on.

Runs on the driver. Invariant: changes nothing. Returns None without the permission (DESCRIBE_CONFIGS), so
that the caller can continue with a safe assumption.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from penstock.client.cluster.metadata import fetch_metadata
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.errors import AuthorizationError

MAX_TIMEOUT_CONFIG = "transaction.max.timeout.ms"

_TOPIC = 2
_BROKER = 4


def max_transaction_timeout_ms(connections: KafkaConnections, *, timeout_ms: int | None = None) -> int | None:
    """Return the longest transaction time-out that every broker allows; None: this user may not ask."""
    brokers = fetch_metadata(connections, [], timeout_ms=timeout_ms).brokers
    allowed = []
    for node_id in sorted(brokers):
        found = _describe(
            connections, _BROKER, str(node_id), [MAX_TIMEOUT_CONFIG], node_id=node_id, timeout_ms=timeout_ms
        )
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
