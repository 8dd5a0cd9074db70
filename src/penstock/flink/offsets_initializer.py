"""Say where reading starts or ends: PyFlink's `KafkaOffsetsInitializer`, which users may subclass.

Runs in the user's program. The driver calls a subclass of the user when a query is first planned. Invariant:
a built-in initializer becomes plain options if options can say the same.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from penstock.errors import OptionError
from penstock.options.offset_text import COMMITTED_OFFSET
from penstock.options.time_text import BeforeNow, parse_moment
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.types import LogEnd, Time, TopicPartition

KafkaTopicPartition: TypeAlias = TopicPartition
"""PyFlink's name."""


class KafkaOffsetResetStrategy(Enum):
    """The position to start at if an initializer has no offset. NONE makes that an error."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


class KafkaOffsetsInitializer(ABC):
    """Decide at which offset reading starts (or ends) in each topic partition.

    Use one of the static methods, or subclass it. An instance of a subclass travels to the driver by value,
    with its class and everything that the class uses of its module. Other modules must be installed there.
    It is called once, when a query is first planned; the checkpoint keeps the offsets.
    """

    @abstractmethod
    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Return the offset for each topic partition: a number, or -2 earliest, -1 latest, -3 committed.

        Args:
            partitions: the topic partitions that exist when the query starts. Later ones start at their first
                record.
            retriever: looks up offsets in the cluster.
        """

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return where to start for the offset -3 if the group has no committed offset."""
        return KafkaOffsetResetStrategy.EARLIEST

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Return an initializer for the first record of each log."""
        return Earliest()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Return an initializer for the end of each log when the query starts."""
        return Latest()

    @staticmethod
    def timestamp(timestamp: int | str) -> KafkaOffsetsInitializer:
        """Return an initializer for the first record that is not older than `timestamp`.

        Without such a record it is the end of the log.

        Args:
            timestamp: milliseconds since 1970, ISO 8601 with a zone such as `2026-11-22T17:00:00Z`, or a time
                before the first planning of the query such as `-10 min`.

        Raises:
            OptionError: the text has another form.
        """
        return Timestamp(timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Return an initializer for the committed offsets of the group.

        The strategy gives the position if the group has no committed offset.
        """
        return Committed(offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[TopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Return an initializer for these offsets.

        A topic partition that is not named has the committed offset of the group, or the position of the
        strategy without one.
        """
        given = tuple(sorted((TopicPartition(*tp), offset) for tp, offset in offsets.items()))
        return Specific(given, offset_reset_strategy)


@dataclass(frozen=True)
class Earliest(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.earliest`."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Look up the first offset of each log."""
        return retriever.offsets_at(partitions, LogEnd.EARLIEST)


@dataclass(frozen=True)
class Latest(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.latest`."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Look up the end of each log."""
        return retriever.offsets_at(partitions, LogEnd.LATEST)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return the strategy of Flink."""
        return KafkaOffsetResetStrategy.LATEST


@dataclass(frozen=True)
class Timestamp(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.timestamp`."""

    given: int | str

    def __post_init__(self) -> None:
        _parsed(self.given)

    @property
    def text(self) -> str:
        """Return the value for an option."""
        return str(self.given)

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Look up the offsets of the time."""
        moment = _parsed(self.given)
        if isinstance(moment, BeforeNow):
            moment = Time(max(0, time.time_ns() // 1_000_000 - moment.before_ms))
        return retriever.offsets_at(partitions, moment)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return the strategy of Flink."""
        return KafkaOffsetResetStrategy.LATEST


@dataclass(frozen=True)
class Committed(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.committed_offsets`."""

    strategy: KafkaOffsetResetStrategy

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Return -3 for all. The planner looks up the offsets and uses the strategy."""
        return dict.fromkeys(partitions, COMMITTED_OFFSET)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return the given strategy."""
        return self.strategy


@dataclass(frozen=True)
class Specific(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.offsets`."""

    given: tuple[tuple[TopicPartition, int], ...]
    strategy: KafkaOffsetResetStrategy

    def __post_init__(self) -> None:
        if not self.given:
            raise OptionError("KafkaOffsetsInitializer.offsets needs at least one topic partition.")

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Return the given offsets, and -3 for the other topic partitions."""
        return {**dict.fromkeys(partitions, COMMITTED_OFFSET), **dict(self.given)}

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return the given strategy."""
        return self.strategy


def _parsed(timestamp: int | str) -> Time | BeforeNow:
    try:
        return parse_moment(str(timestamp))
    except ValueError as error:
        raise OptionError(
            f"The timestamp cannot be {timestamp!r}. Allowed: {error}.", value=timestamp
        ) from None
