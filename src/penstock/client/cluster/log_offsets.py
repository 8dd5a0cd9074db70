"""List topics and offsets of logs.

Runs mostly on the driver. Invariants: every call is batched (one request per broker for any number of topic
partitions), ends within its time-out, and never changes or creates anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from penstock.client.cluster._group_offsets import (
    CHECKPOINT_NOTE,
    CONTINUOUS_FORM,
    CommittedOffset,
    commit_offsets,
    committed_notes,
    committed_offsets,
    committed_topics,
    is_refused_for_members,
    plain_commit_request,
)
from penstock.client.cluster.ask import Reply
from penstock.client.cluster.leaders import Leaders, ask_leaders, by_topic
from penstock.client.cluster.metadata import TopicMetadata, cluster_view, fetch_metadata
from penstock.client.cluster.results import Results
from penstock.client.cluster.topics import NewTopic, create_topics
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.client.net.error_codes import CLUSTER_AUTHORIZATION_FAILED
from penstock.errors import AuthorizationError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel
from penstock.types import LogEnd, Time, TopicPartition

__all__ = [
    "CHECKPOINT_NOTE",
    "CONTINUOUS_FORM",
    "NO_OFFSET",
    "CommittedOffset",
    "NewTopic",
    "commit_offsets",
    "committed_notes",
    "committed_offsets",
    "committed_topics",
    "create_topics",
    "describe_topics",
    "is_refused_for_members",
    "list_offsets",
    "list_offsets_each",
    "plain_commit_request",
]

NO_OFFSET = -1
"""The offset that Kafka returns for a timestamp after the last record's."""
_TIMESTAMPS = {LogEnd.EARLIEST: -2, LogEnd.LATEST: -1}
"""The timestamps by which Kafka's protocol asks for the ends of a log."""


def describe_topics(
    connections: KafkaConnections, topics: Collection[str] | None = None, *, timeout_ms: int | None = None
) -> dict[str, TopicMetadata]:
    """Ask the cluster for the named topics that exist, or (None) for all topics. Never answer from a cache.

    Leaders of named topics are cached, so that asking them next needs no further request.

    Raises:
        AuthorizationError: a named topic may not be described.
        BrokerUnavailableError: no broker answered, or a topic's state stayed unclear until the time was up.
    """
    cluster = fetch_metadata(connections, topics, timeout_ms=timeout_ms)
    unclear = [name for name, topic in cluster.topics.items() if topic.error_code]
    found = {name: topic for name, topic in cluster.topics.items() if not topic.error_code}
    view = cluster_view(connections)
    if topics is not None:  # all topics may be very many
        view.learn(found.values())
    for name in unclear:
        view.invalidate(name)  # the cached topic is older than the error
        try:
            found[name] = view.topic(name, timeout_ms=timeout_ms)
        except UnknownTopicOrPartitionError:
            continue
    return found


def list_offsets(
    connections: KafkaConnections,
    wanted: Mapping[TopicPartition, LogEnd | Time],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Return offsets by time or of a log's ends; raise if one topic partition has none.

    LATEST under read_committed is the last stable offset. A time gives the offset of the first record that
    is not older, or NO_OFFSET.

    Raises:
        UnknownTopicOrPartitionError, AuthorizationError, BrokerUnavailableError: naming topic partitions.
    """
    answers = list_offsets_each(connections, wanted, isolation_level, timeout_ms=timeout_ms)
    return answers.all_or_raise("Listing offsets")


def list_offsets_each(
    connections: KafkaConnections,
    wanted: Mapping[TopicPartition, LogEnd | Time],
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, int]:
    """Return an offset or an error for each topic partition; otherwise as `list_offsets`. Raises nothing."""
    settings_timeout_ms = connections.settings.request_timeout_ms

    def build(asked: Leaders) -> Any:
        request = ListOffsetsRequest
        is_committed = isolation_level is IsolationLevel.READ_COMMITTED
        return request(
            replica_id=-1,
            isolation_level=int(is_committed),
            timeout_ms=settings_timeout_ms,
            **(versions.LIST_OFFSETS_COMMITTED if is_committed else versions.LIST_OFFSETS).bounds,
            topics=[
                request.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        request.ListOffsetsTopic.ListOffsetsPartition(
                            partition_index=topic_partition.partition,
                            current_leader_epoch=leader.leader_epoch,
                            timestamp=_timestamp(wanted[topic_partition]),
                        )
                        for topic_partition, leader in of_topic.items()
                    ],
                )
                for topic, of_topic in by_topic(asked).items()
            ],
        )

    def read(response: Any) -> Iterator[Reply[TopicPartition, int]]:
        for topic in response.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                yield Reply(topic_partition, partition.error_code, partition.offset)

    return ask_leaders(connections, wanted, "Listing offsets", build, read, timeout_ms=timeout_ms)


def _timestamp(where: LogEnd | Time) -> int:
    return where.time_ms if isinstance(where, Time) else _TIMESTAMPS[where]


def log_sizes(
    connections: KafkaConnections,
    topic_partitions: Collection[TopicPartition],
    *,
    timeout_ms: int | None = None,
) -> Results[TopicPartition, int]:
    """Return the bytes of each log as its leader stores it: whole segments, compressed as they arrived.

    Raises nothing. The user needs DESCRIBE on the cluster; without it each topic partition has an error.
    """

    def build(asked: Leaders) -> Any:
        request = DescribeLogDirsRequest
        return request(
            topics=[
                request.DescribableLogDirTopic(
                    topic=topic, partitions=[topic_partition.partition for topic_partition in of_topic]
                )
                for topic, of_topic in by_topic(asked).items()
            ],
        )

    what = "Asking for the size"
    return ask_leaders(connections, topic_partitions, what, build, _read, timeout_ms=timeout_ms)


def _read(response: Any) -> Iterator[Reply[TopicPartition, int]]:
    if response.error_code == CLUSTER_AUTHORIZATION_FAILED:
        raise AuthorizationError(
            "Asking for the sizes of logs failed: the user lacks the right DESCRIBE on the cluster. Grant "
            "it, or limit batches by records instead of bytes.",
            error_code=CLUSTER_AUTHORIZATION_FAILED,
        )
    if response.error_code:
        raise error_from_code(response.error_code, "Asking for the sizes of logs")
    if not response.results:
        raise AuthorizationError(
            "Asking for the sizes of logs failed: the broker named no log directory. Older brokers answer "
            "like this when the user lacks the right DESCRIBE on the cluster. Grant it, or limit batches "
            "by records instead of bytes."
        )
    sizes: Counter[TopicPartition] = Counter()
    for folder in response.results:
        for topic in folder.topics:
            for partition in topic.partitions:
                # A future replica is a copy on its way to another folder: its bytes would count twice.
                if not partition.is_future_key:
                    sizes[TopicPartition(topic.name, partition.partition_index)] += partition.partition_size
    for topic_partition, size_bytes in sizes.items():
        yield Reply(topic_partition, 0, size_bytes)
