"""Encode and decode records with each compression: for wheels of platforms that lack a package of the tests.

Runs in an environment that has the wheel of penstock, and nothing of this repository.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.codec import RecordBatchBuilder, RecordBatchDecoder, RecordColumns
from penstock.codec.compression import CODEC_IDS

COUNT = 1_000
values = [b'{"id": %d}' % number for number in range(COUNT)]
records = pa.record_batch({"key": pa.array([b"k"] * COUNT), "value": pa.array(values)})
for kind in CODEC_IDS:
    builder = RecordBatchBuilder("t", 0, compression_type=kind)
    indices = pa.array(range(COUNT), pa.int32())
    assert builder.append(RecordColumns(records), indices, default_timestamp_ms=1) == COUNT
    decoder = RecordBatchDecoder("t", 0, starting_offset=0, stopping_offset=COUNT)
    found = [*decoder.decode(builder.build()), decoder.flush()]
    read = [value for batch in found if batch is not None for value in batch.column("value").to_pylist()]
    assert read == values, kind
print(f"{COUNT} records with each of {', '.join(CODEC_IDS)}")  # noqa: T201 - a program
