"""A log that holds one stored batch many times, so that a backlog of any length takes no memory.

Runs in tests only, under the cluster's lock. Invariant: each copy is the stored batch under its own offsets.
The checksum of a batch does not cover its base offset, so clients check each copy as they check any batch.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from penstock.testing.fake._log import AppendResult, PartitionLog, Piece
from penstock.testing.fake.batches import Batch

_BASE_OFFSET = struct.Struct(">q")


class StoredBatch:
    """A batch of a client without a producer id, which several logs may repeat."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch.at(0, 0)
        self._copies = b""

    @property
    def offset_count(self) -> int:
        """Return how many offsets a copy has."""
        return self.batch.last_offset + 1

    def copies(self, first: int, count: int) -> bytearray:
        """Return copies number `first` to `first + count - 1`."""
        size = len(self.batch.data)
        if len(self._copies) < count * size:
            self._copies = self.batch.data * count
        data = bytearray(memoryview(self._copies)[: count * size])
        for number in range(count):
            _BASE_OFFSET.pack_into(data, number * size, (first + number) * self.offset_count)
        return data


class RepeatedLog(PartitionLog):
    """A log of `times` copies of a stored batch. Nothing can be written to it, or looked up by time."""

    def __init__(self, stored: StoredBatch, times: int) -> None:
        super().__init__(end_offset=times * stored.offset_count, epochs=[(0, 0)])
        self._stored = stored
        self._times = times

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all copies."""
        return self._times * len(self._stored.batch.data)

    def read(self, offset: int, end: int, max_bytes: int, *, takes_first: bool) -> Piece:
        """Return whole copies from the one that holds the offset on."""
        offsets = self._stored.offset_count
        first, until = offset // offsets, -(-min(end, self.end_offset) // offsets)
        room = max(max_bytes // len(self._stored.batch.data), int(takes_first))
        count = min(until - first, room)
        if count <= 0:
            return Piece(b"", offset)
        return Piece(self._stored.copies(first, count), (first + count) * offsets)

    def first_at_or_after(self, timestamp_ms: int, end: int) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("a repeated log cannot be looked up by time")

    def newest(self, end: int) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("a repeated log cannot be looked up by time")

    def append(self, batch: Batch, *, leader_epoch: int, append_time_ms: int | None = None) -> AppendResult:
        """Raise NotImplementedError."""
        raise NotImplementedError("a repeated log takes no other batch")
