"""Brokers with logs of several topic partitions, and with trouble by script.

Runs in tests only. The logs are those of the fake Kafka. A Fetch is answered as a broker does it (KIP-74): in
the order of the request, up to its `max_bytes`. The first record batch comes whole even if it is larger.
"""

from __future__ import annotations

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

from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.testing.fake._batches import Batch
from penstock.testing.fake._log import PartitionLog, Piece
from penstock.types import TopicPartition
from tests.scenarios.cluster import batch
from tests.unit.fake_cluster import FETCH_VERSION, METADATA_VERSION, FakeCluster

NOT_LEADER, OUT_OF_RANGE, UNKNOWN_EPOCH = 6, 1, 75
_BY_NAME_VERSION = 12

Step = tuple[str, int]
"""What is appended to a log: ("rows", count), ("gap", count), ("begin", count) for rows of a producer's open
transaction, which each such step adds to, ("commit", 0) or ("abort", 0)."""


@dataclass(eq=False)
class Log(PartitionLog):
    """The log of a topic partition, its leader and, if a test says so, other ends of leader epochs."""

    leader_id: int = 1
    leader_epoch: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)
    committed: list[int] = field(default_factory=list)
    """The offsets of records that read_committed shows, of a log that was written in steps."""
    most: int | None = None
    """How many record batches a response holds at most."""

    @property
    def start(self) -> int:
        """Return the first offset."""
        return self.start_offset

    @start.setter
    def start(self, offset: int) -> None:
        self.start_offset = offset

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return self.end_offset

    @classmethod
    def of_steps(cls, steps: Iterable[Step], *, leader_id: int = 1) -> Log:
        """Return a log with transactions of two producers in turn, and gaps as compaction leaves them.

        All transactions are ended. The last record is never compacted away.
        """
        log = cls(leader_id=leader_id)
        open_rows: dict[int, list[int]] = {}
        for number, (kind, count) in enumerate(steps):
            producer_id = 7 + number % 2
            if kind == "gap":
                log.leave_gap(count)
            elif kind == "rows":
                log.committed += log._write(count, -1)
            elif kind == "begin":
                open_rows.setdefault(producer_id, []).extend(log._write(count, producer_id))
            elif producer_id in open_rows:
                log._end(producer_id, open_rows.pop(producer_id), is_commit=kind == "commit")
        for producer_id, rows in open_rows.items():
            log._end(producer_id, rows, is_commit=False)
        log.committed += log._write(1, -1)
        log.committed.sort()
        return log

    def _write(self, count: int, producer_id: int, value: bytes = b"v") -> range:
        offsets = range(self.end_offset, self.end_offset + count)
        known = self.producers.get(producer_id)
        sequence = -1 if producer_id < 0 else 0 if known is None else known.last_sequence + 1
        values = [value + b"%d" % offset for offset in offsets]
        producer = (producer_id, min(producer_id, 0), sequence)
        data = batch(*values, producer=producer, is_transactional=producer_id >= 0)
        assert not self.append(Batch.of(data), leader_epoch=0).code
        return offsets

    def _end(self, producer_id: int, rows: list[int], *, is_commit: bool) -> None:
        self.end_transaction(producer_id, 0, is_commit=is_commit, leader_epoch=0, now_ms=0)
        self.committed += rows if is_commit else ()

    @classmethod
    def of(cls, *record_counts: int, leader_id: int = 1, value: bytes = b"v") -> Log:
        """Return a log with a record batch for each count; each value says its offset."""
        log = cls(leader_id=leader_id)
        for count in record_counts:
            log._write(count, -1, value)
        return log

    def move(self, leader_id: int) -> None:
        """Elect another leader, which has all records."""
        self.epoch_ends[self.leader_epoch] = self.end_offset
        self.leader_id, self.leader_epoch = leader_id, self.leader_epoch + 1

    def _from(self, offset: int) -> list[Batch]:
        return super()._from(offset)[: self.most]


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
            log = self.logs[tp]
            nothing = Piece(b"", partition.fetch_offset)
            piece = nothing if code or tp in self.mute else self._read(log, partition, asked)
            aborted = [
                topic.PartitionData.AbortedTransaction(
                    version=version, producer_id=each.producer_id, first_offset=each.first_offset
                )
                for each in log.aborted_between(partition.fetch_offset, piece.next_offset)
            ]
            answer = topic.PartitionData(
                version=version, partition_index=tp.partition, error_code=code, high_watermark=log.end,
                last_stable_offset=log.end, log_start_offset=log.start, preferred_read_replica=-1,
                records=piece.data, aborted_transactions=aborted if request.isolation_level else None,
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

    def _read(self, log: Log, partition: Any, asked: Asked) -> Piece:
        room = min(partition.partition_max_bytes, asked.max_bytes - asked.brought_bytes)
        log.most = self.batches_per_fetch
        piece = log.read(partition.fetch_offset, log.end, room, takes_first=not asked.brought_bytes)
        asked.brought_bytes += len(piece.data)
        return piece

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
