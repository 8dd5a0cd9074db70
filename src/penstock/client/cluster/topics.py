"""Create topics for the demo, benchmarks and decision logs. A query's own topics are never created.

Runs on the driver. Invariant: when the call returns, each topic partition of the created topics has a leader.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest

from penstock.client.cluster.metadata import cluster_view, fetch_metadata
from penstock.client.cluster.rights import Operation, denied
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import Patience, left_ms
from penstock.client.net.broker_errors import error_from_code, is_retriable
from penstock.client.net.connection import KafkaConnections
from penstock.errors import AuthorizationError, PenstockError

_EXISTS = codes.TOPIC_ALREADY_EXISTS


@dataclass(frozen=True)
class NewTopic:
    """The settings of a topic to create. -1: the broker's default."""

    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    replicas: Mapping[int, Collection[int]] = field(default_factory=dict)
    """Brokers of each partition, the preferred leader first; instead of the two counts."""


def create_topics(
    connections: KafkaConnections,
    topics: Mapping[str, NewTopic],
    *,
    exist_ok: bool = False,
    timeout_ms: int | None = None,
) -> None:
    """Create topics and wait until each topic partition has a leader.

    Raises:
        ClientError: a topic exists already, or cannot be created with these settings.
        AuthorizationError: not allowed.
    """
    patience = Patience.from_now(connections.settings, timeout_ms)
    _create(connections, topics, patience, exist_ok=exist_ok)
    _await_leaders(connections, topics, patience)


def may_create(connections: KafkaConnections, topic: str, *, timeout_ms: int) -> bool:
    """Return whether this user has the right to create a topic of this name. Create nothing.

    Raises:
        ClientError: no broker answers in time.
    """
    request = CreateTopicsRequest(
        topics=[_creatable(topic, NewTopic())], timeout_ms=timeout_ms, validate_only=True
    )
    response = connections.request(request, timeout_ms=timeout_ms)
    denials = (codes.TOPIC_AUTHORIZATION_FAILED, codes.CLUSTER_AUTHORIZATION_FAILED)
    return all(each.error_code not in denials for each in response.topics)


def _creatable(name: str, topic: NewTopic) -> Any:
    kind = CreateTopicsRequest.CreatableTopic
    return kind(
        name=name,
        num_partitions=-1 if topic.replicas else topic.partition_count,
        replication_factor=-1 if topic.replicas else topic.replication_factor,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.replicas.items()
        ],
        configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )


def _create(
    connections: KafkaConnections, topics: Mapping[str, NewTopic], patience: Patience, *, exist_ok: bool
) -> None:
    """Ask the controller until each topic is created.

    A request whose answer is lost is not sent again, because the topic may exist by then and the error
    "exists already" would be wrong.
    """
    backoff = connections.new_backoff()
    pending: Collection[str] = topics
    while pending:
        controller_id = fetch_metadata(connections, [], timeout_ms=left_ms(patience.deadline)).controller_id
        limit_ms = min(left_ms(patience.deadline), connections.settings.request_timeout_ms)
        request = CreateTopicsRequest(
            topics=[_creatable(name, topics[name]) for name in pending],
            timeout_ms=limit_ms,
            validate_only=False,
        )
        response = connections.request(request, node_id=controller_id, timeout_ms=limit_ms)
        failed: dict[str, PenstockError] = {}
        for result in response.topics:
            if not result.error_code or (exist_ok and result.error_code == _EXISTS):
                continue
            where = f"Creating topic {result.name!r}"
            error = error_from_code(result.error_code, where, result.error_message, topic=result.name)
            if isinstance(error, AuthorizationError):
                effect = "The topic was not created."
                raise denied(connections, Operation.CREATE, f"topic {result.name!r}", effect)
            if not is_retriable(error):
                raise error
            failed[result.name] = error
        pending = failed.keys()
        if failed and not backoff.pause(patience.deadline):
            raise next(iter(failed.values()))


def _await_leaders(connections: KafkaConnections, topics: Collection[str], patience: Patience) -> None:
    view = cluster_view(connections)
    for topic in topics:
        view.invalidate(topic)
    described = view.topics(topics, timeout_ms=left_ms(patience.deadline))
    wanted = [topic_partition for topic in described.values() for topic_partition in topic.topic_partitions]
    view.leaders_of(wanted, timeout_ms=left_ms(patience.deadline))
