"""Small frozen values that every room shares.

Runs on driver and executor. Invariant: imports nothing of ours, and every value pickles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One Kafka partition of one topic. Never called plain "partition"."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


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
