"""An answer to a Fetch is decoded piece by piece."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from penstock.client.fetch.requests import FetchedPartition
from penstock.client.settings import FetchSettings
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.codec._memory import live_bytes
from penstock.errors import CorruptBatchError
from penstock.relay._decoding import scanned
from penstock.relay.messages import Fetched
from penstock.types import TopicPartition

AT = TopicPartition("orders", 0)
COUNT = 150_000
COLUMNS = ("key", "value", "timestamp")


def answer(damaged_at: int | None = None) -> Fetched:
    """Return what was read from `COUNT` records, in batches whose offsets follow each other."""
    values = pa.array([b"%0100d" % number for number in range(10_000)])
    columns, rows = RecordColumns(pa.record_batch({"value": values})), pa.array(range(10_000), pa.int32())
    data = bytearray()
    for first in range(0, COUNT, 10_000):
        builder = RecordBatchBuilder(*AT)
        builder.append(columns, rows, default_timestamp_ms=1)
        batch = bytearray(builder.build())
        batch[:8] = first.to_bytes(8, "big")  # which the checksum does not cover
        data += batch
    if damaged_at is not None:
        data[damaged_at] ^= 1
    fetched = FetchedPartition(0, bytes(data), (), COUNT, COUNT, 0, -1, -1, -1)
    return scanned(AT, 0, fetched, FetchSettings(), columns=COLUMNS, read_committed=True, raw_headers=True)


def test_the_rows_of_an_answer_do_not_take_memory_all_at_once() -> None:
    found = answer()
    assert found.next_offset == COUNT
    gc.collect()
    before, count, most = live_bytes(), 0, 0
    for batch in found.rows():
        count += batch.num_rows
        most = max(most, live_bytes() - before)
        del batch
    assert count == COUNT
    assert most < COUNT * 100 // 2


def test_damage_at_the_end_of_an_answer_is_an_error_though_rows_before_it_were_given() -> None:
    rows = answer(damaged_at=-10).rows()
    assert next(rows).num_rows > 0
    with pytest.raises(CorruptBatchError, match="CRC-32C"):
        list(rows)
