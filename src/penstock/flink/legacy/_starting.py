"""The start of an older consumer that options cannot say: specific offsets that fall back to the group.

Made in the user's program; the driver asks it when a query is first planned. Invariant: each topic partition
has its own fall-back: its offset in the map, else the offset of the group, else `auto.offset.reset`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.errors import OptionError
from penstock.flink.offsets_initializer import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.options.offset_text import COMMITTED_OFFSET
from penstock.source.user_initializer import PartitionOffsetsRetriever
from penstock.types import LogEnd, TopicPartition

_log = logging.getLogger("penstock.older")

_END_OF = {KafkaOffsetResetStrategy.EARLIEST: LogEnd.EARLIEST, KafkaOffsetResetStrategy.LATEST: LogEnd.LATEST}


@dataclass(frozen=True)
class SpecificOffsets(KafkaOffsetsInitializer):
    """Starts at given offsets.

    Attributes:
        given: the offset of the next record to read for each topic partition; None is the same as no entry.
        strategy: the place if neither the map nor the group has an offset.
        has_group: whether there is a consumer group.
    """

    given: tuple[tuple[TopicPartition, int | None], ...]
    strategy: KafkaOffsetResetStrategy
    has_group: bool

    @classmethod
    def of(
        cls,
        offsets: Mapping[TopicPartition, int | None],
        strategy: KafkaOffsetResetStrategy,
        *,
        has_group: bool,
    ) -> SpecificOffsets:
        """Return the start after a check.

        Raises:
            OptionError: an offset is not a number, or it is negative.
        """
        for tp, offset in offsets.items():
            is_number = isinstance(offset, int) and not isinstance(offset, bool)
            if offset is not None and (not is_number or offset < 0):
                raise OptionError(
                    f"The starting offset of {TopicPartition(*tp)} cannot be {offset!r}. Allowed: a whole "
                    "number, at least 0, or None for the committed offset of the group."
                )
        return cls(
            tuple(sorted((TopicPartition(*tp), offset) for tp, offset in offsets.items())),
            strategy,
            has_group,
        )

    def get_partition_offsets(
        self, partitions: Collection[TopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[TopicPartition, int]:
        """Return an offset for each, or -3 for the committed one."""
        given = dict(self.given)
        if unread := sorted(str(tp) for tp in given.keys() - set(partitions)):
            _log.warning(
                "The starting offsets of %s are ignored, because the consumer does not read these topic "
                "partitions.",
                ", ".join(unread),
            )
        found = {tp: offset for tp in partitions if (offset := given.get(tp)) is not None}
        others = [tp for tp in partitions if tp not in found]
        if self.has_group or not others:
            return {**found, **dict.fromkeys(others, COMMITTED_OFFSET)}
        return {**found, **retriever.offsets_at(others, _END_OF[self.strategy])}

    def get_auto_offset_reset_strategy(self) -> KafkaOffsetResetStrategy:
        """Return the place if the group has no committed offset."""
        return self.strategy
