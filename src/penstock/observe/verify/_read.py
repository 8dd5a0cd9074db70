"""Read ranges of logs again, with the producer of each record, and with what the logs do not hold any more.

Runs anywhere. Invariants: only what a read_committed reader sees is a `Part`; each offset of a wanted range
is in a part, or not visible, or in a `Hole`; a missing right is an error and never a hole; one answer of a
broker is in memory for each range.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from penstock.client.cluster.log_offsets import describe_topics, list_offsets
from penstock.client.cluster.metadata import TopicMetadata
from penstock.client.cluster.rights import Operation, denied
from penstock.client.fetch.ranges import RangeFetches
from penstock.client.fetch.requests import Records
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.codec import BatchHeader, BatchHeaders, RecordBatchDecoder
from penstock.codec.aborted import AbortedTransactions
from penstock.errors import AuthorizationError, CorruptBatchError, PenstockError
from penstock.options.config import IsolationLevel
from penstock.types import LogEnd, OffsetRange, TopicPartition

Producer: TypeAlias = tuple[int, int]
"""Id and epoch. An exactly-once task uses each pair for one transaction."""
COLUMNS = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")


_PREFIX = struct.Struct(">qi")
"""Base offset and length of a record batch. The length counts what follows it."""
_ABORT = 0
"""The type of an abort marker."""


class Why(Enum):
    """The reasons why offsets cannot be read."""

    NO_TOPIC = "the topic does not exist on this cluster"
    RECREATED = "the topic was deleted and created again"
    DELETED = "retention, or somebody, has deleted these records"
    OPEN = "an open transaction hides these offsets"
    CUT_BACK = "the log ends before: it was cut back"
    CUT_OR_RECREATED = "the log ends before: it was cut back, or the topic was created again"
    COMPACTED = "compaction has removed records"
    DAMAGED = "the records are damaged"
    NO_ANSWER = "the records could not be read"


class Part(NamedTuple):
    """Visible records of one producer that stand together."""

    topic_partition: TopicPartition
    producer: Producer
    rows: pa.RecordBatch


class Hidden(NamedTuple):
    """A record batch of an aborted transaction."""

    topic_partition: TopicPartition
    producer: Producer


class Hole(NamedTuple):
    """Offsets `[first, end)` that could not be read, or of which only a part is left."""

    topic_partition: TopicPartition
    first: int
    end: int
    why: Why
    text: str = ""


class Marker(NamedTuple):
    """The end of a transaction of a producer, whether it is committed or aborted."""

    topic_partition: TopicPartition
    producer_id: int
    offset: int


Piece: TypeAlias = Part | Hidden | Hole | Marker


def read_pieces(
    connections: KafkaConnections, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str]
) -> Iterator[Piece]:
    """Yield what the logs hold of these ranges, each topic partition in order.

    Args:
        connections: to the cluster.
        ranges: at most one of each topic partition.
        topic_ids: of the topics when they were written or read, where they are known.

    Raises:
        AuthorizationError: this user may not read a topic.
    """
    readable: list[OffsetRange] = []
    for piece in _bounded(connections, list(ranges), topic_ids):
        if isinstance(piece, OffsetRange):
            readable.append(piece)
        else:
            yield piece
    fetches = RangeFetches(connections, FetchSettings(), read_committed=True)
    logs: dict[TopicPartition, _Log] = {}
    for each in readable:
        if len(each):
            fetches.add(each)
            logs[each.topic_partition] = _Log(each)
    while fetches:
        for source, event in fetches.receive():
            log = logs[source.topic_partition]
            if isinstance(event, Records):
                yield from log.pieces(event)
            elif isinstance(event, AuthorizationError):
                raise _may_not_read(connections, source.topic_partition.topic) from event
            else:
                yield from log.failed(event)


def _may_not_read(connections: KafkaConnections, topic: object) -> PenstockError:
    effect = "Its records could not be read again, so nothing was proven or compared."
    return denied(connections, Operation.READ, f"topic {topic!r}", effect)


def described(connections: KafkaConnections, topics: set[str]) -> dict[str, TopicMetadata]:
    """Return the topics that exist.

    Raises:
        AuthorizationError: this user may not describe a topic, and so not read it.
    """
    try:
        return describe_topics(connections, topics)
    except AuthorizationError as error:
        raise _may_not_read(connections, error.facts.get("topic")) from error


def _bounded(
    connections: KafkaConnections, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, str]
) -> Iterator[OffsetRange | Hole]:
    """Yield what can be read of the ranges, and the holes around it."""
    topics = described(connections, {each.topic_partition.topic for each in ranges})
    existing = {each for topic in topics.values() for each in topic.topic_partitions}
    here = [each for each in ranges if each.topic_partition in existing]
    yield from (Hole(*_place(each), Why.NO_TOPIC) for each in ranges if each.topic_partition not in existing)
    wanted = [each.topic_partition for each in here]
    starts = list_offsets(connections, dict.fromkeys(wanted, LogEnd.EARLIEST))
    ends = list_offsets(connections, dict.fromkeys(wanted, LogEnd.LATEST))
    latest = dict.fromkeys(wanted, LogEnd.LATEST)
    stable = list_offsets(connections, latest, IsolationLevel.READ_COMMITTED)
    for each in here:
        at, first, end = _place(each)
        before, now = topic_ids.get(at.topic), topics[at.topic].topic_id
        is_known = before is not None and now is not None
        if is_known and str(before) != str(now):
            yield Hole(at, first, end, Why.RECREATED)
            continue
        if end > ends[at]:
            why = Why.CUT_BACK if is_known else Why.CUT_OR_RECREATED
            yield Hole(at, max(first, ends[at]), end, why)
        if min(end, ends[at]) > max(first, stable[at]):
            yield Hole(at, max(first, stable[at]), min(end, ends[at]), Why.OPEN)
        if first < min(end, starts[at]):
            yield Hole(at, first, min(end, starts[at]), Why.DELETED)
        begin = max(first, starts[at])
        yield OffsetRange(at, begin, max(begin, min(end, stable[at])))


def _place(each: OffsetRange) -> tuple[TopicPartition, int, int]:
    return each.topic_partition, each.starting_offset, each.stopping_offset


class _Log:
    """One range while it is read."""

    def __init__(self, wanted: OffsetRange) -> None:
        self._at, self._next, self._end = _place(wanted)
        self._is_lost = False

    def pieces(self, records: Records) -> Iterator[Piece]:
        """Yield the pieces of one answer."""
        if self._is_lost:
            return
        headers = [
            each
            for each in BatchHeaders(records.data, *self._at)
            if each.last_offset >= self._next and each.base_offset < self._end
        ]
        try:
            rows = list(self._rows(records.data, records.aborted_transactions))
        except CorruptBatchError:
            yield from self._one_by_one(records, headers)
        else:
            yield from self._told(rows, headers, _are_aborted(headers, records.aborted_transactions))
        if self._next < self._end <= records.next_offset:
            yield Hole(self._at, self._next, self._end, Why.COMPACTED)

    def failed(self, error: PenstockError) -> Iterator[Hole]:
        """Yield the rest of the range as a hole."""
        if not self._is_lost:
            why = Why.DAMAGED if isinstance(error, CorruptBatchError) else Why.NO_ANSWER
            yield Hole(self._at, self._next, self._end, why, error.message)
        self._is_lost = True

    def _rows(self, data: bytes | memoryview, aborted: Iterable[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        decoder = RecordBatchDecoder(
            *self._at,
            starting_offset=self._next,
            stopping_offset=self._end,
            columns=COLUMNS,
            read_committed=True,
        )
        yield from decoder.decode(data, list(aborted))
        if (rest := decoder.flush()) is not None:
            yield rest

    def _one_by_one(self, records: Records, headers: Sequence[BatchHeader]) -> Iterator[Piece]:
        """Yield the pieces of an answer with damaged record batches: only these are holes.

        A damaged batch may be the marker of an aborted transaction. So it is unknown from there on whether a
        transaction that seems to be aborted is.
        """
        by_base = {each.base_offset: each for each in headers}
        aborted = AbortedTransactions(records.aborted_transactions)
        at, is_damaged = 0, False
        while at + _PREFIX.size <= len(records.data):
            base, size = _PREFIX.unpack_from(records.data, at)
            data, at = records.data[at : at + _PREFIX.size + size], at + _PREFIX.size + size
            header = by_base.get(base)
            if header is None:
                continue
            aborted.advance(header.last_offset)
            is_aborted = not header.is_control and aborted.is_aborted(header.producer_id)
            first, end = max(base, self._next), min(header.last_offset + 1, self._end)
            try:
                rows = list(self._rows(data, [(header.producer_id, base)] if is_aborted else []))
            except CorruptBatchError as error:
                yield Hole(self._at, first, end, Why.DAMAGED, error.message)
                self._next, is_damaged = end, True
                continue
            _end_aborted(aborted, header)
            if is_aborted and is_damaged:
                text = "because a marker before may be damaged: it is unknown whether they were aborted"
                yield Hole(self._at, first, end, Why.NO_ANSWER, text)
                self._next = end
            else:
                yield from self._told(rows, [header], [is_aborted])

    def _told(
        self, found: Sequence[pa.RecordBatch], headers: Sequence[BatchHeader], aborted: Sequence[bool]
    ) -> Iterator[Piece]:
        bases = [each.base_offset for each in headers]
        counts = [0] * len(headers)
        for rows in found:
            for number, some in _by_header(rows, bases):
                counts[number] += some.num_rows
                header = headers[number]
                yield Part(self._at, (header.producer_id, header.producer_epoch), some)
        yield from self._not_seen(headers, counts, aborted)

    def _not_seen(
        self, headers: Sequence[BatchHeader], counts: Sequence[int], aborted: Sequence[bool]
    ) -> Iterator[Piece]:
        """Yield aborted batches, and the places where compaction has removed records."""
        for header, count, is_aborted in zip(headers, counts, aborted, strict=True):
            first, end = max(header.base_offset, self._next), min(header.last_offset + 1, self._end)
            if first > self._next:
                yield Hole(self._at, self._next, first, Why.COMPACTED)
            if header.is_control:
                yield Marker(self._at, header.producer_id, header.base_offset)
            elif is_aborted and not count:
                yield Hidden(self._at, (header.producer_id, header.producer_epoch))
            elif count < end - first:
                yield Hole(self._at, first, end, Why.COMPACTED)
            self._next = end


def _are_aborted(headers: Sequence[BatchHeader], listed: Iterable[tuple[int, int]]) -> list[bool]:
    """Return which batches are of an aborted transaction. An abort ends at its marker.

    A batch of the same producer id after the marker is of another transaction, even if compaction has left
    only its header.
    """
    aborted, found = AbortedTransactions(listed), list[bool]()
    for each in headers:
        aborted.advance(each.last_offset)
        found.append(not each.is_control and aborted.is_aborted(each.producer_id))
        _end_aborted(aborted, each)
    return found


def _end_aborted(aborted: AbortedTransactions, header: BatchHeader) -> None:
    if header.is_control and header.control_type == _ABORT:
        aborted.end(header.producer_id)


def _by_header(rows: pa.RecordBatch, bases: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each record batch, with its number."""
    offsets = rows.column("offset").to_numpy()
    start = 0
    while start < rows.num_rows:
        number = bisect_right(bases, int(offsets[start])) - 1
        is_last = number + 1 == len(bases)
        end = rows.num_rows if is_last else int(offsets.searchsorted(bases[number + 1]))
        yield number, rows.slice(start, end - start)
        start = end
