"""Record batches (format v2) as a broker handles them: by their headers, without a look at the records.

Runs in tests only.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL, _LOG_APPEND_TIME = 0x10, 0x20, 0x08
_MAGIC = 2
_CRC_FROM = 21


class Batch(NamedTuple):
    """One record batch with its offsets in the log."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: bytes

    @property
    def is_transactional(self) -> bool:
        """Return whether it belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether it is a marker of a transaction."""
        return bool(self.attributes & _CONTROL)

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of its last record."""
        return sequence_after(self.base_sequence, self.last_offset - self.base_offset)

    @classmethod
    def of(cls, data: bytes) -> Batch:
        """Read the header of one whole batch."""
        base, _, epoch, _, _, attributes, last_delta, _, newest_ms, *producer, count = _HEADER.unpack_from(
            data
        )
        producer_id, producer_epoch, sequence = producer
        header = (base, base + last_delta, epoch, attributes, newest_ms)
        return cls(*header, producer_id, producer_epoch, sequence, count, data)

    def at(self, base_offset: int, leader_epoch: int, append_time_ms: int | None = None) -> Batch:
        """Return the same batch at an offset of a log. With a time it gets that as log append time."""
        data = bytearray(self.data)
        struct.pack_into(">qi", data, 0, base_offset, len(data) - 12)
        struct.pack_into(">i", data, 12, leader_epoch)
        if append_time_ms is not None:
            struct.pack_into(">h", data, 21, self.attributes | _LOG_APPEND_TIME)
            struct.pack_into(">q", data, 35, append_time_ms)
            _sign(data)
        return Batch.of(bytes(data))


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number so many records later. It begins at 0 again after 2^31 - 1."""
    return (sequence + count) % (1 << 31)


def parse(data: bytes) -> list[Batch] | None:
    """Return the batches of a Produce request; None if they are damaged or of an older format."""
    batches, at = [], 0
    while at < len(data):
        if len(data) - at < _HEADER.size or data[at + 16] != _MAGIC:
            return None
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        one = data[at : at + size]
        if len(one) < max(size, _HEADER.size) or _crc(one) != int.from_bytes(one[17:21], "big"):
            return None
        batches.append(Batch.of(one))
        at += size
    return batches


def marker(
    producer_id: int, producer_epoch: int, *, is_commit: bool, now_ms: int, coordinator_epoch: int
) -> Batch:
    """Return the control batch that ends a transaction, at offset 0."""
    builder = DefaultRecordBatchBuilder(
        magic=_MAGIC, compression_type=0, is_transactional=True, producer_id=producer_id,
        producer_epoch=producer_epoch, base_sequence=-1, batch_size=1 << 10,
    )  # fmt: skip
    key, value = struct.pack(">hh", 0, int(is_commit)), struct.pack(">hi", 0, coordinator_epoch)
    builder.append(0, timestamp=now_ms, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    struct.pack_into(">h", data, 21, _TRANSACTIONAL | _CONTROL)
    _sign(data)
    return Batch.of(bytes(data))


def _crc(data: bytes | bytearray) -> int:
    return int(calc_crc32c(memoryview(data)[_CRC_FROM:]))


def _sign(data: bytearray) -> None:
    struct.pack_into(">I", data, 17, _crc(data))
