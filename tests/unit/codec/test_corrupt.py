"""Data that lies: each lie is named, with topic, partition and base offset; nothing is read past its end."""

from __future__ import annotations

import gzip
import pickle
import random
import struct
import zlib

import cramjam
import pytest

from penstock.codec._decode import crc32c
from penstock.errors import CodecError, CorruptBatchError, PenstockError
from tests.codec_batches import Batch, Rec, column, decode_all, decoder, sized, values, varint


def body_of(*, key: bytes = varint(-1), value: bytes = varint(-1), headers: bytes = varint(0)) -> bytes:
    body = b"\0" + varint(0) + varint(0) + key + value + headers
    return varint(len(body)) + body


LONG = b"\xff" * 4
LIES = {
    "base offset is out of range": Batch(base_offset=-1),
    r"format version \(magic\) is 3": Batch(magic=3),
    r"format version \(magic\) is -1": Batch(magic=-1),
    "length is 26 bytes": Batch(length=14),
    "length is 12 bytes": Batch(length=0),
    "length is -2147483636 bytes": Batch(length=-(2**31)),
    "CRC-32C is": Batch(crc=1),
    "last offset delta is -1": Batch(last_delta=-1),
    "claims 2 records for 1 offsets": Batch(count=2, last_delta=0),
    "claims -1 records": Batch(count=-1),
    "claims -1 records for 2147483648 offsets": Batch(count=-1, last_delta=2**31 - 1),
    "claims 1000 records in 8 bytes": Batch(count=1000, last_delta=5000),
    "claims no records but holds 8 bytes": Batch(count=0),
    "8 bytes are left after the 1 records": Batch([Rec(), Rec()], count=1),
    "record 2 of 3 is malformed or missing": Batch([Rec(b"x" * 30), Rec()], count=3, last_delta=5),
    "offset of its record 1 is not between": Batch([Rec(delta=1), Rec(delta=1)]),
    "offset of its record 0 is not between": Batch([Rec(delta=-1)], last_delta=0),
    "offset of its record 1 .*neighbours": Batch([Rec(delta=0), Rec(delta=2)], last_delta=1),
    "compression type 5 does not exist": Batch(attributes=5),
}
MALFORMED = {
    "length beyond the batch": varint(100) + bytes(20),
    "negative length": varint(-1) + bytes(20),
    "length 0": varint(0) + bytes(20),
    "length of six bytes": b"\x80\x80\x80\x80\x80\x01" + bytes(20),
    "length above 32 bits": LONG + b"\x1f" + bytes(20),
    "timestamp of eleven bytes": varint(18) + b"\0" + b"\xff" * 10 + b"\x01" + bytes(6),
    "timestamp above 64 bits": varint(18) + b"\0" + b"\xff" * 9 + b"\x02" + bytes(7),
    "key beyond the record": body_of(key=varint(50)) + bytes(60),
    "key length -2": body_of(key=varint(-2)),
    "value beyond the record": body_of(value=varint(2**31 - 1)) + bytes(60),
    "value length -2": body_of(value=varint(-2)),
    "header count -1": body_of(headers=varint(-1)),
    "header count beyond the record": body_of(headers=varint(2**31 - 1)),
    "header with null name": body_of(headers=varint(1) + varint(-1) + varint(-1)),
    "header name beyond the record": body_of(headers=varint(1) + varint(9) + varint(-1)) + bytes(20),
    "header value beyond the record": body_of(headers=varint(1) + sized(b"h") + varint(9)) + bytes(20),
    "fewer headers than bytes": body_of(headers=varint(0) + b"\0"),
    "record ends in a varint": varint(7) + b"\0\0\0\0\0\0\x80",
}


def test_the_batch_that_the_lies_are_made_from_is_true() -> None:
    assert column(decode_all(decoder(), Batch(payload=body_of(), count=1).encode()), "offset") == [0]


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies(lie: str) -> None:
    with pytest.raises(CorruptBatchError, match=lie) as caught:
        decode_all(decoder(), LIES[lie].encode())
    assert str(caught.value).startswith(
        f"The record batch at offset {LIES[lie].base_offset} of t-3 is corrupt: "
    )
    assert caught.value.facts == {"topic": "t", "partition": 3, "base_offset": LIES[lie].base_offset}


@pytest.mark.parametrize("columns", [["offset"], ["key", "value", "headers"]])
@pytest.mark.parametrize("lie", MALFORMED)
def test_a_record_that_lies(lie: str, columns: list[str]) -> None:
    data = Batch(payload=MALFORMED[lie], count=1).encode()
    with pytest.raises(CorruptBatchError, match=r"its record 0 of 1 is malformed|bytes are left after"):
        decode_all(decoder(columns=columns), data)


