"""Verify batches: read the receipts' places again, and compare. Runs anywhere. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.client.net.connection import KafkaConnections
from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_ranges, read_topic_ids
from penstock.observe.verify._inputs import compare_copy, compare_ranges
from penstock.observe.verify._read import Part, Producer, read_pieces
from penstock.observe.verify._rows import differing_rows
from penstock.observe.verify._written import Target
from penstock.observe.verify.found import BatchResult, Finding, Report, Verdict
from penstock.sink.exactly_once.receipt import Receipt
from penstock.types import OffsetRange, TopicPartition

COPIED = ("key", "value", "headers")
"""The columns by which a copy is recognised, if the user names none."""


def verify(
    target: KafkaConnections,
    source: KafkaConnections,
    receipts: Sequence[Receipt],
    chosen: Sequence[Receipt],
    statuses: Mapping[tuple[str, int], str],
    *,
    copied: Sequence[str] | None = None,
    is_only_writer: bool = False,
) -> Report:
    """Compare what batches have read and written with the topics.

    Args:
        target: the cluster of the decision log and of the topics that were written.
        source: the cluster of the topics that were read.
        receipts: all of the prefix, in order of time.
        chosen: those to verify, in order of time.
        statuses: of batches that are not finished, by query id and number.
        copied: the columns that the query copies; None: it may do anything.
        is_only_writer: no other program writes the target topics.

    Raises:
        PenstockError: a cluster does not answer.
    """
    results = [BatchResult(each) for each in chosen]
    columns = COPIED if copied is None else copied
    written = Target(receipts, chosen, columns)
    written.read(target, chosen)
    for each in results:
        written.compare(each, statuses.get((each.receipt.query_id, each.receipt.batch_id)))
    report = Report(results, other_writers=written.others.count)
    if is_only_writer:
        report.findings += _others(written.others.first, written.others.count)
    for query_id in dict.fromkeys(each.query_id for each in chosen):
        of_query = [each for each in results if each.receipt.query_id == query_id]
        compare_ranges(source, sorted(of_query, key=lambda each: each.receipt.batch_id))
    for each in results:
        receipt = each.receipt
        differs = compare_copy(
            source,
            each,
            written.content_of(receipt),
            columns,
            is_whole=written.is_whole(receipt),
            is_copy=copied is not None,
        )
        if differs:
            sides = partial(_read_again, source, receipt), partial(_written_again, target, receipt)
            each.findings += differing_rows(*sides, columns)
    return report


def with_checkpoint(receipts: Sequence[Receipt], location: str) -> list[Receipt]:
    """Return the receipts with the ranges that a checkpoint still has, where they have none."""
    found = []
    for each in receipts:
        receipt = each
        if each.read is None:
            try:
                query_id, ranges = read_ranges(location, each.batch_id)
                ids = read_topic_ids(location, each.batch_id)
            except (CheckpointError, OptionError):
                query_id, ranges, ids = None, [], {}
            if query_id == each.query_id:
                receipt = replace(each, read=tuple(ranges), topic_ids={**ids, **each.topic_ids})
        found.append(receipt)
    return found


def _others(first: Mapping[TopicPartition, int], count: int) -> Iterator[Finding]:
    for number, (at, offset) in enumerate(sorted(first.items())):
        told = f"{count:,} visible records are of producers that no receipt names." if not number else ""
        text = f"{told} The first one in {at} is at offset {offset}.".strip()
        yield Finding(Verdict.DIFFERS, "other-writer", text, at, offset, offset + 1)


def _read_again(connections: KafkaConnections, receipt: Receipt) -> Iterator[Part]:
    for piece in read_pieces(connections, receipt.read or (), receipt.topic_ids):
        if isinstance(piece, Part):
            yield piece


def _written_again(connections: KafkaConnections, receipt: Receipt) -> Iterator[Part]:
    producers: set[Producer] = {each.producer for each in receipt.transactions}
    places: dict[TopicPartition, tuple[int, int]] = {}
    for at, span in (each for one in receipt.transactions for each in one.spans):
        if span.first is not None and span.last is not None:
            first, end = places.get(at, (span.first, span.last + 1))
            places[at] = min(first, span.first), max(end, span.last + 1)
    ranges = [OffsetRange(at, first, end) for at, (first, end) in places.items()]
    for piece in read_pieces(connections, ranges, receipt.topic_ids):
        if isinstance(piece, Part) and piece.producer in producers:
            yield piece
