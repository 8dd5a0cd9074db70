"""What a search of a log finds of one producer, against batches that the codec makes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.client.produce._log_search import batches_of_producer
from penstock.client.produce.idempotence import ProducerIdentity
from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.types import TopicPartition

OURS = ProducerIdentity(70_000_000_000, 3)
TP = TopicPartition("t", 0)


def batch(
    base_offset: int, record_count: int, *, identity: ProducerIdentity = OURS, base_sequence: int = 0
) -> bytes:
    """Return a batch as a log holds it, with its offset."""
    builder = RecordBatchBuilder("t", 0, compression_type="lz4")
    columns = RecordColumns(pa.record_batch([pa.array([b"value"] * record_count)], ["value"]))
    rows = pa.array(range(record_count), pa.int32())
    assert builder.append(columns, rows, default_timestamp_ms=1_234) == record_count
    data = builder.build(
        producer_id=identity.producer_id, producer_epoch=identity.producer_epoch, base_sequence=base_sequence
    )
    return base_offset.to_bytes(8, "big") + data[8:]


def test_our_batches_are_found_among_others() -> None:
    other_epoch, other_id = ProducerIdentity(OURS.producer_id, 4), ProducerIdentity(5, 3)
    log = b"".join(
        [
            batch(100, 10, base_sequence=40),
            batch(110, 3, identity=other_id, base_sequence=50),
            batch(113, 2, identity=other_epoch, base_sequence=50),
            batch(120, 5, base_sequence=50),
        ]
    )
    assert batches_of_producer(log, TP, OURS) == ({40: 110, 50: 125}, 125)
    assert batches_of_producer(memoryview(log), TP, other_id) == ({50: 113}, 125)


@pytest.mark.parametrize("cut", [1, 60, 61, 70])
def test_a_partial_last_batch_is_left_out(cut: int) -> None:
    whole, partial = batch(0, 5), batch(5, 5, base_sequence=5)
    assert batches_of_producer(whole + partial[:cut], TP, OURS) == ({0: 5}, 5)
    assert batches_of_producer(partial[:cut], TP, OURS) == ({}, None)


def test_an_empty_response_holds_nothing() -> None:
    assert batches_of_producer(b"", TP, OURS) == ({}, None)


@pytest.mark.parametrize("length", [0, -1, -(2**31), 48])
def test_a_length_that_cannot_be_ends_the_piece(length: int) -> None:
    broken = bytearray(batch(5, 5))
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    assert batches_of_producer(bytes(broken), TP, OURS) == ({}, None)
    assert batches_of_producer(batch(0, 5) + broken, TP, OURS) == ({0: 5}, 5)
