"""Corruptions of topics and receipts, which verify has to find.

Runs in tests only. Each notes the numbers of the batches that it has changed. In a history of several topic
partitions a corruption changes one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from penstock.client.produce.spans import WrittenSpan
from penstock.sink.exactly_once.digest import RecordDigest
from penstock.sink.exactly_once.receipt import Receipt, WrittenTransaction
from penstock.testing.fake._log import AbortedTransaction, PartitionLog
from penstock.testing.fake.batches import marker
from penstock.types import OffsetRange, TopicPartition
from tests.corruptions.beside import repeat
from tests.corruptions.histories import History, index_of, some_written, values_of, with_values

Event: TypeAlias = Callable[[History], None]


def lost(history: History) -> None:
    """Put a record of another program where one of a batch was."""
    _, written, place = some_written(history)
    with history.cluster.kafka.log(*place) as log:
        at = index_of(log.batches, written)
        found, values = log.batches[at], values_of(log.batches[at])
        gone, begin = history.random.randrange(len(values)), found.base_offset
        parts = [
            with_values(found, values[:gone]) if gone else None,
            with_values(found, [b"other"], begin + gone, producer=False),
            with_values(found, values[gone + 1 :], begin + gone + 1) if values[gone + 1 :] else None,
        ]
        log.batches[at : at + 1] = [each for each in parts if each is not None]


def doubled(history: History) -> None:
    """Move the log apart, and put a record of a batch into the place a second time."""
    _, written, place = some_written(history)
    with history.cluster.kafka.log(*place) as log:
        at = index_of(log.batches, written)
        found, values = log.batches[at], values_of(log.batches[at])
        _make_room(log, at)
        log.batches[at] = with_values(found, [*values, history.random.choice(values)])
    history.receipts = [_moved(each, place, found.base_offset) for each in history.receipts]


def _make_room(log: PartitionLog, at: int) -> None:
    """Move all that is behind a record batch by one offset."""
    offset = log.batches[at].base_offset
    log.batches[at + 1 :] = [each.at(each.base_offset + 1, 0) for each in log.batches[at + 1 :]]
    log.aborted = [
        each._replace(
            first_offset=each.first_offset + (each.first_offset > offset),
            marker_offset=each.marker_offset + (each.marker_offset > offset),
        )
        for each in log.aborted
    ]
    log.end_offset += 1


def _moved(receipt: Receipt, place: TopicPartition, offset: int) -> Receipt:
    """Return a receipt as it were if the log had been longer from the start."""

    def moved(span: WrittenSpan) -> WrittenSpan:
        by = (span.first or 0) > offset
        return span._replace(first=(span.first or 0) + by, last=(span.last or 0) + by)

    transactions = tuple(
        replace(
            each,
            spans=tuple(
                one._replace(span=moved(one.span)) if one.topic_partition == place else one
                for one in each.spans
            ),
        )
        for each in receipt.transactions
    )
    return replace(receipt, transactions=transactions)


def swapped(history: History) -> None:
    """Exchange a record with one of another transaction, also of another topic partition, or change it."""
    _, written, place = some_written(history)
    receipt, other, there = some_written(history)
    mine, theirs = _one(history, written, place), _one(history, other, there)
    if written is other or mine[1] == theirs[1]:
        if written is not other:
            history.touched.discard(receipt.batch_id)
            history.touched.add(_batch_of(history, written))
        _put_value(history, written, place, mine[0], mine[1] + b"!")
        return
    _put_value(history, written, place, mine[0], theirs[1])
    _put_value(history, other, there, theirs[0], mine[1])


def _batch_of(history: History, written: WrittenTransaction) -> int:
    return next(each.batch_id for each in history.receipts if written in each.transactions)


def _one(history: History, written: WrittenTransaction, place: TopicPartition) -> tuple[int, bytes]:
    """Return one of the records of a transaction in a topic partition: its index and its value."""
    with history.cluster.kafka.log(*place) as log:
        values = values_of(log.batches[index_of(log.batches, written)])
    index = history.random.randrange(len(values))
    return index, values[index]


def _put_value(
    history: History, written: WrittenTransaction, place: TopicPartition, index: int, value: bytes
) -> None:
    with history.cluster.kafka.log(*place) as log:
        at = index_of(log.batches, written)
        values = values_of(log.batches[at])
        values[index] = value
        log.batches[at] = with_values(log.batches[at], values)


def torn(history: History) -> None:
    """Damage a byte of a record batch."""
    _, written, place = some_written(history)
    with history.cluster.kafka.log(*place) as log:
        at = index_of(log.batches, written)
        data = bytearray(log.batches[at].data)
        data[history.random.randrange(61, len(data))] ^= 0x40
        log.batches[at] = log.batches[at]._replace(data=bytes(data))


def cut_back(history: History) -> None:
    """Lose the end of a log, as an unclean election does."""
    _, _, place = some_written(history)
    history.touched.clear()
    ends = {each.batch_id: _end(each, place) for each in history.receipts}
    last = max(history.receipts, key=lambda each: ends[each.batch_id])
    spans = (span for each in last.transactions for at, span in each.spans if at == place)
    first = min(span.first or 0 for span in spans)
    with history.cluster.kafka.log(*place) as log:
        offset = history.random.randint(first, ends[last.batch_id] - 1)
        log.truncate(offset)
    history.touched |= {batch_id for batch_id, end in ends.items() if end > offset}


def _end(receipt: Receipt, place: TopicPartition) -> int:
    """Return the offset behind the last record of a batch in a topic partition; 0: it has none there."""
    spans = (span for each in receipt.transactions for at, span in each.spans if at == place)
    return max((1 + (span.last or 0) for span in spans), default=0)


def aborted(history: History) -> None:
    """Let the log of a topic partition say that a transaction was aborted."""
    receipt, written, place = some_written(history)
    aborted_at(history, receipt, written, place)


def aborted_at(
    history: History, receipt: Receipt, written: WrittenTransaction, place: TopicPartition
) -> None:
    """Let a log say that this transaction of a batch was aborted."""
    history.touched.add(receipt.batch_id)
    with history.cluster.kafka.log(*place) as log:
        at = index_of(log.batches, written)
        end = next(
            each
            for each in range(at, len(log.batches))
            if log.batches[each].producer_id == written.producer_id and log.batches[each].is_control
        )
        base = log.batches[end].base_offset
        plain = marker(*written.producer, is_commit=False, now_ms=0, coordinator_epoch=0)
        log.batches[end] = plain.at(base, 0)
        log.aborted.append(AbortedTransaction(written.producer_id, log.batches[at].base_offset, base))


def wrong_digest(history: History) -> None:
    """Change the digest in a receipt."""
    receipt, written, _ = some_written(history)
    content = written.content
    changed = RecordDigest(content.record_count, content.first_sum ^ 1, content.second_sum)
    _put(history, receipt, written, replace(written, content=changed))


def wrong_count(history: History) -> None:
    """Change the number of records in a receipt, in the total or by offsets."""
    receipt, written, place = some_written(history)
    content = written.content
    changed = replace(
        written, content=RecordDigest(content.record_count + 1, content.first_sum, content.second_sum)
    )
    if history.random.random() < 0.5:
        spans = tuple(
            each._replace(span=each.span._replace(record_count=each.span.record_count + 1))
            if each.topic_partition == place
            else each
            for each in written.spans
        )
        changed = replace(changed, spans=spans)
    _put(history, receipt, written, changed)


def _put(history: History, receipt: Receipt, before: WrittenTransaction, after: WrittenTransaction) -> None:
    written = tuple(after if each is before else each for each in receipt.transactions)
    history.receipts = [
        replace(each, transactions=written) if each is receipt else each for each in history.receipts
    ]


def read_twice(history: History) -> None:
    """Let a receipt say that its batch began earlier in a topic partition."""
    _begin_elsewhere(history, -1)


def not_read(history: History) -> None:
    """Let a receipt say that its batch began later in a topic partition."""
    _begin_elsewhere(history, 1)


def _begin_elsewhere(history: History, by: int) -> None:
    """Move the begin of a range that has records, of a batch and of one before it."""
    places = [
        (at, number, each)
        for at, receipt in enumerate(history.receipts)
        for number, each in enumerate(receipt.read or ())
        if each.starting_offset > 0 and each.stopping_offset > each.starting_offset
    ]
    if not places:  # each topic partition was read by one batch only
        history.next_batch()
        _begin_elsewhere(history, by)
        return
    at, number, found = history.random.choice(places)
    receipt = history.receipts[at]
    read = list(receipt.read or ())
    read[number] = OffsetRange(found.topic_partition, found.starting_offset + by, found.stopping_offset)
    history.receipts[at] = replace(receipt, read=tuple(read))
    history.touched |= {receipt.batch_id}


def source_changed(history: History) -> None:
    """Change a record of the source after it was copied."""
    history.is_copy = True
    receipt, _, _ = some_written(history)
    read = history.random.choice(
        [each for each in receipt.read or () if each.stopping_offset > each.starting_offset]
    )
    with history.cluster.kafka.log(*read.topic_partition) as log:
        offsets = range(read.starting_offset, read.stopping_offset)
        at = history.random.choice([n for n, each in enumerate(log.batches) if each.base_offset in offsets])
        values = values_of(log.batches[at])
        values[history.random.randrange(len(values))] += b"!"
        log.batches[at] = with_values(log.batches[at], values, producer=False)


def other_writer(history: History) -> None:
    """Let another program copy a record of a batch, between the batches."""
    history.is_only_writer = True
    repeat(history, 1)
    history.touched.clear()  # no batch differs, but the topic does


CORRUPTIONS: dict[str, Event] = {
    "lost": lost,
    "doubled": doubled,
    "swapped": swapped,
    "torn": torn,
    "cut back": cut_back,
    "aborted": aborted,
    "digest of a receipt": wrong_digest,
    "count of a receipt": wrong_count,
    "read twice": read_twice,
    "not read": not_read,
    "changed source": source_changed,
    "other writer": other_writer,
}