def test_what_came_before_the_lie_is_not_lost_or_repeated() -> None:
    codec = decoder(max_rows=1)
    batches = codec.decode(values(0, b"0") + Batch(crc=1, base_offset=1).encode())
    assert next(batches)["offset"].to_pylist() == [0]
    with pytest.raises(CorruptBatchError):
        next(batches)
    assert codec.next_offset == 1


def test_checksums_can_be_ignored() -> None:
    assert column(decode_all(decoder(check_crcs=False), Batch(crc=1).encode()), "offset") == [0]


def test_a_checksum_of_parts_side_by_side_is_that_of_the_tables() -> None:
    """Three parts of 512 bytes each are summed at once."""
    data = random.Random(7).randbytes(7_000)
    sizes = [*range(40), *(parts * 1_536 + more for parts in (1, 2, 3) for more in range(-9, 10)), len(data)]
    for first in range(9):  # each alignment
        for size in sizes:
            piece = memoryview(data)[first : first + size]
            assert crc32c(piece) == crc32c(piece, tables=True), (first, size)
    assert crc32c(b"123456789" * 1_000) == crc32c(b"123456789" * 1_000, tables=True)
    assert crc32c(b"123456789") == 0xE3069283  # as the standard says


@pytest.mark.parametrize("codec_id", [1, 2, 3, 4])
@pytest.mark.parametrize("payload", [b"", b"\0", b"garbage that is nothing" * 3, b"\x82SNAPPY\0" + bytes(12)])
def test_compressed_data_that_is_none(codec_id: int, payload: bytes) -> None:
    with pytest.raises(CorruptBatchError, match="offset 0 of t-3 is corrupt"):
        decode_all(decoder(), Batch(attributes=codec_id, payload=payload).encode())


LZ4_HEADER = bytes.fromhex("04224d18604082")
"""Of a frame as Kafka's clients write it: independent blocks of at most 64 KiB, no checksums."""
STORED = 1 << 31


def lz4_frame(*blocks: bytes, stored: bool = False) -> bytes:
    sizes = [struct.pack("<I", len(block) | (STORED if stored else 0)) for block in blocks]
    return LZ4_HEADER + b"".join(map(bytes.__add__, sizes, blocks)) + bytes(4)


def lz4_blocks(payload: bytes, size: int = 1 << 16) -> list[bytes]:
    parts = [payload[start : start + size] for start in range(0, len(payload), size)]
    return [bytes(cramjam.lz4.compress_block(each, store_size=False)) for each in parts]


def gzip_lie(size: int) -> bytes:
    return gzip.compress(bytes(1000))[:-4] + struct.pack("<I", size)


