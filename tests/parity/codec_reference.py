"""A second, slow implementation of the codec over kafka-python's record classes: the oracle of the tests.

Invariant: it shares no parsing, no decompression bound and no Arrow code with the compiled codec. So if the
two agree, both are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cramjam
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatch

from penstock.codec.compression import CODEC_IDS, compressor
from penstock.errors import CorruptBatchError

Row = dict[str, Any]
"""One record: the columns of KafkaRecords, timestamps as milliseconds under `timestamp_ms`."""

_TYPES = {codec_id: name for name, codec_id in CODEC_IDS.items()}


@dataclass
class ReferenceDecoder:
    """Decodes whole responses into rows, with the same contract as RecordBatchDecoder."""

    topic: str
    partition: int
    starting_offset: int
    stopping_offset: int
    read_committed: bool = False
    next_offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_offset = self.starting_offset

    def decode(self, data: bytes, aborted: Iterable[tuple[int, int]] = ()) -> list[Row]:
        """Return the records of the whole batches in `data`, and move `next_offset`."""
        coming, open_producers = sorted(aborted, key=lambda transaction: transaction[1]), set[int]()
        rows: list[Row] = []
        for batch in _batches(data):
            if self.next_offset >= self.stopping_offset:
                break
            if isinstance(batch, LegacyRecordBatch):
                rows += self._wanted(self._legacy_rows(batch))
            elif self._is_visible(batch, coming, open_producers):
                rows += self._wanted(self._rows(batch))
            after = batch.base_offset + (
                0 if isinstance(batch, LegacyRecordBatch) else batch.last_offset_delta
            )
            self.next_offset = max(self.next_offset, min(after + 1, self.stopping_offset))
        return rows

    def _is_visible(
        self, batch: DefaultRecordBatch, coming: list[tuple[int, int]], open_producers: set[int]
    ) -> bool:
        if self.read_committed:
            while coming and coming[0][1] <= batch.last_offset:
                open_producers.add(coming.pop(0)[0])
            if batch.is_control_batch and any(record.abort for record in list(batch)[:1]):
                open_producers.discard(batch.producer_id)
            if batch.is_transactional and batch.producer_id in open_producers:
                return False
        return not batch.is_control_batch

    def _wanted(self, rows: Iterable[Row]) -> list[Row]:
        return [row for row in rows if self.next_offset <= row["offset"] < self.stopping_offset]

    def _rows(self, batch: DefaultRecordBatch) -> Iterator[Row]:
        leader_epoch = None if batch.leader_epoch < 0 else batch.leader_epoch
        for record in batch:
            yield self._row(record, batch.timestamp_type, leader_epoch, record.headers)

    def _legacy_rows(self, batch: LegacyRecordBatch) -> Iterator[Row]:
        for record in batch:
            yield self._row(record, -1 if batch.timestamp_type is None else batch.timestamp_type, None, [])

    def _row(self, record: Any, timestamp_type: int, leader_epoch: int | None, headers: Any) -> Row:
        return {
            "key": record.key,
            "value": record.value,
            "topic": self.topic,
            "partition": self.partition,
            "offset": record.offset,
            "timestamp_ms": -1 if record.timestamp is None else record.timestamp,
            "timestamp_type": timestamp_type,
            "leader_epoch": leader_epoch,
            "headers": [{"key": key, "value": value} for key, value in headers] or None,
        }


def encode(
    rows: Sequence[Row],
    *,
    compression_type: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """Return one batch of rows, each with `key`, `value`, `timestamp_ms` and `headers`."""
    builder = _Builder(
        2, CODEC_IDS[compression_type], is_transactional, producer_id, producer_epoch, base_sequence, 1 << 31
    )
    for delta, row in enumerate(rows):
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        builder.append(delta, row["timestamp_ms"], row["key"], row["value"], headers)
    return bytes(builder.build())


def _batches(data: bytes) -> Iterator[Any]:
    position = 0
    while len(data) - position >= 17:
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if size > len(data) - position:
            return
        part, magic = data[position : position + size], data[position + 16]
        batch = _Batch(part) if magic == 2 else _LegacyBatch(part, magic)
        if not batch.validate_crc():
            msg = f"the checksum of the batch at {batch.base_offset} does not hold"
            raise CorruptBatchError(msg)
        yield batch
        position += size


def _decompress(codec_id: int, data: bytes) -> bytes:
    kind = _TYPES[codec_id]
    if kind != "snappy":
        return bytes(getattr(cramjam, kind).decompress(data))
    if not data.startswith(b"\x82SNAPPY\0"):
        return bytes(cramjam.snappy.decompress_raw(data))
    parts, rest = [], data[16:]
    while rest:
        end = 4 + int.from_bytes(rest[:4], "big")
        parts.append(bytes(cramjam.snappy.decompress_raw(rest[4:end])))
        rest = rest[end:]
    return b"".join(parts)


class _Batch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python ships no types
    """Replace kafka-python's decompression, which needs one more package for each compression."""

    _buffer: bytearray
    _decompressed: bool

    def _maybe_uncompress(self) -> None:
        if not self._decompressed and self.compression_type and self.records_count:
            records = bytes(self._buffer[self.HEADER_STRUCT.size :])
            self._buffer, self._pos = bytearray(_decompress(self.compression_type, records)), 0
        self._decompressed = True


class _LegacyBatch(LegacyRecordBatch):  # type: ignore[misc]  # kafka-python ships no types
    def _decompress(self, key_offset: int) -> memoryview:
        _, value = self._read_key_value(key_offset)
        return memoryview(_decompress(self.compression_type, value))


class _Builder(DefaultRecordBatchBuilder):  # type: ignore[misc]  # kafka-python ships no types
    def _maybe_compress(self) -> bool:
        kind = _TYPES[self._compression_type]
        if kind != "none":
            start = self.HEADER_STRUCT.size
            self._buffer[start:] = compressor(kind, None)(memoryview(bytes(self._buffer[start:])))
        return kind != "none"
