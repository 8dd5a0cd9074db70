"""Read one split: the records of its planned ranges, as KafkaRecords.

Runs on the executor, in a worker process that also runs other tasks. Invariants: no record outside of the
planned ranges is yielded; the records of a topic partition keep their order; memory is bounded by the fetch
size and the size of one batch, however long the ranges are; a range ends when the position reaches its end,
or with an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.client.fetch.fetcher import WantedRange, fetch_ranges
from penstock.client.net.connection import connections_for
from penstock.client.settings import fetch_settings, source_connection_settings
from penstock.errors import (
    OffsetOutOfRangeError,
    PenstockError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source.splits import Split
from penstock.types import OffsetRange

MAX_ROWS = 32_768
MAX_BYTES = 8 << 20


def read_split(config: SourceConfig, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, with these columns of KafkaRecords.

    Raises:
        DataLossError: records of a range are gone, unless the options say to continue.
        ClientError: a range could not be read in time.
    """
    if config.record_filter:
        # Imported here because few reads have a filter.
        from penstock.source.filters import RecordSelector  # noqa: PLC0415

        wanted = RecordSelector(config.record_filter, columns)
        yield from merge_small(wanted.of(_records(config, split, wanted.columns)))
        return
    batches = _records(config, split, columns)
    yield from merge_small(batches) if len(split.ranges) > 1 else batches


def _records(config: SourceConfig, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    connections = connections_for(source_connection_settings(config))
    losses = LossPolicy.of(config)

    def decide(offset_range: OffsetRange, error: PenstockError) -> OffsetRange | None:
        return _after(offset_range, error, config, losses)

    ranges = fetch_ranges(
        connections,
        [WantedRange(one.offset_range, one.topic_id) for one in split.ranges],
        fetch_settings(config.properties),
        columns=columns,
        read_committed=config.isolation_level is IsolationLevel.READ_COMMITTED,
        max_rows=MAX_ROWS,
        max_bytes=MAX_BYTES,
        on_failure=decide,
    )
    return (records for _, records in ranges)


def _after(
    offset_range: OffsetRange, error: PenstockError, config: SourceConfig, losses: LossPolicy
) -> OffsetRange | None:
    """Return what is left to read of a range after an error; None if nothing is.

    Raises:
        PenstockError: the error, unless it is a loss that the options accept.
    """
    if isinstance(error, OffsetOutOfRangeError):
        losses.report(error)
        return _still_there(offset_range, error)
    if isinstance(error, TopicPartitionsRemovedError):
        losses.report(error)
        return None
    # With failOnDataLoss=false only planning drops a topic partition, after a second look.
    if isinstance(error, UnknownTopicOrPartitionError) and config.fail_on_removed_partition is False:
        losses.report(data_loss.removed([offset_range.topic_partition]))
        return None
    raise error


def _still_there(offset_range: OffsetRange, error: OffsetOutOfRangeError) -> OffsetRange | None:
    """Return the part of a range that Kafka still has after the position of `error`; None if it has none."""
    position, log_start = error.facts["offset"], error.facts["log_start_offset"]
    if position >= log_start:
        return None  # the log ends before the range does
    if log_start >= offset_range.stopping_offset:
        return None
    return OffsetRange(offset_range.topic_partition, log_start, offset_range.stopping_offset)


LARGE_ROWS = 4_096
LARGE_BYTES = 1 << 20
"""From here on a batch is large."""


def merge_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches. All batches have one schema, with at least one column.

    Spark takes each batch through a pipe and several copies of its own. A large batch is not copied here.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        batch_bytes = batch.get_total_buffer_size()  # `nbytes` takes 20 us, a tenth of reading a small range
        if batch.num_rows >= LARGE_ROWS or batch_bytes >= LARGE_BYTES:
            if waiting:
                yield _merged(waiting)
                waiting, rows, size_bytes = [], 0, 0
            yield batch
            continue
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch_bytes
        if rows >= LARGE_ROWS or size_bytes >= LARGE_BYTES:
            yield _merged(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _merged(waiting)


def _merged(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    [merged] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return merged
