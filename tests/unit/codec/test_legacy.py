"""Message sets of before Kafka 0.11, alone and mixed with record batches."""

from __future__ import annotations

import datetime as dt
import gzip
import struct
import zlib
from collections.abc import Callable, Sequence

import cramjam
import pytest

from penstock.codec.legacy import xxh32
from penstock.errors import CorruptBatchError
from tests.codec_batches import column, decode_all, decoder, values

NONE, GZIP, SNAPPY, LZ4 = range(4)
LOG_APPEND_TIME = 0x08
COMPRESS: dict[int, Callable[[bytes], bytes]] = {
    GZIP: gzip.compress,
    SNAPPY: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    LZ4: lambda data: bytes(cramjam.lz4.compress(data)),
}


def nullable(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    magic: int = 1,
    attributes: int = 0,
    ms: int = 5,
) -> bytes:
    covered = struct.pack(">bb", magic, attributes) + (struct.pack(">q", ms) if magic else b"")
    covered += nullable(key) + nullable(value)
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered


def compressed_set(
    codec_id: int, offsets: Sequence[int], *, magic: int = 1, attributes: int = 0, ms: int = 9
) -> bytes:
    """Magic 1 counts the offsets inside of a set from 0, magic 0 has the true ones."""
    first = offsets[0] if magic else 0
    inner = b"".join(message(offset - first, b"v%d" % offset, magic=magic, ms=offset) for offset in offsets)
    return message(
        offsets[-1], COMPRESS[codec_id](inner), magic=magic, attributes=codec_id | attributes, ms=ms
    )


def milliseconds(rows: list[dict[str, dt.datetime]]) -> list[float]:
    return [row["timestamp"].timestamp() * 1_000 for row in rows]


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages(magic: int) -> None:
    data = (
        message(4, b"a", key=b"k", magic=magic) + message(5, None, magic=magic) + message(7, b"", magic=magic)
    )
    codec = decoder()
    rows = decode_all(codec, data)
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (4, b"k", b"a"),
        (5, None, None),
        (7, None, b""),
    ]
    assert set(column(rows, "timestamp_type")) == ({0} if magic else {-1})
    assert milliseconds(rows) == ([5] * 3 if magic else [-1] * 3)
    assert column(rows, "leader_epoch") == [None] * 3
    assert column(rows, "headers") == [None] * 3
    assert codec.next_offset == 8


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_id", COMPRESS)
def test_compressed_sets(codec_id: int, magic: int) -> None:
    codec = decoder(11, 15)
    rows = decode_all(codec, compressed_set(codec_id, [10, 11, 13, 14, 15], magic=magic))
    assert column(rows, "offset") == [11, 13, 14]
    assert column(rows, "value") == [b"v11", b"v13", b"v14"]
    assert milliseconds(rows) == ([11, 13, 14] if magic else [-1] * 3)
    assert codec.is_finished


def test_log_append_time_of_the_wrapper_counts_for_its_set() -> None:
    rows = decode_all(decoder(), compressed_set(GZIP, [0, 1], attributes=LOG_APPEND_TIME, ms=77))
    assert milliseconds(rows) == [77, 77]
    assert column(rows, "timestamp_type") == [1, 1]


def test_mixed_with_record_batches_in_one_response() -> None:
    data = message(0, b"0", magic=0) + values(1, b"1", b"2") + compressed_set(LZ4, [3, 4]) + values(5, b"5")
    rows = decode_all(decoder(max_rows=2), data)
    assert column(rows, "offset") == [0, 1, 2, 3, 4, 5]
    assert column(rows, "timestamp_type") == [-1, 0, 0, 0, 0, 0]


def test_the_lz4_header_check_that_old_kafka_got_wrong() -> None:
    inner = message(3, b"x" * 500, magic=0)
    frame = bytearray(cramjam.lz4.compress(inner))
    end = 4 + 2 + (8 if frame[4] & 0x08 else 0)
    assert frame[end] == xxh32(bytes(frame[4:end])) >> 8 & 0xFF
    frame[end] ^= 0x55
    rows = decode_all(decoder(), message(3, bytes(frame), magic=0, attributes=LZ4))
    assert column(rows, "value") == [b"x" * 500]
    with pytest.raises(CorruptBatchError, match="decompress"):
        decode_all(decoder(), message(3, bytes(frame), magic=1, attributes=LZ4))


def test_many_old_messages_fill_batches() -> None:
    codec = decoder(max_rows=100)
    sizes = [batch.num_rows for batch in codec.decode(b"".join(message(i, b"v" * 100) for i in range(250)))]
    assert sizes == [100, 100]
    assert codec.next_offset == 250


def with_crc(entry: bytes) -> bytes:
    return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]


INNER = message(0, b"v")
LIES = {
    "CRC-32 does not hold": message(2, b"v")[:-1] + b"w",
    "too few for a message": with_crc(message(2, None)[:8] + struct.pack(">i", 18) + message(2, None)[12:30]),
    "key or value of 100 bytes": with_crc(
        message(2, b"v")[:26] + struct.pack(">i", 100) + message(2, b"v")[30:]
    ),
    "key or value of -2 bytes": with_crc(
        message(2, b"v")[:26] + struct.pack(">i", -2) + message(2, b"v")[30:]
    ),
    "compressed message is null": message(2, None, attributes=GZIP),
    "holds no message": message(2, gzip.compress(b""), attributes=GZIP),
    "inner messages are truncated": message(2, gzip.compress(INNER + INNER[:9]), attributes=GZIP),
    "inner message claims -12 bytes": message(
        2, gzip.compress(INNER[:8] + struct.pack(">i", -12) + INNER[12:]), attributes=GZIP
    ),
    "of magic 0": message(2, gzip.compress(message(0, b"v" * 20, magic=0)), attributes=GZIP),
    "double-compressed": message(2, gzip.compress(compressed_set(GZIP, [0])), attributes=GZIP),
    "not rising": message(2, gzip.compress(message(1, b"a") + message(1, b"b")), attributes=GZIP),
    "compression type 7": message(2, b"v", attributes=7),
    "cannot be decompressed": message(2, gzip.compress(INNER)[:-9] + bytes(9), attributes=GZIP),
}


@pytest.mark.parametrize("lie", LIES)
def test_old_data_that_lies(lie: str) -> None:
    with pytest.raises(CorruptBatchError, match=f"offset 2 of t-3 is corrupt: .*{lie}"):
        decode_all(decoder(), LIES[lie])


def test_old_data_is_read_without_its_checksum_on_request() -> None:
    rows = decode_all(decoder(check_crcs=False), LIES["CRC-32 does not hold"])
    assert column(rows, "value") == [b"w"]


def test_a_bomb_in_an_old_set_is_refused() -> None:
    data = message(2, gzip.compress(bytes(1 << 20)), attributes=GZIP)
    with pytest.raises(CorruptBatchError, match="larger than the allowed 1000 bytes"):
        decode_all(decoder(max_decompressed_bytes=1000), data)
