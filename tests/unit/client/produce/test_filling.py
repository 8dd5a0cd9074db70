"""Batches being filled: numbered as they are closed, and no memory held by what is closed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.produce._filling import FillingBatches
from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.idempotence import ANONYMOUS, SEQUENCE_LIMIT, ProducerIdentity, SequenceNumbers
from penstock.client.settings import ProduceSettings
from penstock.codec import HEADERS_TYPE, RecordBatchDecoder, RecordColumns
from penstock.types import TopicPartition
from tests.examples import examples

MEBIBYTE = 1 << 20


IDENTITY = ProducerIdentity(7, 0)
TP = TopicPartition("t", 0)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", HEADERS_TYPE),
    ]
)


def filling_into(
    closed: list[ProducerBatch],
    sequences: SequenceNumbers | None = None,
    *,
    is_transactional: bool = False,
    **changes: Any,
) -> FillingBatches:
    return FillingBatches(
        ProduceSettings(**changes),
        sequences or SequenceNumbers(IDENTITY),
        closed.append,
        lambda: 0,
        is_transactional=is_transactional,
    )


def fill(filling: FillingBatches, records: pa.RecordBatch, now_ms: int = 1) -> None:
    columns, rows, first = RecordColumns(records), pa.array(range(records.num_rows), pa.int32()), 0
    while first < records.num_rows:
        first = filling.append(TP, columns, rows, first, now_ms)


def values(payloads: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(payloads, pa.binary())})


def noise(seed: int, count: int, size: int = 1000) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(size) for _ in range(count)]


def records_of(batch: ProducerBatch, *, raw_headers: bool = False) -> list[dict[str, Any]]:
    decoder = RecordBatchDecoder(
        "t",
        0,
        starting_offset=0,
        stopping_offset=batch.record_count,
        columns=SCHEMA.names,
        raw_headers=raw_headers,
    )
    found = [*decoder.decode(batch.data), decoder.flush()]
    return [row for records in found if records is not None for row in records.to_pylist()]


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def test_full_batches_are_closed_and_numbered_in_order() -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(closed)
    columns = RecordColumns(pa.record_batch([pa.array([b"v" * 1000] * 600)], ["value"]))
    rows = pa.array(range(600), pa.int32())
    tp, first = TopicPartition("t", 0), 0
    while first < 600:
        first = filling.append(tp, columns, rows, first, 1)
    filling.close_all()
    assert [batch.base_sequence for batch in closed] == [
        0,
        closed[0].record_count,
        closed[0].record_count + closed[1].record_count,
    ]
    assert sum(batch.record_count for batch in closed) == 600
    assert not filling.is_open(tp)
    assert filling.size_bytes == 0


def test_closed_batches_leave_no_memory_behind() -> None:
    sizes: list[int] = []
    closed: list[ProducerBatch] = []
    filling = filling_into(closed)
    columns = RecordColumns(pa.record_batch([pa.array([b"v" * 1000] * 200)], ["value"]))
    rows = pa.array(range(200), pa.int32())
    before = resident_bytes()
    for partition in range(500):
        filling.append(TopicPartition("t", partition), columns, rows, 0, 1)
        filling.close_all()
        sizes.append(len(closed.pop().data))
    assert sum(sizes) > 90 * MEBIBYTE
    assert resident_bytes() - before < 30 * MEBIBYTE


def test_compressed_batches_grow_to_batch_size_as_they_are_sent() -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(closed, compression_type="lz4", batch_size_bytes=100_000)
    payloads = [each[:250] + b"." * 750 for each in noise(1, 4000)]
    fill(filling, values(payloads))
    filling.close_all()
    sizes = [len(batch.data) for batch in closed]
    assert sizes[0] < 35_000, "nothing is known of the topic yet"
    assert all(75_000 < size <= 100_000 for size in sizes[6:-1])
    assert [row["value"] for batch in closed for row in records_of(batch)] == payloads


@pytest.mark.parametrize("compression_type", ["gzip", "snappy", "lz4", "zstd"])
def test_no_batch_is_larger_than_allowed_though_rows_compress_worse_of_a_sudden(
    compression_type: str,
) -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(closed, compression_type=compression_type, batch_size_bytes=20_000)
    payloads = [b"." * 1000] * 2000 + noise(1, 500) + [b"," * 1000] * 2000 + noise(2, 500)
    fill(filling, values(payloads))
    filling.close_all()
    # A batch whose bytes do not compress at all is as large as it is without compression, and its framing.
    assert max(len(batch.data) for batch in closed) < 20_100
    assert max(batch.record_count for batch in closed) > 100, "those that compress are far larger before"
    assert [row["value"] for batch in closed for row in records_of(batch)] == payloads
    sequence = 0
    for batch in closed:
        assert batch.base_sequence == sequence
        assert int.from_bytes(batch.data[53:57], "big") == sequence, "what the broker reads"
        assert int.from_bytes(batch.data[57:61], "big") == batch.record_count
        sequence += batch.record_count


def test_rows_never_gather_beyond_the_largest_request() -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(
        closed, compression_type="zstd", batch_size_bytes=20_000, max_request_size_bytes=60_000
    )
    fill(filling, values([b"." * 1000] * 1000))
    assert max(batch.record_count for batch in closed) == 59


def test_the_least_batch_size_sends_each_record_alone() -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(closed, compression_type="lz4", batch_size_bytes=1)
    fill(filling, values([b"." * 1000] * 50))
    filling.close_all()
    assert [batch.record_count for batch in closed] == [1] * 50


def test_the_last_small_batch_of_a_task_teaches_nothing() -> None:
    closed: list[ProducerBatch] = []
    filling = filling_into(closed, compression_type="lz4", batch_size_bytes=20_000)
    fill(filling, values([b"." * 1000] * 2000))
    largest = max(batch.record_count for batch in closed)
    filling.close_all()
    fill(filling, values(noise(1, 1)))
    filling.close_all()
    del closed[:]
    fill(filling, values([b"." * 1000] * 2000))
    assert closed[0].record_count >= largest


def test_names_of_headers_that_are_no_utf8_survive_a_division() -> None:
    """A string of Spark may hold any bytes; those of a header name are sent as they are."""
    closed: list[ProducerBatch] = []
    filling = filling_into(closed, compression_type="lz4", batch_size_bytes=2_000)
    fill(filling, values([b"." * 500] * 400))
    filling.close_all()
    assert closed[-2].record_count > 20, "taught that rows compress well, which the next do not"
    del closed[:]
    names = [b"\xff%d\xed\xa0\x80" % number for number in range(40)]
    as_text = pa.Array.from_buffers(pa.string(), len(names), pa.array(names, pa.binary()).buffers())
    header = pa.StructArray.from_arrays([as_text, pa.nulls(len(names), pa.binary())], ["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array(range(len(names) + 1), pa.int32()), header)
    payloads = noise(1, len(names), 500)
    fill(filling, pa.record_batch({"value": pa.array(payloads, pa.binary()), "headers": headers}))
    filling.close_all()
    assert max(batch.record_count for batch in closed) < 5, "divided"
    rows = [row for batch in closed for row in records_of(batch, raw_headers=True)]
    assert [row["headers"] for row in rows] == [[{"key": name, "value": None}] for name in names]
    assert [row["value"] for row in rows] == payloads


ROWS = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=9),
        "value": st.none() | st.binary(max_size=99) | st.integers(0, 900).map(lambda size: b"." * size),
        "timestamp": st.integers(0, 10**12).map(lambda ms: ms * 1000),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=9)}),
            min_size=1,
            max_size=3,
        ),
    }
)


@settings(max_examples=examples(60), deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=40),
    compression_type=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    start=st.sampled_from([0, SEQUENCE_LIMIT - 11]),
    kind=st.sampled_from(["anonymous", "idempotent", "transactional"]),
)
def test_divided_or_not_the_log_gets_the_rows_as_they_are(
    rows: list[dict[str, Any]], compression_type: str, start: int, kind: str
) -> None:
    sequences = SequenceNumbers(ANONYMOUS if kind == "anonymous" else IDENTITY, {TP: start})
    closed: list[ProducerBatch] = []
    filling = filling_into(
        closed,
        sequences,
        is_transactional=kind == "transactional",
        compression_type=compression_type,
        batch_size_bytes=300,
    )
    fill(filling, values([b"." * 2000] * 100))  # taught that rows compress well, which these may not
    filling.close_all()
    known = sum(batch.record_count for batch in closed)
    del closed[:]
    records = pa.RecordBatch.from_pylist(rows, SCHEMA)
    fill(filling, records)
    filling.close_all()
    assert [row for batch in closed for row in records_of(batch)] == records.to_pylist()
    sequence = -1 if kind == "anonymous" else (start + known) % SEQUENCE_LIMIT
    for batch in closed:
        assert batch.base_sequence == sequence
        assert int.from_bytes(batch.data[22:23], "big") & 0x10 == (0x10 if kind == "transactional" else 0)
        if kind != "anonymous":
            sequence = (sequence + batch.record_count) % SEQUENCE_LIMIT
