"""Memory: bounded however much a Kafka batch decompresses to, handed over tightly, given back."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from penstock.codec import RecordBatchBuilder, RecordColumns
from penstock.codec._memory import live_bytes
from tests.codec_batches import Batch, decoder, values

NOW = 1_700_000_000_000
LIMIT = 1 << 20


def allocated_bytes() -> int:
    return int(pa.total_allocated_bytes()) + live_bytes()


def compressed(count: int, value: bytes, compression_type: str = "zstd") -> bytes:
    builder = RecordBatchBuilder(
        "t", 3, compression_type=compression_type, batch_size_bytes=1 << 30, max_record_bytes=1 << 30
    )
    columns = RecordColumns(pa.record_batch({"value": [value] * count, "key": [b"k" * 8] * count}))
    assert builder.append(columns, pa.array(range(count), pa.int32()), default_timestamp_ms=NOW) == count
    return builder.build()


@pytest.mark.parametrize("size", [100, 5_000])
def test_one_batch_of_64_megabytes_is_turned_into_arrow_piece_by_piece(size: int) -> None:
    count = (64 << 20) // size
    data = compressed(count, b"v" * size)
    codec = decoder(max_bytes=LIMIT)
    before, rows = allocated_bytes(), 0
    for batch in codec.decode(data):
        rows += batch.num_rows
        assert allocated_bytes() - before < 6 * LIMIT
        assert batch.get_total_buffer_size() < 3 * LIMIT
    rest = codec.flush()
    assert rest is not None
    assert rows + rest.num_rows == count


def test_few_rows_take_little_memory() -> None:
    """Many splits are open at once, and most have little: what one takes must follow what it holds."""
    before = allocated_bytes()
    codec = decoder()
    assert list(codec.decode(values(0, *[b"x" * 100] * 10))) == []
    assert allocated_bytes() - before < 100_000
    batch = codec.flush()
    assert batch is not None
    assert batch.get_total_buffer_size() < 8_000


def test_there_is_room_for_expected_rows_from_the_start() -> None:
    data = values(0, *[b"x" * 100] * 10)

    def taken(expected_rows: int) -> int:
        codec = decoder(expected_rows=expected_rows)
        before = allocated_bytes()
        assert list(codec.decode(data)) == []
        found = allocated_bytes() - before
        rest = codec.flush()
        assert rest is not None
        assert rest.num_rows == 10
        return found

    # A thread that another test has left may take memory in between.
    usual = [sorted(taken(rows) for _ in range(5))[2] for rows in (0, 10_000)]
    assert usual[0] < 100_000
    assert 10_000 * 100 < usual[1] < 4_000_000


def test_one_large_record_does_not_multiply() -> None:
    before = allocated_bytes()
    codec = decoder()
    assert list(codec.decode(compressed(1, b"x" * (32 << 20), "none"))) == []
    batch = codec.flush()
    assert batch is not None
    assert allocated_bytes() - before < 40 << 20


def test_memory_is_given_back() -> None:
    data = compressed(2_000, b"v" * 100) * 3
    broken = values(0, b"x") + Batch(base_offset=1, payload=b"\x10", count=1).encode()

    def work() -> None:
        codec = decoder(max_rows=500)
        sum(batch.num_rows for batch in codec.decode(data))
        codec.flush()
        next(iter(decoder(max_rows=500).decode(data)))
        with pytest.raises(Exception, match="corrupt"):
            list(decoder().decode(broken))

    work()
    gc.collect()
    before = allocated_bytes()
    for _ in range(200):
        work()
    gc.collect()
    assert allocated_bytes() == before
