"""Check ranges against what the brokers still hold, before tasks are started.

Runs on the driver. Invariant: a result lies inside of the range that was given; a range is cut or dropped
only after the loss was reported (see _data_loss.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.client.cluster.results import Results
from penstock.errors import CheckpointError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source._division import divide
from penstock.source._lookup import OffsetLookup, Wait
from penstock.source.checkpoint_offset import Positions
from penstock.source.splits import Split
from penstock.types import LogEnd, OffsetRange, TopicPartition

_log = logging.getLogger(__name__)

_STARTS = "Looking up the starts of the logs"
_ENDS = "Looking up the ends of the logs"


@dataclass(frozen=True)
class LogBounds:
    """The offsets that a log holds, `[start, end)`, up to its high watermark."""

    start: int
    end: int


def check_log_ends(
    positions: Positions, lookup: OffsetLookup, losses: LossPolicy
) -> dict[TopicPartition, LogBounds]:
    """Look up the logs of positions that seem to lie past their ends, and report those that do.

    The high watermark decides: a position between the last stable offset and the high watermark is not lost.

    Raises:
        DataLossError: a position lies past the end, and the options make that an error.
    """
    if not positions:
        return {}
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    ends = lookup.list_offsets(positions.keys(), LogEnd.LATEST, uncommitted).all_or_raise(_ENDS)
    starts = lookup.list_offsets(positions.keys(), LogEnd.EARLIEST, uncommitted).all_or_raise(_STARTS)
    bounds = {tp: LogBounds(starts[tp], ends[tp]) for tp in sorted(positions)}
    for tp, log in bounds.items():
        if positions[tp] > log.end:
            losses.report(data_loss.position_past_end(tp, positions[tp], log.start, log.end))
    return bounds


def forward_ranges(begin: Positions, end: Positions, losses: LossPolicy) -> list[OffsetRange]:
    """Return the ranges between two positions; a range that goes backwards is reported and left out.

    Raises:
        CheckpointError: a topic partition has an end and no beginning.
        DataLossError: an end lies before its beginning, and the options make that an error.
    """
    ranges = []
    for topic_partition, stop in sorted(end.items()):
        if topic_partition not in begin:
            raise CheckpointError(
                f"The offset of the checkpoint has an end for {topic_partition} and no start. The checkpoint "
                "was changed by hand, or is damaged. Nothing was read. Start with a new checkpoint location.",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
            )
        start = begin[topic_partition]
        if start > stop:
            losses.report(data_loss.range_goes_back(topic_partition, start, stop))
        else:
            ranges.append(OffsetRange(topic_partition, start, stop))
    return ranges


def plan_splits(
    config: SourceConfig,
    lookup: OffsetLookup,
    ranges: Sequence[OffsetRange],
    topic_ids: Mapping[str, str],
    *,
    check_ends: bool,
    continued: Positions | None = None,
    narrow: Callable[[Sequence[OffsetRange]], list[OffsetRange]] | None = None,
) -> list[Split]:
    """Cut the ranges to what the brokers hold, and divide them among tasks. Batches and streams use this.

    Args:
        config: the limits on splits, and what to do if records are gone.
        lookup: tells where the logs start and end.
        ranges: to read.
        topic_ids: the known ids of their topics.
        check_ends: whether to look up the ends too; not needed if planning just did.
        continued: where the last batch of this run ended. A range that begins there is not looked up: that
            batch has read up to it a moment ago. If its records are deleted now, the task that reads it
            reports that.
        narrow: leaves out what is not wanted, after records that are gone were reported.

    Raises:
        DataLossError: records of a range are gone, and the options make that an error.
    """
    goes_on = {
        one.topic_partition
        for one in ranges
        if continued is not None and continued.get(one.topic_partition) == one.starting_offset
    }
    checked = _available(
        [one for one in ranges if one.topic_partition not in goes_on],
        lookup,
        LossPolicy.of(config),
        check_ends=check_ends,
    )
    available = [*checked, *(one for one in ranges if one.topic_partition in goes_on)]
    return divide(
        available if narrow is None else narrow(available),
        min_splits=config.min_splits,
        max_records_per_split=config.max_records_per_split,
        topic_ids=topic_ids,
        packs=config.packs_small_ranges,
    )


def _available(
    ranges: Sequence[OffsetRange], lookup: OffsetLookup, losses: LossPolicy, *, check_ends: bool
) -> list[OffsetRange]:
    asked = [offset_range.topic_partition for offset_range in ranges if len(offset_range) > 0]
    if not asked:
        return []
    # High watermarks, because a range ended below the last stable offset, which never passes them.
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    starts = lookup.list_offsets(asked, LogEnd.EARLIEST, uncommitted, wait=Wait.FOR_ONE)
    ends: Results[TopicPartition, int] = Results()
    if check_ends:
        ends = lookup.list_offsets(asked, LogEnd.LATEST, uncommitted, wait=Wait.FOR_ONE)
    gone = _removed(asked, starts)
    if gone:
        losses.report(data_loss.removed(gone))
    available = [
        _cut(offset_range, starts.values, ends.values, losses)
        for offset_range in ranges
        if offset_range.topic_partition not in gone
    ]
    return [offset_range for offset_range in available if len(offset_range) > 0]


def _removed(asked: Collection[TopicPartition], starts: Results[TopicPartition, int]) -> set[TopicPartition]:
    """Return topic partitions that do not exist. Other errors are left to the tasks, which can wait."""
    for topic_partition, error in sorted(starts.errors.items()):
        if not isinstance(error, UnknownTopicOrPartitionError):
            text = "The start of the log of %s could not be looked up; the task that reads it tries again: %s"
            _log.warning(text, topic_partition, error)
    return {tp for tp in asked if isinstance(starts.errors.get(tp), UnknownTopicOrPartitionError)}


def _cut(
    offset_range: OffsetRange,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    losses: LossPolicy,
) -> OffsetRange:
    topic_partition = offset_range.topic_partition
    start, stop = offset_range.starting_offset, offset_range.stopping_offset
    log_start, log_end = starts.get(topic_partition, start), ends.get(topic_partition, stop)
    if log_start > start:
        losses.report(data_loss.records_gone(topic_partition, start, log_start))
    if log_end < stop:
        losses.report(data_loss.range_not_available(topic_partition, stop, log_end))
    low, high = max(start, log_start), min(stop, log_end)
    return OffsetRange(topic_partition, min(low, stop), max(high, min(low, stop)))
