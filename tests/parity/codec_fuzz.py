"""Fuzz the codec: a mutated batch must give a complete RecordBatch or a PenstockError.

The harness `batches` of tests/fuzz runs this in a process of its own, under sanitizers if there are any.
"""

from __future__ import annotations

import ctypes
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import pyarrow as pa

from penstock.codec import (
    KAFKA_RECORDS,
    BatchHeaders,
    RecordBatchBuilder,
    RecordBatchDecoder,
    RecordColumns,
    scan_batches,
)
from penstock.codec._decode import crc32c
from penstock.codec.compression import CODEC_IDS, compressor
from penstock.errors import CorruptBatchError, PenstockError
from tests.parity import header_reference as reference

ODD_NUMBERS = [-(2**31), -2, -1, 0, 1, 7, 61, 2**15, 2**24, 2**31 - 1]
LIMITS = (1, 5, 32_768)
CONTENTS = (None, b"", b"x", b"y" * 63, b"z" * 64, b"long " * 300)
STOP = 60


class Fuzz:
    """Makes inputs from a seed and checks the codec's promises."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seeds = list(self._seeds())

    def round_trip(self) -> None:
        """Encode random rows, from slices at random indices, and read them back."""
        records = self._rows(self.chance.randrange(1, 60))
        start = self.chance.randrange(records.num_rows)
        part = records[start:]
        batch = self._encode(part, self.chance.choice(list(CODEC_IDS)))
        fast = RecordBatchDecoder("t", 3, starting_offset=0, stopping_offset=1 << 40)
        batches = list(fast.decode(batch))
        rest = fast.flush()
        got = pa.Table.from_batches(batches + ([] if rest is None else [rest]))
        assert got.select(["key", "value"]).equals(pa.Table.from_batches([part]).select(["key", "value"]))
        wanted = [headers or None for headers in part["headers"].to_pylist()]
        assert got["headers"].to_pylist() == wanted

    def _check_headers(self, data: bytes) -> None:
        """Scan, and compare the result with the reference."""
        exact, expected = exactly(data), _outcome(lambda: reference.scan_batches(data))
        assert _outcome(lambda: scan_batches(exact, "t", 3)) == expected
        ends = _outcome(lambda: [header.last_offset + 1 for header in BatchHeaders(exact, "t", 3)])
        if expected is None or ends is None:
            assert expected is ends
        else:
            assert (ends[-1] if ends else None) == expected[0]

    def _decode(self, data: bytes) -> str | None:
        """Decode, check what comes out, and return the message of the error, if it is one of ours."""
        try:
            self._check_decoding(data)
        except PenstockError as error:
            return str(error)
        return None

    def _check_decoding(self, data: bytes) -> None:
        start = self.chance.choice((0, 0, 3))
        codec = RecordBatchDecoder(
            "t",
            3,
            starting_offset=start,
            stopping_offset=STOP,
            columns=self.chance.sample(
                KAFKA_RECORDS.names, self.chance.randrange(len(KAFKA_RECORDS.names) + 1)
            ),
            read_committed=self.chance.random() < 0.5,
            check_crcs=self.chance.random() < 0.3,
            max_rows=self.chance.choice(LIMITS),
            max_bytes=self.chance.choice((1, 100, 8 << 20)),
            max_decompressed_bytes=1 << 20,
        )
        position = start
        last_offset = start - 1
        for batch in self._batches(codec, data):
            batch.validate(full=True)
            assert batch.num_rows
            assert position <= codec.next_offset <= STOP
            position = codec.next_offset
            if "offset" in batch.schema.names:
                offsets = batch["offset"].to_pylist()
                assert last_offset < offsets[0]
                assert offsets[-1] < position
                assert offsets == sorted(set(offsets))
                last_offset = offsets[-1]

    def _batches(self, codec: RecordBatchDecoder, data: bytes) -> Iterator[pa.RecordBatch]:
        yield from codec.decode(
            data, [(self.chance.randrange(3), self.chance.randrange(STOP)) for _ in range(2)]
        )
        rest = codec.flush()
        if rest is not None:
            yield rest

    # Seeds

    def _seeds(self) -> Iterator[bytes]:
        for kind in CODEC_IDS:
            for size in (1, 2, 20):
                yield self._encode(self._rows(size), kind)
        control = bytearray(self._encode(pa.record_batch({"key": [bytes(4)], "value": [b"v"]}), "none"))
        control[22] |= 0x30
        yield _signed(control)
        for magic in (0, 1):
            for codec_id, compress in _LEGACY.items():
                yield _legacy_message(magic, codec_id, compress(_legacy_message(magic, 0, b"v" * 40) * 3))

    def _rows(self, count: int) -> pa.RecordBatch:
        pick = self.chance.choice
        headers = [
            pick((None, [], [{"key": "a", "value": None}] * 3, [{"key": "gr\u00fcn", "value": b"x" * 200}]))
            for _ in range(count)
        ]
        return pa.record_batch(
            {
                "key": pa.array([pick(CONTENTS) for _ in range(count)], pa.binary()),
                "value": pa.array([pick(CONTENTS) for _ in range(count)], pa.binary()),
                "headers": pa.array(headers, KAFKA_RECORDS.field("headers").type),
            }
        )

    def _encode(self, records: pa.RecordBatch, kind: str) -> bytes:
        builder = RecordBatchBuilder("t", 3, compression_type=kind, batch_size_bytes=1 << 30)
        rows = pa.array(range(records.num_rows), pa.int32())
        builder.append(RecordColumns(records), rows, default_timestamp_ms=self.chance.randrange(2**41))
        return builder.build(producer_id=self.chance.randrange(3), producer_epoch=0, base_sequence=0)

    # Mutations

    def _mutated(self, seed: bytes) -> bytes:
        batch = bytearray(seed)
        batch[0:8] = self.chance.choice((0, 0, 5, 30, STOP - 1)).to_bytes(8, "big")
        if batch[16] == 2 and self.chance.random() < 0.7:
            batch = self._with_mutated_records(batch)
        if self.chance.random() < 0.5:
            self._mutate(batch)
        if batch[16:17] == b"\2" and len(batch) >= 61:
            if self.chance.random() < 0.8:
                batch[8:12] = struct.pack(">i", len(batch) - 12)
            return _signed(batch)
        return bytes(batch)

    def _with_mutated_records(self, batch: bytearray) -> bytearray:
        """Mutate below the compression, where the parser is."""
        codec_id = batch[22] & 7
        records = bytearray(_DECOMPRESS[codec_id](bytes(batch[61:])))
        for _ in range(self.chance.randrange(1, 4)):
            self._mutate(records)
        kind = self.chance.choice(list(CODEC_IDS))
        batch[22] = batch[22] & ~7 | CODEC_IDS[kind]
        payload = bytes(records)
        if kind != "none" and payload:
            payload = bytes(compressor(kind, None)(memoryview(payload)))
        mutated = batch[:61] + payload
        mutated[8:12] = struct.pack(">i", len(mutated) - 12)
        return mutated

    def _mutate(self, data: bytearray) -> None:
        if not data:
            return
        at = self.chance.randrange(len(data))
        kind = self.chance.randrange(7)
        if kind == 0:
            data[at] ^= 1 << self.chance.randrange(8)
        elif kind == 1:
            data[at] = self.chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            data[at : at + 4] = struct.pack(">i", self.chance.choice(ODD_NUMBERS))
        elif kind == 3:
            data[at : at + self.chance.randrange(1, 12)] = b"\xff" * self.chance.randrange(12)
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            data[at:at] = self.chance.randbytes(self.chance.randrange(1, 20))
        else:
            data[at:at] = data[: self.chance.randrange(40)]


def exactly(data: bytes) -> memoryview:
    """Return bytes in memory of exactly their size, because a bytes object has one more readable byte."""
    if not data:
        return memoryview(b"")
    return memoryview((ctypes.c_char * len(data)).from_buffer_copy(data)).cast("B")


def _outcome(work: Callable[[], Any]) -> Any:
    """Return the result of the work, or None if a batch is corrupt."""
    try:
        return work()
    except CorruptBatchError:
        return None


def _signed(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(memoryview(batch)[21:], tables=True).to_bytes(4, "big")
    return bytes(batch)


def _unsnappy(data: bytes) -> bytes:
    size = int.from_bytes(data[16:20], "big")
    return bytes(cramjam.snappy.decompress_raw(data[20 : 20 + size]))


_DECOMPRESS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: lambda data: bytes(cramjam.gzip.decompress(data)),
    2: _unsnappy,
    3: lambda data: bytes(cramjam.lz4.decompress(data)),
    4: lambda data: bytes(cramjam.zstd.decompress(data)),
}
_LEGACY: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: lambda data: bytes(cramjam.gzip.compress(data)),
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
}


def _legacy_message(magic: int, codec_id: int, value: bytes) -> bytes:
    body = struct.pack(">bb", magic, codec_id) + (struct.pack(">q", 5) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, 0) + body
