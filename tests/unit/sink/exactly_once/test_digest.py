"""The digest against its own definition in plain Python, and what it must and must not notice."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec import RecordColumns, digest_records
from penstock.sink.exactly_once.digest import RecordDigest, digest_rows
from tests.examples import examples

MASK = (1 << 64) - 1
G, N, H = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F
TOPIC, KEY, VALUE, HEADER_NAME, HEADER_VALUE, HEADERS, TIMESTAMP, PARTITION = range(1, 9)

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("partition", pa.int32()),
    ]
)

ROWS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["t", "topic", "überall"]),
        "key": st.none() | st.binary(max_size=20),
        "value": st.none() | st.binary(max_size=40),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=9), "value": st.none() | st.binary(max_size=9)}),
            max_size=3,
        ),
        "timestamp": st.none() | st.integers(-(10**12), 10**15),
        "partition": st.none() | st.integers(0, 2**31 - 1),
    }
)


def mix(x: int) -> int:
    x &= MASK
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD & MASK
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ (x >> 33)


def of_bytes(data: bytes | None, seed: int) -> int:
    if data is None:
        return mix(seed ^ N)
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    return mix(sum(mix(word + (at + 1) * G) for at, word in enumerate(words)) + mix(seed + len(data)))


def of_integer(number: int | None, seed: int) -> int:
    return mix(seed ^ N) if number is None else mix(mix(number + G) + seed)


def of_headers(headers: list[dict[str, Any]] | None) -> int:
    mixed = (
        mix(
            mix(of_bytes(each["key"].encode(), HEADER_NAME))
            + of_bytes(each["value"], HEADER_VALUE)
            + (at + 1) * G
        )
        for at, each in enumerate(headers or [])
    )
    return mix(sum(mixed) + mix(HEADERS + len(headers or [])))


def by_definition(rows: list[dict[str, Any]]) -> RecordDigest:
    first = second = 0
    for row in rows:
        at_us = row["timestamp"]
        record = of_bytes(row["topic"].encode(), TOPIC)
        for field in (
            of_bytes(row["key"], KEY),
            of_bytes(row["value"], VALUE),
            of_headers(row["headers"]),
            of_integer(None if at_us is None else at_us // 1000, TIMESTAMP),
            of_integer(row["partition"], PARTITION),
        ):
            record = mix(record) + field & MASK
        record = mix(record)
        first, second = first + record & MASK, second + mix(record ^ H) & MASK
    return RecordDigest(len(rows), first, second)


def as_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


@settings(max_examples=examples(60), deadline=None)
@given(rows=st.lists(ROWS, max_size=12), cut=st.integers(0, 12))
def test_follows_its_definition_in_whatever_pieces(rows: list[dict[str, Any]], cut: int) -> None:
    batch = as_batch(rows)
    wanted = by_definition(rows)
    assert digest_rows(batch) == wanted
    assert digest_rows(batch.slice(0, cut)) + digest_rows(batch.slice(cut)) == wanted


@settings(max_examples=examples(40), deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=12), seed=st.integers(0, 2**32))
def test_order_does_not_matter_but_every_row_does(rows: list[dict[str, Any]], seed: int) -> None:
    shuffled = random.Random(seed).sample(rows, len(rows))
    wanted = digest_rows(as_batch(rows))
    assert digest_rows(as_batch(shuffled)) == wanted
    assert digest_rows(as_batch(shuffled[1:])) != wanted
    assert digest_rows(as_batch([*rows, rows[0]])) != wanted


BASE: dict[str, Any] = {
    "topic": "t",
    "key": b"k",
    "value": b"v",
    "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    "timestamp": 1_700_000_000_000_000,
    "partition": 3,
}


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "t2"},
        {"key": None},
        {"key": b""},
        {"key": b"k\0"},
        {"key": b"v", "value": b"k"},
        {"value": None},
        {"value": b""},
        {"value": b"v\0\0\0\0\0\0\0"},
        {"headers": [{"key": "h", "value": None}, {"key": "h", "value": b"1"}]},
        {"headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": b""}]},
        {"headers": [{"key": "h1", "value": b""}, {"key": "h", "value": None}]},
        {"headers": None},
        {"timestamp": 1_700_000_000_001_000},
        {"timestamp": None},
        {"partition": None},
        {"partition": 0},
    ],
)
def test_every_field_counts(change: dict[str, Any]) -> None:
    assert digest_rows(as_batch([{**BASE, **change}])) != digest_rows(as_batch([BASE]))


def test_what_kafka_does_not_keep_does_not_count() -> None:
    no_headers = digest_rows(as_batch([{**BASE, "headers": None}]))
    assert digest_rows(as_batch([{**BASE, "headers": []}])) == no_headers
    later = {**BASE, "timestamp": BASE["timestamp"] + 999}
    assert digest_rows(as_batch([later])) == digest_rows(as_batch([BASE]))


def test_columns_may_be_missing_or_of_other_types() -> None:
    rows = [{**BASE, "key": None, "headers": None, "timestamp": None, "partition": None, "value": "vä"}]
    wanted = by_definition([{**rows[0], "value": "vä".encode()}])
    slim = pa.RecordBatch.from_pylist(rows, pa.schema([("value", pa.string())]))
    assert digest_rows(slim, "t") == wanted
    large = pa.schema([("value", pa.large_string()), ("key", pa.large_binary()), ("offset", pa.int64())])
    assert digest_rows(pa.RecordBatch.from_pylist(rows, large), "t") == wanted
    nulls = pa.schema([("value", pa.string()), ("key", pa.null()), ("headers", pa.null())])
    assert digest_rows(pa.RecordBatch.from_pylist(rows, nulls), "t") == wanted


def test_large_lists_and_other_widths_are_the_same_rows() -> None:
    rows = [
        BASE,
        {**BASE, "headers": None, "partition": None},
        {**BASE, "key": b"a longer key of many words"},
    ]
    large = pa.schema(
        [
            ("topic", pa.large_string()),
            ("key", pa.large_binary()),
            ("value", pa.large_binary()),
            ("headers", pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            ("partition", pa.int64()),
        ]
    )
    in_ms = [{**row, "timestamp": row["timestamp"] // 1000} for row in rows]
    assert digest_rows(pa.RecordBatch.from_pylist(in_ms, large)) == by_definition(rows)


def test_the_codec_refuses_columns_of_other_rows() -> None:
    columns = RecordColumns(pa.record_batch({"value": pa.array([b"v", b"w"])}))
    with pytest.raises(ValueError, match="1 rows beside 2"):
        digest_records(columns, pa.array(["t"]), None)
    with pytest.raises(ValueError, match="3 rows beside 2"):
        digest_records(columns, b"t", pa.array([1, 2, 3], pa.int32()))
    with pytest.raises(ValueError, match="expected int32, got int64"):
        digest_records(columns, b"t", pa.array([1, 2], pa.int64()))


STORED = "1:78eba9458f51bac1f8e4479a6b6a0d88"


def test_text_form_is_fixed() -> None:
    # Stored in decision logs: a change of this value needs a new definition number.
    assert str(digest_rows(as_batch([BASE]))) == str(by_definition([BASE]))
    assert str(digest_rows(as_batch([BASE]))) == STORED
    assert str(RecordDigest()) == "1:" + "0" * 32
