"""KafkaRecords: the one Arrow schema in which records travel inside penstock.

Runs on driver and executor. Invariant: a KafkaRecords batch has some of these columns, in this order,
with exactly these types; nothing between the codec and the Spark adapters knows another shape.
"""

from __future__ import annotations

import pyarrow as pa


def _headers_type(key_type: pa.DataType) -> pa.ListType:
    header = pa.struct([pa.field("key", key_type, nullable=False), pa.field("value", pa.binary())])
    return pa.list_(pa.field("element", header))


HEADERS_TYPE = _headers_type(pa.string())
"""Headers keep order, repeated names and null values. A record without headers has a null list."""

RAW_HEADERS_TYPE = _headers_type(pa.binary())
"""The same with names as on the wire, which may be invalid UTF-8; for records that are encoded again."""

KAFKA_RECORDS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("headers", HEADERS_TYPE),
    ]
)
"""`timestamp_type` is 0 for CreateTime, 1 for LogAppendTime, -1 where the record has none (magic 0)."""
