"""What a producer reads from the headers of record batches: its own before sending, and those in a log.

Runs on the executor. Pure. Invariant: looks at headers only and reads nothing beyond the given bytes.

A batch of format v2 begins with `base offset (8) | length of the rest (4) | leader epoch (4) | magic (1)`,
and further on has `last offset delta (4)` at byte 23, `max timestamp (8)` at 35, and at 43
`producer id (8) | producer epoch (2) | base sequence (4)`. Older formats know no producers.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from penstock.client.idempotence import ProducerIdentity

_START = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_MAX_TIMESTAMP = Struct(">q")
_PRODUCER = Struct(">qhi")
_LAST_OFFSET_DELTA_AT = 23
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43
_BEFORE_LENGTH_BYTES = 12
_HEADER_BYTES = 61
_MAGIC_V2 = 2


class BatchesOfProducer(NamedTuple):
    """What a piece of a log holds of one producer."""

    end_offsets: dict[int, int]
    """Base sequence of each of its batches -> the offset after the batch."""
    next_offset: int | None
    """Where the log goes on; None when the piece holds no whole batch."""


def max_timestamp_ms(data: bytes) -> int:
    """Return the largest timestamp of a batch that we made."""
    timestamp_ms: int = _MAX_TIMESTAMP.unpack_from(data, _MAX_TIMESTAMP_AT)[0]
    return timestamp_ms


def batches_of_producer(data: bytes | memoryview, identity: ProducerIdentity) -> BatchesOfProducer:
    """Return which batches of a producer the records of a Fetch response hold, without a partial last one."""
    end_offsets: dict[int, int] = {}
    next_offset, position = None, 0
    while position + _HEADER_BYTES <= len(data):
        base_offset, length, _, magic = _START.unpack_from(data, position)
        end = position + _BEFORE_LENGTH_BYTES + length
        if end > len(data) or length <= 0:
            break
        next_offset = base_offset + 1
        if magic >= _MAGIC_V2:
            next_offset += _LAST_OFFSET_DELTA.unpack_from(data, position + _LAST_OFFSET_DELTA_AT)[0]
            producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(data, position + _PRODUCER_AT)
            if (producer_id, producer_epoch) == (identity.producer_id, identity.producer_epoch):
                end_offsets[base_sequence] = next_offset
        position = end
    return BatchesOfProducer(end_offsets, next_offset)
