"""Random batches for Hypothesis: rows as the reference has them, and their Arrow form."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from penstock.codec import KAFKA_RECORDS
from penstock.codec.compression import CODEC_IDS
from tests.parity import codec_reference as reference

Row = dict[str, Any]

compressions = st.sampled_from(sorted(CODEC_IDS))
contents = st.none() | st.binary(max_size=80) | st.binary(min_size=1, max_size=3).map(lambda part: part * 700)
headers = st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=8), "value": st.none() | st.binary(max_size=8)}),
    max_size=4,
)
timestamps = st.integers(0, 2**41) | st.sampled_from([0, -1, 2**52])
rows = st.lists(
    st.fixed_dictionaries(
        {
            "key": contents,
            "value": contents,
            "timestamp_ms": timestamps,
            "headers": headers.map(lambda x: x or None),
        }
    ),
    min_size=1,
    max_size=30,
)


def arrow_of(rows: list[Row], *, padding: int = 0) -> pa.RecordBatch:
    """Return rows as the sink gets them; `padding` rows before make it a slice."""
    padded = [rows[0]] * padding + rows
    columns = {
        name: pa.array([row[name] for row in padded], KAFKA_RECORDS.field(name).type)
        for name in ("key", "value", "headers")
    }
    timestamps = pa.array([row["timestamp_ms"] * 1_000 for row in padded], pa.timestamp("us", "UTC"))
    return pa.record_batch({**columns, "timestamp": timestamps})[padding:]


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Return KafkaRecords in the reference's form."""
    batch.validate(full=True)
    milliseconds = batch["timestamp"].cast(pa.int64()).to_pylist()
    rows = batch.drop_columns(["timestamp"]).to_pylist()
    for row, us in zip(rows, milliseconds, strict=True):
        row["timestamp_ms"] = us // 1_000
    return [dict(row) for row in rows]


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0) -> bytes:
    """Make a batch that a broker might send: renumbered, with or without leader epoch and LogAppendTime."""
    is_log_append_time = draw(st.booleans())
    producer_id = draw(st.sampled_from([-1, 7, 8]))
    batch = bytearray(
        reference.encode(
            draw(rows),
            compression_type=draw(compressions),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=producer_id >= 0 and draw(st.booleans()),
        )
    )
    batch[0:8] = base_offset.to_bytes(8, "big")
    batch[12:16] = draw(st.integers(-1, 2**31 - 1)).to_bytes(4, "big", signed=True)
    if is_log_append_time:
        batch[22] |= 0x08
    return with_checksum(batch)


def with_checksum(batch: bytearray) -> bytes:
    from kafka.record.util import calc_crc32c  # noqa: PLC0415  # not needed by the fuzz's subprocess

    batch[17:21] = calc_crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)
