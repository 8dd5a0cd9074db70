"""Compare what the target topics hold with what the receipts say that each transaction has written.

Runs anywhere. Each topic partition is read once, from the first record of the chosen batches to the last one.
Invariants: a missing record is a difference only if each offset of its transaction could be read, and the
topic is known to be the one that was written; what is there too often, and what has another digest, is always
one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.client.net.connection import KafkaConnections
from penstock.client.produce.spans import NOTHING_WRITTEN, WrittenSpan
from penstock.observe.verify._read import (
    Hidden,
    Hole,
    Marker,
    Part,
    Piece,
    Producer,
    Why,
    described,
    read_pieces,
)
from penstock.observe.verify.found import BatchResult, Finding, Verdict
from penstock.sink.exactly_once.decision import is_batch_write
from penstock.sink.exactly_once.digest import NO_RECORDS, RecordDigest, digest_rows
from penstock.sink.exactly_once.receipt import Receipt, WrittenTransaction
from penstock.types import OffsetRange, TopicPartition

_HOLES_MAX = 10_000
"""Holes of a topic partition that are kept. More are joined: less can be proven then, nothing is invented."""
_STEP_OFFSETS, _READ_ON_OFFSETS = 10_000, 100_000
"""How far to look for the markers behind the last batch. Compaction may have removed them."""
_LOG_APPEND_TIME = 1
_TORN = frozenset((Why.DAMAGED, Why.CUT_BACK))


def copied_content(rows: pa.RecordBatch, columns: Sequence[str]) -> RecordDigest:
    """Return the digest of rows that does not depend on their topic."""
    return digest_rows(rows.select([each for each in columns if each in rows.schema.names]), None)


@dataclass(slots=True)
class _Seen:
    """What the log shows of one transaction."""

    counts: dict[TopicPartition, int] = field(default_factory=dict)
    content: RecordDigest = NO_RECORDS
    copied: RecordDigest = NO_RECORDS
    is_hidden: bool = False
    has_other_times: bool = False
    """The broker has set its own times, so that those of the rows are gone."""


@dataclass(slots=True)
class Others:
    """Visible records of producers that no receipt names."""

    count: int = 0
    first: dict[TopicPartition, int] = field(default_factory=dict)


class Target:
    """The target topics of some batches, read again.

    Args:
        receipts: of all batches of the prefix, so that their records are not those of other writers.
        chosen: those to compare.
        columns: that a copy of the input has.
    """

    def __init__(
        self, receipts: Iterable[Receipt], chosen: Sequence[Receipt], columns: Sequence[str]
    ) -> None:
        self._forms: dict[Producer, str | None] = {}
        self._columns = columns
        self._seen: dict[Producer, _Seen] = {}
        self._known = {each.producer for one in receipts for each in _named(one)}
        for receipt in chosen:
            for each in _named(receipt):
                self._forms[each.producer] = each.form
                self._seen[each.producer] = _Seen()
        self._ids = dict(pair for each in chosen for pair in each.topic_ids.items())
        """The newest known ids of the topics. A receipt of an older version does not have them. They only say
        what to read: what is missing of such a batch may be of an older topic, see `_has_id`."""
        self._existing_ids: dict[str, object] = {}
        """The ids that the topics have now, where the brokers tell them."""
        self._holes: dict[tuple[TopicPartition, str | None], list[Hole]] = {}
        self._unended: dict[TopicPartition, dict[int, int]] = {}
        """Producer ids whose last transaction has no marker yet, and its last known offset."""
        self.others = Others()

    # ----- reading

    def read(self, connections: KafkaConnections, chosen: Sequence[Receipt]) -> None:
        """Read the topic partitions, once each."""
        names = {at.topic for each in chosen for one in each.transactions for at, _ in one.spans}
        topics = described(connections, names) if names else {}
        self._existing_ids = {name: each.topic_id for name, each in topics.items()}
        for topic_id, ranges in self._readings(chosen):
            topic_ids = {} if topic_id is None else {ranges[0].topic_partition.topic: topic_id}
            for piece in read_pieces(connections, ranges, topic_ids):
                self._take(piece, topic_id)
            for each in ranges:
                self._read_to_markers(connections, each, topic_ids)

    def _read_to_markers(
        self, connections: KafkaConnections, before: OffsetRange, topic_ids: Mapping[str, str]
    ) -> None:
        """Read on to the ends of the transactions: up to there they may have records too many."""
        at, first = before.topic_partition, before.stopping_offset
        last = first + _READ_ON_OFFSETS
        while self._unended.get(at) and first < last:
            end = first + _STEP_OFFSETS
            for piece in read_pieces(connections, [OffsetRange(at, first, end)], topic_ids):
                if isinstance(piece, Hole):  # the end of the log, or an open transaction
                    last = first
                elif not isinstance(piece, Part) or piece.producer in self._seen:
                    self._take(piece, None)
            first = end

    def _id_of(self, receipt: Receipt, topic: str) -> str | None:
        return receipt.topic_ids.get(topic) or self._ids.get(topic)

    def _has_id(self, receipt: Receipt, topic: str) -> bool:
        """Return whether a topic that was created again since would have been noticed."""
        return topic in receipt.topic_ids and self._existing_ids.get(topic) is not None

    def _readings(self, chosen: Sequence[Receipt]) -> Iterator[tuple[str | None, list[OffsetRange]]]:
        """Yield what to read of each topic: its id at that time, and a range of each topic partition."""
        by_topic: dict[tuple[str, str | None], dict[TopicPartition, tuple[int, int]]] = {}
        for receipt in chosen:
            spans = ((each.producer_id, one) for each in _named(receipt) for one in each.spans)
            for producer_id, (at, span) in spans:
                if span.first is None or span.last is None:
                    continue
                ranges = by_topic.setdefault((at.topic, self._id_of(receipt, at.topic)), {})
                unended = self._unended.setdefault(at, {})
                unended[producer_id] = max(span.last, unended.get(producer_id, 0))
                first, end = ranges.get(at, (span.first, span.last + 1))
                ranges[at] = min(first, span.first), max(end, span.last + 1)
        for (_, topic_id), found in by_topic.items():
            yield topic_id, [OffsetRange(at, first, end) for at, (first, end) in found.items()]

    def _take(self, piece: Piece, topic_id: str | None) -> None:
        if isinstance(piece, Hole):
            self._add_hole(piece, topic_id)
            return
        if isinstance(piece, Marker):
            self._end(piece)
            return
        seen = self._seen.get(piece.producer)
        if isinstance(piece, Hidden):
            if seen is not None:
                seen.is_hidden = True
            return
        at, rows = piece.topic_partition, piece.rows
        if seen is None:
            if piece.producer not in self._known:
                self.others.count += rows.num_rows
                self.others.first.setdefault(at, rows.column("offset")[0].as_py())
            return
        seen.counts[at] = seen.counts.get(at, 0) + rows.num_rows
        seen.copied += copied_content(rows, self._columns)
        form = self._forms[piece.producer]
        if form is None:
            return
        if "t" in form and rows.column("timestamp_type")[0].as_py() == _LOG_APPEND_TIME:
            seen.has_other_times = True
        seen.content += digest_rows(_as_written(rows, at, form), at.topic)

    def _end(self, marker: Marker) -> None:
        unended = self._unended.get(marker.topic_partition, {})
        if unended.get(marker.producer_id, marker.offset) < marker.offset:
            del unended[marker.producer_id]

    def _add_hole(self, hole: Hole, topic_id: str | None) -> None:
        # They come in order, but for those around what can be read, which come first.
        holes = self._holes.setdefault((hole.topic_partition, topic_id), [])
        index = bisect_left(holes, hole.first, key=lambda each: each.first)
        if len(holes) >= _HOLES_MAX and index and holes[index - 1].why is hole.why:
            holes[index - 1] = holes[index - 1]._replace(end=hole.end)
        else:
            holes.insert(index, hole)

    def holes(self, receipt: Receipt, at: TopicPartition, first: int, end: int) -> Iterator[Hole]:
        """Yield the parts of a range that could not be read."""
        holes = self._holes.get((at, self._id_of(receipt, at.topic)), [])
        index = bisect_left(holes, first, key=lambda each: each.first)
        for each in holes[max(0, index - 1) :]:
            if each.first >= end:
                return
            if each.end > first:
                yield each._replace(first=max(each.first, first), end=min(each.end, end))

    # ----- comparing

    def content_of(self, receipt: Receipt) -> RecordDigest:
        """Return the digest of what is visible of a batch, without topic."""
        return sum((self._seen[each.producer].copied for each in receipt.transactions), NO_RECORDS)

    def is_whole(self, receipt: Receipt) -> bool:
        """Return whether all offsets of a batch are known and could be read."""
        written = [each for each in receipt.transactions if each.content.record_count]
        spans = [each for one in written for each in one.spans]
        if not all(one.spans for one in written) or not all(span.is_exact for _, span in spans):
            return False
        return not any(
            True
            for at, span in spans
            if span.first is not None and span.last is not None
            for _ in self.holes(receipt, at, span.first, span.last + 1)
        )

    def compare(self, result: BatchResult, status: str | None) -> None:
        """Add what differs to the result of a batch. `status`: see `penstock receipts`."""
        receipt = result.receipt
        seen = [self._seen[each.producer] for each in receipt.transactions]
        result.found_records = sum(sum(each.counts.values()) for each in seen)
        if status is None and self._is_withdrawn_write(receipt, result.found_records):
            status = "withdrawn"
        if status == "withdrawn":
            if result.found_records:
                result.findings.append(_visible(result.found_records, "is withdrawn"))
            else:
                text = "It is withdrawn: its transactions were aborted, and nothing of it is visible."
                result.findings.append(Finding(Verdict.NOT_PROVABLE, "withdrawn", text))
            return
        if status is not None:
            text = f"It is not finished ({status}), so records may be missing."
            result.findings.append(Finding(Verdict.NOT_PROVABLE, "unfinished", text))
        if receipt.taken_lost or receipt.unknown:
            result.findings.append(_taken(receipt))
        for each in receipt.transactions:
            result.findings += self._compare(receipt, each, is_finished=status is None)
        for each in receipt.superseded:
            count = sum(self._seen[each.producer].counts.values())
            if count:
                why = "belongs to an earlier try that a later one replaced"
                result.findings.append(_visible(count, why))

    def _is_withdrawn_write(self, receipt: Receipt, found: int) -> bool:
        """Return whether it is a batch write of which each transaction was aborted: its log has no status."""
        seen = (self._seen[each.producer] for each in receipt.transactions)
        return is_batch_write(receipt.query_id) and not found and all(each.is_hidden for each in seen)

    def _compare(
        self, receipt: Receipt, written: WrittenTransaction, *, is_finished: bool
    ) -> Iterator[Finding]:
        seen, expected = self._seen[written.producer], dict(written.spans)
        count = written.content.record_count
        if not written.spans:
            if count:
                text = f"The receipt does not say where {count:,} of its records are."
                yield Finding(Verdict.NOT_PROVABLE, "no-offsets", text)
            return
        if (total := sum(each.record_count for each in expected.values())) != count:
            text = f"Its receipt contradicts itself: {count:,} records in all, {total:,} by offsets."
            yield Finding(Verdict.DIFFERS, "receipt", text)
        findings = [
            each
            for at in sorted(expected.keys() | seen.counts.keys())
            if (each := self._count(receipt, at, expected.get(at), seen, is_finished=is_finished)) is not None
        ]
        yield from findings
        if not findings:
            yield from _content(written, seen)

    def _count(
        self,
        receipt: Receipt,
        at: TopicPartition,
        span: WrittenSpan | None,
        seen: _Seen,
        *,
        is_finished: bool,
    ) -> Finding | None:
        """Return what is wrong with the number of a transaction's records in a topic partition."""
        wanted, first, last, is_exact = span or NOTHING_WRITTEN
        count, end = seen.counts.get(at, 0), None if last is None else last + 1
        if count == wanted:
            return None
        if count > wanted:
            text = (
                f"{at} has {count:,} records of a transaction that wrote {wanted:,} there: "
                f"{count - wanted:,} too many."
            )
            return Finding(Verdict.DIFFERS, "doubled", text, at, first, end)
        text = f"{wanted - count:,} of {wanted:,} records of a transaction in {at}"
        holes = [] if first is None or end is None else list(self.holes(receipt, at, first, end))
        has_id = self._has_id(receipt, at.topic)
        if not has_id:
            holes = [
                each._replace(why=Why.CUT_OR_RECREATED) if each.why is Why.CUT_BACK else each
                for each in holes
            ]
        if holes:
            return _of_hole(next((each for each in holes if each.why in _TORN), holes[0]), text)
        if first is None or not is_exact or not is_finished:
            return Finding(Verdict.NOT_PROVABLE, "not-found", f"{text} were not found.", at, first, end)
        if not has_id:
            text += (
                " are missing. The topic may have been created again since: its id at that time, or now, is"
            )
            return Finding(Verdict.NOT_PROVABLE, "lost-or-recreated", f"{text} unknown.", at, first, end)
        why = " The log says that the transaction was aborted." if seen.is_hidden else ""
        return Finding(Verdict.DIFFERS, "lost", f"{text} are missing.{why}", at, first, end)


