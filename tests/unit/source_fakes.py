"""An `OffsetLookup` in memory, for the plans of the source.

Runs in tests only. It stays beside the fake Kafka because it knows no protocol: planning asks for topics and
offsets, and a test changes them between two calls.
`tests/unit/source/test_kafka_lookup.py` and `tests/kafka` have the real lookup.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.client.cluster.results import Results
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OffsetOutOfRangeError, PenstockError, UnknownTopicOrPartitionError
from penstock.options.config import (
    DiscoveryInterval,
    IsolationLevel,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    Subscription,
    TopicList,
)
from penstock.options.offset_text import where_of
from penstock.source._lookup import TopicView, Wait
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.splits import Split
from penstock.types import LogEnd, OffsetRange, TopicPartition, Where

EARLIEST = OffsetsSpec(LogEnd.EARLIEST)
LATEST = OffsetsSpec(LogEnd.LATEST)


def at(*offsets: tuple[TopicPartition, int]) -> tuple[tuple[TopicPartition, Where], ...]:
    """Positions by offset; -2, -1 and -3 as users write them."""
    return tuple((topic_partition, where_of(offset)) for topic_partition, offset in offsets)


@dataclass
class Log:
    """One topic partition: offsets [start, end), of which those below `stable_end` are decided."""

    start: int = 0
    end: int = 0
    stable_end: int | None = None
    times_ms: dict[int, int] = field(default_factory=dict)
    size_bytes: int = 0


@dataclass
class FakeAdmin:
    """An `OffsetLookup` whose logs a test changes between calls."""

    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    internal_topics: set[str] = field(default_factory=set)
    failing: dict[TopicPartition, PenstockError] = field(default_factory=dict)
    failing_sizes: dict[TopicPartition, PenstockError] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    hidden: dict[TopicPartition, Log] = field(default_factory=dict)
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    """The values of records, by offset."""
    discovery_count: int = 0
    look_up_count: int = 0

    def describe_topics(self, topics: Iterable[str] | None) -> Mapping[str, TopicView]:
        self.discovery_count += 1
        logs = dict(self.logs)
        self.logs |= self.hidden
        self.hidden = {}
        existing = {topic_partition.topic for topic_partition in logs}
        return {
            name: TopicView(
                frozenset(tp for tp in logs if tp.topic == name),
                is_internal=name in self.internal_topics,
                topic_id=self.topic_ids.get(name),
            )
            for name in sorted(existing if topics is None else existing & set(topics))
        }

    def show_after_next_discovery(self, topic_partition: TopicPartition, log: Log) -> None:
        """One discovery does not see it, as when a broker is behind with its metadata."""
        self.hidden[topic_partition] = log

    def list_offsets(
        self,
        topic_partitions: Collection[TopicPartition],
        end: LogEnd,
        isolation_level: IsolationLevel,
        *,
        wait: Wait = Wait.FOR_ALL,
    ) -> Results[TopicPartition, int]:
        self.look_up_count += 1
        offsets: dict[TopicPartition, int] = {}
        errors: dict[TopicPartition, PenstockError] = {}
        for tp in topic_partitions:
            if tp in self.failing:
                errors[tp] = self.failing[tp]
            elif tp not in self.logs:
                errors[tp] = UnknownTopicOrPartitionError(f"{tp} does not exist")
            else:
                offsets[tp] = _end_of(self.logs[tp], end, isolation_level)
        return Results(offsets, errors)

    def log_sizes(self, topic_partitions: Collection[TopicPartition]) -> Results[TopicPartition, int]:
        self.look_up_count += 1
        failing = {**self.failing, **self.failing_sizes}
        found = {tp: self.logs[tp].size_bytes for tp in topic_partitions if tp not in failing}
        return Results(found, {tp: failing[tp] for tp in topic_partitions if tp in failing})

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int], isolation_level: IsolationLevel
    ) -> Results[TopicPartition, int]:
        offsets = {}
        for tp, wanted_ms in timestamps_ms.items():
            times_ms = self.logs[tp].times_ms if tp not in self.failing else {}
            matches = [offset for offset, time_ms in sorted(times_ms.items()) if time_ms >= wanted_ms]
            offsets.update({tp: matches[0]} if matches else {})
        return Results(offsets, {tp: self.failing[tp] for tp in timestamps_ms if tp in self.failing})

    def committed_offsets(
        self, group_id: str, topic_partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        of_group = self.committed.get(group_id, {})
        return {tp: of_group[tp] for tp in topic_partitions if tp in of_group}

    def records(self, offset_range: OffsetRange, config: SourceConfig) -> Iterator[pa.RecordBatch]:
        """Yield a batch for each record."""
        tp, log = offset_range.topic_partition, self.logs[offset_range.topic_partition]
        if offset_range.starting_offset < log.start:
            facts = {"offset": offset_range.starting_offset, "log_start_offset": log.start}
            raise OffsetOutOfRangeError("deleted", **facts)
        for offset in range(offset_range.starting_offset, offset_range.stopping_offset):
            row = {
                "value": self.values[tp][offset],
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": offset,
                "timestamp": 0,
                "timestamp_type": 0,
            }
            yield pa.RecordBatch.from_pylist([row], schema=KAFKA_RECORDS)


def _end_of(log: Log, end: LogEnd, isolation_level: IsolationLevel) -> int:
    if end is LogEnd.EARLIEST:
        return log.start
    if isolation_level is IsolationLevel.READ_COMMITTED and log.stable_end is not None:
        return log.stable_end
    return log.end


def ranges_of(splits: Iterable[Split]) -> list[OffsetRange]:
    """Return the ranges of all splits."""
    return [each.offset_range for split in splits for each in split.ranges]


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def source_config(
    subscription: Subscription | None = None, starting: OffsetsSpec = EARLIEST, **changes: object
) -> SourceConfig:
    settings: dict[str, object] = {"discovery": DiscoveryInterval.EVERY_BATCH, **changes}
    return SourceConfig(
        properties=KafkaProperties((("bootstrap.servers", "unused:9092"),)),
        subscription=subscription or TopicList(("t",)),
        starting=starting,
        **settings,  # type: ignore[arg-type]  # tests name fields of the dataclass
    )


def ranges(splits: list[Split]) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Return the offsets that the splits read, by topic partition."""
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for piece in ranges_of(splits):
        found.setdefault(piece.topic_partition, []).append((piece.starting_offset, piece.stopping_offset))
    return found


def through_json(offset: SourceOffset) -> SourceOffset:
    """Return the offset as it comes back from the checkpoint."""
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))
