"""What the builder makes of rows, read back by kafka-python's record classes."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from kafka.record.default_records import DefaultRecordBatch

from penstock.codec import KAFKA_RECORDS, RecordBatchBuilder, RecordColumns
from penstock.codec.compression import CODEC_IDS
from penstock.errors import CodecError, RecordTooLargeError, RowError
from tests.codec_batches import Batch, Rec, decoder
from tests.parity import codec_reference as reference

NOW = 1_700_000_000_000


def rows(*indices: int) -> pa.Int32Array:
    return pa.array(indices, pa.int32())


def encoded(records: pa.RecordBatch, *, indices: pa.Int32Array | None = None, **settings: Any) -> bytes:
    builder = RecordBatchBuilder("t", 3, **settings)
    wanted = rows(*range(records.num_rows)) if indices is None else indices
    assert builder.append(RecordColumns(records), wanted, default_timestamp_ms=NOW) == len(wanted)
    return builder.build()


def read(batch: bytes) -> list[dict[str, Any]]:
    return reference.ReferenceDecoder("t", 3, 0, 1 << 60).decode(batch)


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def contents(batch: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(row["key"], row["value"]) for row in read(batch)]


def test_nulls_and_empties() -> None:
    records = batch_of(key=pa.array([None, b"", b"k"]), value=pa.array([None, b"", b"v"]))
    assert contents(encoded(records)) == [(None, None), (b"", b""), (b"k", b"v")]


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()],
    ids=str,
)
def test_every_width_of_binary_and_string(kind: pa.DataType) -> None:
    texts = ["", None, "gr\u00fcn", "x" * 300] * 3
    values = (
        pa.array([None if text is None else text.encode() for text in texts]).cast(pa.string()).cast(kind)
    )
    records = batch_of(key=values[3:9], value=values[2:8])
    wanted = [None if text is None else text.encode() for text in texts]
    assert contents(encoded(records)) == list(zip(wanted[3:9], wanted[2:8], strict=True))


def test_dictionaries_fixed_sizes_and_null_types() -> None:
    records = batch_of(
        key=pa.array(["a", None, "a"]).dictionary_encode(), value=pa.array([b"12", None, b"34"], pa.binary(2))
    )
    assert contents(encoded(records)) == [(b"a", b"12"), (None, None), (b"a", b"34")]
    assert contents(encoded(batch_of(key=pa.nulls(2), value=pa.array(["x", "y"])))) == [
        (None, b"x"),
        (None, b"y"),
    ]


def test_absent_columns_are_null() -> None:
    assert contents(encoded(batch_of(value=[b"v"]))) == [(None, b"v")]
    assert contents(encoded(batch_of(other=[1]))) == [(None, None)]


def test_slices_are_read_at_their_offset() -> None:
    size = 40
    headers = [
        None if i % 5 == 0 else [(f"h{i}", None if i % 2 else b"%d" % i)] * (i % 3) for i in range(size)
    ]
    records = batch_of(
        key=pa.array([None if i % 3 == 0 else b"k%d" % i for i in range(size)]),
        value=pa.array([None if i % 4 == 0 else b"v%d" % i for i in range(size)]),
        headers=pa.array(headers, KAFKA_RECORDS.field("headers").type),
        timestamp=pa.array([None if i % 7 == 0 else i * 1_000_000 for i in range(size)], pa.timestamp("us")),
    )
    whole = read(encoded(records))
    part = read(encoded(records.slice(13, 21)))
    for row, expected in zip(part, whole[13:34], strict=True):
        assert {**row, "offset": 0} == {**expected, "offset": 0}
    assert whole[7]["timestamp_ms"] == NOW
    assert whole[8]["timestamp_ms"] == 8_000


HEADERS = [
    None,
    [],
    [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}],
    [{"key": "gr\u00fcn", "value": b"x"}],
]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@pytest.mark.parametrize("key", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()], ids=str)
@pytest.mark.parametrize("value", [pa.binary(), pa.large_binary(), pa.string(), pa.binary_view()], ids=str)
def test_headers_of_every_type(make: Any, key: pa.DataType, value: pa.DataType) -> None:
    plain = pa.array(HEADERS * 2, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    fields = plain.values
    text = pa.array([name.encode() for name in fields.field("key").to_pylist()]).cast(pa.string()).cast(key)
    content = fields.field("value").cast(pa.string()).cast(value)
    struct = pa.StructArray.from_arrays([content, text], names=["value", "key"])
    offsets = plain.offsets.cast(pa.int64() if make is pa.large_list else pa.int32())
    array_type = pa.LargeListArray if make is pa.large_list else pa.ListArray
    headers = array_type.from_arrays(offsets, struct)
    got = [row["headers"] for row in read(encoded(batch_of(headers=headers.slice(1))))]
    assert got == [expected if expected else None for expected in (HEADERS * 2)[1:]]


def test_headers_without_a_name_are_refused() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for bad in ([{"key": None, "value": b"x"}], [None]):
        records = batch_of(
            value=[b"0", b"1", b"2"], headers=pa.array([None, [{"key": "a", "value": None}], bad], kind)
        )
        builder = RecordBatchBuilder("t", 3)
        with pytest.raises(RowError, match=r"row 2 .* for t-3, has a header that is null"):
            builder.append(RecordColumns(records), rows(0, 1, 2), default_timestamp_ms=NOW)
        assert contents(builder.build()) == [(None, b"0"), (None, b"1")]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_round_down_to_milliseconds(unit: str) -> None:
    factor = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    records = batch_of(timestamp=pa.array([3 * factor + factor // 1_001, None], pa.timestamp(unit, "UTC")))
    assert [row["timestamp_ms"] for row in read(encoded(records))] == [3_000, NOW]


def test_timestamps_before_1970() -> None:
    """-1 ms means "none" to Kafka and is passed on; anything earlier is refused, as Java's client does."""
    records = batch_of(timestamp=pa.array([-1_000, -1, -1_001], pa.timestamp("us")))
    assert [row["timestamp_ms"] for row in read(encoded(records, indices=rows(0, 1)))] == [-1, -1]
    with pytest.raises(RowError, match=r"row 2 .* t-3, has a timestamp before 1970"):
        encoded(records, indices=rows(2))


