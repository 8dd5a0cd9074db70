"""Where reading starts or ends: PyFlink's `KafkaOffsetsInitializer`, which users may also write themselves.

Made in the user's program; those of users are asked on the driver, when a query is first planned.
Invariant: the built-in ones become plain options wherever options can say the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.errors import OptionError
from penstock.options.offset_text import COMMITTED_OFFSET
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.types import LogEnd, Time, TopicPartition


class KafkaOffsetResetStrategy(Enum):
    """Where to start where an initializer has no offset; NONE makes that an error."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "none"


class KafkaOffsetsInitializer(ABC):
    """Decides at which offset reading starts (or ends) in each topic partition.

    Use one of the static methods, or subclass it. An instance of a subclass travels to the driver by value,
    with its class and what the class refers to in its module; other modules have to be installed there.
    It is asked once, when a query is first planned: the offsets are then kept in the checkpoint.
    """

    @abstractmethod
    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """The offset for each topic partition: a number, or -2 earliest, -1 latest, -3 committed.

        Args:
            partitions: those that exist when the query starts. Later ones start at their first record.
            retriever: asks the cluster.
        """

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Where to start for an offset of -3 where the group has none."""
        return KafkaOffsetResetStrategy.EARLIEST

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record of each log."""
        return Earliest()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """The end of each log as of the start."""
        return Latest()

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record that is not older than `timestamp` (milliseconds), else the end of the log."""
        return Timestamp(timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """The committed offsets of the group id; where there is none, as the strategy says."""
        return Committed(offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[TopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; what is not named: the group's committed offset, else as the strategy says."""
        given = tuple(sorted((TopicPartition(*tp), offset) for tp, offset in offsets.items()))
        return Specific(given, offset_reset_strategy)


@dataclass(frozen=True)
class Earliest(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.earliest`."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Ask for the beginnings."""
        return retriever.offsets_at(partitions, LogEnd.EARLIEST)


@dataclass(frozen=True)
class Latest(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.latest`."""

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Ask for the ends."""
        return retriever.offsets_at(partitions, LogEnd.LATEST)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """As Flink."""
        return KafkaOffsetResetStrategy.LATEST


@dataclass(frozen=True)
class Timestamp(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.timestamp`."""

    timestamp_ms: int

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Ask for the offsets of that time."""
        return retriever.offsets_at(partitions, Time(self.timestamp_ms))

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """As Flink."""
        return KafkaOffsetResetStrategy.LATEST


@dataclass(frozen=True)
class Committed(KafkaOffsetsInitializer):
    """See `KafkaOffsetsInitializer.committed_offsets`."""

    strategy: KafkaOffsetResetStrategy

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Leave the look-up and the strategy to the planner, which knows -3."""
        return dict.fromkeys(partitions, COMMITTED_OFFSET)

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """The given one."""
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
        """The given ones, and -3 for the others."""
        return {**dict.fromkeys(partitions, COMMITTED_OFFSET), **dict(self.given)}

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """The given one."""
        return self.strategy
