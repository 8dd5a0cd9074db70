"""Batch headers tell where the next Fetch starts, whatever is cut off at the end."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from penstock.client.batch_headers import ScannedBatches, scan_batches
from penstock.errors import CorruptBatchError


def a_batch(base_offset: int, record_count: int, leader_epoch: int = 7, value: bytes = b"value") -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, batch_size=1 << 20,
    )  # fmt: skip
    for delta in range(record_count):
        builder.append(delta, timestamp=0, key=None, value=value, headers=[])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, leader_epoch)
    return bytes(data)


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    gap=st.integers(0, 3),
    cut=st.integers(0, 10_000),
)
def test_whole_batches_are_counted_and_the_cut_one_is_not(counts: list[int], gap: int, cut: int) -> None:
    batches, offset, ends = [], 40, []
    for number, count in enumerate(counts):
        batches.append(a_batch(offset, count, leader_epoch=number))
        ends.append((sum(map(len, batches)), offset + count, number))
        offset += count + gap
    data = b"".join(batches)
    data = data[: len(data) - cut % (len(data) + 1)]
    whole = [end for end in ends if end[0] <= len(data)]
    expected = (whole[-1][1], whole[-1][2], whole[-1][0]) if whole else (None, -1, 0)
    assert scan_batches(data) == ScannedBatches(*expected)
    assert scan_batches(memoryview(data)) == ScannedBatches(*expected)


def test_old_formats_have_no_leader_epoch() -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    for offset in (5, 6):
        builder.append(offset, timestamp=0, key=None, value=b"value")
    data = bytes(builder.build())
    assert scan_batches(data) == ScannedBatches(7, -1, len(data))


@pytest.mark.parametrize("length", [-1, 0, 20, -(2**31)])
def test_an_impossible_length_is_an_error(length: int) -> None:
    data = bytearray(a_batch(3, 1))
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptBatchError, match="offset 3"):
        scan_batches(bytes(data))


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_result_or_an_error(data: bytes) -> None:
    try:
        scanned = scan_batches(data)
    except CorruptBatchError:
        return
    assert 0 <= scanned.whole_bytes <= len(data)
