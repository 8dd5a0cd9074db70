"""Compare what batches have read with one another, and with what they wrote if they are copies.

Runs anywhere. Invariants: the ranges of a query's batches follow one another, each offset once; a batch
without a receipt, or without ranges, is never taken for one that read nothing; the rows of a batch are
compared only if all of its ranges and all that it wrote could be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import NamedTuple

from penstock.client.net.connection import KafkaConnections
from penstock.observe.verify._read import Hole, Part, Why, read_pieces
from penstock.observe.verify._written import copied_content
from penstock.observe.verify.found import BatchResult, Finding, Inputs, Verdict
from penstock.sink.exactly_once.decision import is_batch_write
from penstock.sink.exactly_once.digest import NO_RECORDS, RecordDigest
from penstock.sink.exactly_once.receipt import Receipt
from penstock.types import OffsetRange, TopicPartition


class _End(NamedTuple):
    """Where the last batch that read a topic partition has ended.

    Batches have the same `chain` if it is known what all batches between them have read.
    """

    offset: int
    receipt: Receipt
    chain: int


def compare_ranges(
    connections: KafkaConnections,
    receipts: Sequence[Receipt],
    results: Mapping[int, BatchResult],
    newest: int | None,
) -> None:
    """Add what was read twice, or by no batch, and which receipts are missing, to the results of a query.

    Args:
        connections: to the cluster of its sources.
        receipts: all of the query, in order of their numbers.
        results: of the chosen batches, by number.
        newest: the number of the newest batch that is known to be decided or done; None if it is unknown.
    """
    ends: dict[TopicPartition, _End] = {}
    chain = 0
    receipts = list(dropwhile(_is_left_over, receipts))
    for before, receipt in zip([None, *receipts], receipts, strict=False):
        result = results.get(receipt.batch_id)
        idle = _idle(before, receipt)
        if before is None:
            _add_first(result, receipt)
        elif idle is None:
            _add_gap(result or results.get(before.batch_id), before.batch_id + 1, receipt.batch_id)
        is_next = before is not None and receipt.batch_id == before.batch_id + 1
        if not (is_next or idle is not None):
            chain += 1
        parts = [receipt] if not idle else [replace(receipt, read=idle), receipt]
        for part in parts:
            if result is not None:
                result.findings += _ranges(connections, part, ends, chain)
            for each in part.read or ():
                ends[each.topic_partition] = _End(each.stopping_offset, receipt, chain)
        # What the batches before it read is known, but not what it read itself.
        chain += receipt.read is None
    if receipts and newest is not None:
        _add_gap(results.get(receipts[-1].batch_id), receipts[-1].batch_id + 1, newest + 1)


def _is_left_over(receipt: Receipt) -> bool:
    """Return whether only the record about taking it as written is left, which never leaves the log."""
    return not receipt.spark and bool(receipt.taken_lost or receipt.unknown)


def _idle(before: Receipt | None, receipt: Receipt) -> tuple[OffsetRange, ...] | None:
    """Return what the batches between two receipts read, which wrote nothing; None if that is unknown.

    Before the first receipt of a query: what all batches before it read.
    """
    if before is None:
        return receipt.idle if receipt.previous is None else None
    if receipt.previous != before.batch_id:
        return None
    return () if receipt.batch_id == before.batch_id + 1 else receipt.idle


def _add_first(result: BatchResult | None, receipt: Receipt) -> None:
    """Add that batches before the first one of a query have no receipt, unless they read nothing.

    If there was a decision before, its receipt has left the log: only what the log has is verified.
    """
    read_nothing = receipt.idle is not None and not any(map(len, receipt.idle))
    if receipt.previous is None and not read_nothing:
        _add_gap(result, 0, receipt.batch_id)


def _add_gap(result: BatchResult | None, first: int, end: int) -> None:
    if result is None or first >= end or is_batch_write(result.receipt.query_id):
        return
    which = f"Batch {first} has" if first + 1 == end else f"Batches {first} to {end - 1} have"
    text = (
        f"{which} no receipt: nothing was written, or the receipt is gone or was left out. "
        "Records of such batches were not compared."
    )
    result.findings.append(Finding(Verdict.NOT_PROVABLE, "no-receipt", text))


def _ranges(
    connections: KafkaConnections, receipt: Receipt, ends: Mapping[TopicPartition, _End], chain: int
) -> Iterator[Finding]:
    """Yield what is wrong with the ranges of a batch. `ends`: of the batches before. `chain`: its own."""
    if receipt.read is None and not is_batch_write(receipt.query_id):
        text = (
            "Neither the receipt nor the checkpoint says what it read, so it is unknown whether records were "
            "read twice or by no batch. If the checkpoint still has this batch, give --checkpoint."
        )
        yield Finding(Verdict.NOT_PROVABLE, "no-ranges", text)
    for each in receipt.read or ():
        at = each.topic_partition
        if at in ends:
            yield from _following(connections, ends[at], receipt, each, chain)
        elif ends and each.starting_offset:
            text = (
                f"This is the first known batch that reads {at}, and it begins at offset "
                f"{each.starting_offset}. No receipt says whether the offsets before were to be read."
            )
            yield Finding(Verdict.NOT_PROVABLE, "not-read", text, at, 0, each.starting_offset)


def _following(
    connections: KafkaConnections, last: _End, receipt: Receipt, read: OffsetRange, chain: int
) -> Iterator[Finding]:
    """Yield what is wrong between the end of one batch and the start of a later one."""
    end, before, before_chain = last
    at, start = read.topic_partition, read.starting_offset
    ids = before.topic_ids.get(at.topic), receipt.topic_ids.get(at.topic)
    is_known = None not in ids
    if is_known and ids[0] != ids[1]:
        text = (
            f"{at.topic} was deleted and created again between {before.where} and this batch, so it is "
            f"unknown which records of {at} no batch has read."
        )
        yield Finding(Verdict.NOT_PROVABLE, "recreated", text, at, start, read.stopping_offset)
        return
    if start == end:
        return
    recreated = "" if is_known else " The topic may have been created again: no id of it is known."
    verdict = Verdict.DIFFERS if is_known else Verdict.NOT_PROVABLE
    if start < end:
        text = f"Offsets {start} to {end - 1} of {at} were read by {before.where} already.{recreated}"
        yield Finding(verdict, "read-twice", text, at, start, end)
        return
    topic_ids = {} if ids[1] is None else {at.topic: ids[1]}
    count, holes = _count(connections, OffsetRange(at, end, start), topic_ids)
    if holes:
        text = f"No receipt says who read offsets {end} to {start - 1} of {at}: {holes[0].why.value}."
        yield Finding(Verdict.NOT_PROVABLE, "not-read", text, at, end, start)
    elif count and before_chain == chain:
        text = f"No batch has read offsets {end} to {start - 1} of {at}, which hold {count:,} records."
        text += recreated
        yield Finding(verdict, "not-read", text, at, end, start)
    elif count:
        text = (
            f"No receipt says who read offsets {end} to {start - 1} of {at}, which hold {count:,} records. "
            f"Batches between {before.batch_id} and {receipt.batch_id} have written nothing, or their "
            "receipts are gone."
        )
        yield Finding(Verdict.NOT_PROVABLE, "no-receipt", text, at, end, start)


def _count(
    connections: KafkaConnections, wanted: OffsetRange, topic_ids: dict[str, str]
) -> tuple[int, list[Hole]]:
    count, holes = 0, list[Hole]()
    for piece in read_pieces(connections, [wanted], topic_ids):
        if isinstance(piece, Part):
            count += piece.rows.num_rows
        elif isinstance(piece, Hole) and len(holes) < 1:
            holes.append(piece)
    return count, holes


def compare_copy(
    connections: KafkaConnections,
    result: BatchResult,
    written: RecordDigest,
    columns: Sequence[str],
    *,
    is_whole: bool,
    is_copy: bool,
) -> bool:
    """Compare what a batch has read with what it wrote. Return whether its rows are to be compared.

    Args:
        connections: to the cluster of its sources.
        result: gets what is found.
        written: the digest of what is visible of the batch.
        columns: of which the digest is.
        is_whole: all that it wrote could be read.
        is_copy: the user says that it is a copy. Without, only an agreement says anything.
    """
    receipt = result.receipt
    if is_copy:
        result.findings += _not_copied(connections, receipt)
    if receipt.read is None:
        if is_copy and is_batch_write(receipt.query_id):
            text = "It is a batch write: no checkpoint says what it read, so its rows were not compared."
            result.findings.append(Finding(Verdict.NOT_PROVABLE, "no-ranges", text))
        return False
    content, hole = read_content(connections, receipt, columns)
    if hole is None:
        result.input_records = content.record_count
    if content == written and hole is None and is_whole:
        result.inputs = Inputs.EACH_ONCE
        return False
    if not is_copy:
        return False
    doubt = _why_not_compared(result, hole, is_whole=is_whole)
    counts = f"{content.record_count:,} records read, {written.record_count:,} visible"
    unknown = sorted({each.topic_partition.topic for each in receipt.read} - receipt.topic_ids.keys())
    if doubt is not None:
        result.findings += doubt
        return False
    if unknown:
        text = f"It is not a copy of what {unknown[0]} has now: {counts}. The topic may have been created "
        text += "again: no id of it is known."
        result.findings.append(Finding(Verdict.NOT_PROVABLE, "input-unknown", text))
        return False
    result.inputs = Inputs.DIFFER
    text = f"It is not a copy of what it read: {counts}."
    result.findings.append(Finding(Verdict.DIFFERS, "not-a-copy", text))
    return True


def _not_copied(connections: KafkaConnections, receipt: Receipt) -> Iterator[Finding]:
    """Yield what the batches before read, although they have written nothing under this prefix.

    They may have written without exactly-once, which leaves no receipt. So this is never a difference.
    """
    for each in receipt.idle or ():
        if not len(each):
            continue
        at = each.topic_partition
        place = at, each.starting_offset, each.stopping_offset
        after = "" if receipt.previous is None else f"after {receipt.previous} and "
        who = f"Batches {after}before this one"
        count, holes = _count(connections, each, dict(receipt.topic_ids))
        if holes:
            why = f"{holes[0].why.value} {holes[0].text}".strip().rstrip(".")
            text = (
                f"{who} have written nothing under this prefix, and what they read of {at} cannot be read "
                f"again: {why}."
            )
            yield Finding(Verdict.NOT_PROVABLE, "input-gone", text, *place)
        if count:
            text = (
                f"{who} read {count:,} records of {at} and have written nothing under this prefix. Either "
                "these records are missing, or the query ran without exactly-once then."
            )
            if at.topic not in receipt.topic_ids:
                text += " The topic may have been created again: no id of it is known."
            yield Finding(Verdict.NOT_PROVABLE, "nothing-written", text, *place)


def _why_not_compared(result: BatchResult, hole: Hole | None, *, is_whole: bool) -> list[Finding] | None:
    """Return why a batch cannot be compared with what it read, as findings to add; None if it can be."""
    if hole is not None:
        text = f"What it read cannot be read again: {hole.why.value} {hole.text}".strip().rstrip(".")
        verdict = Verdict.DIFFERS if hole.why is Why.DAMAGED else Verdict.NOT_PROVABLE
        place = hole.topic_partition, hole.first, hole.end
        return [Finding(verdict, "input-gone", f"{text}.", *place)]
    if is_whole:
        return None
    if result.findings:
        return []
    text = "Not all that it wrote can be read again, so its rows were not compared."
    return [Finding(Verdict.NOT_PROVABLE, "output-gone", text)]


def read_content(
    connections: KafkaConnections, receipt: Receipt, columns: Sequence[str]
) -> tuple[RecordDigest, Hole | None]:
    """Return the digest of what a batch has read, and the first place that cannot be read again."""
    content, hole = NO_RECORDS, None
    for piece in read_pieces(connections, receipt.read or (), receipt.topic_ids):
        if isinstance(piece, Part):
            content += copied_content(piece.rows, columns)
        elif isinstance(piece, Hole) and hole is None:
            hole = piece
    return content, hole
