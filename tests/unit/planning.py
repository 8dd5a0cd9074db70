"""Values that tests of planning make and compare: topic partitions, configs, ranges, offsets."""

from __future__ import annotations

import json
from collections.abc import Iterable

from penstock.options.config import (
    DiscoveryInterval,
    KafkaProperties,
    OffsetsSpec,
    SourceConfig,
    Subscription,
    TopicList,
)
from penstock.options.offset_text import where_of
from penstock.source.checkpoint_offset import SourceOffset
from penstock.source.splits import Split
from penstock.types import LogEnd, OffsetRange, TopicPartition, Where

EARLIEST = OffsetsSpec(LogEnd.EARLIEST)
LATEST = OffsetsSpec(LogEnd.LATEST)


def at(*offsets: tuple[TopicPartition, int]) -> tuple[tuple[TopicPartition, Where], ...]:
    """Positions by offset; -2, -1 and -3 as users write them."""
    return tuple((topic_partition, where_of(offset)) for topic_partition, offset in offsets)


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


def ranges_of(splits: Iterable[Split]) -> list[OffsetRange]:
    """Return the ranges of all splits."""
    return [each.offset_range for split in splits for each in split.ranges]


def ranges(splits: list[Split]) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Return the offsets that the splits read, by topic partition."""
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for piece in ranges_of(splits):
        found.setdefault(piece.topic_partition, []).append((piece.starting_offset, piece.stopping_offset))
    return found


def through_json(offset: SourceOffset) -> SourceOffset:
    """Return the offset as it comes back from the checkpoint."""
    return SourceOffset.from_json(json.loads(json.dumps(offset.to_json())))
