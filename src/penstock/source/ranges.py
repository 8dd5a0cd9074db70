"""Ranges between two offsets, checked against what the brokers still hold before tasks are started.

Runs on the driver. Invariant: what comes out lies inside of what went in; a range is cut or dropped only
after the loss was reported (see data_loss.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from penstock.errors import CheckpointError, DataLossError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel
from penstock.source import data_loss
from penstock.source.admin import LogEnd, OffsetAdmin, OffsetAnswers, Wait
from penstock.source.offsets_json import Positions
from penstock.types import OffsetRange, TopicPartition

_log = logging.getLogger(__name__)


def forward_ranges(
    begin: Positions, end: Positions, *, fail_on_data_loss: bool, property_prefix: str = ""
) -> list[OffsetRange]:
    """The ranges between two positions; one that would go backwards is a loss, and not read.

    Raises:
        CheckpointError: a topic partition has an end and no beginning.
        DataLossError: an end lies before its beginning and `fail_on_data_loss` is set.
    """
    ranges = []
    for topic_partition, stop in sorted(end.items()):
        if topic_partition not in begin:
            raise CheckpointError(
                f"The offset of the checkpoint has an end for {topic_partition} and no start. It was changed "
                "by hand, or is damaged. Nothing was read. Start with a new checkpoint location.",
                topic=topic_partition.topic,
                partition=topic_partition.partition,
            )
        start = begin[topic_partition]
        if start > stop:
            error = data_loss.range_goes_back(topic_partition, start, stop)
            data_loss.report(error, fail=fail_on_data_loss, property_prefix=property_prefix)
        else:
            ranges.append(OffsetRange(topic_partition, start, stop))
    return ranges


def check_available(
    ranges: Sequence[OffsetRange],
    admin: OffsetAdmin,
    *,
    fail_on_data_loss: bool,
    check_ends: bool,
    fail_on_removal: bool | None = None,
    property_prefix: str = "",
) -> list[OffsetRange]:
    """The ranges as far as the brokers hold them.

    Args:
        ranges: what shall be read.
        admin: answers where the logs start and end.
        fail_on_data_loss: whether a loss is an error, or a warning and a shorter range.
        check_ends: whether the ends have to be looked at too. Not needed when they were just looked up.
        fail_on_removal: the same as `fail_on_data_loss` for deleted topic partitions; None: no difference.
        property_prefix: of the user's options, for errors.

    Raises:
        DataLossError: records of a range are gone and `fail_on_data_loss` is set.
    """
    asked = [offset_range.topic_partition for offset_range in ranges if len(offset_range) > 0]
    if not asked:
        return []
    # High watermarks: what a range holds was once below the last stable offset, which never passes them.
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    starts = admin.list_offsets(asked, LogEnd.EARLIEST, uncommitted, wait=Wait.FOR_ONE)
    ends = OffsetAnswers()
    if check_ends:
        ends = admin.list_offsets(asked, LogEnd.LATEST, uncommitted, wait=Wait.FOR_ONE)
    gone = _removed(asked, starts)
    if gone:
        fail = fail_on_data_loss if fail_on_removal is None else fail_on_removal
        data_loss.report(data_loss.removed(gone), fail=fail, property_prefix=property_prefix)
    report = partial(data_loss.report, fail=fail_on_data_loss, property_prefix=property_prefix)
    available = [
        _cut(offset_range, starts.offsets, ends.offsets, report)
        for offset_range in ranges
        if offset_range.topic_partition not in gone
    ]
    return [offset_range for offset_range in available if len(offset_range) > 0]


def _removed(asked: Collection[TopicPartition], starts: OffsetAnswers) -> set[TopicPartition]:
    """Those that do not exist; other errors are left to the task, which has time to wait for a leader."""
    for topic_partition, error in sorted(starts.errors.items()):
        if not isinstance(error, UnknownTopicOrPartitionError):
            _log.warning("The start of the log of %s is not known yet: %s", topic_partition, error)
    return {tp for tp in asked if isinstance(starts.errors.get(tp), UnknownTopicOrPartitionError)}


def _cut(
    offset_range: OffsetRange,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    report: Callable[[DataLossError], None],
) -> OffsetRange:
    topic_partition = offset_range.topic_partition
    start, stop = offset_range.starting_offset, offset_range.stopping_offset
    log_start, log_end = starts.get(topic_partition, start), ends.get(topic_partition, stop)
    if log_start > start:
        report(data_loss.records_gone(topic_partition, start, log_start))
    if log_end < stop:
        report(data_loss.range_not_available(topic_partition, stop, log_end))
    low, high = max(start, log_start), min(stop, log_end)
    return OffsetRange(topic_partition, min(low, stop), max(high, min(low, stop)))
