"""Verify batches: read the receipts' places again, and compare. Runs anywhere. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from penstock.client.net.connection import KafkaConnections
from penstock.errors import CheckpointError, OptionError
from penstock.observe.checkpoint import read_ranges, read_topic_ids
from penstock.observe.verify._inputs import compare_copy, compare_ranges
from penstock.observe.verify._read import Part, read_pieces
from penstock.observe.verify._rows import differing_rows
from penstock.observe.verify._written import Others, Target, written_pieces
from penstock.observe.verify.found import BatchResult, Finding, Report, Verdict
from penstock.sink.exactly_once.decision import where
from penstock.sink.exactly_once.receipt import Receipt

COPIED = ("key", "value", "headers")
"""The columns by which a copy is recognised, if the user names none."""
_INCOMPLETE = frozenset(("withdrawn", "unfinished", "not-found", "lost-or-recreated", "taken-as-written"))
"""Kinds of findings after which a batch may have written more than is visible."""


def verify(  # noqa: PLR0913 - what the user says, and what logs and checkpoint say
    target: KafkaConnections,
    source: KafkaConnections,
    receipts: Sequence[Receipt],
    chosen: Sequence[Receipt],
    statuses: Mapping[tuple[str, int], str],
    *,
    copied: Sequence[str] | None = None,
    is_only_writer: bool = False,
    has_other_writers: bool = False,
    newest: Mapping[str, int] = MappingProxyType({}),
    beside: Sequence[Receipt] = (),
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
        has_other_writers: other programs write them too, so that their records prove nothing.
        newest: the newest batch of each query that is known to be decided or done.
        beside: receipts of other prefixes that write the same batches, so that their records are known.

    Raises:
        PenstockError: a cluster does not answer.
    """
    results = [BatchResult(each) for each in chosen]
    columns = COPIED if copied is None else copied
    written = Target([*receipts, *beside], chosen, columns)
    written.read(target, chosen)
    for each in results:
        written.compare(each, statuses.get((each.receipt.query_id, each.receipt.batch_id)))
    whole = [
        written.is_whole(each.receipt) and not any(one.kind in _INCOMPLETE for one in each.findings)
        for each in results
    ]
    report = Report(results, other_writers=written.others.count)
    for query_id in dict.fromkeys(each.query_id for each in chosen):
        of_query = [each for each in receipts if each.query_id == query_id]
        compare_ranges(
            source,
            sorted(of_query, key=lambda each: each.batch_id),
            {each.receipt.batch_id: each for each in results if each.receipt.query_id == query_id},
            newest.get(query_id),
        )
    report.findings += _without_receipts(receipts, newest)
    if not has_other_writers:
        told = [*report.findings, *(one for each in results for one in each.findings)]
        is_sure = is_only_writer and not any(each.kind == "no-receipt" for each in told)
        # Batches that left no receipt may have written without exactly-once.
        is_sure = is_sure and not any(len(one) for each in chosen for one in each.idle or ())
        report.findings += _others(written.others, is_sure=is_sure)
    for each, is_whole in zip(results, whole, strict=True):
        receipt = each.receipt
        differs = compare_copy(
            source,
            each,
            written.content_of(receipt),
            columns,
            is_whole=is_whole,
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
                # A target may have the name of a source of another cluster.
                ids = {topic: one for topic, one in ids.items() if topic not in _targets(each)}
                receipt = replace(each, read=tuple(ranges), topic_ids={**ids, **each.topic_ids})
        found.append(receipt)
    return found


def _targets(receipt: Receipt) -> set[str]:
    return {at.topic for one in receipt.transactions for at, _ in one.spans}


def _without_receipts(receipts: Sequence[Receipt], newest: Mapping[str, int]) -> Iterator[Finding]:
    for query_id in sorted(newest.keys() - {each.query_id for each in receipts}):
        text = (
            f"{where(query_id, newest[query_id])} has no receipt, and no earlier batch of that query has "
            "one: a version of penstock without receipts wrote it, or the receipts are gone."
        )
        yield Finding(Verdict.NOT_PROVABLE, "no-receipt", text[0].upper() + text[1:])


def _others(others: Others, *, is_sure: bool) -> Iterator[Finding]:
    """Yield where records of producers are that no receipt names. `is_sure`: they should not be there."""
    verdict = Verdict.DIFFERS if is_sure else Verdict.NOT_PROVABLE
    for number, (at, offset) in enumerate(sorted(others.first.items())):
        told = ""
        if not number:
            told = f"{others.count:,} visible records are of producers that no receipt names."
            if not is_sure:
                told += (
                    " They may double records of a batch, or be of another program or of a batch without a"
                )
                told += " receipt. If other programs write the topic too, say --other-writers."
        text = f"{told} The first one in {at} is at offset {offset}.".strip()
        yield Finding(verdict, "other-writer", text, at, offset, offset + 1)


def _read_again(connections: KafkaConnections, receipt: Receipt) -> Iterator[Part]:
    for piece in read_pieces(connections, receipt.read or (), receipt.topic_ids):
        if isinstance(piece, Part):
            yield piece


def _written_again(connections: KafkaConnections, receipt: Receipt) -> Iterator[Part]:
    return (each for each in written_pieces(connections, receipt) if isinstance(each, Part))
