"""The compaction of a log of the fake Kafka, as the log cleaner of a broker does it."""

from __future__ import annotations

import struct
from collections.abc import Collection

from kafka.record.default_records import DefaultRecordBatchBuilder

from penstock.codec import RecordBatchDecoder
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake.batches import Batch, _sign

_LAST_OFFSET_DELTA_AT = 23
_COLUMNS = ["offset", "key", "value"]


def compact(log: PartitionLog, kept: Collection[int], end: int) -> None:
    """Remove the records below `end` whose offsets are not kept.

    Markers stay, and so does the newest batch. The offsets stay as they are.
    """
    left = (
        batch if batch.is_control or batch.last_offset >= end else _rest_of(batch, kept)
        for batch in log.batches[:-1]
    )
    log.batches = [batch for batch in left if batch is not None] + log.batches[-1:]


def _rest_of(batch: Batch, kept: Collection[int]) -> Batch | None:
    """Return a batch without some of its records; None if none is left."""
    records = [each for each in _records(batch) if each[0] in kept]
    if len(records) == batch.record_count:
        return batch
    if not records:
        return None
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=batch.is_transactional, producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence, batch_size=1 << 20,
    )  # fmt: skip
    for offset, key, value in records:
        at = offset - batch.base_offset
        builder.append(at, timestamp=batch.max_timestamp_ms, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    struct.pack_into(">i", data, _LAST_OFFSET_DELTA_AT, batch.last_offset - batch.base_offset)
    _sign(data)
    return Batch.of(bytes(data)).at(batch.base_offset, batch.leader_epoch)


def _records(batch: Batch) -> list[tuple[int, bytes, bytes | None]]:
    decoder = RecordBatchDecoder(
        "compacted", 0, starting_offset=batch.base_offset, stopping_offset=batch.last_offset + 1,
        columns=_COLUMNS,
    )  # fmt: skip
    found = [*decoder.decode(batch.data), decoder.flush()]
    return [
        record
        for rows in found
        if rows is not None
        for record in zip(*(rows.column(name).to_pylist() for name in _COLUMNS), strict=True)
    ]