def bombs() -> dict[str, tuple[int, bytes]]:
    size = 8 << 20
    xerial = b"\x82SNAPPY\0" + bytes(8)
    block = bytes(cramjam.snappy.compress_raw(bytes(size)))
    return {
        "gzip": (1, gzip.compress(bytes(size))),
        "gzip in members": (1, gzip.compress(bytes(size // 2)) * 2),
        "gzip with a false length": (1, gzip.compress(bytes(size))[:-4] + struct.pack("<I", 10)),
        "snappy": (2, block),
        "snappy in blocks": (2, xerial + (struct.pack(">i", len(block)) + block) * 2),
        "lz4": (3, bytes(cramjam.lz4.compress(bytes(size)))),
        "lz4 of Kafka's clients": (3, lz4_frame(*lz4_blocks(bytes(size)))),
        "zstd": (4, bytes(cramjam.zstd.compress(bytes(size)))),
        "zstd of repeated bytes": (
            4,
            bytes.fromhex("28b52ffd0058") + b"\x02\x00\x10\0" * 400 + b"\x03\x00\x10\0",
        ),
    }


@pytest.mark.parametrize("name", bombs())
def test_decompression_bombs_are_refused(name: str) -> None:
    codec_id, payload = bombs()[name]
    data = Batch(attributes=codec_id, payload=payload, count=1).encode()
    with pytest.raises(CorruptBatchError, match=r"larger than the allowed 1048576 bytes|claim to hold"):
        decode_all(decoder(max_decompressed_bytes=1 << 20), data)


def test_gzip_members_and_a_false_length_are_read() -> None:
    payload = Rec(b"x" * 50).encode(0) + Rec(b"y" * 50).encode(1)
    parts = gzip.compress(payload[:40]) + gzip.compress(payload[40:])
    data = Batch(attributes=1, payload=parts, count=2, last_delta=1).encode()
    assert column(decode_all(decoder(), data), "value") == [b"x" * 50, b"y" * 50]
    broken = Batch(attributes=1, payload=gzip_lie(3), count=1).encode()
    with pytest.raises(CorruptBatchError, match="corrupt"):
        decode_all(decoder(), broken)


def test_snappy_with_and_without_javas_framing() -> None:
    payload = Rec(b"x" * 500).encode(0)
    raw = bytes(cramjam.snappy.compress_raw(payload))
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(payload), 100):
        block = bytes(cramjam.snappy.compress_raw(payload[start : start + 100]))
        framed += struct.pack(">i", len(block)) + block
    for compressed in (raw, framed):
        data = Batch(attributes=2, payload=compressed).encode()
        assert column(decode_all(decoder(), data), "value") == [b"x" * 500]


def test_lz4_frames_of_other_writers() -> None:
    """Linked blocks, checksums, content size: cramjam's defaults are what Kafka's writers do not use."""
    payload = b"".join(Rec(b"%d" % i * 100).encode(i) for i in range(1000))
    for linked, checksum in [(True, True), (False, True), (True, False)]:
        writer = cramjam.lz4.Compressor(content_checksum=checksum, block_linked=linked)
        writer.compress(payload)
        data = Batch(attributes=3, payload=bytes(writer.finish()), count=1000, last_delta=999).encode()
        assert len(decode_all(decoder(), data)) == 1000


def test_lz4_frames_of_kafkas_clients() -> None:
    payload = b"".join(Rec(b"%d" % i * 100).encode(i) for i in range(1000))
    parts = [payload[start : start + (1 << 16)] for start in range(0, len(payload), 1 << 16)]
    short = lz4_blocks(payload, 10_000)
    for frame in (lz4_frame(*lz4_blocks(payload)), lz4_frame(*parts, stored=True), lz4_frame(*short)):
        data = Batch(attributes=3, payload=frame, count=1000, last_delta=999).encode()
        assert column(decode_all(decoder(), data), "value") == [b"%d" % i * 100 for i in range(1000)]


BAD_FRAMES = {
    "frame is truncated": lz4_frame(*lz4_blocks(bytes(100)))[:-4],
    r"frame takes 26 of 27 bytes": lz4_frame(*lz4_blocks(bytes(100))) + b"x",
    r"frame takes 1011 of 26 bytes|truncated": LZ4_HEADER + struct.pack("<I", 1000) + bytes(15),
    "65537 bytes is where 65536 may be": lz4_frame(bytes((1 << 16) + 1), stored=True),
    r"cannot be decompressed \(": lz4_frame(*lz4_blocks(bytes((1 << 16) + 1), 1 << 17)),
    r"cannot be decompressed \(Decomp": lz4_frame(b"\xff" * 10),
    "claims 1 records in 0 bytes": LZ4_HEADER + bytes(4),
}


@pytest.mark.parametrize("reason", BAD_FRAMES)
def test_lies_in_an_lz4_frame_are_named(reason: str) -> None:
    data = Batch(attributes=3, payload=BAD_FRAMES[reason], count=1).encode()
    with pytest.raises(CorruptBatchError, match=reason):
        decode_all(decoder(), data)


def test_lz4_blocks_are_no_larger_than_allowed() -> None:
    payload = Rec(b"x" * 5_000).encode(0)
    for frame in (lz4_frame(*lz4_blocks(payload)), lz4_frame(payload, stored=True)):
        data = Batch(attributes=3, payload=frame).encode()
        assert len(decode_all(decoder(max_decompressed_bytes=len(payload)), data)) == 1
        with pytest.raises(CorruptBatchError, match="larger than the allowed"):
            decode_all(decoder(max_decompressed_bytes=len(payload) - 1), data)


def test_a_batch_may_be_as_large_as_allowed_to_the_byte() -> None:
    payload = Rec(b"x" * 5_000).encode(0)
    for codec_id, compressed in {
        1: gzip.compress(payload),
        2: bytes(cramjam.snappy.compress_raw(payload)),
        3: bytes(cramjam.lz4.compress(payload)),
        4: bytes(cramjam.zstd.compress(payload)),
    }.items():
        data = Batch(attributes=codec_id, payload=compressed).encode()
        assert len(decode_all(decoder(max_decompressed_bytes=len(payload)), data)) == 1
        with pytest.raises(CorruptBatchError, match="larger than the allowed"):
            decode_all(decoder(max_decompressed_bytes=len(payload) - 1), data)


def test_errors_survive_a_change_of_process() -> None:
    with pytest.raises(CodecError) as caught:
        decode_all(decoder(), Batch(crc=1).encode())
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # made by the line itself
    assert isinstance(copy, PenstockError)
    assert (type(copy), str(copy), copy.facts) == (CorruptBatchError, str(caught.value), caught.value.facts)


def test_the_fast_checksum_is_the_tables_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    noise = zlib.compress(bytes(range(256)) * 9) * 3
    for start in range(9):
        for size in (0, 1, 7, 8, 9, 63, 64, 65, 500):
            part = memoryview(noise)[start : start + size]
            assert crc32c(part) == crc32c(part, tables=True)
