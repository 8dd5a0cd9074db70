"""Offsets that planning looks up: ends of logs, offsets by time, committed offsets.

Runs on the driver. Invariant: once a run is frozen (AvailableNow), "the end" is the frozen one for
everybody who asks, so that no part of a run sees more of a log than another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.options.config import SourceConfig
from penstock.source.admin import LogEnd, OffsetAdmin, OffsetAnswers, Wait
from penstock.source.offsets_json import Positions
from penstock.types import TopicPartition


class OffsetLookUps(Protocol):
    """What resolving a starting or stopping point may ask.

    Attributes:
        group_id: the consumer group whose offsets are asked for; None without one.
    """

    @property
    def group_id(self) -> str | None:
        """See the class."""

    def log_ends(
        self, topic_partitions: Collection[TopicPartition], end: LogEnd, *, wait: Wait = Wait.FOR_ALL
    ) -> OffsetAnswers:
        """One end of each log."""

    def for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> OffsetAnswers:
        """The first offset whose record is not older; left out where there is none."""

    def committed(self, topic_partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The group's committed offsets; left out where there is none, or no group."""


class ConfiguredLookUps:
    """`OffsetLookUps` with the isolation level and the group of a config.

    Attributes:
        target: the frozen ends of an AvailableNow run; only these topic partitions have an end then.
    """

    def __init__(self, config: SourceConfig, admin: OffsetAdmin) -> None:
        self._config = config
        self._admin = admin
        self.target: Positions | None = None

    @property
    def group_id(self) -> str | None:
        """See `OffsetLookUps`."""
        return self._config.group_id

    def log_ends(
        self, topic_partitions: Collection[TopicPartition], end: LogEnd, *, wait: Wait = Wait.FOR_ALL
    ) -> OffsetAnswers:
        """See `OffsetLookUps`."""
        if not topic_partitions:
            return OffsetAnswers()
        if self.target is not None and end is LogEnd.LATEST:
            return OffsetAnswers({tp: self.target[tp] for tp in topic_partitions if tp in self.target})
        level = self._config.isolation_level
        return self._admin.list_offsets(topic_partitions, end, level, wait=wait)

    def for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> OffsetAnswers:
        """See `OffsetLookUps`."""
        if not timestamps_ms:
            return OffsetAnswers()
        return self._admin.offsets_for_times(timestamps_ms, self._config.isolation_level)

    def committed(self, topic_partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `OffsetLookUps`."""
        group_id = self._config.group_id
        if group_id is None or not topic_partitions:
            return {}
        return self._admin.committed_offsets(group_id, topic_partitions)
