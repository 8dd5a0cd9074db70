"""Compression of record batches: Kafka's framings around cramjam's algorithms.

Runs on executors. Invariant: the decompressed size is bounded before anything is decompressed, so that a few
bytes from the wire cannot claim gigabytes (see `compression_bounds`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from penstock.codec.compression_bounds import (
    BadCompressionError,
    gzip_bound,
    lz4_blocks,
    lz4_bound,
    snappy_blocks,
    zstd_bound,
)

CODEC_IDS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""The lowest three bits of a batch's attributes."""
_LZ4 = CODEC_IDS["lz4"]

DEFAULT_LZ4_LEVEL: Final = 9
"""Java's default level. It selects the fast compressor; every other level selects the high compressor."""

_LZ4_BLOCK_BYTES = 64 * 1024
# Magic; version 1, independent blocks, no checksums (the batch has its CRC); 64 KiB blocks; header check.
_LZ4_FRAME_HEADER = bytes.fromhex("04224d18604082")
_LZ4_HEADER_BYTES = len(_LZ4_FRAME_HEADER)
_LZ4_STORED = 1 << 31
_SNAPPY_BLOCK_BYTES = 32 * 1024
_XERIAL_HEADER = struct.pack(">8sii", b"\x82SNAPPY\x00", 1, 1)
_RETAINED_BYTES = 32 << 20


