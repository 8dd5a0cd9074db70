"""Bound the decompressed size of records, read from their frames without decompressing them.

Runs on executors. Invariant: pure; a bound is never below the true size of valid data (gzip's trailer is only
a hint, see `gzip_bound`), and frames that cannot be walked are an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import cramjam

from penstock.errors import CodecError

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LZ4_MAGIC = 0x184D2204
_LZ4_BLOCK_BYTES = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_LZ4_SIZE = struct.Struct("<I")
_LZ4_SIZE_MASK = 0x7FFFFFFF
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_ZSTD_BLOCK_BYTES = 128 * 1024
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_RESERVED = 0, 1, 3
_DEFLATE_MAX_RATIO = 1032


class BadCompressionError(CodecError):
    """Compressed records do not follow their format. The decoder adds the batch."""


def gzip_bound(data: memoryview) -> int:
    """Return the length that the trailer claims, but at most what deflate can reach.

    Only a hint: with several members it is the length of the last one.
    """
    if len(data) < 18:
        raise BadCompressionError(f"its {len(data)} bytes are too few for gzip data")
    (claimed,) = struct.unpack_from("<I", data, len(data) - 4)
    return max(min(int(claimed), _DEFLATE_MAX_RATIO * len(data)), 1)


def snappy_blocks(data: memoryview) -> Iterator[tuple[memoryview, int]]:
    """Yield each raw snappy block and its decompressed size: one, or those of snappy-java's framing."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield data, _snappy_size(data)
        return
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if len(data) - position < 4:
            raise BadCompressionError("its snappy blocks end in the middle of a length")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 < size <= len(data) - position:
            raise BadCompressionError(
                f"it holds a snappy block of {size} bytes where {len(data) - position} are left"
            )
        block = data[position : position + size]
        yield block, _snappy_size(block)
        position += size


def _snappy_size(block: memoryview) -> int:
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise BadCompressionError(f"its snappy data has no valid length ({error})") from error
    # A copy of 64 bytes takes at least two: no block grows more.
    if size > 32 * len(block):
        raise BadCompressionError(f"{len(block)} bytes of snappy data claim to hold {size}")
    return size


def lz4_blocks(data: memoryview, position: int) -> list[tuple[memoryview, bool]]:
    """Return the blocks of the one lz4 frame from `position` on, and whether they are not compressed.

    The frame has no checksums.
    """
    blocks = []
    try:
        while size := _LZ4_SIZE.unpack_from(data, position)[0]:
            start = position + 4
            position = start + (size & _LZ4_SIZE_MASK)
            blocks.append((data[start:position], size > _LZ4_SIZE_MASK))
    except struct.error as error:
        raise BadCompressionError("its lz4 frame is truncated") from error
    _check_lz4_end(data, position + 4)
    return blocks


def lz4_bound(data: memoryview) -> int:
    """Return what the blocks of the one lz4 frame can hold at most."""
    try:
        return _walk_lz4(data)
    except (struct.error, IndexError) as error:
        raise BadCompressionError("its lz4 frame is truncated") from error


def _walk_lz4(data: memoryview) -> int:
    magic, flags, descriptor = struct.unpack_from("<IBB", data)
    block_bytes = _LZ4_BLOCK_BYTES.get(descriptor >> 4 & 7)
    if magic != _LZ4_MAGIC or flags >> 6 != 1 or block_bytes is None:
        raise BadCompressionError("its lz4 data does not begin with a frame header")
    has_block_checksum, has_size, has_checksum, has_dictionary = (
        flags & bit for bit in (0x10, 0x08, 0x04, 0x01)
    )
    # Magic (4), flags, descriptor and the header's checksum come always.
    position = 7 + (8 if has_size else 0) + (4 if has_dictionary else 0)
    blocks = 0
    while True:
        (size,) = struct.unpack_from("<I", data, position)
        position += 4
        if size == 0:
            break
        blocks += 1
        # The highest bit says that the block is not compressed; it does not belong to the length.
        position += (size & _LZ4_SIZE_MASK) + (4 if has_block_checksum else 0)
    _check_lz4_end(data, position + (4 if has_checksum else 0))
    return max(blocks * block_bytes, 1)


def _check_lz4_end(data: memoryview, position: int) -> None:
    if position != len(data):
        raise BadCompressionError(f"its lz4 frame takes {position} of {len(data)} bytes")


def zstd_bound(data: memoryview) -> int:
    """Return what the blocks of all zstd frames can hold at most."""
    position = bound = 0
    try:
        while position < len(data):
            position, frame_bound = _walk_zstd_frame(data, position)
            bound += frame_bound
    except (struct.error, IndexError) as error:
        raise BadCompressionError("its zstd frame is truncated") from error
    if position != len(data):
        raise BadCompressionError("its zstd frame is truncated")
    return max(bound, 1)


def _walk_zstd_frame(data: memoryview, start: int) -> tuple[int, int]:
    """Return the end of the frame at `start`, and what it can hold (RFC 8878, section 3.1)."""
    (magic,) = struct.unpack_from("<I", data, start)
    if magic in _ZSTD_SKIPPABLE:
        (size,) = struct.unpack_from("<I", data, start + 4)
        return start + 8 + size, 0
    if magic != _ZSTD_MAGIC:
        raise BadCompressionError("its zstd data does not begin with a frame header")
    flags = data[start + 4]
    is_single_segment = flags >> 5 & 1
    # Code 0 of the content's size means one byte in a single segment, and no size in other frames.
    size_bytes = (1 if is_single_segment else 0, 2, 4, 8)[flags >> 6]
    position = start + 5 + (0 if is_single_segment else 1) + (0, 1, 2, 4)[flags & 3] + size_bytes
    bound = 0
    is_last = False
    while not is_last:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _ZSTD_RESERVED:
            raise BadCompressionError("its zstd frame holds a block of a type that does not exist")
        # An RLE block is one byte, repeated `size` times.
        position += 3 + (1 if kind == _ZSTD_RLE else size)
        bound += size if kind in (_ZSTD_RAW, _ZSTD_RLE) else _ZSTD_BLOCK_BYTES
    return position + (4 if flags & 4 else 0), bound
