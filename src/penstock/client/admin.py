"""Questions to the cluster that are not records: topic partitions, offsets, committed offsets, topics.

Runs on the driver mostly. Invariants: every call is batched (one request per broker, whatever the number
of topic partitions), ends within its time-out, and asking never changes or creates anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from penstock.client.backoff import left_ms
from penstock.client.broker_errors import error_from_code, is_retriable
from penstock.client.connection import KafkaConnections
from penstock.client.leader_requests import Answers, LeaderRequests, Question, Reply, by_topic
from penstock.client.metadata import Patience, TopicMetadata, cluster_view, fetch_metadata
from penstock.client.topic_admin import NewTopic, create_partitions, create_topics, delete_topics
from penstock.errors import PenstockError, UnknownTopicOrPartitionError
from penstock.options.config import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    IsolationLevel,
    Subscription,
    TopicList,
    TopicPartitionSet,
)
from penstock.types import TopicPartition

__all__ = [
    "EARLIEST_OFFSET",
    "LATEST_OFFSET",
    "NO_OFFSET",
    "NewTopic",
    "committed_offsets",
    "create_partitions",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_topics",
    "find_coordinator",
    "list_offsets",
    "list_offsets_each",
    "list_topic_partitions",
]

NO_OFFSET = -1
"""The answer to a timestamp after the last record's."""

_GROUP = 0
_HIGH_WATERMARK = -1


def describe_topics(
    connections: KafkaConnections, topics: Collection[str] | None = None, *, timeout_ms: int | None = None
) -> dict[str, TopicMetadata]:
    """Those of the named topics that exist, or (None) all topics of the cluster. Never from a cache.

    Raises:
        AuthorizationError: a named topic may not be described.
        BrokerUnavailableError: nobody answered, or a topic's state stays unclear until the time is up.
    """
    cluster = fetch_metadata(connections, topics, timeout_ms=timeout_ms)
    unclear = [name for name, topic in cluster.topics.items() if topic.error_code]
    found = {name: topic for name, topic in cluster.topics.items() if not topic.error_code}
    for name in unclear:
        try:
            found[name] = cluster_view(connections).topic(name, timeout_ms=timeout_ms)
        except UnknownTopicOrPartitionError:  # noqa: PERF203  # each topic may be unknown for itself
            continue
    return found


def list_topic_partitions(
    connections: KafkaConnections, subscription: Subscription, *, timeout_ms: int | None = None
) -> list[TopicPartition]:
    """All topic partitions of a subscription as of now, sorted.

    Raises:
        UnknownTopicOrPartitionError: a topic of a list, or a topic partition of a set, does not exist.
        AuthorizationError: a named topic may not be described.
    """
    if isinstance(subscription, TopicList):
        view = cluster_view(connections)
        view.reload(subscription.topics, timeout_ms=timeout_ms)
        found = view.topics(subscription.topics, timeout_ms=timeout_ms)
        return _all_topic_partitions(found.values())
    if isinstance(subscription, TopicPartitionSet):
        wanted = subscription.topic_partitions
        view = cluster_view(connections)
        view.reload({topic_partition.topic for topic_partition in wanted}, timeout_ms=timeout_ms)
        view.check_exists(wanted, timeout_ms=timeout_ms)
        return sorted(set(wanted))
    pattern = re.compile(subscription.pattern)
    topics = describe_topics(connections, timeout_ms=timeout_ms).values()
    return _all_topic_partitions(
        topic for topic in topics if not topic.is_internal and pattern.fullmatch(topic.topic)
    )