def _named(receipt: Receipt) -> tuple[WrittenTransaction, ...]:
    """Return all transactions that a receipt names."""
    return (*receipt.transactions, *receipt.superseded, *receipt.unknown)


def _taken(receipt: Receipt) -> Finding:
    """Return why a batch that was taken as written is not provable."""
    told = []
    if receipt.taken_lost:
        told.append(f"The broker had aborted {receipt.taken_lost:,} of its records.")
    if receipt.unknown:
        count = sum(each.content.record_count for each in receipt.unknown)
        told.append(f"It was unknown whether {count:,} of its records are committed.")
    text = (
        f"{' '.join(told)} Somebody took it as written (by the resolution take-as-written). If these records "
        "were written by hand since, no receipt names them."
    )
    return Finding(Verdict.NOT_PROVABLE, "taken-as-written", text)


def _of_hole(hole: Hole, text: str) -> Finding:
    why = f"{hole.why.value} {hole.text}".strip().rstrip(".")
    is_torn = hole.why in _TORN
    verdict = Verdict.DIFFERS if is_torn else Verdict.NOT_PROVABLE
    kind = "torn" if is_torn else hole.why.name.lower().replace("_", "-")
    return Finding(
        verdict, kind, f"{text} cannot be read: {why}.", hole.topic_partition, hole.first, hole.end
    )


