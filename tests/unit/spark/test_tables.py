"""Tables in the Spark adapters, without a JVM."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, time
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VariantType,
)

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import DecodeError, OptionError, RowError, SchemaError
from penstock.options.config import DeliveryGuarantee
from penstock.options.parse import parse_read, parse_write
from penstock.spark._tables import FormatSource, TableSink, TableSource, table_sink, table_source
from penstock.spark.datasource import PenstockDataSource

READ = {"properties.bootstrap.servers": "unused:1", "topic": "orders"}
WRITE = READ
JSON = {"format": "json"}
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)


def marked(name: str, kind: Any, key: Any, nullable: bool = True) -> StructField:
    return StructField(name, kind, nullable, {"penstock.metadata": key})


def source_of(schema: StructType, options: dict[str, str]) -> FormatSource:
    given = READ | options
    spec = parse_read(given, streaming=True).table
    assert spec is not None
    found = table_source(schema, spec)
    assert isinstance(found, FormatSource)
    return found


def sink_of(schema: StructType, options: dict[str, str]) -> TableSink:
    given = WRITE | options
    config = parse_write(given)
    assert config.table is not None
    return table_sink(schema, config.table, config.sink.topic)


def records(*values: bytes | None) -> pa.RecordBatch:
    rows = [
        {
            "key": b"k",
            "value": value,
            "topic": "orders",
            "partition": 2,
            "offset": 100 + i,
            "timestamp": AT,
            "timestamp_type": 0,
            "leader_epoch": None,
            "headers": None,
        }
        for i, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=KAFKA_RECORDS)


def read(source: TableSource, given: pa.RecordBatch) -> pa.RecordBatch:
    maker = pickle.loads(pickle.dumps(source)).open()  # noqa: S301 - our own bytes
    return maker.rows(given.select(list(maker.columns)))


# -- reading -------------------------------------------------------------------------------------------------

INNER = StructType([StructField("a", IntegerType(), nullable=False), StructField("b", TimestampType())])
DEEP = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("flag", BooleanType()),
        StructField("tiny", ByteType()),
        StructField("small", ShortType()),
        StructField("single", FloatType()),
        StructField("double", DoubleType()),
        StructField("price", DecimalType(10, 2)),
        StructField("name", StringType(), nullable=False),
        StructField("blob", BinaryType()),
        StructField("day", DateType()),
        StructField("local", TimestampNTZType()),
        StructField("items", ArrayType(INNER, containsNull=False), nullable=False),
        StructField("tags", MapType(StringType(), ArrayType(IntegerType()), valueContainsNull=False)),
        marked("headers", MapType(StringType(), BinaryType()), "headers", nullable=False),
        marked("all_headers", ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
               "header-list"),
        marked("ts", TimestampType(), "timestamp", nullable=False),
    ]
)  # fmt: skip
DEEP_VALUE = b"""{"id":1,"flag":true,"tiny":2,"small":3,"single":1.5,"double":2.5,"price":12.345,"name":"x",
 "blob":"AQI=","day":"2026-01-02","local":"2026-01-02 03:04:05.678",
 "items":[{"a":1,"b":"2026-01-02 03:04:05Z"}],
 "tags":{"t":[1,null]}}"""


@pytest.mark.parametrize("values", [[DEEP_VALUE], [DEEP_VALUE, None, DEEP_VALUE]])
def test_rows_have_exactly_the_schema_that_pyspark_wants(values: list[bytes | None]) -> None:
    rows = read(source_of(DEEP, JSON), records(*values))
    rows.validate(full=True)
    assert rows.schema.equals(to_arrow_schema(DEEP, timezone="UTC"))
    found = rows.to_pylist()
    assert len(found) == len([value for value in values if value])
    assert found[0]["items"] == [{"a": 1, "b": AT.replace(microsecond=0)}]
    assert found[0]["blob"] == b"\1\2"
    assert (found[0]["headers"], found[0]["all_headers"], found[0]["ts"]) == ([], [], AT)


def test_an_array_that_may_not_hold_null_has_none() -> None:
    bad = DEEP_VALUE.replace(b'"items":[{"a":1,', b'"items":[{"a":null,')
    with pytest.raises(DecodeError, match=r"topic orders, partition 2, offset 101: value: .*a"):
        read(source_of(DEEP, JSON), records(DEEP_VALUE, bad))


METADATA = StructType([marked("at", TimestampType(), "timestamp"), StructField("offset", LongType())])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"at": AT, "offset": 7}),
        ({"metadata.columns": "offset"}, {"at": datetime(2020, 1, 1, tzinfo=UTC), "offset": 100}),
        ({"metadata.columns": ""}, {"at": datetime(2020, 1, 1, tzinfo=UTC), "offset": 7}),
    ],
)
def test_the_option_counts_before_marks(options: dict[str, str], expected: dict[str, Any]) -> None:
    rows = read(
        source_of(METADATA, JSON | options), records(b'{"at":"2020-01-01 00:00:00Z","offset":7}')
    ).to_pylist()
    assert rows == [expected]


@pytest.mark.parametrize("key", [True, 5])
def test_a_mark_is_text(key: Any) -> None:
    with pytest.raises(SchemaError, match=r"Expected text in the mark 'penstock\.metadata' of column 'x'"):
        source_of(StructType([marked("x", LongType(), key)]), JSON)


def test_only_what_is_declared_is_asked_for() -> None:
    schema = StructType([StructField("id", LongType()), marked("epoch", IntegerType(), "leader-epoch")])
    assert source_of(schema, JSON).open().columns == ("value", "topic", "partition", "offset", "leader_epoch")


@pytest.mark.parametrize(
    ("schema", "options", "error", "message"),
    [
        (StructType(), JSON, SchemaError, "no columns"),
        (StructType([marked("x", StringType(), "offset")]), JSON, SchemaError, "metadata 'offset' is int64"),
        (StructType([marked("x", LongType(), "ofset")]), JSON, SchemaError, "metadata 'ofset'"),
        (DEEP, {"format": "raw"}, SchemaError, "Format 'raw'"),
        (StructType([StructField("v", VariantType())]), JSON, SchemaError, "'v' has type variant"),
        (
            StructType([StructField("v", ArrayType(StructType([StructField("x", VariantType())])))]),
            JSON,
            SchemaError,
            "'v' has type array<struct<x:variant>>",
        ),
        (StructType([StructField("i", CalendarIntervalType())]), JSON, SchemaError, "'i' has type interval"),
        (METADATA, {"format": "jsn"}, OptionError, "Did you mean 'json'"),
        (METADATA, {"key.format": "json", "key.fields": "offset"}, OptionError, "format for its values"),
        (METADATA, JSON | {"scan.include-headers": "true"}, OptionError, "'headers' or 'header-list'"),
    ],
)
def test_what_does_not_fit_is_said_on_the_driver(
    schema: StructType, options: dict[str, str], error: type[Exception], message: str
) -> None:
    source = PenstockDataSource(READ | options)
    for make in (source.reader, source.streamReader):
        with pytest.raises(error, match=message):
            make(schema)


def test_a_format_needs_a_schema() -> None:
    with pytest.raises(SchemaError, match=r"\.schema\("):
        PenstockDataSource(READ | JSON).schema()


def test_either_dialect_names_what_to_read() -> None:
    options = {"kafka.bootstrap.servers": "unused:1", "subscribe": "orders", "Format": "json"}
    assert PenstockDataSource(options).streamReader(METADATA)._table is not None
    assert PenstockDataSource(READ).streamReader(PenstockDataSource(READ).schema())._table is None


def test_a_reader_of_a_table_travels_small() -> None:
    reader = PenstockDataSource(READ | JSON).streamReader(DEEP)
    assert len(pickle.dumps(reader)) < 20_000


# -- dead letters --------------------------------------------------------------------------------------------

DEAD = JSON | {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": "bad"}
ID = StructType([StructField("id", LongType())])


def test_dead_letters_are_written_with_the_producers_properties_of_the_source() -> None:
    sink = source_of(ID, DEAD | {"properties.max.request.size": "5000000"}).bad_records.dead_letters
    assert sink is not None
    assert (sink.topic, sink.delivery_guarantee) == ("bad", DeliveryGuarantee.AT_LEAST_ONCE)
    assert sink.properties.get("max.request.size") == "5000000"
    with pytest.raises(OptionError, match="acks"):
        source_of(ID, DEAD | {"properties.acks": "1"})


@pytest.mark.parametrize(
    "subscription",
    [{"topic": "a;bad"}, {"topic-pattern": "b.*"}, {"topic-partitions": "bad:0"}],
)
def test_dead_letters_do_not_come_back(subscription: dict[str, str]) -> None:
    given = {"properties.bootstrap.servers": "unused:1"} | subscription | DEAD
    with pytest.raises(OptionError, match="'bad', which this source reads"):
        PenstockDataSource(given).streamReader(ID)


def test_a_pattern_reads_the_topics_that_it_matches_in_full() -> None:
    given = {"properties.bootstrap.servers": "unused:1", "topic-pattern": "ba"} | DEAD
    assert PenstockDataSource(given).streamReader(ID)._table is not None


def test_skipped_records_are_counted_and_shown_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    rows = read(source_of(ID, JSON | {"scan.on-decode-error": "skip"}), records(b'{"id":1}', b"{\x00oops"))
    assert rows.to_pylist() == [{"id": 1}]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "1 of 2 records could not be decoded" in caplog.text
    assert "topic orders, partition 2, offset 101" in caplog.text
    assert "\x00" not in caplog.text


# -- writing -------------------------------------------------------------------------------------------------

WRITTEN = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("seen", ArrayType(TimestampType())),
        StructField("name", StringType()),
        marked("at", TimestampType(), "timestamp"),
    ]
)


def test_rows_of_any_session_time_zone_become_the_same_records() -> None:
    sink = sink_of(
        WRITTEN,
        JSON | {"key.format": "raw", "key.fields": "id", "json.timestamp-format.standard": "ISO-8601"},
    )
    row = {"id": 5, "seen": [AT, None], "name": "n", "at": AT}
    for zone, large in (("UTC", False), ("Europe/Berlin", False), ("America/Los_Angeles", True)):
        kind = to_arrow_schema(WRITTEN, timezone=zone, prefers_large_types=large)
        batch = pa.RecordBatch.from_pylist([row], schema=kind)
        empty = batch.slice(0, 0)
        [written] = list(sink.records([empty, batch, empty]))
        assert written.to_pylist() == [
            {
                "key": (5).to_bytes(8, "big"),
                "value": b'{"id":5,"seen":["2026-01-02T03:04:05.678Z",null],"name":"n"}',
                "timestamp": AT,
            }
        ]


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (StructType([marked("o", LongType(), "offset")]), JSON, "metadata 'offset', which cannot be written"),
        (StructType([marked("t", StringType(), "topic")]), JSON, "option 'topic' is 'orders' for all rows"),
        (ID, JSON | {"key.format": "json", "key.fields": "nope"}, "key.fields' names 'nope'"),
        (DEEP, {"format": "raw", "metadata.columns": ""}, "Format 'raw'"),
    ],
)
@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_what_cannot_be_written_is_said_on_the_driver(
    schema: StructType, options: dict[str, str], message: str, guarantee: str
) -> None:
    delivery = {"sink.delivery-guarantee": guarantee, "sink.transactional-id-prefix": "p"}
    source = PenstockDataSource(WRITE | options | delivery)
    for make in (source.writer, source.streamWriter):
        with pytest.raises((SchemaError, OptionError), match=message):
            make(schema, overwrite=False)


@pytest.mark.parametrize("name", ["json", "csv", "avro"])
def test_times_of_day_are_written_and_read(name: str) -> None:
    schema = StructType([StructField("id", LongType()), StructField("t", TimeType())])
    row = {"id": 1, "t": time(23, 59, 59, 999_999)}
    batch = pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(schema))
    [written] = sink_of(schema, {"format": name}).records([batch])
    [value] = written.column("value").to_pylist()
    assert read(source_of(schema, {"format": name}), records(value)).to_pylist() == [row]


def test_without_a_topic_a_column_names_it() -> None:
    options = {"properties.bootstrap.servers": "unused:1"} | JSON
    where = StructType([StructField("id", LongType()), marked("t", StringType(), "topic")])
    spec = parse_write(options).table
    assert spec is not None
    sink = table_sink(where, spec, None)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "t": "a"}], schema=to_arrow_schema(where))
    assert [rows.to_pylist() for rows in sink.records([batch])] == [
        [{"key": None, "value": b'{"id":1}', "topic": "a"}]
    ]
    with pytest.raises(SchemaError, match="Neither option 'topic' nor"):
        PenstockDataSource(options).writer(StructType([StructField("id", LongType())]), overwrite=False)


def test_without_a_format_the_columns_are_those_of_kafka() -> None:
    with pytest.raises(RowError, match="Expected only the columns"):
        PenstockDataSource(WRITE).writer(StructType([StructField("id", LongType())]), overwrite=False)
