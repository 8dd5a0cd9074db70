"""Apply `scan.filter`: leave out ranges that hold no wanted records, and unwanted records of the others.

`narrow` runs on the driver, and `RecordSelector` on executors. Invariants: a record is read if and only if it
satisfies all conditions; a range is shortened only by what cannot hold such a record.

- `topic` and `partition`: a topic partition that does not satisfy a condition is not read.
- `offset`: a range begins and ends at the bounds.
- `timestamp`: a range begins at the first record that is not older than the lower bound, because all records
  before it are older. The broker finds it in its time index, in whatever order the timestamps are. An upper
  bound cannot end a range, because a record after the first newer one may be older again. That is true for
  LogAppendTime too: the clocks of two leaders differ, and the kind of timestamps of a topic can change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.client.cluster.results import Results
from penstock.options.record_filter import Among, Column, RecordFilter, Within
from penstock.options.values import LONG_MAX
from penstock.types import OffsetRange, TopicPartition

_log = logging.getLogger(__name__)

OffsetsForTimes = Callable[[Mapping[TopicPartition, int]], Results[TopicPartition, int]]
"""Looks up the first offset whose record is not older than a time (ms); a log without one is left out."""

_OF_RECORDS = (Column.OFFSET, Column.TIMESTAMP)


# ----- planning


def narrow(
    ranges: Sequence[OffsetRange], wanted: RecordFilter, offsets_for_times: OffsetsForTimes
) -> list[OffsetRange]:
    """Return the parts of the ranges that may hold records that satisfy all conditions.

    Args:
        ranges: the ranges of the read. Their records exist.
        wanted: the conditions.
        offsets_for_times: looks up times. It must see all records of the ranges.
    """
    offsets, times_ms = _bounds(Column.OFFSET, wanted), _bounds(Column.TIMESTAMP, wanted)
    cut = [_cut(one, offsets) for one in ranges if _may_match(one.topic_partition, wanted)]
    is_never = None not in (times_ms.low, times_ms.high) and (times_ms.low or 0) >= (times_ms.high or 0)
    left = [] if is_never else _from_time([one for one in cut if len(one)], times_ms.low, offsets_for_times)
    _log.info(
        "scan.filter leaves %s of %s offsets to read, in %s of %s topic partitions.",
        sum(map(len, left)),
        sum(map(len, ranges)),
        len({one.topic_partition for one in left}),
        len({one.topic_partition for one in ranges}),
    )
    return left


def _from_time(
    ranges: Sequence[OffsetRange], low_ms: int | None, offsets_for_times: OffsetsForTimes
) -> list[OffsetRange]:
    if low_ms is None or low_ms <= 0 or not ranges:  # a record without a timestamp has -1
        return list(ranges)
    answers = offsets_for_times({one.topic_partition: low_ms for one in ranges})
    for topic_partition, error in sorted(answers.errors.items()):
        _log.warning("%s is read from its start, because a time was not found: %s", topic_partition, error)
    parts = []
    for one in ranges:
        if one.topic_partition in answers.errors:
            parts.append(one)
        elif one.topic_partition in answers.values:
            parts.append(_cut(one, Within(Column.OFFSET, low=answers.values[one.topic_partition])))
    return [part for part in parts if len(part)]


def _cut(offset_range: OffsetRange, bounds: Within) -> OffsetRange:
    start, stop = offset_range.starting_offset, offset_range.stopping_offset
    low = start if bounds.low is None else min(max(start, bounds.low), stop)
    high = stop if bounds.high is None else min(stop, bounds.high)
    return OffsetRange(offset_range.topic_partition, low, max(low, high))


def _may_match(topic_partition: TopicPartition, wanted: RecordFilter) -> bool:
    values: dict[Column, int | str] = {
        Column.TOPIC: topic_partition.topic,
        Column.PARTITION: topic_partition.partition,
    }
    return all(_holds(one, values[one.column]) for one in wanted if one.column in values)


def _holds(condition: Within | Among, value: int | str) -> bool:
    if isinstance(condition, Among):
        return (value in condition.values) is not condition.is_negated
    number = int(value)
    low, high = condition.low, condition.high
    return (low is None or number >= low) and (high is None or number < high)


def _bounds(column: Column, wanted: RecordFilter) -> Within:
    """Return the bounds of all conditions on a column together."""
    each = [_within(condition) for condition in wanted if condition.column is column]
    lows = [bounds.low for bounds in each if bounds.low is not None]
    highs = [bounds.high for bounds in each if bounds.high is not None]
    return Within(column, max(lows, default=None), min(highs, default=None))


def _within(condition: Within | Among) -> Within:
    if isinstance(condition, Within):
        return condition
    numbers = [value for value in condition.values if isinstance(value, int)]
    if condition.is_negated or not numbers:
        return Within(condition.column)
    return Within(condition.column, min(numbers), max(numbers) + 1)


# ----- reading


class RecordSelector:
    """Leaves out the records of batches that do not satisfy the conditions on offsets and timestamps.

    Args:
        wanted: the conditions. Planning has applied those on topics and partitions.
        columns: of KafkaRecords that the read needs.
    """

    def __init__(self, wanted: RecordFilter, columns: Sequence[str]) -> None:
        self._conditions = [one for one in wanted if one.column in _OF_RECORDS]
        needed = {one.column.value for one in self._conditions}
        self._wanted_columns = list(columns)
        self.columns = [*columns, *sorted(needed - set(columns))]

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is left of each batch, with the columns that the read needs."""
        for batch in batches:
            mask = self._mask(batch)
            rows = (
                batch
                if len(self.columns) == len(self._wanted_columns)
                else batch.select(self._wanted_columns)
            )
            if mask.all():
                yield rows
            elif mask.any():
                yield rows.filter(pa.array(mask))

    def _mask(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        mask = np.ones(batch.num_rows, bool)
        for one in self._conditions:
            values = batch.column(one.column.value)
            numbers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
            unit = 1000 if one.column is Column.TIMESTAMP else 1
            if isinstance(one, Among):
                allowed = [_most(int(value) * unit) for value in one.values]
                mask &= np.isin(numbers, allowed, invert=one.is_negated)
                continue
            if one.low is not None:
                mask &= numbers >= _most(one.low * unit)
            if one.high is not None:
                mask &= numbers < _most(one.high * unit)
        return mask


def _most(number: int) -> int:
    """Return the number, or one that no record has if it does not fit into 64 bits."""
    return min(number, LONG_MAX)
