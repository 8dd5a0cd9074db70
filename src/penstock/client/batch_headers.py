"""The headers of the record batches in a Fetch response: just enough to ask for what follows.

Runs on the executor, before the codec decodes the same bytes, so that the next Fetch can travel meanwhile.
Invariant: pure; looks at headers only (compressed or not), and reads nothing beyond the given bytes.

A record batch begins with `base offset (8) | length of the rest (4) | leader epoch (4) | magic (1)`; in
format v2 the last offset relative to the base stands at byte 23. Formats v0 and v1 have one offset there,
which is the last of a compressed set.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from penstock.errors import CorruptBatchError

_START = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_BEFORE_LENGTH_BYTES = 12
_V2_HEADER_BYTES = 61
_V2_MAGIC = 2
_OLDEST_HEADER_BYTES = 26


class ScannedBatches(NamedTuple):
    """What the headers say. `next_offset` is None when there is no whole batch."""

    next_offset: int | None
    leader_epoch: int
    """Leader epoch of the last whole batch; -1 where the format has none."""
    whole_bytes: int
    """Size of the whole batches."""


def scan_batches(data: bytes | memoryview) -> ScannedBatches:
    """Walk over the batch headers of a response; a partial batch at the end is ignored.

    Raises:
        CorruptBatchError: a length cannot be right.
    """
    next_offset, leader_epoch, position, size = None, -1, 0, len(data)
    while position + _OLDEST_HEADER_BYTES <= size:
        base_offset, length, epoch, magic = _START.unpack_from(data, position)
        end = position + _BEFORE_LENGTH_BYTES + length
        is_v2 = magic >= _V2_MAGIC
        if end - position < (_V2_HEADER_BYTES if is_v2 else _OLDEST_HEADER_BYTES):
            raise CorruptBatchError(
                f"A record batch at offset {base_offset} claims a length of {length} bytes, less than its "
                "header. The response is damaged; nothing after this batch was read.",
                offset=base_offset,
            )
        if end > size:
            break
        last_offset = base_offset
        if is_v2:
            last_offset += _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_AT)[0]
        next_offset, leader_epoch, position = last_offset + 1, epoch if is_v2 else -1, end
    return ScannedBatches(next_offset, leader_epoch, position)