def _content(written: WrittenTransaction, seen: _Seen) -> Iterator[Finding]:
    """Yield what is wrong with the content of a transaction that has the right counts."""
    at, span = written.spans[0]
    place = (at, span.first, None if span.last is None else span.last + 1)
    if written.form is None or seen.has_other_times:
        why = (
            "the broker has set the times of its records"
            if seen.has_other_times
            else "only some of its rows had a timestamp or a partition"
        )
        text = f"Its records were counted and not compared, because {why}."
        yield Finding(Verdict.NOT_PROVABLE, "counted", text, *place)
    elif seen.content != written.content:
        text = (
            f"Its {written.content.record_count:,} records are not those that it wrote: expected digest "
            f"{written.content}, got {seen.content}."
        )
        yield Finding(Verdict.DIFFERS, "changed", text, *place)


def _visible(count: int, why: str) -> Finding:
    text = f"{count:,} records are visible that should not be: what they belong to {why}."
    return Finding(Verdict.DIFFERS, "doubled", text)


def _as_written(rows: pa.RecordBatch, at: TopicPartition, form: str) -> pa.RecordBatch:
    """Return the columns of which the sink has made its digest."""
    names = ["key", "value", "headers", *(["timestamp"] if "t" in form else [])]
    found = rows.select(names)
    if "p" not in form:
        return found
    partitions = pa.array([at.partition] * rows.num_rows, pa.int32())
    return pa.RecordBatch.from_arrays([*found.columns, partitions], [*names, "partition"])


def written_pieces(connections: KafkaConnections, receipt: Receipt) -> Iterator[Part | Hole]:
    """Yield the visible records that a batch has written, and what could not be read of them."""
    producers: set[Producer] = {each.producer for each in receipt.transactions}
    places: dict[TopicPartition, tuple[int, int]] = {}
    for at, span in (each for one in receipt.transactions for each in one.spans):
        if span.first is not None and span.last is not None:
            first, end = places.get(at, (span.first, span.last + 1))
            places[at] = min(first, span.first), max(end, span.last + 1)
    ranges = [OffsetRange(at, first, end) for at, (first, end) in places.items()]
    for piece in read_pieces(connections, ranges, receipt.topic_ids):
        if isinstance(piece, Hole) or (isinstance(piece, Part) and piece.producer in producers):
            yield piece
