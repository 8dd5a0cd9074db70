"""Read message sets from before Kafka 0.11 (magic 0 and 1) with kafka-python's parser.

Runs on executors, only for such data: slow, exact, one entry at a time. Invariant: kafka-python trusts the
lengths that it reads, so each is checked here first; any fault is a BadLegacyEntryError.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

from kafka.record.legacy_records import LegacyRecordBatch

from penstock.codec.compression import CODEC_IDS, Decompressor
from penstock.errors import CodecError

LegacyRow = tuple[int, int, int, "bytes | None", "bytes | None"]
"""offset, timestamp_ms, timestamp_type, key, value."""

_NO_TIMESTAMP = -1
_LZ4_FLAGS_AT = 4


class BadLegacyEntryError(CodecError):
    """An entry of a message set is malformed. The decoder adds which one."""


class _CheckedLegacyBatch(LegacyRecordBatch):  # type: ignore[misc]  # kafka-python ships no types
    """kafka-python's parser with checks of the lengths that it trusts, and with our decompression."""

    def __init__(self, entry: memoryview, magic: int, decompressor: Decompressor) -> None:
        super().__init__(entry, magic)
        self._decompressor = decompressor

    def _decompress(self, key_offset: int) -> memoryview:
        _, value = self._read_key_value(key_offset)
        if value is None:
            raise BadLegacyEntryError("its compressed message is null")
        codec_id = self.compression_type
        if self._magic == 0 and codec_id == CODEC_IDS["lz4"]:
            value = _with_true_header_check(value)
        # A copy, because records are read from it while the decompressor may be used again.
        return memoryview(bytes(self._decompressor.decompress(codec_id, memoryview(value))))

    def _read_all_headers(self) -> list[Any]:
        position = 0
        headers = []
        while position < len(self._buffer):
            if len(self._buffer) - position < self.LOG_OVERHEAD + self._overhead:
                raise BadLegacyEntryError("its inner messages are truncated")
            header = self._read_header(position)
            if (
                header[3] != self._magic
                or not self._overhead <= header[1] <= len(self._buffer) - position - 12
            ):
                raise BadLegacyEntryError(f"an inner message claims {header[1]} bytes of magic {header[3]}")
            headers.append((header, position))
            position += self.LOG_OVERHEAD + header[1]
        if not headers:
            raise BadLegacyEntryError("it holds no message")
        return headers

    @property
    def _overhead(self) -> int:
        return int(self.RECORD_OVERHEAD_V0 if self._magic == 0 else self.RECORD_OVERHEAD_V1)

    def _read_key_value(self, position: int) -> tuple[bytes | None, bytes | None]:
        key, position = self._read_bytes(position)
        value, _ = self._read_bytes(position)
        return key, value

    def _read_bytes(self, position: int) -> tuple[bytes | None, int]:
        if len(self._buffer) - position < 4:
            raise BadLegacyEntryError("a length is truncated")
        (size,) = struct.unpack_from(">i", self._buffer, position)
        position += 4
        if not -1 <= size <= len(self._buffer) - position:
            raise BadLegacyEntryError(
                f"it claims a key or value of {size} bytes where {len(self._buffer) - position} are left"
            )
        return (
            (None, position)
            if size < 0
            else (bytes(self._buffer[position : position + size]), position + size)
        )


def read_legacy_entry(entry: memoryview, decompressor: Decompressor, *, check_crcs: bool) -> list[LegacyRow]:
    """Return the records of one entry (a message, or a compressed set of them).

    Raises:
        BadLegacyEntryError: A checksum or a length does not hold.
        BadCompressionError: Its content cannot be decompressed.
    """
    magic = entry[LegacyRecordBatch.MAGIC_OFFSET]
    if len(entry) < LegacyRecordBatch.LOG_OVERHEAD + (14 if magic == 0 else 22):
        raise BadLegacyEntryError(f"{len(entry)} bytes are too few for a message")
    batch = _CheckedLegacyBatch(entry, magic, decompressor)
    if check_crcs and not batch.validate_crc():
        raise BadLegacyEntryError("its CRC-32 does not hold")
    try:
        records = list(batch)
    except AssertionError as error:
        raise BadLegacyEntryError(str(error)) from error
    offsets = [record.offset for record in records]
    if not all(0 <= before < after for before, after in pairwise([*offsets, batch.base_offset + 1])):
        raise BadLegacyEntryError(
            f"the offsets of its records are {offsets[0]} to {offsets[-1]}, not rising to its own"
        )
    return [_row(record) for record in records]


def _row(record: Any) -> LegacyRow:
    timestamp = _NO_TIMESTAMP if record.timestamp is None else record.timestamp
    kind = -1 if record.timestamp_type is None else record.timestamp_type
    return record.offset, timestamp, kind, record.key, record.value


def _with_true_header_check(frame: bytes) -> bytes:
    """Correct the check byte of lz4 headers from before Kafka 0.10, which also covered the magic number."""
    if len(frame) < _LZ4_FLAGS_AT + 3:
        return frame
    end = _LZ4_FLAGS_AT + 2 + (8 if frame[_LZ4_FLAGS_AT] & 0x08 else 0)
    check = xxh32(frame[_LZ4_FLAGS_AT:end]) >> 8 & 0xFF
    return frame[:end] + bytes([check]) + frame[end + 1 :]


_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def xxh32(data: bytes) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes: the check of an lz4 frame header."""
    if len(data) >= 16:
        raise ValueError(f"{len(data)} bytes are more than an lz4 header has")
    sum_ = _PRIME_5 + len(data)
    words = len(data) // 4 * 4
    for start in range(0, words, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        sum_ = _rotate((sum_ + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
    for byte in data[words:]:
        sum_ = _rotate((sum_ + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    sum_ = (sum_ ^ sum_ >> 15) * _PRIME_2 & _MASK
    sum_ = (sum_ ^ sum_ >> 13) * _PRIME_3 & _MASK
    return sum_ ^ sum_ >> 16


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
