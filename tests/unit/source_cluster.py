"""A Kafka cluster for tests of planning: the fake of `penstock.testing`, asked by penstock's own look-ups.

Runs in tests only. Invariant: what a test plans with came through real requests, with a broker's error codes
and the client's retries. There are no sockets and no other thread. With the fixture `virtual_time` the
retries take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from penstock.client.cluster import log_offsets
from penstock.client.settings import ConnectionSettings
from penstock.source.checkpoint_offset import Markers, Positions, SourceOffset
from penstock.source.kafka_lookup import KafkaOffsetLookup
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake._state import Topic
from penstock.testing.fake.batches import Batch
from penstock.testing.fake.control import Action, Control, SeenRequest
from penstock.types import TopicPartition
from tests.scenarios.cluster import batch
from tests.unit.in_process import InProcess, kafka_without_sockets

_SETTINGS = ConnectionSettings(
    ("fake:1",), "test-planning", retry_backoff_ms=400, retry_backoff_max_ms=20_000
)
"""Fewer retries than usual, because models look up thousands of topic partitions without a leader."""
_PRODUCER = (7, 0)
"""The id and the epoch of the producer of open transactions."""


@dataclass(frozen=True)
class Log:
    """The log that a test wants: offsets from `start` to before `end`, as after retention and compaction.

    Attributes:
        start: the first offset.
        end: the offset after the last record. Compaction has left the last record and those with a time.
        stable_end: where a transaction begins that is still open.
        times_ms: the times of records by offset. Other records are from 1970.
        size_bytes: of the record batch with the last record; 0: as it comes.
    """

    start: int = 0
    end: int = 0
    stable_end: int | None = None
    times_ms: Mapping[int, int] = field(default_factory=dict)
    size_bytes: int = 0

    def write_to(self, log: PartitionLog) -> None:
        """Append the records to a log that ends before them."""
        kept = {*self.times_ms, self.end - 1}
        if self.stable_end is not None:
            kept.add(self.stable_end)
        for offset in sorted(kept):
            if offset >= log.end_offset:
                log.leave_gap(offset - log.end_offset)
                self._write(log, offset)
        log.delete_before(self.start)

    def _write(self, log: PartitionLog, offset: int) -> None:
        size_bytes = self.size_bytes if offset == self.end - 1 else 0
        is_open = offset == self.stable_end
        append(log, times_ms=[self.times_ms.get(offset, 0)], size_bytes=size_bytes, is_open=is_open)


class SourceCluster:
    """A cluster of one broker whose logs a test changes between two calls.

    Args:
        logs: of the topic partitions.
        brokers: how many. They lead the partitions of a topic in turn.
        has_topic_ids: False for brokers before Kafka 2.8.
        leaderless: topic partitions that have no leader at first.
        committed: the offsets of groups.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log] | None = None,
        *,
        brokers: int = 1,
        has_topic_ids: bool = True,
        leaderless: Iterable[TopicPartition] = (),
        committed: Mapping[str, Positions] | None = None,
    ) -> None:
        self.kafka = kafka_without_sockets(
            brokers, max_versions={} if has_topic_ids else {"Metadata": 9, "Fetch": 12}
        )
        self.client = InProcess(self.kafka, _SETTINGS)
        self._has_topic_ids = has_topic_ids
        self._leaderless: set[TopicPartition] = set()
        for topic_partition, log in sorted((logs or {}).items()):
            self.add(topic_partition, log)
        for topic_partition in leaderless:
            self.lose_leader(topic_partition)
        for group_id, positions in (committed or {}).items():
            self.commit(group_id, positions)

    @property
    def lookup(self) -> KafkaOffsetLookup:
        """Return what a new driver asks."""
        return KafkaOffsetLookup(self.client.connections)

    def count(self, *apis: str) -> int:
        """Return how many requests of these APIs were sent."""
        return sum(self.client.count(api) for api in apis)

    # ----- topics and logs

    def add(self, topic_partition: TopicPartition, log: Log | None = None) -> None:
        """Create the next partition of a topic, and the topic if it has none."""
        topic, partition = topic_partition
        state = self.kafka._state
        if topic not in state.topics:
            self.kafka.create_topic(topic, partitions=0)
        assert partition == len(state.topics[topic].partitions), "Kafka numbers partitions without a gap"
        state.add_partitions(state.topics[topic], partition + 1)
        if log is not None and log.end:
            with self.kafka.log(topic, partition) as found:
                log.write_to(found)

    def recreate(self, topic: str, *logs: Log) -> None:
        """Delete a topic and create it again, with a partition for each log."""
        self.kafka.delete_topic(topic)
        for partition, log in enumerate(logs):
            self.add(TopicPartition(topic, partition), log)

    def extend(self, topic_partition: TopicPartition, end: int) -> None:
        """Write records up to an offset. All but the last are compacted."""
        with self.kafka.log(*topic_partition) as log:
            assert end > log.end_offset
            Log(log.start_offset, end).write_to(log)

    def delete_before(self, topic_partition: TopicPartition, offset: int) -> None:
        """Let retention delete the records below an offset."""
        with self.kafka.log(*topic_partition) as log:
            log.delete_before(offset)

    def truncate(self, topic_partition: TopicPartition, end: int) -> None:
        """Lose the records from an offset on, as in an unclean election."""
        with self.kafka.log(*topic_partition) as log:
            log.truncate(end)
            if end > log.end_offset:
                Log(log.start_offset, end).write_to(log)
        self.kafka.move_leader(*topic_partition, self.kafka.leader_of(*topic_partition))

    def end_transaction(self, topic_partition: TopicPartition) -> None:
        """Commit the transaction that is open in a log."""
        with self.kafka.log(*topic_partition) as log:
            log.end_transaction(*_PRODUCER, is_commit=True, leader_epoch=0, now_ms=0)

    def end_of(self, topic_partition: TopicPartition) -> int:
        """Return the offset after the last record."""
        with self.kafka.log(*topic_partition) as log:
            return log.end_offset

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Return the ends of all logs."""
        return {
            TopicPartition(name, each.index): each.log.end_offset
            for name, topic in self.kafka._state.topics.items()
            for each in topic.partitions
        }

    # ----- ids of topics

    def topic(self, name: str) -> Topic:
        return self.kafka._state.topics[name]

    @property
    def topic_ids(self) -> dict[str, str]:
        """Return the ids of all topics; none of an older broker."""
        topics = self.kafka._state.topics if self._has_topic_ids else {}
        return {name: str(topic.topic_id) for name, topic in topics.items()}

    def offset(self, positions: Positions, **markers: Any) -> SourceOffset:
        """Return an offset as planning makes it here: with the ids of its topics."""
        names = {each.topic for each in (*positions, *markers.get("left", ()))}
        ids = {name: topic_id for name, topic_id in self.topic_ids.items() if name in names}
        return SourceOffset(positions, Markers(**{"topic_ids": ids, **markers}))

    # ----- groups

    def commit(self, group_id: str, positions: Positions) -> None:
        """Commit offsets of a group."""
        refused = log_offsets.commit_offsets(self.client.connections, group_id, positions)
        assert not refused, refused

    # ----- faults

    def lose_leader(self, topic_partition: TopicPartition) -> None:
        """Leave a topic partition without a leader."""
        self._leaderless.add(topic_partition)
        self.kafka.move_leader(*topic_partition, -1)

    def find_leader(self, topic_partition: TopicPartition) -> None:
        """Elect a leader for a topic partition without one."""
        self._leaderless.remove(topic_partition)
        self.kafka.move_leader(*topic_partition, min(self.kafka.node_ids))

    def find_leaders(self) -> None:
        """Elect a leader for each topic partition without one."""
        for topic_partition in self.leaderless:
            self.find_leader(topic_partition)

    def control_leader(self, topic_partition: TopicPartition, api: str, action: Action) -> Control:
        """Control the requests to the leader of a topic partition, until the control is ended.

        With several brokers they lead the partitions of a topic in turn. So the others are served.
        """
        leader_id = self.kafka.leader_of(*topic_partition)

        def choose(seen: SeenRequest) -> Action | None:
            return action if seen.node_id == leader_id else None

        return self.kafka.control(api, choose, times=None)

    @contextmanager
    def without(self, topic: str) -> Iterator[None]:
        """Do not show a topic, as while a right is missing or a broker has old metadata."""
        hidden = self.kafka._state.topics.pop(topic)
        yield
        self.kafka._state.topics[topic] = hidden

    @property
    def leaderless(self) -> frozenset[TopicPartition]:
        """Return the topic partitions without a leader."""
        return frozenset(self._leaderless)

    def hide_from_next_metadata(self, topic_partition: TopicPartition) -> None:
        """Let the next answer of a broker not have the last partition of a topic: it has old metadata."""
        partitions = self.topic(topic_partition.topic).partitions
        hidden = partitions.pop()
        assert hidden.index == topic_partition.partition
        self.after_metadata(1, lambda: partitions.append(hidden))

    def after_metadata(self, answers: int, act: Callable[[], None]) -> None:
        """Act when Metadata was answered so many more times, as a broker learns late of a change."""
        left = [answers]

        def choose(_: SeenRequest) -> None:
            left[0] -= 1
            if left[0] == -1:
                act()

        self.kafka.control("Metadata", choose, times=None)


def append(
    log: PartitionLog,
    *values: bytes,
    times_ms: Sequence[int] = (),
    size_bytes: int = 0,
    is_open: bool = False,
) -> None:
    """Append a record batch to a log.

    Args:
        log: the log.
        values: of the records; default: empty ones.
        times_ms: of the records; default: 1970.
        size_bytes: of the batch; its last record is padded to this.
        is_open: whether the records belong to a transaction that is not ended.
    """
    values = values or (b"",) * len(times_ms)
    times_ms = tuple(times_ms) or (0,) * len(values)
    found = _batch(values, times_ms, is_open)
    padding = size_bytes - len(found.data)
    while padding > 0 and len(found.data) != size_bytes:
        found = _batch((*values[:-1], values[-1] + bytes(padding)), times_ms, is_open)
        padding -= 1
    assert not log.append(found, leader_epoch=0).code


@lru_cache
def _batch(values: tuple[bytes, ...], times_ms: tuple[int, ...], is_open: bool) -> Batch:
    producer = (*_PRODUCER, 0) if is_open else (-1, -1, -1)
    return Batch.of(batch(*values, producer=producer, is_transactional=is_open, times_ms=times_ms))
