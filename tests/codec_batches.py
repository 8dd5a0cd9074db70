"""Record batches made by hand, correct and wrong ones, for the tests of the codec.

Invariant: nothing here comes from the codec; checksums are kafka-python's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from kafka.record.util import calc_crc32c

from penstock.codec import RecordBatchDecoder

ABORT, COMMIT = 0, 1
TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 0x10, 0x20, 0x08


def varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


@dataclass(frozen=True)
class Rec:
    """A record; `raw_headers` replaces the bytes of the headers, count included."""

    value: bytes | None = b"v"
    key: bytes | None = None
    delta: int | None = None
    timestamp_delta: int = 0
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    raw_headers: bytes | None = None

    def encode(self, index: int) -> bytes:
        headers = self.raw_headers
        if headers is None:
            headers = varint(len(self.headers)) + b"".join(sized(k) + sized(v) for k, v in self.headers)
        delta = index if self.delta is None else self.delta
        body = (
            b"\0"
            + varint(self.timestamp_delta)
            + varint(delta)
            + sized(self.key)
            + sized(self.value)
            + headers
        )
        return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """Make a batch with the given header fields. None means the correct value."""

    records: Sequence[Rec] = (Rec(),)
    base_offset: int = 0
    attributes: int = 0
    leader_epoch: int = 5
    magic: int = 2
    last_delta: int | None = None
    count: int | None = None
    base_timestamp: int = 1_000
    max_timestamp: int = 2_000
    producer_id: int = -1
    payload: bytes | None = None
    crc: int | None = None
    length: int | None = None

    def encode(self) -> bytes:
        payload = self.payload
        if payload is None:
            payload = b"".join(record.encode(index) for index, record in enumerate(self.records))
        count = len(self.records) if self.count is None else self.count
        last_delta = self.last_delta
        if last_delta is None:
            deltas = [i if record.delta is None else record.delta for i, record in enumerate(self.records)]
            last_delta = max(deltas, default=0)
        covered = struct.pack(
            ">hiqqqhii",
            self.attributes,
            last_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            0,
            0,
            count,
        )
        covered += payload
        crc = calc_crc32c(covered) if self.crc is None else self.crc
        length = len(covered) + 9 if self.length is None else self.length
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + covered

    def at(self, base_offset: int) -> Batch:
        return replace(self, base_offset=base_offset)


def values(base_offset: int, *contents: bytes, producer_id: int = -1, attributes: int = 0) -> bytes:
    records = [Rec(content) for content in contents]
    return Batch(records, base_offset, attributes=attributes, producer_id=producer_id).encode()


def in_transaction(base_offset: int, producer_id: int, *contents: bytes) -> bytes:
    return values(base_offset, *contents, producer_id=producer_id, attributes=TRANSACTIONAL)


def marker(base_offset: int, producer_id: int, kind: int) -> bytes:
    record = Rec(key=struct.pack(">hh", 0, kind), value=struct.pack(">hi", 0, 7))
    return Batch([record], base_offset, attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id).encode()


def decoder(start: int = 0, stop: int = 1_000_000, **settings: Any) -> RecordBatchDecoder:
    return RecordBatchDecoder("t", 3, starting_offset=start, stopping_offset=stop, **settings)


def decode_all(
    codec: RecordBatchDecoder,
    *responses: bytes | bytearray | memoryview,
    aborted: Sequence[tuple[int, int]] = (),
) -> list[dict[str, Any]]:
    """Decode the responses one after the other; every RecordBatch is checked in full."""
    batches: list[pa.RecordBatch] = []
    for response in responses:
        batches.extend(codec.decode(response, aborted))
    rest = codec.flush()
    if rest is not None:
        batches.append(rest)
    rows: list[dict[str, Any]] = []
    for batch in batches:
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]
