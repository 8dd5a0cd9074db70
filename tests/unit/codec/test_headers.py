"""Batch headers tell where the next Fetch starts, whatever is cut off at the end."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from penstock.codec import BatchHeaders, ScannedBatches, scan_batches
from penstock.errors import CorruptBatchError
from tests import codec_batches as hand


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
    assert scan_batches(data, "t", 3) == ScannedBatches(*expected)
    assert scan_batches(memoryview(data), "t", 3) == ScannedBatches(*expected)


def test_old_formats_have_no_leader_epoch() -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 20)
    for offset in (5, 6):
        builder.append(offset, timestamp=0, key=None, value=b"value")
    data = bytes(builder.build())
    assert scan_batches(data, "t", 3) == ScannedBatches(7, -1, len(data))


@pytest.mark.parametrize("length", [-1, 0, 20, -(2**31)])
def test_an_impossible_length_is_an_error(length: int) -> None:
    data = bytearray(a_batch(3, 1))
    struct.pack_into(">i", data, 8, length)
    with pytest.raises(CorruptBatchError, match="offset 3 of t-5 is corrupt: its length is"):
        scan_batches(bytes(data), "t", 5)


def test_a_damaged_header_is_told_with_its_field() -> None:
    """What is before it is given out; the scan, which tells where to go on, tells nothing."""
    data = hand.values(0, b"a", b"b") + hand.Batch(base_offset=2, magic=3).encode()
    headers = BatchHeaders(data, "t", 3)
    assert next(headers).last_offset == 1
    with pytest.raises(CorruptBatchError, match=r"offset 2 of t-3 .* version \(magic\) is 3"):
        next(headers)
    with pytest.raises(CorruptBatchError, match=r"offset 2 of t-3 .* version \(magic\) is 3"):
        scan_batches(data, "t", 3)


def test_a_batch_that_ends_before_it_begins_is_an_error_and_no_step_back() -> None:
    data = hand.Batch(base_offset=9, last_delta=-1).encode()
    with pytest.raises(CorruptBatchError, match=r"offset 9 of t-3 .* last offset delta is -1"):
        scan_batches(data, "t", 3)


def test_who_wrote_a_batch() -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=True, producer_id=70_000_000_000, producer_epoch=3,
        base_sequence=9, batch_size=1 << 20,
    )  # fmt: skip
    for delta in range(4):
        builder.append(delta, timestamp=0, key=None, value=b"v", headers=[])
    [header] = BatchHeaders(bytes(builder.build()), "t", 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (70_000_000_000, 3, 9)
    assert (header.base_offset, header.last_offset) == (0, 3)
    assert (header.is_control, header.control_type) == (False, None)


@pytest.mark.parametrize("kind", [hand.ABORT, hand.COMMIT])
def test_markers_of_transactions(kind: int) -> None:
    headers = list(BatchHeaders(hand.in_transaction(5, 8, b"a") + hand.marker(6, 8, kind), "t", 0))
    assert [(each.base_offset, each.is_control, each.control_type) for each in headers] == [
        (5, False, None),
        (6, True, kind),
    ]


@pytest.mark.parametrize(
    "batch",
    [
        hand.Batch([hand.Rec(key=b"\0\0\0")], attributes=hand.CONTROL),
        hand.Batch([hand.Rec(key=None)], attributes=hand.CONTROL),
        hand.Batch([], attributes=hand.CONTROL),
        hand.Batch([hand.Rec(key=bytes(4))], attributes=hand.CONTROL | 3),
        hand.Batch(payload=b"\xff" * 20, attributes=hand.CONTROL),
    ],
    ids=["short key", "no key", "no record", "compressed", "garbage"],
)
def test_a_marker_that_is_not_well_formed_has_no_type(batch: hand.Batch) -> None:
    [header] = BatchHeaders(batch.encode(), "t", 0)
    assert header.is_control
    assert header.control_type is None


def test_the_bytes_stay_while_headers_are_read() -> None:
    headers = BatchHeaders(hand.values(0, b"a" * 10_000) * 2, "t", 0)
    assert [header.base_offset for header in headers] == [0, 0]
    assert list(headers) == []


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_result_or_an_error(data: bytes) -> None:
    try:
        scanned = scan_batches(data, "t", 3)
    except CorruptBatchError:
        return
    assert 0 <= scanned.whole_bytes <= len(data)