class Decompressor:
    """Decompresses one batch after the other into memory that it keeps.

    Args:
        max_bytes: The most that one batch may decompress to.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._memory = bytearray()

    def decompress(self, codec_id: int, data: memoryview) -> memoryview:
        """Return the decompressed bytes, which stay valid until the next call.

        Raises:
            BadCompressionError: The data is not what the codec writes, or larger than allowed.
        """
        decompress_into = _DECOMPRESSORS.get(codec_id)
        if decompress_into is None:
            raise BadCompressionError(f"compression type {codec_id} does not exist")
        if codec_id == _LZ4 and data[:_LZ4_HEADER_BYTES] == _LZ4_FRAME_HEADER:
            return self._decompress_lz4_blocks(data)
        bound = _BOUNDS[codec_id](data)
        try:
            size = decompress_into(data, self._reserve(min(bound, self._max_bytes)))
        except (cramjam.DecompressionError, zlib.error) as error:
            if codec_id == CODEC_IDS["gzip"]:
                # More than one member, or a false length at the end: the slow way handles both.
                return memoryview(_inflate_members(data, self._max_bytes))
            raise self._bad(bound, error) from error
        return memoryview(self._memory)[:size]

    def _decompress_lz4_blocks(self, data: memoryview) -> memoryview:
        """Decompress a frame that is as Kafka's clients write it.

        A decoder of frames makes a context and clears a buffer for each of them. That takes longer than to
        decompress the 16 KiB of a usual batch.
        """
        blocks = lz4_blocks(data, _LZ4_HEADER_BYTES)
        bound = len(blocks) * _LZ4_BLOCK_BYTES
        output = self._reserve(max(1, min(bound, self._max_bytes)))
        size = 0
        try:
            for block, is_stored in blocks:
                room = output[size : min(size + _LZ4_BLOCK_BYTES, self._max_bytes)]
                size += _stored_into(block, room) if is_stored else _lz4_block_into(block, room)
        except (cramjam.DecompressionError, ValueError) as error:
            raise self._bad(bound, error) from error
        return output[:size]

    def _bad(self, bound: int, error: Exception) -> BadCompressionError:
        is_too_large = bound > self._max_bytes
        larger = f", or it is larger than the allowed {self._max_bytes} bytes" if is_too_large else ""
        return BadCompressionError(f"its compressed records cannot be decompressed{larger} ({error})")

    def release(self) -> None:
        if len(self._memory) > _RETAINED_BYTES:
            self._memory = bytearray()

    def _reserve(self, size: int) -> memoryview:
        if size > len(self._memory):
            # A new buffer, never resized: views of the old one may be held. Untouched pages cost nothing.
            self._memory = bytearray(min(self._max_bytes, max(1 << 16, 1 << (size - 1).bit_length())))
        return memoryview(self._memory)


def _inflate_members(data: memoryview, max_bytes: int) -> bytearray:
    output = bytearray()
    rest: bytes | memoryview = data
    try:
        while len(rest) > 0:
            member = zlib.decompressobj(wbits=31)
            # One byte more than allowed tells "exactly full" from "too large"; 0 would mean no limit.
            output += member.decompress(rest, max_bytes - len(output) + 1)
            if len(output) > max_bytes:
                raise BadCompressionError(
                    f"its compressed records are larger than the allowed {max_bytes} bytes"
                )
            if not member.eof:
                raise BadCompressionError("its gzip data is truncated")
            rest = member.unused_data
    except zlib.error as error:
        raise BadCompressionError(f"its compressed records cannot be decompressed ({error})") from error
    return output


def _gunzip_into(data: memoryview, output: memoryview) -> int:
    return int(cramjam.gzip.decompress_into(data, output))


def _unsnappy_into(data: memoryview, output: memoryview) -> int:
    size = 0
    for block, block_size in snappy_blocks(data):
        size += int(cramjam.snappy.decompress_raw_into(block, output[size : size + block_size]))
    return size


def _lz4_block_into(block: memoryview, room: memoryview) -> int:
    return int(cramjam.lz4.decompress_block_into(block, room, output_len=len(room)))


def _stored_into(block: memoryview, room: memoryview) -> int:
    if len(block) > len(room):
        raise ValueError(f"a block of {len(block)} bytes is where {len(room)} may be")
    room[: len(block)] = block
    return len(block)


def _lz4_into(data: memoryview, output: memoryview) -> int:
    return int(cramjam.lz4.decompress_into(data, output))


def _zstd_into(data: memoryview, output: memoryview) -> int:
    return int(cramjam.zstd.decompress_into(data, output))


def _snappy_bound(data: memoryview) -> int:
    return sum(size for _, size in snappy_blocks(data))


_DECOMPRESSORS: dict[int, Callable[[memoryview, memoryview], int]] = {
    1: _gunzip_into,
    2: _unsnappy_into,
    3: _lz4_into,
    4: _zstd_into,
}
_BOUNDS: dict[int, Callable[[memoryview], int]] = {
    1: gzip_bound,
    2: _snappy_bound,
    3: lz4_bound,
    4: zstd_bound,
}


def compressor(compression_type: str, level: int | None) -> Callable[[memoryview], bytes | memoryview]:
    """Return a function that compresses the records of one batch as Java's client would write them.

    Raises:
        ValueError: There is no such compression type.
    """
    compressors: dict[str, Callable[[memoryview], bytes | memoryview]] = {
        "gzip": lambda data: _bytes_of(cramjam.gzip.compress(data, 6 if level in (None, -1) else level)),
        "snappy": _compress_snappy,
        "lz4": lambda data: _compress_lz4(data, DEFAULT_LZ4_LEVEL if level is None else level),
        "zstd": lambda data: _bytes_of(cramjam.zstd.compress(data, 3 if level is None else level)),
    }
    if compression_type not in compressors:
        raise ValueError(f"expected a compression type of {', '.join(CODEC_IDS)}, got {compression_type!r}")
    return compressors[compression_type]


def _bytes_of(compressed: object) -> memoryview:
    return memoryview(compressed)  # type: ignore[arg-type]  # cramjam's Buffer has the buffer protocol


def _compress_snappy(data: memoryview) -> bytes:
    """Frame like snappy-java's SnappyOutputStream: a header, then length and raw snappy of each 32 KiB."""
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def _compress_lz4(data: memoryview, level: int) -> bytes:
    """Frame like Kafka's own Lz4BlockOutputStream, because its reader accepts independent blocks only."""
    parts = [_LZ4_FRAME_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        raw = data[start : start + _LZ4_BLOCK_BYTES]
        block = _lz4_block(raw, level)
        if len(block) < len(raw):
            parts += [struct.pack("<I", len(block)), block]
        else:
            parts += [struct.pack("<I", len(raw) | _LZ4_STORED), bytes(raw)]
    parts.append(bytes(4))
    return b"".join(parts)


def _lz4_block(raw: memoryview, level: int) -> bytes:
    if level == DEFAULT_LZ4_LEVEL:
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    # liblz4's high compressor has levels up to 12; Java's binding also maps its levels 13 to 17 to 12.
    return bytes(
        cramjam.lz4.compress_block(raw, mode="high_compression", compression=min(level, 12), store_size=False)
    )
