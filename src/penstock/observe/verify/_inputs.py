"""Compare what batches have read with one another, and with what they wrote if they are copies.

Runs anywhere. Invariants: the ranges of a query's batches follow one another, each offset once; the rows of a
batch are compared only if all of its ranges and all that it wrote could be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from penstock.client.net.connection import KafkaConnections
from penstock.observe.verify._read import Hole, Part, Why, read_pieces
from penstock.observe.verify._written import copied_content
from penstock.observe.verify.found import BatchResult, Finding, Inputs, Verdict
from penstock.sink.exactly_once.digest import NO_RECORDS, RecordDigest
from penstock.sink.exactly_once.receipt import Receipt
from penstock.types import OffsetRange, TopicPartition


def compare_ranges(connections: KafkaConnections, results: Sequence[BatchResult]) -> None:
    """Add what was read twice, or by no batch, to the results of the batches. They are of one query."""
    known = [each for each in results if each.receipt.read is not None]
    ends: dict[TopicPartition, tuple[int, Receipt]] = {}
    for before, result in pairwise([None, *known]):
        receipt = result.receipt if result is not None else None
        if receipt is None or result is None:
            continue
        for each in receipt.read or ():
            at = each.topic_partition
            if at in ends and before is not None:
                result.findings += _following(connections, *ends[at], receipt, each)
            ends[at] = each.stopping_offset, receipt


def _following(
    connections: KafkaConnections, end: int, before: Receipt, receipt: Receipt, read: OffsetRange
) -> Iterator[Finding]:
    """Yield what is wrong between the end of one batch and the start of a later one."""
    at, start = read.topic_partition, read.starting_offset
    ids = before.topic_ids.get(at.topic), receipt.topic_ids.get(at.topic)
    if start == end or (None not in ids and ids[0] != ids[1]):
        return  # another topic of that name begins at its own offsets
    if start < end:
        text = f"Offsets {start} to {end - 1} of {at} were read by {before.where} already."
        if None in ids:
            text += " They may be of a topic that was created again: no id of it is known."
            yield Finding(Verdict.NOT_PROVABLE, "read-twice", text, at, start, end)
        else:
            yield Finding(Verdict.DIFFERS, "read-twice", text, at, start, end)
        return
    topic_ids = {} if ids[1] is None else {at.topic: ids[1]}
    count, holes = _count(connections, OffsetRange(at, end, start), topic_ids)
    if holes:
        text = f"No receipt says who read offsets {end} to {start - 1} of {at}: {holes[0].why.value}."
        yield Finding(Verdict.NOT_PROVABLE, "not-read", text, at, end, start)
    elif count and receipt.batch_id == before.batch_id + 1:
        text = f"No batch has read offsets {end} to {start - 1} of {at}, which hold {count:,} records."
        yield Finding(Verdict.DIFFERS, "not-read", text, at, end, start)
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
    if receipt.read is None:
        if is_copy:
            text = "Neither the receipt nor the checkpoint says what it read."
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
    if hole is not None:
        text = f"What it read cannot be read again: {hole.why.value} {hole.text}".strip().rstrip(".")
        verdict = Verdict.DIFFERS if hole.why is Why.DAMAGED else Verdict.NOT_PROVABLE
        place = hole.topic_partition, hole.first, hole.end
        result.findings.append(Finding(verdict, "input-gone", f"{text}.", *place))
        return False
    if not is_whole:
        if not result.findings:
            text = "Not all that it wrote can be read again, so its rows were not compared."
            result.findings.append(Finding(Verdict.NOT_PROVABLE, "output-gone", text))
        return False
    result.inputs = Inputs.DIFFER
    text = (
        f"It is not a copy of what it read: {content.record_count:,} records read, "
        f"{written.record_count:,} visible."
    )
    result.findings.append(Finding(Verdict.DIFFERS, "not-a-copy", text))
    return True


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