def _all_topic_partitions(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    return sorted(topic_partition for topic in topics for topic_partition in topic.topic_partitions)


def list_offsets(
    connections: KafkaConnections,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Offsets by timestamp (ms), or of a log's ends (EARLIEST_OFFSET, LATEST_OFFSET), all or nothing.

    LATEST_OFFSET under read_committed is the last stable offset. A timestamp gives the first offset whose
    record is not older, or NO_OFFSET.

    Raises:
        UnknownTopicOrPartitionError, AuthorizationError, BrokerUnavailableError: naming topic partitions.
    """
    answers = list_offsets_each(connections, wanted, isolation_level, timeout_ms=timeout_ms)
    return answers.all_or_raise("Listing offsets")


def list_offsets_each(
    connections: KafkaConnections,
    wanted: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    *,
    timeout_ms: int | None = None,
) -> Answers[int]:
    """As `list_offsets`, with an offset or an error for each topic partition; raises nothing."""
    settings_timeout_ms = connections.settings.request_timeout_ms

    def build(questions: Sequence[Question[int]]) -> Any:
        request = ListOffsetsRequest
        return request(
            replica_id=-1,
            isolation_level=int(isolation_level is IsolationLevel.READ_COMMITTED),
            timeout_ms=settings_timeout_ms,
            min_version=2 if isolation_level is IsolationLevel.READ_COMMITTED else 1,
            topics=[
                request.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        request.ListOffsetsTopic.ListOffsetsPartition(
                            partition_index=question.topic_partition.partition,
                            current_leader_epoch=question.leader.leader_epoch,
                            timestamp=question.asked,
                        )
                        for question in of_topic
                    ],
                )
                for topic, of_topic in by_topic(questions).items()
            ],
        )

    def read(response: Any) -> Iterator[Reply[int]]:
        for topic in response.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                yield Reply(topic_partition, partition.error_code, partition.offset)

    return LeaderRequests(connections, "Listing offsets", build, read).ask(wanted, timeout_ms)


def delete_records(
    connections: KafkaConnections,
    before: Mapping[TopicPartition, int],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Delete all records before an offset (LATEST_OFFSET: all there are); the new log start offsets."""
    request_timeout_ms = connections.settings.request_timeout_ms

    def build(questions: Sequence[Question[int]]) -> Any:
        request = DeleteRecordsRequest
        return request(
            timeout_ms=request_timeout_ms,
            topics=[
                request.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        request.DeleteRecordsTopic.DeleteRecordsPartition(
                            partition_index=question.topic_partition.partition,
                            offset=_HIGH_WATERMARK if question.asked == LATEST_OFFSET else question.asked,
                        )
                        for question in of_topic
                    ],
                )
                for topic, of_topic in by_topic(questions).items()
            ],
        )

    def read(response: Any) -> Iterator[Reply[int]]:
        for topic in response.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                yield Reply(topic_partition, partition.error_code, partition.low_watermark)

    answers = LeaderRequests(connections, "Deleting records", build, read).ask(before, timeout_ms)
    return answers.all_or_raise("Deleting records")


def find_coordinator(
    connections: KafkaConnections, key: str, *, key_type: int = _GROUP, timeout_ms: int | None = None
) -> int:
    """The broker that coordinates a group (key type 0) or a transactional id (1), waited for if need be.

    Raises:
        AuthorizationError: the group or transactional id may not be described.
        BrokerUnavailableError: there is none until the time is up.
    """
    patience = Patience.from_now(connections, timeout_ms)
    backoff = connections.new_backoff()
    while True:
        request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key], min_version=1)
        response = connections.request(request, timeout_ms=left_ms(patience.deadline))
        found = response.coordinators[0] if response.coordinators else response
        if not found.error_code:
            node_id = int(found.node_id)
            if not connections.knows_broker(node_id):
                fetch_metadata(connections, [], timeout_ms=left_ms(patience.deadline))
            return node_id
        kind = "group" if key_type == _GROUP else "transactional id"
        error = error_from_code(found.error_code, f"Finding the coordinator of {kind} {key!r}", key=key)
        if not is_retriable(error) or not backoff.pause(patience.deadline):
            raise error


def committed_offsets(
    connections: KafkaConnections,
    group_id: str,
    topic_partitions: Collection[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """The group's committed offsets; topic partitions without one are left out.

    Offsets of open transactions are waited for.

    Raises:
        AuthorizationError: the group may not be described.
        ClientError: the coordinator does not give them until the time is up.
    """
    if not topic_partitions:
        return {}
    patience = Patience.from_now(connections, timeout_ms)
    backoff = connections.new_backoff()
    while True:
        try:
            node_id = find_coordinator(connections, group_id, timeout_ms=left_ms(patience.deadline))
            response = connections.request(_offset_fetch(group_id, topic_partitions), node_id=node_id)
            return _read_committed_offsets(group_id, response)
        except PenstockError as error:  # noqa: PERF203  # each attempt may fail
            if not is_retriable(error) or not backoff.pause(patience.deadline):
                raise


def _offset_fetch(group_id: str, topic_partitions: Collection[TopicPartition]) -> Any:
    request = OffsetFetchRequest
    partitions: dict[str, list[int]] = {}
    for topic, partition in sorted(set(topic_partitions)):
        partitions.setdefault(topic, []).append(partition)
    group = request.OffsetFetchRequestGroup
    return request(
        max_version=9,  # 10 names topics by id
        group_id=group_id,
        topics=[
            request.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in partitions.items()
        ],
        groups=[
            group(
                group_id=group_id,
                member_id=None,
                member_epoch=-1,
                topics=[
                    group.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                    for name, indexes in partitions.items()
                ],
            )
        ],
        require_stable=True,
    )


def _read_committed_offsets(group_id: str, response: Any) -> dict[TopicPartition, int]:
    found = response.groups[0] if response.groups else response
    where = f"Asking for the committed offsets of group {group_id!r}"
    if found.error_code and found.error_code != kafka_errors.GroupIdNotFoundError.errno:
        raise error_from_code(found.error_code, where, group_id=group_id)
    offsets = {}
    for topic in found.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                raise error_from_code(
                    partition.error_code, f"{where} for {topic_partition}", group_id=group_id
                )
            if partition.committed_offset >= 0:
                offsets[topic_partition] = partition.committed_offset
    return offsets
