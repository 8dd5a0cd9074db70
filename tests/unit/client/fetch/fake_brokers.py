"""Brokers with logs of several topic partitions, and with trouble by script.

Runs in tests only. A Fetch is answered as a broker does it (KIP-74): in the order of the request, up to its
`max_bytes`, where the first record batch comes whole even if it is larger.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import MetadataResponse

from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.types import TopicPartition
from tests.unit.fake_cluster import FETCH_VERSION, METADATA_VERSION, FakeCluster, a_batch

NOT_LEADER, OUT_OF_RANGE, UNKNOWN_EPOCH = 6, 1, 75
_BY_NAME_VERSION = 12


@dataclass
class Log:
    """A topic partition: its record batches as (base offset, bytes), its leader and the end of each epoch."""

    batches: list[tuple[int, bytes]]
    end: int
    leader_id: int = 1
    leader_epoch: int = 0
    start: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, *record_counts: int, leader_id: int = 1, value: bytes = b"v") -> Log:
        """Return a log with a record batch for each count; each value says its offset."""
        batches, base = [], 0
        for count in record_counts:
            batches.append((base, a_batch(base, count, value=value)))
            base += count
        return cls(batches, base, leader_id)

    def move(self, leader_id: int) -> None:
        """Elect another leader, which has all records."""
        self.epoch_ends[self.leader_epoch] = self.end
        self.leader_id, self.leader_epoch = leader_id, self.leader_epoch + 1

    def records(self, offset: int, max_bytes: int, *, is_first: bool, most: int | None) -> bytes:
        """Return whole batches from the one that holds the offset on, `most` at most."""
        data, count = b"", 0
        for index, (_, batch) in enumerate(self.batches):
            after = self.batches[index + 1][0] if index + 1 < len(self.batches) else self.end
            if after > offset:
                if len(data) + len(batch) > max_bytes and (data or not is_first):
                    break
                data, count = data + batch, count + 1
                if count == most:
                    break
        return data


@dataclass
class Asked:
    """A Fetch as a broker saw it."""

    node_id: int
    max_bytes: int
    offsets: dict[TopicPartition, int]
    brought_bytes: int = 0


@dataclass(eq=False)
class FakeBrokers(FakeCluster):
    """Brokers 1 to 3. `trouble` may answer for a topic partition: an error code, or a connection's error."""

    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    trouble: Callable[[TopicPartition], int | PenstockError | None] = lambda _: None
    has_topic_ids: bool = True
    batches_per_fetch: int | None = None
    """How many record batches of a topic partition a response holds at most."""
    asked: list[Asked] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    def _topic_id(self, topic: str) -> uuid.UUID | None:
        return uuid.uuid5(uuid.NAMESPACE_DNS, topic) if self.has_topic_ids else uuid.UUID(int=0)

    def _name(self, topic: Any) -> str:
        return topic.topic or next(tp.topic for tp in self.logs if self._topic_id(tp.topic) == topic.topic_id)

    def _metadata(self) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        described = [
            topic(
                version=METADATA_VERSION,
                error_code=0,
                name=name,
                topic_id=self._topic_id(name),
                is_internal=False,
                partitions=[
                    topic.MetadataResponsePartition(
                        version=METADATA_VERSION,
                        error_code=0,
                        partition_index=tp.partition,
                        leader_id=log.leader_id,
                        leader_epoch=log.leader_epoch,
                        replica_nodes=[1, 2, 3],
                        isr_nodes=[1, 2, 3],
                        offline_replicas=[],
                    )
                    for tp, log in self.logs.items()
                    if tp.topic == name
                ],
            )
            for name in sorted({tp.topic for tp in self.logs})
        ]
        brokers = [
            MetadataResponse.MetadataResponseBroker(
                version=METADATA_VERSION, node_id=node_id, host="fake", port=node_id, rack=None
            )
            for node_id in (1, 2, 3)
        ]
        return MetadataResponse(
            version=METADATA_VERSION, brokers=brokers, cluster_id="fake", controller_id=1, topics=described
        )

    def _fetch(self, request: Any, node_id: int) -> Any:
        wanted = {
            TopicPartition(self._name(topic), partition.partition): partition
            for topic in request.topics
            for partition in topic.partitions
        }
        assert len(wanted) == sum(len(topic.partitions) for topic in request.topics)
        asked = Asked(node_id, request.max_bytes, {tp: each.fetch_offset for tp, each in wanted.items()})
        self.asked.append(asked)
        version = FETCH_VERSION if self.has_topic_ids else _BY_NAME_VERSION
        topic = FetchResponse.FetchableTopicResponse
        answers = []
        for tp, partition in wanted.items():
            code = self._code(tp, partition, node_id)
            if isinstance(code, PenstockError):
                return code
            data = b"" if code else self._read(tp, partition, asked)
            log = self.logs[tp]
            answer = topic.PartitionData(
                version=version, partition_index=tp.partition, error_code=code, high_watermark=log.end,
                last_stable_offset=log.end, log_start_offset=log.start, aborted_transactions=None,
                preferred_read_replica=-1, records=data,
            )  # fmt: skip
            name = {"topic_id": self._topic_id(tp.topic)} if self.has_topic_ids else {"topic": tp.topic}
            answers.append(topic(version=version, partitions=[answer], **name))
        response = FetchResponse(
            version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=answers
        )
        return FetchResponse.decode(response.encode(), version=version)

    def _code(self, tp: TopicPartition, partition: Any, node_id: int) -> int | PenstockError:
        log, trouble = self.logs[tp], self.trouble(tp)
        if trouble is not None:
            return trouble
        if log.leader_id != node_id:
            return NOT_LEADER
        if partition.current_leader_epoch != log.leader_epoch:
            return UNKNOWN_EPOCH
        return 0 if log.start <= partition.fetch_offset <= log.end else OUT_OF_RANGE

    def _read(self, tp: TopicPartition, partition: Any, asked: Asked) -> bytes:
        room = min(partition.partition_max_bytes, asked.max_bytes - asked.brought_bytes)
        data = self.logs[tp].records(
            partition.fetch_offset, room, is_first=not asked.brought_bytes, most=self.batches_per_fetch
        )
        asked.brought_bytes += len(data)
        return data

    def _epoch_end(self, request: Any) -> Any:
        self.epoch_end_count += 1
        result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = [
            result(
                version=4,
                topic=topic.topic,
                partitions=[
                    result.EpochEndOffset(
                        version=4, error_code=0, partition=each.partition, leader_epoch=each.leader_epoch,
                        end_offset=self.logs[TopicPartition(topic.topic, each.partition)].epoch_ends.get(
                            each.leader_epoch, -1
                        ),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]  # fmt: skip
        return OffsetForLeaderEpochResponse(version=4, topics=topics)

    def _list_offsets(self, request: Any) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for asked in request.topics:
            partitions = []
            for each in asked.partitions:
                log = self.logs[TopicPartition(asked.name, each.partition_index)]
                answer = topic.ListOffsetsPartitionResponse(
                    version=7, partition_index=each.partition_index, error_code=0, timestamp=-1,
                    leader_epoch=0, offset=log.end if each.timestamp == -1 else log.start,
                )  # fmt: skip
                partitions.append(answer)
            topics.append(topic(version=7, name=asked.name, partitions=partitions))
        return ListOffsetsResponse(version=7, topics=topics)


GONE = BrokerUnavailableError("gone")
