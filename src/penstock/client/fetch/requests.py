"""Build Fetch and OffsetForLeaderEpoch, and read their responses.

Runs on the executor. Invariant: pure; nothing here waits or talks to a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest

from penstock.client.cluster.metadata import Leader
from penstock.client.net import versions
from penstock.client.settings import FetchSettings
from penstock.types import TopicPartition

_CONSUMER = -1
_MIN_BYTES = 1
"""The records of a split are in the log already; waiting for more bytes would only delay it."""

NO_REPLICA = -1


class AskedPartition(NamedTuple):
    """One topic partition of a Fetch. A first batch that is larger than its limit comes whole (KIP-74)."""

    topic_partition: TopicPartition
    offset: int
    leader: Leader
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The answer for our topic partition. Offsets of -1 are unknown.

    `records` may be a view of the whole response, which stays in memory as long as the view.
    """

    error_code: int
    records: bytes | memoryview
    aborted_transactions: Sequence[tuple[int, int]]
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    preferred_read_replica: int
    hinted_leader_id: int
    hinted_leader_epoch: int


def build_fetch(
    asked: Sequence[AskedPartition],
    max_bytes: int,
    settings: FetchSettings,
    *,
    read_committed: bool,
    client_rack: str,
) -> Any:
    """Return a Fetch without a fetch session.

    Args:
        asked: different topic partitions of one broker, whose topics all have an id, or all have none. The
            broker fills its response in this order, topic by topic.
        max_bytes: how much the response may hold in all, apart from a larger first batch.
        settings: time-outs.
        read_committed: whether open and aborted transactions are left out.
        client_rack: lets the leader name a nearer replica; empty for the leader only.
    """
    bounds = (versions.FETCH_BY_NAME if asked[0].leader.topic_id is None else versions.FETCH).bounds
    by_topic: dict[tuple[str, UUID | None], list[AskedPartition]] = {}
    for each in asked:
        by_topic.setdefault((each.topic_partition.topic, each.leader.topic_id), []).append(each)
    return FetchRequest(
        **bounds,
        replica_id=_CONSUMER,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=_MIN_BYTES,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchRequest.FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[_fetch_partition(each) for each in of_topic],
            )
            for (topic, topic_id), of_topic in by_topic.items()
        ],
        forgotten_topics_data=[],
        rack_id=client_rack,
    )


def _fetch_partition(asked: AskedPartition) -> Any:
    return FetchRequest.FetchTopic.FetchPartition(
        partition=asked.topic_partition.partition,
        current_leader_epoch=asked.leader.leader_epoch,
        fetch_offset=asked.offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=asked.max_bytes,
    )


def read_fetches(response: Any, asked: Iterable[AskedPartition]) -> dict[TopicPartition, FetchedPartition]:
    """Return the asked topic partitions of a FetchResponse, without those that the broker left out."""
    names = {each.leader.topic_id: each.topic_partition.topic for each in asked}
    found = {}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is not None:
            for partition in topic.partitions:
                found[TopicPartition(name, partition.partition_index)] = _fetched(partition)
    return found


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


class Records(NamedTuple):
    """Record batches of one response. The next Fetch starts at `next_offset`."""

    data: bytes | memoryview
    aborted_transactions: Sequence[tuple[int, int]]
    next_offset: int


class EpochEnd(NamedTuple):
    """The end of a leader epoch in the leader's log; -1: the leader does not know that epoch."""

    error_code: int
    leader_epoch: int
    end_offset: int


def build_epoch_ends(asked: Mapping[TopicPartition, tuple[Leader, int]]) -> Any:
    """Ask a broker where leader epochs end in the logs that it leads."""
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), (leader, leader_epoch) in asked.items():
        by_topic.setdefault(topic, []).append(
            kind.OffsetForLeaderPartition(
                partition=partition,
                current_leader_epoch=leader.leader_epoch,
                leader_epoch=leader_epoch,
            )
        )
    return OffsetForLeaderEpochRequest(
        **versions.EPOCH_END.bounds,
        replica_id=_CONSUMER,
        topics=[kind(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()],
    )


def read_epoch_ends(response: Any) -> dict[TopicPartition, EpochEnd]:
    """Return the answer for each topic partition that the broker did not leave out."""
    return {
        TopicPartition(topic.topic, partition.partition): EpochEnd(
            partition.error_code, partition.leader_epoch, partition.end_offset
        )
        for topic in response.topics
        for partition in topic.partitions
    }
