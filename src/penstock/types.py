"""Small frozen values that every room shares.

Runs on driver and executor. Invariant: imports nothing of ours, and every value pickles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias


class TopicPartition(NamedTuple):
    """One Kafka partition of one topic. Never called plain "partition"."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogEnd(Enum):
    """One end of a log. It moves, so the cluster has to be asked where it is."""

    EARLIEST = "earliest"
    """The first record that the broker still has."""
    LATEST = "latest"
    """After the last record; under read_committed the last stable offset."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The place of the committed offset of a consumer group."""


@dataclass(frozen=True, slots=True)
class At:
    """The place at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Time:
    """The place of the first record that is not older than this time (milliseconds since 1970)."""

    time_ms: int


Where: TypeAlias = LogEnd | Committed | At | Time
"""Where reading starts or ends. Only the client turns it into the numbers of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Half-open range `[starting_offset, stopping_offset)` of one topic partition.

    A range is read to its end when the consumer's *position* reaches `stopping_offset`, so that
    control records, aborted data and compaction gaps at the tail neither hang it nor lose a record.
    """

    topic_partition: TopicPartition
    starting_offset: int
    stopping_offset: int

    def __len__(self) -> int:
        return max(0, self.stopping_offset - self.starting_offset)

    def __str__(self) -> str:
        return f"{self.topic_partition}[{self.starting_offset}, {self.stopping_offset})"