def test_a_timestamp_beyond_microseconds() -> None:
    with pytest.raises(RowError, match="does not fit into microseconds"):
        RecordColumns(batch_of(timestamp=pa.array([2**62], pa.timestamp("s"))))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("key", pa.array([1])),
        ("value", pa.array([[b"x"]])),
        ("timestamp", pa.array([1])),
        ("headers", pa.array([b"x"])),
        ("headers", pa.array([[{"name": "x", "value": b"x"}]])),
        ("headers", pa.array([[{"key": 1, "value": b"x"}]])),
    ],
)
def test_columns_of_other_types_are_refused(name: str, array: pa.Array) -> None:
    with pytest.raises(RowError, match=f"in the column {name}"):
        RecordColumns(pa.record_batch([array], names=[name]))


def test_the_header_of_a_batch() -> None:
    records = batch_of(
        value=[b"a", b"b", b"c"], timestamp=pa.array([5_000_000, 9_000_000, 4_000_000], pa.timestamp("us"))
    )
    builder = RecordBatchBuilder("t", 3, compression_type="lz4", is_transactional=True)
    builder.append(RecordColumns(records), rows(0, 1, 2), default_timestamp_ms=NOW)
    header = DefaultRecordBatch(builder.build(producer_id=2**40, producer_epoch=7, base_sequence=2**31 - 1))
    assert header.validate_crc()
    assert (header.base_offset, header.leader_epoch, header.magic) == (0, -1, 2)
    assert (header.attributes, header.last_offset_delta, header.records_count) == (0x10 | 3, 2, 3)
    assert (header.first_timestamp, header.max_timestamp) == (5_000, 9_000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 7, 2**31 - 1)


@pytest.mark.parametrize("kind", CODEC_IDS)
@pytest.mark.parametrize("level", [None, 1, 9])
def test_compressions_and_levels(kind: str, level: int | None) -> None:
    values = [b'{"number": %d, "text": "%s"}' % (i, b"x" * (i % 50)) for i in range(6_000)]
    batch = encoded(
        batch_of(value=values), compression_type=kind, compression_level=level, batch_size_bytes=1 << 20
    )
    assert [row["value"] for row in read(batch)] == values
    codec = decoder()
    assert list(codec.decode(batch)) == []
    back = codec.flush()
    assert back is not None
    assert back["value"].to_pylist() == values


@pytest.mark.parametrize("kind", CODEC_IDS)
def test_what_cannot_be_compressed(kind: str) -> None:
    value = random.Random(1).randbytes(200_000)
    assert contents(encoded(batch_of(value=[value, b""]), compression_type=kind)) == [
        (None, value),
        (None, b""),
    ]


