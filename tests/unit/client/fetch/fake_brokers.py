"""Brokers with logs of several topic partitions, and with trouble by script.

Runs in tests only. The brokers are those of the fake Kafka, without sockets (`tests/unit/in_process.py`). A
test says for which topic partition of which Fetch there is trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchRequest

from penstock.client.net.connection import PendingResponse
from penstock.errors import BrokerUnavailableError, PenstockError
from penstock.testing import Clock, Rights
from penstock.testing.fake._dispatch import Dispatcher
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake._state import Node, Partition, State, Topic
from penstock.testing.fake.batches import Batch
from penstock.testing.fake.control import Controls
from penstock.types import TopicPartition
from tests.scenarios.cluster import batch
from tests.unit.in_process import Client

NOT_LEADER, OUT_OF_RANGE, UNKNOWN_EPOCH = 6, 1, 75

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

    def end_of_epoch(self, wanted: int, current: int) -> tuple[int, int]:
        """Return the end of an epoch, as `move` or the test has noted it."""
        ended = self.epoch_ends.get(wanted)
        return super().end_of_epoch(wanted, current) if ended is None else (wanted, ended)


@dataclass
class Asked:
    """A Fetch as a broker saw it."""

    node_id: int
    max_bytes: int
    offsets: dict[TopicPartition, int]
    brought_bytes: int = 0


class _ReadPartition(Partition):
    """A topic partition whose leader is that of its log."""

    def __init__(self, topic: Topic, index: int, log: Log) -> None:
        self.topic, self.index, self.replicas, self.log = topic, index, [1, 2, 3], log
        self._log = log

    @property
    def leader_id(self) -> int:  # type: ignore[override]  # a test changes it in the log
        """Return the leader."""
        return self._log.leader_id

    @property
    def leader_epoch(self) -> int:  # type: ignore[override]  # the same
        """Return the leader's epoch."""
        return self._log.leader_epoch


class FakeBrokers(Client):
    """Brokers 1 to 3 of the fake Kafka, and a client of them.

    Attributes:
        logs: of the topic partitions.
        trouble: may answer for a topic partition: an error code, or a connection's error.
        mute: topic partitions that are answered without records, though there are some.
        batches_per_fetch: how many record batches of a topic partition a response holds at most.
        asked: the Fetches.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log] | None = None,
        *,
        has_topic_ids: bool = True,
        batches_per_fetch: int | None = None,
    ) -> None:
        self.logs = dict(logs or {})
        self.trouble: Callable[[TopicPartition], int | PenstockError | None] = lambda _: None
        self.mute: set[TopicPartition] = set()
        self.batches_per_fetch = batches_per_fetch
        self.asked: list[Asked] = []
        state, controls = State(Clock(), Rights(), {}, transaction_version=2), Controls()
        state.nodes |= {node_id: Node(node_id, "fake", node_id, None) for node_id in (1, 2, 3)}
        for name in {tp.topic for tp in self.logs}:
            topic = state.topics[name] = Topic(name, {})
            count = 1 + max(tp.partition for tp in self.logs if tp.topic == name)
            known = (self.logs.get(TopicPartition(name, index)) or Log() for index in range(count))
            topic.partitions += [_ReadPartition(topic, index, log) for index, log in enumerate(known)]
        older = {} if has_topic_ids else {"Fetch": 12, "Metadata": 9}
        super().__init__(state, Dispatcher(state, controls, older), controls)

    @property
    def metadata_count(self) -> int:
        """Return how often Metadata was asked for."""
        return self.count("Metadata")

    @property
    def epoch_end_count(self) -> int:
        """Return how often the ends of leader epochs were asked for."""
        return self.count("OffsetForLeaderEpoch")

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        if not isinstance(request, FetchRequest):
            return super().send(request, node_id, timeout_ms)
        wanted = {
            TopicPartition(self._name(topic), each.partition): each.fetch_offset
            for topic in request.topics
            for each in topic.partitions
        }
        assert len(wanted) == sum(len(topic.partitions) for topic in request.topics)
        asked = Asked(node_id, request.max_bytes, wanted)
        self.asked.append(asked)
        refused: dict[TopicPartition, int] = {}
        for tp in wanted:
            trouble = self.trouble(tp)
            if isinstance(trouble, PenstockError):
                failed = PendingResponse("Fetch", 1_000)
                failed.fail(trouble)
                return failed
            refused |= {} if trouble is None else {tp: trouble}
        for tp, log in self.logs.items():
            log.most = 0 if tp in self.mute or tp in refused else self.batches_per_fetch
        return self._with_trouble(super().send(request, node_id, timeout_ms), asked, refused)

    def _with_trouble(
        self, pending: PendingResponse, asked: Asked, refused: Mapping[TopicPartition, int]
    ) -> PendingResponse:
        for topic in pending.result().responses:
            for each in topic.partitions:
                asked.brought_bytes += len(each.records or b"")
                tp = TopicPartition(self._name(topic), each.partition_index)
                if tp in refused:
                    each.error_code, each.records = refused[tp], b""
        return pending

    def _name(self, topic: Any) -> str:
        names = (name for name, known in self._state.topics.items() if known.topic_id == topic.topic_id)
        return topic.topic or next(names)


GONE = BrokerUnavailableError("gone")
