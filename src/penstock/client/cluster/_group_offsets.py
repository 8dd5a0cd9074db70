"""Read and commit the offsets of a consumer group without being a member of it.

Runs on the driver. Invariants: every call ends within its time-out; a coordinator that moves or loads is
looked up again; a committed offset is the next offset to read, as every Kafka tool expects.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

from penstock.client.cluster.coordinators import ask_group_coordinator
from penstock.client.cluster.leaders import by_topic
from penstock.client.cluster.membership import Membership, membership_error
from penstock.client.net import error_codes as codes
from penstock.client.net import versions
from penstock.client.net.broker_errors import error_from_code
from penstock.client.net.connection import KafkaConnections
from penstock.errors import ClientError, PenstockError
from penstock.types import TopicPartition

CHECKPOINT_NOTE = "penstock-checkpoint"
"""The note beside offsets of a stream with a checkpoint. They may be behind the checkpoint by a batch."""
CONTINUOUS_FORM = "penstock1"
"""The first word of the notes of a continuous query, whose only state the offsets are."""
_HAS_MEMBERS = {
    codes.UNKNOWN_MEMBER_ID,
    codes.ILLEGAL_GENERATION,
    codes.REBALANCE_IN_PROGRESS,
}
"""The error codes of a coordinator whose group has members: only a member may commit then."""
_OF_ONE_TOPIC_PARTITION = {
    codes.UNKNOWN_TOPIC_OR_PARTITION,
    codes.TOPIC_AUTHORIZATION_FAILED,
}
"""Errors that leave the offsets of the other topic partitions committed."""


class CommittedOffset(NamedTuple):
    """A committed offset, and the note that was committed with it."""

    offset: int
    note: str = ""


def committed_offsets(
    connections: KafkaConnections,
    group_id: str,
    topic_partitions: Collection[TopicPartition] | None,
    *,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Return the group's committed offsets; topic partitions without one are left out.

    None asks for all topic partitions of the group. Offsets of open transactions are waited for.

    Raises:
        AuthorizationError: the group may not be described.
        ClientError: the coordinator does not answer in time.
    """
    found = committed_notes(connections, group_id, topic_partitions, is_stable=True, timeout_ms=timeout_ms)
    return {topic_partition: each.offset for topic_partition, each in found.items()}


