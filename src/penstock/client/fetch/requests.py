"""Build Fetch and OffsetForLeaderEpoch for one topic partition, and read their responses.

Runs on the executor. Invariant: pure; nothing here waits or talks to a broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest

from penstock.client.cluster.metadata import Leader
from penstock.client.net import versions
from penstock.client.settings import FetchSettings
from penstock.types import TopicPartition

_CONSUMER = -1
_MIN_BYTES = 1
"""The records of a split are in the log already; waiting for more bytes would only delay it."""

NO_REPLICA = -1


class FetchSizes(NamedTuple):
    """The limits of one Fetch. A first batch that is larger is sent whole all the same (KIP-74)."""

    partition_max_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The answer for our topic partition. Offsets of -1 are unknown."""

    error_code: int
    records: bytes
    aborted_transactions: Sequence[tuple[int, int]]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    preferred_read_replica: int
    hinted_leader_id: int
    hinted_leader_epoch: int


def build_fetch(
    topic_partition: TopicPartition,
    offset: int,
    leader: Leader,
    sizes: FetchSizes,
    settings: FetchSettings,
    *,
    read_committed: bool,
    client_rack: str,
) -> Any:
    """Return a Fetch of one topic partition, without a fetch session."""
    topic = FetchRequest.FetchTopic
    bounds = (versions.FETCH_BY_NAME if leader.topic_id is None else versions.FETCH).bounds
    return FetchRequest(
        **bounds,
        replica_id=_CONSUMER,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=_MIN_BYTES,
        max_bytes=sizes.max_bytes,
        isolation_level=int(read_committed),
        session_id=0,
        session_epoch=-1,
        topics=[
            topic(
                topic=topic_partition.topic,
                topic_id=leader.topic_id,
                partitions=[
                    topic.FetchPartition(
                        partition=topic_partition.partition,
                        current_leader_epoch=leader.leader_epoch,
                        fetch_offset=offset,
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=sizes.partition_max_bytes,
                    )
                ],
            )
        ],
        forgotten_topics_data=[],
        rack_id=client_rack,
    )


def read_fetch(response: Any, topic_partition: TopicPartition) -> FetchedPartition | None:
    """Return our topic partition in a FetchResponse; None if the broker left it out."""
    for topic in response.responses:
        for partition in topic.partitions:
            if partition.partition_index == topic_partition.partition:
                return _fetched(partition)
    return None


def _fetched(partition: Any) -> FetchedPartition:
    aborted = partition.aborted_transactions or ()
    hint = partition.current_leader
    return FetchedPartition(
        error_code=partition.error_code,
        records=partition.records or b"",
        aborted_transactions=[(each.producer_id, each.first_offset) for each in aborted],
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log_start_offset,
        preferred_read_replica=partition.preferred_read_replica,
        hinted_leader_id=hint.leader_id if hint is not None else -1,
        hinted_leader_epoch=hint.leader_epoch if hint is not None else -1,
    )


class EpochEnd(NamedTuple):
    """The end of a leader epoch in the leader's log; -1: the leader does not know that epoch."""

    error_code: int
    leader_epoch: int
    end_offset: int


def build_epoch_end(topic_partition: TopicPartition, leader: Leader, leader_epoch: int) -> Any:
    """Ask the leader where `leader_epoch` ends in its log."""
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    return OffsetForLeaderEpochRequest(
        **versions.EPOCH_END.bounds,
        replica_id=_CONSUMER,
        topics=[
            topic(
                topic=topic_partition.topic,
                partitions=[
                    topic.OffsetForLeaderPartition(
                        partition=topic_partition.partition,
                        current_leader_epoch=leader.leader_epoch,
                        leader_epoch=leader_epoch,
                    )
                ],
            )
        ],
    )


def read_epoch_end(response: Any, topic_partition: TopicPartition) -> EpochEnd | None:
    """Return the answer for our topic partition; None if the broker left it out."""
    for topic in response.topics:
        for partition in topic.partitions:
            if (topic.topic, partition.partition) == topic_partition:
                return EpochEnd(partition.error_code, partition.leader_epoch, partition.end_offset)
    return None
