"""A scripted cluster: it replaces `KafkaConnections` and answers Metadata, Fetch and look-ups of leaders.

Runs in tests only. Invariant: answers are real response objects of kafka-python, encoded and decoded as on
the wire. So a test cannot use an answer that a broker cannot give.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from penstock.client.net.backoff import Backoff
from penstock.client.net.connection import PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.errors import PenstockError

FETCH_VERSION = 16
METADATA_VERSION = 12
TOPIC_ID = uuid.UUID(int=1)


def a_batch(
    base_offset: int,
    record_count: int = 1,
    *,
    leader_epoch: int = 0,
    value: bytes = b"v",
) -> bytes:
    """Make one uncompressed record batch. The values end with the offsets."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for delta in range(record_count):
        text = value + b"%d" % (base_offset + delta)
        builder.append(delta, timestamp=0, key=None, value=text, headers=[])
    data = bytearray(builder.build())
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = leader_epoch.to_bytes(4, "big", signed=True)
    return bytes(data)


@dataclass
class FakeCluster:
    """Brokers 1 to 3 and one topic `t` with one partition.

    `fetches` are the answers to Fetch in order: the fields of a partition's answer (`error_code`,
    `records`, ...) or an error of the connection. The last one is repeated.
    """

    fetches: list[dict[str, Any] | PenstockError] = field(default_factory=list)
    leader_id: int = 1
    leader_epoch: int = 0
    topic_id: uuid.UUID = TOPIC_ID
    topic_error: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)
    log_start_offset: int = 0
    log_end_offset: int = 1_000
    on_fetch: Callable[[int], None] | None = None
    settings: ConnectionSettings = field(
        default_factory=lambda: ConnectionSettings(
            ("fake:1",), "fake", retry_backoff_ms=1, retry_backoff_max_ms=5
        )
    )
    fetched_at: list[tuple[int, int]] = field(default_factory=list)
    racks: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    metadata_count: int = 0
    epoch_end_count: int = 0

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    # ----- what KafkaConnections offers

    def new_backoff(self) -> Backoff:
        return Backoff(
            self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms, threading.Event().wait
        )

    def knows_broker(self, node_id: Any) -> bool:
        return node_id in (1, 2, 3)

    def learn_brokers(self, metadata_response: Any) -> None:
        assert metadata_response.brokers

    def request(self, request: Any, *, node_id: Any = None, timeout_ms: int | None = None) -> Any:
        assert node_id is None
        assert isinstance(request, MetadataRequest)
        assert request.allow_auto_topic_creation is False
        self.metadata_count += 1
        return self._metadata()

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        pending = PendingResponse(type(request).__name__, 1_000)
        if isinstance(request, FetchRequest):
            answer = self._fetch(request, node_id)
        elif isinstance(request, OffsetForLeaderEpochRequest):
            answer = self._epoch_end(request)
        else:
            assert isinstance(request, ListOffsetsRequest)
            answer = self._list_offsets(request)
        if isinstance(answer, PenstockError):
            pending.fail(answer)
        else:
            pending.succeed(answer)
        return pending

    # ----- answers

    def _metadata(self) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        partition = topic.MetadataResponsePartition(
            version=METADATA_VERSION, error_code=0, partition_index=0, leader_id=self.leader_id,
            leader_epoch=self.leader_epoch, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3], offline_replicas=[],
        )  # fmt: skip
        described = topic(
            version=METADATA_VERSION,
            error_code=self.topic_error,
            name="t",
            topic_id=self.topic_id,
            is_internal=False,
            partitions=[] if self.topic_error else [partition],
        )
        brokers = [
            MetadataResponse.MetadataResponseBroker(
                version=METADATA_VERSION, node_id=node_id, host="fake", port=node_id, rack=f"rack-{node_id}"
            )
            for node_id in (1, 2, 3)
        ]
        return MetadataResponse(
            version=METADATA_VERSION, brokers=brokers, cluster_id="fake", controller_id=1, topics=[described]
        )

    def _fetch(self, request: Any, node_id: int) -> Any:
        (topic,) = request.topics
        (partition,) = topic.partitions
        self.fetched_at.append((node_id, partition.fetch_offset))
        self.racks.append(request.rack_id)
        self.sizes.append(partition.partition_max_bytes)
        if self.on_fetch is not None:
            self.on_fetch(len(self.fetched_at))
        answer = self.fetches.pop(0) if len(self.fetches) > 1 else self.fetches[0]
        return answer if isinstance(answer, PenstockError) else fetch_response(topic.topic_id, **answer)

    def _epoch_end(self, request: Any) -> Any:
        (topic,) = request.topics
        (partition,) = topic.partitions
        self.epoch_end_count += 1
        result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        end = result.EpochEndOffset(
            version=4, error_code=0, partition=0, leader_epoch=partition.leader_epoch,
            end_offset=self.epoch_ends.get(partition.leader_epoch, -1),
        )  # fmt: skip
        topics = [result(version=4, topic="t", partitions=[end])]
        return OffsetForLeaderEpochResponse(version=4, topics=topics)

    def _list_offsets(self, request: Any) -> Any:
        (asked,) = request.topics[0].partitions
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        answer = topic.ListOffsetsPartitionResponse(
            version=7, partition_index=0, error_code=0, timestamp=-1, leader_epoch=0,
            offset=self.log_end_offset if asked.timestamp == -1 else self.log_start_offset,
        )  # fmt: skip
        return ListOffsetsResponse(version=7, topics=[topic(version=7, name="t", partitions=[answer])])


def fetch_response(
    topic_id: uuid.UUID | None,
    *,
    error_code: int = 0,
    records: bytes = b"",
    hint: tuple[int, int] | None = None,
    preferred_read_replica: int = -1,
    high_watermark: int = 1_000,
) -> Any:
    topic = FetchResponse.FetchableTopicResponse
    tagged = {}
    if hint is not None:
        leader = topic.PartitionData.LeaderIdAndEpoch
        tagged["current_leader"] = leader(version=FETCH_VERSION, leader_id=hint[0], leader_epoch=hint[1])
    partition = topic.PartitionData(
        version=FETCH_VERSION, partition_index=0, error_code=error_code, high_watermark=high_watermark,
        last_stable_offset=high_watermark, log_start_offset=0, aborted_transactions=None,
        preferred_read_replica=preferred_read_replica, records=records, **tagged,
    )  # fmt: skip
    topics = [topic(version=FETCH_VERSION, topic_id=topic_id, partitions=[partition])]
    response = FetchResponse(
        version=FETCH_VERSION, throttle_time_ms=0, error_code=0, session_id=0, responses=topics
    )
    return FetchResponse.decode(response.encode(), version=FETCH_VERSION)
