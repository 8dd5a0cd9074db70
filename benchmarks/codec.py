"""Measure the codec alone, on one core, without Kafka: `python -m benchmarks.codec`.

CPU microseconds a record (best of several rounds) for JSON values of 107 bytes with 8-byte keys: from rows to
the bytes of Produce requests, and from the bytes of 4 MB Fetch responses to KafkaRecords with all columns and
checksums. The first table is about small batches (a producer without linger makes batches of one record). It
compares the header scan, which finds where the next Fetch starts, with the Python scan that it replaced.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from tests.parity import header_reference

from penstock.codec import RecordBatchBuilder, RecordBatchDecoder, RecordColumns, scan_batches
from penstock.codec.compression import CODEC_IDS

RECORDS, ROUNDS, RESPONSE_BYTES = 100_000, 7, 4 << 20
BATCH_SIZES = (16_384, 262_144, 1_048_576)
BATCH_RECORDS = (1, 10, 100)
NOW_MS = 1_700_000_000_000


def rows() -> pa.RecordBatch:
    chance = random.Random(1)  # noqa: S311 - data to measure with
    keys = [b"%08d" % chance.randrange(10**8) for _ in range(RECORDS)]
    values = [
        b'{"id":%d,"name":"user-%d","amount":%.3f,"country":"DE","active":true,"ts":%d,"x":"ab"}'
        % (10**6 + i, chance.randrange(10**6), chance.random() * 100, NOW_MS + i)
        for i in range(RECORDS)
    ]
    return pa.record_batch({"key": pa.array(keys), "value": pa.array(values)})


def encode(
    records: pa.RecordBatch, indices: pa.Int32Array, compression_type: str, batch_size_bytes: int
) -> list[bytes]:
    builder = RecordBatchBuilder(
        "t", 0, compression_type=compression_type, batch_size_bytes=batch_size_bytes, max_record_bytes=1 << 20
    )
    columns, batches, done = RecordColumns(records), [], 0
    while done < RECORDS:
        done = builder.append(columns, indices, done, default_timestamp_ms=NOW_MS)
        batches.append(builder.build())
    return batches


def responses(batches: list[bytes]) -> list[bytes]:
    """Give the batches offsets as a broker does, and put them into responses."""
    done, offset, response = [], 0, bytearray()
    for batch in batches:
        response += offset.to_bytes(8, "big") + batch[8:]
        offset += int.from_bytes(batch[57:61], "big")
        if len(response) >= RESPONSE_BYTES:
            done.append(bytes(response))
            response = bytearray()
    return [*done, bytes(response)]


def decode(data: list[bytes]) -> None:
    codec = RecordBatchDecoder("t", 0, starting_offset=0, stopping_offset=RECORDS)
    count = sum(batch.num_rows for response in data for batch in codec.decode(response))
    rest = codec.flush()
    assert count + (rest.num_rows if rest else 0) == RECORDS


def encode_small(records: pa.RecordBatch, indices: pa.Int32Array, batch_records: int) -> list[bytes]:
    """Make uncompressed batches of so many records."""
    builder, columns, batches = RecordBatchBuilder("t", 0), RecordColumns(records), []
    for first in range(0, RECORDS, batch_records):
        builder.append(columns, indices.slice(first, batch_records), default_timestamp_ms=NOW_MS)
        batches.append(builder.build())
    return batches


def scan(data: list[bytes]) -> None:
    for response in data:
        scan_batches(response, "t", 0)


def scan_in_python(data: list[bytes]) -> None:
    for response in data:
        header_reference.scan_batches(response)


def microseconds(*works: Callable[[], object]) -> list[float]:
    """Return the best time of each, measured in turn."""
    best = [float("inf")] * len(works)
    for _ in range(ROUNDS):
        for index, work in enumerate(works):
            start = time.thread_time()
            work()
            best[index] = min(best[index], time.thread_time() - start)
    return [seconds / RECORDS * 1e6 for seconds in best]


def by_size(records: pa.RecordBatch, indices: pa.Int32Array) -> Table:
    table = Table(
        "compression", "batch bytes", "encode us", "decode us", "bytes a record", title="codec, CPU a record"
    )
    for kind in CODEC_IDS:
        for size in BATCH_SIZES:
            batches = encode(records, indices, kind, size)
            data = responses(batches)
            encoding, decoding = microseconds(
                partial(encode, records, indices, kind, size), partial(decode, data)
            )
            each = sum(map(len, batches)) / RECORDS
            table.add_row(kind, f"{size:,}", f"{encoding:.3f}", f"{decoding:.3f}", f"{each:.0f}")
    return table


def of_small_batches(records: pa.RecordBatch, indices: pa.Int32Array) -> Table:
    table = Table(
        "records a batch", "scan us", "scan in Python us", "decode us", title="small batches, CPU a record"
    )
    for count in BATCH_RECORDS:
        data = responses(encode_small(records, indices, count))
        times = microseconds(partial(scan, data), partial(scan_in_python, data), partial(decode, data))
        table.add_row(str(count), *(f"{each:.4f}" for each in times))
    return table


def main() -> None:
    records, indices = rows(), pa.array(range(RECORDS), pa.int32())
    console = Console()
    console.print(of_small_batches(records, indices))
    console.print(by_size(records, indices))


if __name__ == "__main__":
    main()
