"""Small frozen values that every room shares.

Runs on driver and executor. Invariant: this module imports nothing of penstock, and every value pickles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

ROW_KIND = "row_kind"
"""The column, a STRING, that says what a row of a changelog is: +I, -U, +U or -D."""


class TopicPartition(NamedTuple):
    """A topic partition: one Kafka partition of one topic.

    Attributes:
        topic: the name of the topic.
        partition: the number of the partition, from 0.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogEnd(Enum):
    """An end of a log. It moves, so it must be looked up in the cluster."""

    EARLIEST = "earliest"
    """The first record that the broker still has."""
    LATEST = "latest"
    """The end after the last record. With read_committed it is the last stable offset."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The position of the committed offset of a consumer group."""


@dataclass(frozen=True, slots=True)
class At:
    """The position at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class Time:
    """The position of the first record that is not older than this time (milliseconds since 1970)."""

    time_ms: int


Where: TypeAlias = LogEnd | Committed | At | Time
"""A position where reading starts or ends. Only the client turns it into the numbers of Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Half-open range `[starting_offset, stopping_offset)` of a topic partition.

    A range is finished when the *position* of the reader reaches `stopping_offset`. The last offsets of a
    range may have no record to return (control records, aborted data, gaps of compaction).
    """

    topic_partition: TopicPartition
    starting_offset: int
    stopping_offset: int

    def __len__(self) -> int:
        return max(0, self.stopping_offset - self.starting_offset)

    def __str__(self) -> str:
        return f"{self.topic_partition}[{self.starting_offset}, {self.stopping_offset})"
