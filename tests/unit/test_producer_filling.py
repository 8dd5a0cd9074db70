"""Batches being filled: numbered as they are closed, and no memory held by what is closed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from penstock.client.idempotence import ProducerIdentity, SequenceNumbers
from penstock.client.producer_batches import ProducerBatch
from penstock.client.producer_filling import FillingBatches
from penstock.client.properties import ProduceSettings
from penstock.codec import RecordColumns
from penstock.types import TopicPartition

MEBIBYTE = 1 << 20


def filling_into(closed: list[ProducerBatch]) -> FillingBatches:
    return FillingBatches(
        ProduceSettings(), SequenceNumbers(ProducerIdentity(7, 0)), closed.append, lambda: 0
    )


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def test_full_batches_are_closed_and_numbered_in_order() -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(closed)
    columns = RecordColumns(pa.record_batch([pa.array([b"v" * 1000] * 600)], ["value"]))
    rows = pa.array(range(600), pa.int32())
    tp, first = TopicPartition("t", 0), 0
    while first < 600:
        first = filling.append(tp, columns, rows, first, 1)
    filling.close_all()
    assert [batch.base_sequence for batch in closed] == [
        0,
        closed[0].record_count,
        closed[0].record_count + closed[1].record_count,
    ]
    assert sum(batch.record_count for batch in closed) == 600
    assert not filling.is_open(tp)
    assert filling.size_bytes == 0


def test_closed_batches_leave_no_memory_behind() -> None:
    sizes: list[int] = []
    closed: list[ProducerBatch] = []
    filling = filling_into(closed)
    columns = RecordColumns(pa.record_batch([pa.array([b"v" * 1000] * 200)], ["value"]))
    rows = pa.array(range(200), pa.int32())
    before = resident_bytes()
    for partition in range(500):
        filling.append(TopicPartition("t", partition), columns, rows, 0, 1)
        filling.close_all()
        sizes.append(len(closed.pop().data))
    assert sum(sizes) > 90 * MEBIBYTE
    assert resident_bytes() - before < 30 * MEBIBYTE