def test_unknown_compressions_and_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="of none, gzip, snappy, lz4, zstd, got 'lzma'"):
        RecordBatchBuilder("t", 3, compression_type="lzma")
    with pytest.raises(ValueError, match="batch_size_bytes 0"):
        RecordBatchBuilder("t", 3, batch_size_bytes=0)


def test_batches_end_before_they_pass_their_size() -> None:
    limit, columns = 1_000, RecordColumns(batch_of(value=[b"x" * 90] * 100))
    builder = RecordBatchBuilder("t", 3, batch_size_bytes=limit)
    wanted, first, batches = rows(*range(100)), 0, []
    while first < 100:
        first = builder.append(columns, wanted, first, default_timestamp_ms=NOW)
        size = builder.size_bytes
        batches.append(builder.build())
        assert size == len(batches[-1]) <= limit
        assert builder.size_bytes == builder.record_count == 0
    assert sum(len(read(batch)) for batch in batches) == 100
    assert [len(read(batch)) for batch in batches] == [9] * 11 + [1]


def test_a_batch_is_full_to_the_byte() -> None:
    first, second = (len(Rec(b"x" * 50, timestamp_delta=0).encode(index)) for index in (0, 1))
    columns = RecordColumns(batch_of(value=[b"x" * 50] * 2))
    exact = RecordBatchBuilder("t", 3, batch_size_bytes=61 + first + second)
    assert exact.append(columns, rows(0, 1), default_timestamp_ms=NOW) == 2
    short = RecordBatchBuilder("t", 3, batch_size_bytes=61 + first + second - 1)
    assert short.append(columns, rows(0, 1), default_timestamp_ms=NOW) == 1
    assert short.append(columns, rows(0, 1), 1, default_timestamp_ms=NOW) == 1


def test_one_record_larger_than_a_batch_comes_alone() -> None:
    columns = RecordColumns(batch_of(value=[b"a", b"x" * 5_000, b"b"]))
    builder = RecordBatchBuilder("t", 3, batch_size_bytes=1_000)
    first, counts = 0, []
    while first < 3:
        first = builder.append(columns, rows(0, 1, 2), first, default_timestamp_ms=NOW)
        counts.append(len(read(builder.build())))
    assert counts == [1, 1, 1]


def test_a_record_that_is_too_large_is_named() -> None:
    columns = RecordColumns(batch_of(key=[b"k"] * 3, value=[b"a", b"x" * 5_000, b"b"]))
    size = len(Batch([Rec(b"x" * 5_000, b"k")]).encode())
    fits = RecordBatchBuilder("t", 3, max_record_bytes=size)
    assert fits.append(columns, rows(1), default_timestamp_ms=NOW) == 1
    builder = RecordBatchBuilder("t", 3, max_record_bytes=size - 1)
    assert builder.append(columns, rows(0, 1, 2), default_timestamp_ms=NOW) == 1
    assert contents(builder.build()) == [(b"k", b"a")]
    with pytest.raises(
        RecordTooLargeError, match=f"row 1 .* for t-3, takes {size} bytes .* {size - 1} are"
    ) as caught:
        builder.append(columns, rows(0, 1, 2), 1, default_timestamp_ms=NOW)
    assert caught.value.facts == {
        "topic": "t", "partition": 3, "row": 1, "size_bytes": size, "limit_bytes": size - 1,
    }  # fmt: skip
    assert isinstance(caught.value, CodecError)
    assert builder.append(columns, rows(0, 1, 2), 2, default_timestamp_ms=NOW) == 3
    assert contents(builder.build()) == [(b"k", b"b")]


def test_rows_in_the_order_given_more_than_once_and_from_several_batches() -> None:
    builder = RecordBatchBuilder("t", 3)
    builder.append(RecordColumns(batch_of(value=[b"a", b"b"])), rows(1, 0, 1), default_timestamp_ms=NOW)
    builder.append(RecordColumns(batch_of(value=["c"])), rows(9, 0)[1:], default_timestamp_ms=NOW)
    assert builder.record_count == 4
    assert [value for _, value in contents(builder.build())] == [b"b", b"a", b"b", b"c"]


@pytest.mark.parametrize("bad", [-1, 2])
def test_rows_that_do_not_exist(bad: int) -> None:
    with pytest.raises(ValueError, match=rf"row {bad} is not in \[0, 2\)"):
        encoded(batch_of(value=[b"a", b"b"]), indices=rows(0, bad))


