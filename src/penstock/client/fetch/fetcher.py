"""Read ranges `[start, stop)` of topic partitions into KafkaRecords.

Runs on the executor, in the thread of the task; the next Fetches travel on the IO thread while the codec
decodes the last response here (`ranges`).

Invariants: batch headers and codec must agree on each position; deleted records are an error and are never
skipped; without progress for `default_api_timeout_ms` the read of a range ends with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from penstock.client.fetch._range import RangeFetch
from penstock.client.fetch.ranges import RangeFetches
from penstock.client.fetch.requests import Records
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.codec import RecordBatchDecoder
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import PenstockError
from penstock.types import OffsetRange

OnFailure = Callable[[OffsetRange, PenstockError], OffsetRange | None]
"""Decides about a range that cannot be read any further: returns the rest of it to read, None to leave the
rest out, or raises."""


class WantedRange(NamedTuple):
    """A range to read, and the id of its topic, if that is known: another topic of that name is an error."""

    offset_range: OffsetRange
    topic_id: str | None = None


def _fail(offset_range: OffsetRange, error: PenstockError) -> OffsetRange | None:
    raise error


def fetch_range(
    connections: KafkaConnections,
    offset_range: OffsetRange,
    settings: FetchSettings,
    *,
    columns: Sequence[str] = KAFKA_RECORDS.names,
    read_committed: bool = False,
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
    topic_id: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield all records of one range that the isolation level shows, in order. See `fetch_ranges`.

    When this raises, all records before `facts["offset"]` have been yielded.
    """
    batches = fetch_ranges(
        connections,
        [WantedRange(offset_range, topic_id)],
        settings,
        columns=columns,
        read_committed=read_committed,
        max_rows=max_rows,
        max_bytes=max_bytes,
    )
    for _, batch in batches:
        yield batch


def fetch_ranges(
    connections: KafkaConnections,
    wanted: Sequence[WantedRange],
    settings: FetchSettings,
    *,
    columns: Sequence[str] = KAFKA_RECORDS.names,
    read_committed: bool = False,
    max_rows: int = 32_768,
    max_bytes: int = 8 << 20,
    on_failure: OnFailure = _fail,
) -> Iterator[tuple[OffsetRange, pa.RecordBatch]]:
    """Yield all records of the ranges that the isolation level shows, each batch with its range.

    The records of a range come in order; batches of different ranges come mixed. An empty range yields
    nothing and sends nothing. Memory does not grow with the number or the size of the ranges.

    Args:
        connections: to the cluster.
        wanted: what to read: ranges of different topic partitions. A range ends when the position reaches its
            stopping offset.
        settings: sizes and time-outs.
        columns: fields of KAFKA_RECORDS to build.
        read_committed: leave out aborted transactions, and read up to the last stable offset only.
        max_rows: rows of a batch at most.
        max_bytes: bytes of keys, values and headers of a batch, about at most.
        on_failure: called with a range and its error, one of those below, after all records before the error
            have been yielded. By default it raises the error.

    Raises:
        OffsetOutOfRangeError: the log does not hold records of the range. All records before
            `facts["offset"]` have been yielded; `log_start_offset` and `log_end_offset` tell what is left.
        LogTruncatedError: the log was truncated below the position (unclean leader election).
        UnknownTopicOrPartitionError, TopicPartitionsRemovedError: deleted, or deleted and created again.
        FetchError: no progress in time; names the position and the last problem.
        AuthorizationError, AuthenticationError: at once.
        CorruptBatchError: the records are damaged.
        ValueError: two ranges of one topic partition.
    """
    if len({each.offset_range.topic_partition for each in wanted}) < len(wanted):
        raise ValueError("expected ranges of different topic partitions")
    fetches = RangeFetches(connections, settings, read_committed=read_committed)
    topic_ids = dict(wanted)
    for offset_range, topic_id in wanted:
        if len(offset_range):
            fetches.add(offset_range, topic_id)
    decoders = _Decoders(
        partial(
            RecordBatchDecoder,
            columns=columns,
            read_committed=read_committed,
            check_crcs=settings.check_crcs,
            max_rows=max_rows,
            max_bytes=max_bytes,
        )
    )
    while fetches:
        for source, event in fetches.receive():
            if isinstance(event, Records):
                # With several ranges, columns that wait to be full would take memory for each of them.
                batches = decoders.decode(source, event, is_complete=len(fetches) > 1)
                yield from ((source.offset_range, batch) for batch in batches)
                continue
            yield from ((source.offset_range, batch) for batch in decoders.end(source))
            rest = on_failure(source.offset_range, event)
            if rest is not None and len(rest):
                topic_ids[rest] = topic_ids[source.offset_range]
                fetches.add(rest, topic_ids[rest])


class _Decoders:
    """The decoders of ranges that are being read."""

    def __init__(self, new: Callable[..., RecordBatchDecoder]) -> None:
        self._new = new
        self._of_range: dict[RangeFetch, RecordBatchDecoder] = {}

    def decode(self, source: RangeFetch, records: Records, *, is_complete: bool) -> Iterator[pa.RecordBatch]:
        """Yield full batches; with `is_complete` and at the end of the range also the last one."""
        decoder = self._of_range.get(source)
        if decoder is None:
            decoder = self._of_range[source] = self._new(
                *source.topic_partition,
                starting_offset=source.offset_range.starting_offset,
                stopping_offset=source.offset_range.stopping_offset,
            )
        yield from decoder.decode(records.data, records.aborted_transactions)
        if decoder.next_offset != min(records.next_offset, source.offset_range.stopping_offset):
            raise source.position.lost_position(records.next_offset, decoder.next_offset)
        if decoder.is_finished:
            yield from self.end(source)
        elif is_complete and (rest := decoder.flush()) is not None:
            yield rest

    def end(self, source: RangeFetch) -> Iterator[pa.RecordBatch]:
        """Yield the last batch of a range."""
        decoder = self._of_range.pop(source, None)
        rest = None if decoder is None else decoder.flush()
        if rest is not None:
            yield rest
