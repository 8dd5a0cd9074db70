"""What honest clusters do, which verify must not call a difference, and what it must not call proven.

Runs in tests only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from kafka.record.util import calc_crc32c

from penstock.testing.fake.batches import Batch
from penstock.types import OffsetRange, TopicPartition
from tests.corruptions.histories import SOURCE, History, add_other, index_of, some_written, values_of

_HEADER_BYTES, _COUNT_AT = 61, 57
Event: TypeAlias = Callable[[History], None]


def _retention(history: History, at: TopicPartition) -> None:
    with history.cluster.kafka.log(*at) as log:
        log.delete_before(history.random.randint(min(1, log.end_offset), log.end_offset))


def _compaction(history: History, at: TopicPartition) -> None:
    with history.cluster.kafka.log(*at) as log:
        data = [each for each in log.batches if not each.is_control]
        if data:
            log.batches.remove(history.random.choice(data))


def _emptied(history: History) -> None:
    """Let compaction take all records of a batch, and leave its header, as for the last one of a producer."""
    with history.cluster.kafka.log(*history.some_target()) as log:
        data = [at for at, each in enumerate(log.batches) if not each.is_control]
        if data:
            at = history.random.choice(data)
            log.batches[at] = emptied(log.batches[at])


def emptied(found: Batch) -> Batch:
    """Return the header of a batch, with no records."""
    data = bytearray(found.data[:_HEADER_BYTES])
    struct.pack_into(">i", data, 8, _HEADER_BYTES - 12)
    struct.pack_into(">i", data, _COUNT_AT, 0)
    struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return Batch.of(bytes(data))


def _open_transaction(history: History) -> None:
    """Let a transaction of another program hide the end of a topic partition."""
    with history.cluster.kafka.log(*history.some_target()) as log:
        data = [each for each in log.batches if not each.is_control]
        if log.producers and data:
            producer = next(iter(log.producers.values()))
            producer.transaction_start = history.random.choice(data).base_offset


HONEST: dict[str, Event] = {
    "nothing": lambda history: None,
    "retention of the target": lambda history: _retention(history, history.some_target()),
    "retention of the source": lambda history: _retention(history, history.some_source()),
    "compaction of the target": lambda history: _compaction(history, history.some_target()),
    "compaction that leaves a header": _emptied,
    "compaction of the source": lambda history: _compaction(history, history.some_source()),
    "an open transaction": _open_transaction,
    "a target that was created again": lambda history: history.cluster.recreate_target(),
}


def no_ranges(history: History) -> None:
    """Forget what a batch has read."""
    receipt, _, _ = some_written(history)
    history.receipts = [replace(each, read=None) if each is receipt else each for each in history.receipts]


def no_receipt(history: History) -> None:
    """Lose the receipt of a batch between two others, which read nothing."""
    at = history.random.randrange(1, len(history.receipts))
    history.receipts = [
        each if number < at else replace(each, batch_id=each.batch_id + 1)
        for number, each in enumerate(history.receipts)
    ]


def stray(history: History) -> None:
    """Let an attempt of a task, which no receipt names, be committed as well."""
    history.is_only_writer = history.has_other_writers = False
    repeat(history)


def repeat(history: History, count: int | None = None) -> None:
    """Let the first records of a transaction come once more, between those of the batches."""
    _, written, at = some_written(history)
    with history.cluster.kafka.log(*at) as log:
        values = values_of(log.batches[index_of(log.batches, written)])
    add_other(history, at, *values[:count])
    while True:
        history.next_batch()
        last = max(history.receipts, key=lambda each: each.batch_id)
        if at in {one for each in last.transactions for one, _ in each.spans}:
            return


def new_partition(history: History) -> None:
    """Let a batch be the first that reads a topic partition, from an offset in the middle."""
    at = history.random.randrange(1, len(history.receipts))
    receipt = history.receipts[at]
    assert receipt.read is not None
    new = TopicPartition(SOURCE.topic, history.partitions)
    added = OffsetRange(new, 3, 3 + history.random.randint(1, 9))
    history.receipts[at] = replace(receipt, read=(*receipt.read, added))


UNPROVABLE: dict[str, Event] = {
    "no ranges": no_ranges,
    "no receipt": no_receipt,
    "stray attempt": stray,
    "new topic partition": new_partition,
}