def test_rows_of_another_type_and_empty_batches() -> None:
    builder = RecordBatchBuilder("t", 3, is_transactional=True)
    columns = RecordColumns(batch_of(value=[b"a"]))
    assert columns.row_count == 1
    with pytest.raises(ValueError, match="expected int32"):
        builder.append(columns, pa.array([0]), default_timestamp_ms=NOW)
    with pytest.raises(ValueError, match="expected int32"):
        builder.append(columns, pa.array([0, None], pa.int32()), default_timestamp_ms=NOW)
    with pytest.raises(ValueError, match="first is -1"):
        builder.append(columns, rows(0), -1, default_timestamp_ms=NOW)
    assert builder.append(columns, rows(), default_timestamp_ms=NOW) == 0
    with pytest.raises(ValueError, match="t-3 holds no record"):
        builder.build()
    builder.append(columns, rows(0), default_timestamp_ms=NOW)
    with pytest.raises(ValueError, match="needs a producer id"):
        builder.build()


def test_the_largest_timestamp_of_a_batch() -> None:
    builder = RecordBatchBuilder("t", 0)
    times = pa.array([5_000_000, 9_999_000, 7_000_000], pa.timestamp("us", tz="UTC"))
    columns = RecordColumns(pa.record_batch([pa.array([b"v"] * 3), times], ["value", "timestamp"]))
    builder.append(columns, pa.array([0, 1, 2], pa.int32()), default_timestamp_ms=1)
    assert builder.max_timestamp_ms == 9_999
    builder.build()
    builder.append(columns, pa.array([0], pa.int32()), default_timestamp_ms=1)
    assert builder.max_timestamp_ms == 5_000


def test_a_batch_that_is_handed_over_is_not_changed_by_the_next_ones() -> None:
    columns = RecordColumns(batch_of(value=[b"%d" % number * 50 for number in range(3_000)]))
    builder, plain = RecordBatchBuilder("t", 3, batch_size_bytes=70_000), RecordBatchBuilder("t", 3)
    handed, first = [], 0
    while first < 3_000:
        end = builder.append(columns, rows(*range(3_000)), first, default_timestamp_ms=NOW)
        plain.append(columns, rows(*range(first, end)), default_timestamp_ms=NOW)
        handed.append((builder.hand_over(base_sequence=first), plain.build(base_sequence=first)))
        first = end
    assert len(handed) > 3
    assert all(isinstance(ours, memoryview) and ours == copied for ours, copied in handed)
    assert builder.size_bytes == 0
    with pytest.raises(ValueError, match="holds no record"):
        builder.hand_over()


@pytest.mark.parametrize(
    "values", [[b"x" * 20_000, *[b"y" * 100] * 99], [b"small"]], ids=["a large first record", "one record"]
)
def test_a_batch_that_waits_takes_about_the_memory_that_is_counted(values: list[bytes]) -> None:
    """`buffer.memory` counts the bytes of a batch, not the room that was foreseen for more records."""
    columns = RecordColumns(batch_of(value=values))
    builder, plain = (RecordBatchBuilder("t", 3, batch_size_bytes=262_144) for _ in range(2))
    for each in (builder, plain):
        each.append(columns, rows(*range(len(values))), default_timestamp_ms=NOW)
    batch = builder.hand_over()
    assert isinstance(batch, memoryview)
    assert batch == plain.build()
    assert memoryview(batch.obj).nbytes <= 2 * len(batch)


def test_a_compressed_batch_that_is_handed_over_is_bytes() -> None:
    builder = RecordBatchBuilder("t", 3, compression_type="lz4")
    columns = RecordColumns(batch_of(value=[b"a" * 500]))
    found = []
    for _ in range(2):  # the builder keeps its memory
        builder.append(columns, rows(0), default_timestamp_ms=NOW)
        found.append(builder.hand_over())
    assert isinstance(found[0], bytes)
    assert found[0] == found[1]


def test_a_batch_grows_with_its_records() -> None:
    """The first record is small, so the room that was foreseen for the others is too little."""
    values = [b"", *(b"%d" % number * 1_000 for number in range(200))]
    builder = RecordBatchBuilder("t", 3)
    columns = RecordColumns(batch_of(value=values))
    for number in range(201):
        builder.append(columns, rows(*range(number + 1)), number, default_timestamp_ms=NOW)
    assert [value for _, value in contents(builder.build())] == values
