"""Making and removing topics: for the demo, tests and decision logs, never what a query reads or writes.

Runs on the driver. Invariant: when a call returns, the cluster has done it: a created topic has leaders,
a deleted one is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

from penstock.client.backoff import left_ms
from penstock.client.broker_errors import error_from_code, is_retriable
from penstock.client.connection import KafkaConnections
from penstock.client.metadata import Patience, cluster_view, fetch_metadata
from penstock.errors import ClientError, PenstockError
from penstock.types import TopicPartition


@dataclass(frozen=True)
class NewTopic:
    """What a topic shall be. -1: the broker's default."""

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

    Args:
        connections: to the cluster.
        topics: by name.
        exist_ok: leave a topic that exists as it is.
        timeout_ms: default `default_api_timeout_ms`.

    Raises:
        ClientError: a topic exists already, or cannot be made as wanted.
        AuthorizationError: not allowed.
    """
    patience = Patience.from_now(connections, timeout_ms)
    ignored = {kafka_errors.TopicAlreadyExistsError.errno} if exist_ok else set()

    def build(names: Collection[str], limit_ms: int) -> Any:
        return CreateTopicsRequest(
            topics=[_creatable(name, topics[name]) for name in names],
            timeout_ms=limit_ms,
            validate_only=False,
        )

    _change(connections, "Creating topic", topics, build, lambda response: response.topics, ignored, patience)
    _await_leaders(connections, topics, patience)


def delete_topics(
    connections: KafkaConnections, topics: Collection[str], *, timeout_ms: int | None = None
) -> None:
    """Delete topics with their records and wait until they are unknown.

    Raises:
        UnknownTopicOrPartitionError: there is none of this name.
        AuthorizationError: not allowed.
    """
    patience = Patience.from_now(connections, timeout_ms)

    def build(names: Collection[str], limit_ms: int) -> Any:
        states = [DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None) for name in names]
        return DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=limit_ms)

    _change(
        connections, "Deleting topic", topics, build, lambda response: response.responses, set(), patience
    )
    backoff = connections.new_backoff()
    while any(not topic.error_code for topic in _reload(connections, topics, patience).values()):
        if not backoff.pause(patience.deadline):
            raise ClientError(f"Topics {sorted(topics)} were deleted, but are still known to a broker.")


def create_partitions(
    connections: KafkaConnections, partition_counts: Mapping[str, int], *, timeout_ms: int | None = None
) -> None:
    """Raise the number of partitions of topics and wait until the new ones have leaders.

    Raises:
        ClientError: the count is not larger than now.
        UnknownTopicOrPartitionError: there is no such topic.
        AuthorizationError: not allowed.
    """
    patience = Patience.from_now(connections, timeout_ms)

    def build(names: Collection[str], limit_ms: int) -> Any:
        wanted = [
            CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=partition_counts[name], assignments=None
            )
            for name in names
        ]
        return CreatePartitionsRequest(topics=wanted, timeout_ms=limit_ms, validate_only=False)

    _change(
        connections,
        "Adding partitions to topic",
        partition_counts,
        build,
        lambda response: response.results,
        set(),
        patience,
    )
    _reload(connections, partition_counts, patience)
    wanted = [
        TopicPartition(topic, partition)
        for topic, count in partition_counts.items()
        for partition in range(count)
    ]
    cluster_view(connections).leaders_of(wanted, timeout_ms=left_ms(patience.deadline))


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


def _change(
    connections: KafkaConnections,
    what: str,
    topics: Collection[str],
    build: Callable[[Collection[str], int], Any],
    results: Callable[[Any], Any],
    ignored_codes: set[int],
    patience: Patience,
) -> None:
    """Ask the controller until each topic is done; an error that may pass is waited out."""
    backoff = connections.new_backoff()
    pending = list(topics)
    while pending:
        controller_id = fetch_metadata(connections, [], timeout_ms=left_ms(patience.deadline)).controller_id
        limit_ms = min(left_ms(patience.deadline), connections.settings.request_timeout_ms)
        response = connections.request(build(pending, limit_ms), node_id=controller_id, timeout_ms=limit_ms)
        failed: list[PenstockError] = []
        pending = []
        for result in results(response):
            if result.error_code in ignored_codes or not result.error_code:
                continue
            where = f"{what} {result.name!r}"
            error = error_from_code(result.error_code, where, result.error_message, topic=result.name)
            if not is_retriable(error) or _is_unknown(result.error_code):
                raise error
            failed.append(error)
            pending.append(result.name)
        if failed and not backoff.pause(patience.deadline):
            raise failed[0]


def _is_unknown(error_code: int) -> bool:
    return bool(error_code == kafka_errors.UnknownTopicOrPartitionError.errno)


def _reload(connections: KafkaConnections, topics: Collection[str], patience: Patience) -> Mapping[str, Any]:
    return cluster_view(connections).reload(topics, timeout_ms=left_ms(patience.deadline))


def _await_leaders(connections: KafkaConnections, topics: Collection[str], patience: Patience) -> None:
    view = cluster_view(connections)
    for topic in topics:
        view.invalidate(topic)
    described = view.topics(topics, timeout_ms=left_ms(patience.deadline))
    wanted = [topic_partition for topic in described.values() for topic_partition in topic.topic_partitions]
    view.leaders_of(wanted, timeout_ms=left_ms(patience.deadline))
