"""A second reader of batch headers, in Python: the oracle of the tests of `codec/_headers.pyx`.

Invariant: it shares only the error with the compiled codec. The fetcher used this scan before the codec had
its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from penstock.errors import CorruptBatchError

_HEADER = Struct(">qiibIhiqqqhii")
_START = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_BEFORE_LENGTH_BYTES = 12
_V2_HEADER_BYTES = 61
_V2_MAGIC = 2
_OLDEST_HEADER_BYTES = 26
_CONTROL_BIT = 0x20
_LARGEST_BASE_OFFSET = 2**63 - 2**31 - 1


class Header(NamedTuple):
    """The fields of one header. For an old format, the fields that the codec reports."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_control: bool
    control_type: int | None


def scan_batches(data: bytes | memoryview) -> tuple[int | None, int, int]:
    """Return next offset, leader epoch and bytes of the whole batches.

    Raises:
        CorruptBatchError: a header cannot be right.
    """
    next_offset, leader_epoch, position, size = None, -1, 0, len(data)
    while position + _START.size <= size:
        base_offset, length, epoch, magic = _START.unpack_from(data, position)
        end = position + _BEFORE_LENGTH_BYTES + length
        is_v2 = magic >= _V2_MAGIC
        if (
            not 0 <= base_offset <= _LARGEST_BASE_OFFSET
            or not 0 <= magic <= _V2_MAGIC
            or end - position < (_V2_HEADER_BYTES if is_v2 else _OLDEST_HEADER_BYTES)
        ):
            msg = f"{base_offset}, {length}, {magic}"
            raise CorruptBatchError(msg)
        if end > size:
            break
        last_offset = base_offset
        if is_v2:
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_AT)
            if delta < 0:
                msg = f"{base_offset}: {delta}"
                raise CorruptBatchError(msg)
            last_offset += delta
        next_offset, leader_epoch, position = last_offset + 1, epoch if is_v2 else -1, end
    return next_offset, leader_epoch, position


def headers(data: bytes | memoryview) -> Iterator[Header]:
    """Yield the headers of the whole batches of bytes that `scan_batches` takes."""
    position, whole_bytes = 0, scan_batches(data)[2]
    while position < whole_bytes:
        base_offset, length, _, magic = _START.unpack_from(data, position)
        end = position + _BEFORE_LENGTH_BYTES + length
        if magic < _V2_MAGIC:
            yield Header(base_offset, base_offset, -1, -1, -1, is_control=False, control_type=None)
        else:
            yield _header_v2(bytes(data[position:end]))
        position = end


def _header_v2(batch: bytes) -> Header:
    base_offset, _, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, count = (
        _HEADER.unpack_from(batch)
    )
    is_control = bool(attributes & _CONTROL_BIT)
    has_type = is_control and not attributes & 0x07 and count > 0
    control_type = _control_type(batch[_HEADER.size :]) if has_type else None
    return Header(base_offset, base_offset + delta, producer_id, epoch, sequence, is_control, control_type)


def _control_type(data: bytes) -> int | None:
    """Return the type of a control record. Return None if it is -1, or a byte up to the key is wrong."""
    try:
        size, position = _varint(data, 0)
        end = position + size
        if size < 1 or end > len(data):
            return None
        _, position = _varint(data[:end], position + 1)
        _, position = _varint(data[:end], position)
        key_size, position = _varint(data[:end], position)
        if key_size < 4 or position + key_size > end:
            return None
    except IndexError:
        return None
    kind = int.from_bytes(data[position + 2 : position + 4], "big", signed=True)
    return None if kind == -1 else kind


def _varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
