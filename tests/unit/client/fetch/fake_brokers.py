"""Brokers with logs of several topic partitions, and with trouble by script.

Runs in tests only. A Fetch is answered as a broker does it (KIP-74): in the order of the request, up to its
`max_bytes`, where the first record batch comes whole even if it is larger.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import (
    FetchResponse,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import MetadataResponse
from kafka.record.default_records import DefaultRecordBase, DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.types import TopicPartition
from tests.unit.fake_cluster import FETCH_VERSION, METADATA_VERSION, FakeCluster, a_batch

NOT_LEADER, OUT_OF_RANGE, UNKNOWN_EPOCH = 6, 1, 75
_BY_NAME_VERSION = 12
_COMMIT, _ABORT = struct.pack(">hh", 0, 1), struct.pack(">hh", 0, 0)

Step = tuple[str, int]
"""What is appended to a log: ("rows", count), ("gap", count), ("begin", count) for rows of a producer's open
transaction, which each such step adds to, ("commit", 0) or ("abort", 0)."""


@dataclass
class Log:
    """A topic partition: its record batches as (base offset, bytes), its leader and the end of each epoch."""

    batches: list[tuple[int, bytes]]
    end: int
    leader_id: int = 1
    leader_epoch: int = 0
    start: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    """Aborted transactions: the producer's id, the first offset and that of the marker."""
    committed: list[int] = field(default_factory=list)
    """The offsets of records that read_committed shows, of a log that was written in steps."""

    @classmethod
    def of_steps(cls, steps: Iterable[Step], *, leader_id: int = 1) -> Log:
        """Return a log with transactions of two producers in turn, and gaps as compaction leaves them.

        All transactions are ended. The last record is never compacted away.
        """
        log = cls([], 0, leader_id)
        open_rows: dict[int, list[int]] = {}
        for number, (kind, count) in enumerate(steps):
            producer_id = 7 + number % 2
            if kind == "gap":
                log.end += count
            elif kind == "rows":
                log.committed += log._append(count, -1)
            elif kind == "begin":
                open_rows.setdefault(producer_id, []).extend(log._append(count, producer_id))
            elif producer_id in open_rows:
                log._end(producer_id, open_rows.pop(producer_id), is_commit=kind == "commit")
        for producer_id, rows in open_rows.items():
            log._end(producer_id, rows, is_commit=False)
        log.committed += log._append(1, -1)
        log.committed.sort()
        return log

    def _append(self, count: int, producer_id: int) -> range:
        offsets = range(self.end, self.end + count)
        self.batches.append((self.end, a_batch(self.end, count, producer_id=producer_id)))
        self.end += count
        return offsets

    def _end(self, producer_id: int, rows: list[int], *, is_commit: bool) -> None:
        self.batches.append((self.end, _marker(self.end, producer_id, is_commit=is_commit)))
        if is_commit:
            self.committed += rows
        else:
            self.aborted.append((producer_id, rows[0], self.end))
        self.end += 1

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
        for base, batch in self.batches:
            if base + _last_delta(batch) >= offset:
                if len(data) + len(batch) > max_bytes and (data or not is_first):
                    break
                data, count = data + batch, count + 1
                if count == most:
                    break
        return data

    def aborted_in(self, offset: int, data: bytes) -> list[tuple[int, int]]:
        """Return producer and first offset of the aborted transactions that overlap a response."""
        last, at = offset, 0
        while at < len(data):
            (base, size) = struct.unpack_from(">qi", data, at)
            last, at = base + _last_delta(data[at:]), at + 12 + size
        return [(producer, first) for producer, first, end in self.aborted if first <= last and end >= offset]


def _last_delta(batch: bytes) -> int:
    return int.from_bytes(batch[23:27], "big")


def _marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=True, producer_id=producer_id, producer_epoch=0,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    builder.append(0, timestamp=0, key=_COMMIT if is_commit else _ABORT, value=b"", headers=[])
    data = bytearray(builder.build())
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = bytes(4)  # the leader epoch
    data[22] |= DefaultRecordBase.CONTROL_MASK
    data[17:21] = calc_crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


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
    mute: set[TopicPartition] = field(default_factory=set)
    """Answered without records, though there are some."""
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
            data = b"" if code or tp in self.mute else self._read(tp, partition, asked)
            log = self.logs[tp]
            aborted = [
                topic.PartitionData.AbortedTransaction(
                    version=version, producer_id=producer_id, first_offset=first_offset
                )
                for producer_id, first_offset in log.aborted_in(partition.fetch_offset, data)
            ]
            answer = topic.PartitionData(
                version=version, partition_index=tp.partition, error_code=code, high_watermark=log.end,
                last_stable_offset=log.end, log_start_offset=log.start, preferred_read_replica=-1,
                records=data, aborted_transactions=aborted if request.isolation_level else None,
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