def committed_notes(
    connections: KafkaConnections,
    group_id: str,
    topic_partitions: Collection[TopicPartition] | None,
    *,
    is_stable: bool,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """Return committed offsets with their notes; see `committed_offsets`.

    If not `is_stable`, open transactions are not waited for: what was committed before them is returned.
    """
    if topic_partitions is not None and not topic_partitions:
        return {}
    return ask_group_coordinator(
        connections,
        group_id,
        "Asking for the committed offsets",
        partial(_offset_fetch, group_id, topic_partitions, is_stable=is_stable),
        partial(_read_committed, group_id),
        timeout_ms=timeout_ms,
    )


def commit_offsets(
    connections: KafkaConnections,
    group_id: str,
    positions: Mapping[TopicPartition, int],
    *,
    membership: Membership | None = None,
    notes: Mapping[str, str] | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, PenstockError]:
    """Commit the next offset to read of each topic partition, from outside of the group or as its member.

    Args:
        connections: to the cluster.
        group_id: the group.
        positions: the next offset to read of each topic partition.
        membership: of the group, in whose name the offsets are committed. None: from outside.
        notes: a note for the offsets of each topic.
        timeout_ms: default `default_api_timeout_ms`.

    Returns:
        An error for each topic partition whose offset the broker refused (of a deleted topic, say). The
        others are committed.

    Raises:
        AuthorizationError: the group may not be written.
        ClientError: the group has members of its own, the membership is over, or no coordinator answers in
            time.
    """
    if not positions:
        return {}
    return ask_group_coordinator(
        connections,
        group_id,
        "Committing offsets",
        partial(plain_commit_request, membership or Membership(group_id), positions, notes or {}),
        partial(_read_commit_errors, membership or Membership(group_id)),
        timeout_ms=timeout_ms,
    )


def is_refused_for_members(error: PenstockError) -> bool:
    """Return whether `commit_offsets` failed because the group has members, and the caller is not one."""
    return error.facts.get("error_code") in _HAS_MEMBERS


def plain_commit_request(
    membership: Membership, positions: Mapping[TopicPartition, int], notes: Mapping[str, str]
) -> Any:
    """Return the request that commits offsets without a transaction; see `commit_offsets`."""
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    return OffsetCommitRequest(
        **versions.OFFSET_COMMIT.bounds,
        group_id=membership.group_id,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=None,
        retention_time_ms=-1,
        topics=committed_topics(topic, topic.OffsetCommitRequestPartition, positions, notes),
    )


def committed_topics(
    topic: Any, partition: Any, positions: Mapping[TopicPartition, int], notes: Mapping[str, str]
) -> list[Any]:
    """Return the topics of a request that commits offsets.

    Args:
        topic: kafka-python's class of a topic in the request.
        partition: its class of a topic partition.
        positions: the next offset to read of each topic partition.
        notes: a note for the offsets of each topic.
    """
    return [
        topic(
            name=name,
            partitions=[
                partition(
                    partition_index=each.partition,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata=notes.get(name, ""),
                )
                for each, offset in of_topic.items()
            ],
        )
        for name, of_topic in by_topic(dict(sorted(positions.items()))).items()
    ]


def _read_commit_errors(membership: Membership, response: Any) -> dict[TopicPartition, PenstockError]:
    """Return the errors of single topic partitions; raise an error of the whole group."""
    group_id = membership.group_id
    where = f"Committing offsets to group {group_id!r}"
    errors: dict[TopicPartition, PenstockError] = {}
    for topic in response.topics:
        for partition in topic.partitions:
            code = partition.error_code
            if not code:
                continue
            if code in _HAS_MEMBERS and membership.member_id:
                raise membership_error(code, where, group_id)
            if code in _HAS_MEMBERS:
                raise ClientError(
                    f"{where} failed: the group has members of its own (consumers that subscribe with this "
                    "group id), and only they may commit. Nothing was committed; reading is not affected. "
                    "Use another group id for this query.",
                    group_id=group_id,
                    error_code=code,
                )
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            error = error_from_code(code, f"{where} for {topic_partition}", group_id=group_id)
            if code not in _OF_ONE_TOPIC_PARTITION:
                raise error
            errors[topic_partition] = error
    return errors


def _offset_fetch(
    group_id: str, topic_partitions: Collection[TopicPartition] | None, *, is_stable: bool
) -> Any:
    request = OffsetFetchRequest
    group = request.OffsetFetchRequestGroup
    partitions: dict[str, list[int]] = {}
    for topic, partition in sorted(set(topic_partitions or ())):
        partitions.setdefault(topic, []).append(partition)

    def topics(kind: Any) -> Any:  # None: all topics
        if topic_partitions is None:
            return None
        return [kind(name=name, partition_indexes=indexes) for name, indexes in partitions.items()]

    return request(
        **versions.OFFSET_FETCH.bounds,
        group_id=group_id,
        topics=topics(request.OffsetFetchRequestTopic),
        groups=[
            group(
                group_id=group_id,
                member_id=None,
                member_epoch=-1,
                topics=topics(group.OffsetFetchRequestTopics),
            )
        ],
        require_stable=is_stable,
    )


def _read_committed(group_id: str, response: Any) -> dict[TopicPartition, CommittedOffset]:
    # Newer versions of OffsetFetch answer about many groups, older ones about the one group itself.
    found = response.groups[0] if response.groups else response
    where = f"Asking for the committed offsets of group {group_id!r}"
    if found.error_code and found.error_code != codes.GROUP_ID_NOT_FOUND:
        raise error_from_code(found.error_code, where, group_id=group_id)
    offsets = {}
    for topic in found.topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                raise error_from_code(
                    partition.error_code, f"{where} for {topic_partition}", group_id=group_id
                )
            if partition.committed_offset >= 0:  # -1: the group has none
                offsets[topic_partition] = CommittedOffset(
                    partition.committed_offset, partition.metadata or ""
                )
    return offsets
