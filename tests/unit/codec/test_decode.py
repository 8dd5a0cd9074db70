"""What the decoder makes of whole and well-formed data."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from penstock.codec import KAFKA_RECORDS
from penstock.errors import CodecError
from tests.codec_batches import (
    LOG_APPEND_TIME,
    Batch,
    Rec,
    column,
    decode_all,
    decoder,
    values,
    varint,
)

UTC = dt.UTC


def instant(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(milliseconds=ms)


def test_every_column() -> None:
    rec = Rec(b"v", b"k", timestamp_delta=7, headers=[(b"h", b"1")])
    rows = decode_all(decoder(), Batch([rec], 42).encode())
    assert rows == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "t",
            "partition": 3,
            "offset": 42,
            "timestamp": instant(1_007),
            "timestamp_type": 0,
            "leader_epoch": 5,
            "headers": [{"key": "h", "value": b"1"}],
        }
    ]


def test_null_and_empty_are_not_the_same() -> None:
    rows = decode_all(decoder(), Batch([Rec(None, None), Rec(b"", b""), Rec(b"v", b"k")]).encode())
    assert [(row["key"], row["value"]) for row in rows] == [(None, None), (b"", b""), (b"k", b"v")]


def test_headers_keep_order_repeats_and_nulls_and_none_is_a_null_list() -> None:
    headers = [(b"a", b"1"), (b"b", None), (b"a", b""), (b"", b"x"), ("ü".encode(), b"y")]
    rows = decode_all(decoder(), Batch([Rec(), Rec(headers=headers), Rec()]).encode())
    assert column(rows, "headers") == [
        None,
        [{"key": key.decode(), "value": value} for key, value in headers],
        None,
    ]


def test_header_names_that_are_no_utf8_are_replaced_as_java_does() -> None:
    names = [b"\xff", b"ok", b"a\xed\xa0\x80", b"\xc3"]
    rows = decode_all(decoder(), Batch([Rec(headers=[(name, b"")]) for name in names]).encode())
    assert [row["headers"][0]["key"] for row in rows] == [name.decode("utf-8", "replace") for name in names]


def test_raw_headers_have_the_names_that_are_on_the_wire() -> None:
    names = [b"\xff", b"ok", b"a\xed\xa0\x80", b""]
    batch = Batch([Rec(b"v", headers=[(name, b"x"), (name, None)]) for name in names] + [Rec(b"v")]).encode()
    rows = decode_all(decoder(raw_headers=True, columns=("value", "headers")), batch)
    assert column(rows, "value") == [b"v"] * 5
    assert column(rows, "headers") == [
        *([{"key": name, "value": b"x"}, {"key": name, "value": None}] for name in names),
        None,
    ]


@pytest.mark.parametrize("count", [1, 300])
def test_many_headers_in_one_record_grow_the_columns(count: int) -> None:
    headers = [(b"n%d" % i, None if i % 3 else b"x" * i) for i in range(count)]
    rows = decode_all(decoder(), Batch([Rec(), Rec(headers=headers)]).encode())
    assert rows[1]["headers"] == [{"key": key.decode(), "value": value} for key, value in headers]


def test_create_time_adds_the_delta_and_log_append_time_takes_the_maximum() -> None:
    records = [Rec(timestamp_delta=0), Rec(timestamp_delta=-3), Rec(timestamp_delta=10)]
    created = decode_all(decoder(), Batch(records).encode())
    appended = decode_all(decoder(), Batch(records, attributes=LOG_APPEND_TIME).encode())
    assert column(created, "timestamp") == [instant(1_000), instant(997), instant(1_010)]
    assert column(created, "timestamp_type") == [0, 0, 0]
    assert column(appended, "timestamp") == [instant(2_000)] * 3
    assert column(appended, "timestamp_type") == [1, 1, 1]


def test_no_timestamp_stays_minus_one_millisecond() -> None:
    rows = decode_all(decoder(), Batch(base_timestamp=-1).encode())
    assert column(rows, "timestamp") == [instant(-1)]


@pytest.mark.parametrize(
    ("base", "delta"),
    [
        (2**63 - 1, 0),
        (2**63 - 1, 1),
        (-(2**63), -1),
        (-(2**63), 0),
        (9_223_372_036_854_776, 0),
        (0, 2**63 - 1),
    ],
)
def test_a_timestamp_beyond_microseconds_is_an_error_only_where_it_is_asked_for(
    base: int, delta: int
) -> None:
    data = Batch([Rec(b"v", timestamp_delta=delta)], base_timestamp=base).encode()
    with pytest.raises(CodecError, match="t-3 has a timestamp that does not fit") as caught:
        decode_all(decoder(), data)
    assert caught.value.facts == {"topic": "t", "partition": 3, "base_offset": 0}
    assert column(decode_all(decoder(columns=["value"]), data), "value") == [b"v"]


def test_the_last_microsecond_of_arrow() -> None:
    data = Batch(base_timestamp=9_223_372_036_854_775).encode()
    (batch,) = [decoder(columns=["timestamp"])]
    assert list(batch.decode(data)) == []
    rest = batch.flush()
    assert rest is not None
    assert rest["timestamp"].cast(pa.int64()).to_pylist() == [9_223_372_036_854_775_000]


def test_an_unknown_leader_epoch_is_null() -> None:
    known, unknown = Batch(leader_epoch=0), Batch(leader_epoch=-1)
    rows = decode_all(decoder(), known.encode() + unknown.at(1).encode() + known.at(2).encode())
    assert column(rows, "leader_epoch") == [0, None, 0]


@pytest.mark.parametrize("names", [KAFKA_RECORDS.names, ["value"], ["topic"], ["offset", "key"], []])
def test_only_the_columns_asked_for_in_schema_order(names: list[str]) -> None:
    codec = decoder(columns=names)
    assert list(codec.decode(values(0, b"a", b"b"))) == []
    batch = codec.flush()
    assert batch is not None
    assert batch.schema == pa.schema([field for field in KAFKA_RECORDS if field.name in names])
    assert batch.num_rows == 2
    assert codec.flush() is None


def test_unknown_columns_and_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        decoder(columns=["nothing"])
    with pytest.raises(ValueError, match="max_rows 0"):
        decoder(max_rows=0)
    with pytest.raises(ValueError, match="max_bytes 2147483648"):
        decoder(max_bytes=1 << 31)


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, lambda data: memoryview(b"xy" + data)[2:], pa.py_buffer]
)
def test_any_bytes_like_data(wrap: type) -> None:
    data = values(0, b"a", b"b")
    assert column(decode_all(decoder(), wrap(data)), "value") == [b"a", b"b"]


def test_empty_data() -> None:
    codec = decoder(4)
    assert decode_all(codec, b"", bytearray(), memoryview(b"")) == []
    assert codec.next_offset == 4
    assert not codec.is_finished


def test_a_key_and_value_of_every_varint_length() -> None:
    sizes = [0, 1, 63, 64, 8_191, 8_192, 1_048_575, 1_048_576]
    records = [Rec(b"v" * size, b"k" * size) for size in sizes]
    rows = decode_all(decoder(), Batch(records).encode())
    assert [(len(row["key"]), len(row["value"])) for row in rows] == [(size, size) for size in sizes]


def test_offset_deltas_of_every_varint_length_and_large_offsets() -> None:
    deltas = [0, 63, 64, 8_192, 2**20, 2**28, 2**31 - 1]
    base = 2**62
    records = [Rec(delta=delta) for delta in deltas]
    codec = decoder(base, 2**63 - 1)
    rows = decode_all(codec, Batch(records, base).encode())
    assert column(rows, "offset") == [base + delta for delta in deltas]
    assert codec.next_offset == base + 2**31


def test_negative_varints_are_understood() -> None:
    assert varint(-1) == b"\x01"
    rows = decode_all(decoder(), Batch([Rec(timestamp_delta=-(2**40))], base_timestamp=2**41).encode())
    assert column(rows, "timestamp") == [instant(2**40)]
