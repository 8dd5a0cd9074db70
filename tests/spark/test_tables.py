"""Typed reads and writes on real Spark and a real broker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from tests import judge
from tests.fix_broker import MakeTopic
from tests.registry_server import Registry, running_registry
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

AT_MS = 1_767_323_045_678
KEPT = {"retention.ms": "-1"}
AT = datetime(2026, 1, 2, 3, 4, 5, 678000)  # noqa: DTZ001 - as Spark gives it in a session of UTC
JSON = {"format": "json"}

ORDER = (
    "id BIGINT NOT NULL, price DECIMAL(10, 2), at TIMESTAMP, items ARRAY<STRUCT<name: STRING, count: INT>>, "
    "tags MAP<STRING, STRING>"
)


def order(number: int) -> bytes:
    items = [{"name": f"thing {number}", "count": number}, {"name": None}]
    value = {"id": number, "price": number / 4, "at": "2026-01-02 03:04:05.678Z", "items": items}
    return json.dumps(value | {"tags": {"n": str(number)}, "not declared": [1, {}]}).encode()


def order_row(number: int) -> dict[str, Any]:
    items = [{"name": f"thing {number}", "count": number}, {"name": None, "count": None}]
    price = Decimal(number) / 4
    return {"id": number, "price": price, "at": AT, "items": items, "tags": {"n": str(number)}}


def read(
    spark: Any, bootstrap: str, topic: str, schema: str | StructType, options: dict[str, str]
) -> DataFrame:
    reader = spark.read.format("penstock").schema(schema).option("properties.bootstrap.servers", bootstrap)
    found: DataFrame = reader.option("topic", topic).options(**options).load()
    return found


def read_stream(
    spark: Any, bootstrap: str, topic: str, schema: str | StructType, options: dict[str, str]
) -> DataFrame:
    reader = spark.readStream.format("penstock").schema(schema)
    reader = reader.option("properties.bootstrap.servers", bootstrap).option("topic", topic)
    found: DataFrame = reader.options(**options).load()
    return found


def write(rows: DataFrame, bootstrap: str, topic: str, options: dict[str, str]) -> None:
    writer = rows.write.format("penstock").option("properties.bootstrap.servers", bootstrap)
    writer.option("topic", topic).options(**options).mode("append").save()


def plain(rows: list[Row]) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in rows]


def to_memory(stream: DataFrame, name: str, checkpoint: Path) -> DataFrame:
    """Run a query over what is there now, into a table in memory."""
    start = stream.writeStream.format("memory").queryName(name)
    start = start.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    with stopped(start.start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    found: DataFrame = stream.sparkSession.table(name)
    return found


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry(user_info="reader:hunter2") as found:
        yield found


@pytest.mark.promise
def test_json_is_read_by_batches_and_streams(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    judge.produce(bootstrap, topic, *(order(number) for number in range(100)), (b"tombstone", None))
    expected = [order_row(number) for number in range(100)]
    rows = read(spark, bootstrap, topic, ORDER, JSON)
    assert rows.schema["id"].nullable is False
    assert plain(rows.orderBy("id").collect()) == expected
    stream = read_stream(spark, bootstrap, topic, ORDER, JSON | {"scan.max-records-per-batch": "40"})
    seen = to_memory(stream, "json_orders", tmp_path)
    assert plain(seen.orderBy("id").collect()) == expected


def test_keys_metadata_and_projection(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config=KEPT)
    headers = [("trace", b"1"), ("trace", b"2"), ("none", None)]
    judge.produce(
        bootstrap,
        topic,
        judge.Record(value=b'{"id":1,"v":"a"}', key=b'{"id":10}', headers=headers, timestamp_ms=AT_MS),
        judge.Record(value=b'{"id":2,"v":"b"}', key=None, timestamp_ms=AT_MS + 1),
    )
    schema = StructType(
        [
            StructField("event_time", TimestampType(), False, {"penstock.metadata": "timestamp"}),
            StructField("k_id", LongType()),
            StructField("id", LongType()),
            StructField("pos", LongType(), True, {"penstock.metadata": "offset"}),
        ]
    )
    keyed = {
        "key.format": "json",
        "key.fields": "k_id",
        "key.fields-prefix": "k_",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
    }
    rows = read(spark, bootstrap, topic, schema, keyed).orderBy("pos")
    assert plain(rows.collect()) == [
        {"event_time": AT, "k_id": 10, "id": 1, "pos": 0},
        {"event_time": AT.replace(microsecond=679000), "k_id": None, "id": 2, "pos": 1},
    ]
    everything = (
        "v STRING, topic STRING, p INT, `leader-epoch` INT, kind STRING, h MAP<STRING, BINARY>, "
        "hs ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    columns = "topic; p = partition; leader-epoch; kind = timestamp-type; h = headers; hs = header-list"
    first, second = read(spark, bootstrap, topic, everything, JSON | {"metadata.columns": columns}).collect()
    assert (first.v, first.topic, first.p, first["leader-epoch"], first.kind) == (
        "a",
        topic,
        0,
        0,
        "CreateTime",
    )
    assert first.h == {"trace": b"2", "none": None}
    assert [(one.key, one.value) for one in first.hs] == headers
    assert (second.h, second.hs) == ({}, [])


@pytest.mark.promise
@pytest.mark.parametrize(
    "options",
    [
        {"format": "csv", "csv.field-delimiter": "|", "csv.array-element-delimiter": ";"},
        {"format": "avro"},
        {"format": "json", "key.format": "raw", "key.fields": "id"},
    ],
    ids=lambda options: options["format"],
)
def test_what_was_written_is_read_back(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, options: dict[str, str]
) -> None:
    topic = make_topic(2)
    rows = spark.range(200).selectExpr(
        "id",
        "CAST(id / 8 AS DECIMAL(10, 2)) AS price",
        "date_add(DATE'2026-01-01', CAST(id AS INT)) AS day",
        "timestamp_millis(1767323045678 + id) AS at",
        "CAST(timestamp_millis(1767323045678 + id) AS TIMESTAMP_NTZ) AS local",
        "id % 2 = 0 AS flag",
        "id / 3 AS ratio",
        "CAST(CAST(id AS STRING) AS BINARY) AS blob",
        "sequence(0, CAST(id % 3 AS INT)) AS numbers",
        "concat('ümlaut \"quoted\" ', id) AS text",
    )
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        write(rows, bootstrap, topic, options)
        found = read(spark, bootstrap, topic, rows.schema, options)
        assert plain(found.orderBy("id").collect()) == plain(rows.orderBy("id").collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    if "key.fields" in options:
        keys = {record.key for record in judge.consume_all(bootstrap, topic)}
        assert keys == {number.to_bytes(8, "big") for number in range(200)}


def test_avro_by_another_librarys_writer(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "skipped", "type": {"type": "array", "items": "string"}},
            {"name": "id", "type": "int"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"]},
        ],
    }
    at = AT.replace(tzinfo=UTC)
    for number in range(3):
        buffer = io.BytesIO()
        order = {"skipped": ["x"] * number, "id": number, "at": at, "note": "n" if number else None}
        fastavro.schemaless_writer(buffer, schema, order)
        judge.produce(bootstrap, topic, buffer.getvalue())
    options = {"format": "avro", "avro.schema": json.dumps(schema)}
    rows = read(spark, bootstrap, topic, "note STRING, id BIGINT, at TIMESTAMP", options).orderBy("id")
    assert [tuple(row) for row in rows.collect()] == [(None, 0, AT), ("n", 1, AT), ("n", 2, AT)]


@pytest.mark.promise
def test_avro_with_a_schema_registry(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, registry: Registry
) -> None:
    """Write and read with Spark under a changed schema. The registry's login comes from the options."""
    topic = make_topic()
    login = {
        "value.format": "avro-confluent",
        "value.avro-confluent.url": registry.url,
        "value.avro-confluent.basic-auth.credentials-source": "USER_INFO",
        "value.avro-confluent.basic-auth.user-info": "reader:hunter2",
    }
    rows = spark.range(50).selectExpr("id", "concat('name ', id) AS name")
    write(rows, bootstrap, topic, login)
    assert list(registry.subjects) == [f"{topic}-value"]
    evolved = {
        "type": "record",
        "name": "evolved",
        "fields": [
            {"name": "added", "type": "double", "default": 0.5},
            {"name": "id", "type": "int"},
        ],
    }
    schema_id = registry.register(f"{topic}-value", evolved)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, evolved, {"added": 1.5, "id": 50})
    judge.produce(bootstrap, topic, b"\0" + schema_id.to_bytes(4, "big") + buffer.getvalue())
    found = read(
        spark,
        bootstrap,
        topic,
        "id BIGINT, name STRING, added DOUBLE",
        login,
    )
    expected = [(number, f"name {number}", None) for number in range(50)] + [(50, None, 1.5)]
    assert [tuple(row) for row in found.orderBy("id").collect()] == expected
    wrong = login | {"value.avro-confluent.basic-auth.user-info": "reader:topsecret"}
    with pytest.raises(Exception, match=r"refuses .* with 401") as caught:
        read(spark, bootstrap, topic, "id BIGINT", wrong).collect()
    assert "topsecret" not in str(caught.value)


def test_json_behind_a_registrys_header_in_a_view_of_sql(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with running_registry(bearer_token="t0ken") as registry:  # noqa: S106 - a made-up one
        options = {
            "format": "json-confluent",
            "json-confluent.url": registry.url,
            "json-confluent.bearer-auth.credentials-source": "STATIC_TOKEN",
            "json-confluent.bearer-auth.token": "t0ken",
        }
        write(spark.range(5).selectExpr("id", "id + 1 AS next"), bootstrap, topic, options)
    [schema] = registry.schemas.values()
    assert schema["schemaType"] == "JSON"
    assert all((record.value or b"")[:5] == b"\0\0\0\0\1" for record in judge.consume_all(bootstrap, topic))
    texts = options | {
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "metadata.columns": "offset",
    }
    listed = ", ".join(f"`{key}` '{text}'" for key, text in texts.items())
    view = "json_confluent_orders"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW {view} (next BIGINT, offset BIGINT) USING penstock "
        f"OPTIONS ({listed})"
    )
    found = spark.sql(f"SELECT sum(next), max(offset) FROM {view}").collect()  # noqa: S608 - our own name
    assert [tuple(row) for row in found] == [(15, 4)]


BAD = (b"{bad\x00", b'{"id":"x"}', b'{"v":1}')


def produce_bad(bootstrap: str, topic: str) -> None:
    good = [b'{"id":%d}' % number for number in range(500)]
    judge.produce(bootstrap, topic, *good[:250])
    for number, value in enumerate(BAD):
        key = b"k%d" % number if number else None
        judge.produce(
            bootstrap,
            topic,
            judge.Record(value=value, key=key, headers=[("own", b"1"), ("own", None)], timestamp_ms=AT_MS),
        )
    judge.produce(bootstrap, topic, *good[250:])


def test_bad_records_fail_or_are_skipped(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce_bad(bootstrap, topic)
    schema = "id BIGINT NOT NULL"
    with pytest.raises(Exception, match=rf"topic {topic}, partition 0, offset 250: value: ") as caught:
        read(spark, bootstrap, topic, schema, JSON).collect()
    assert "it begins: {bad\\x00" in str(caught.value)
    skipping = {"format": "json", "scan.on-decode-error": "skip"}
    rows = read(spark, bootstrap, topic, schema, skipping).collect()
    assert sorted(row.id for row in rows) == list(range(500))
    nowhere = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": f"{topic}-nowhere"}
    quick = {"properties.max.block.ms": "2000"}
    with pytest.raises(
        Exception, match=f"'{topic}-nowhere' of option 'scan.dead-letter.topic' does not exist"
    ):
        read(spark, bootstrap, topic, schema, JSON | nowhere | quick).collect()


@pytest.mark.promise
def test_a_query_that_failed_goes_on_with_dead_letters(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead = make_topic(config=KEPT), make_topic(config=KEPT, suffix="-dead")
    produce_bad(bootstrap, topic)
    schema = "id BIGINT NOT NULL, topic STRING, partition INT, offset BIGINT"
    options = JSON | {"metadata.columns": "topic; partition; offset", "scan.max-records-per-batch": "200"}
    seen: list[Row] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(batch.collect())

    def run(policy: dict[str, str]) -> None:
        start = read_stream(spark, bootstrap, topic, schema, options | policy).writeStream.foreachBatch(take)
        query = start.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        with stopped(query):
            assert query.awaitTermination(QUERY_TIMEOUT_S)

    with pytest.raises(StreamingQueryException, match=rf"topic {topic}, partition 0, offset 250: value: "):
        run({})
    assert [row.offset for row in seen] == list(range(200))
    # The failure lost no record: with another policy the query continues before the bad record.
    run({"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": dead})
    assert sorted(row.id for row in seen) == list(range(500))
    letters = judge.consume_all(bootstrap, dead)
    assert [(letter.key, letter.value) for letter in letters] == [
        (None, BAD[0]),
        (b"k1", BAD[1]),
        (b"k2", BAD[2]),
    ]
    for number, letter in enumerate(letters):
        assert letter.timestamp_ms == AT_MS
        assert letter.headers[:2] == (("own", b"1"), ("own", None))
        facts = {name.removeprefix("penstock.dead-letter."): text for name, text in letter.headers[2:]}
        assert b"value: " in (facts.pop("error") or b"")
        assert facts == {
            "topic": topic.encode(),
            "partition": b"0",
            "offset": b"%d" % (250 + number),
            "timestamp": b"%d" % AT_MS,
        }


def test_a_stream_whose_dead_letter_topic_is_missing_stops_before_its_first_batch(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b'{"id":1}')  # not a bad one: nothing is to be written there
    nowhere = {"scan.on-decode-error": "dead-letter", "scan.dead-letter.topic": f"{topic}-nowhere"}
    quick = {"properties.max.block.ms": "2000"}
    seen: list[Row] = []
    rows = read_stream(spark, bootstrap, topic, "id BIGINT", JSON | nowhere | quick)
    start = rows.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
    start = start.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with (
        stopped(start.start()) as query,
        pytest.raises(
            StreamingQueryException,
            match=f"'{topic}-nowhere' of option 'scan.dead-letter.topic' does not exist",
        ),
    ):
        query.awaitTermination(QUERY_TIMEOUT_S)
    assert seen == []


def test_rows_are_written_with_headers_and_timestamps_exactly_once(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """A typed copy, JSON to CSV, as one stream that is stopped and started again."""
    source, target = make_topic(2, config=KEPT), make_topic(2, config=KEPT, suffix="-copy")
    schema = StructType(
        [
            StructField("id", LongType()),
            StructField("name", StringType()),
            StructField("ts", TimestampType(), False, {"penstock.metadata": "timestamp"}),
        ]
    )
    rows = read_stream(spark, bootstrap, source, schema, JSON).withColumn(
        "traces", F.create_map(F.lit("trace"), F.col("name").cast("binary"))
    )
    rows = rows.withMetadata("traces", {"penstock.metadata": "headers"})
    options = {
        "format": "csv",
        "key.format": "raw",
        "key.fields": "name",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": target,
    }
    start = rows.writeStream.format("penstock").option("properties.bootstrap.servers", bootstrap)
    start = start.option("topic", target).options(**options)
    start = start.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    for first in (0, 100):
        judge.produce(
            bootstrap,
            source,
            *(
                judge.Record(value=b'{"id":%d,"name":"n%d"}' % (n, n), key=None, timestamp_ms=AT_MS + n)
                for n in range(first, first + 100)
            ),
        )
        with stopped(start.start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
    copied = sorted(judge.consume_all(bootstrap, target), key=lambda record: record.timestamp_ms or 0)
    assert [(record.key, record.value, record.timestamp_ms, record.headers) for record in copied] == [
        (b"n%d" % n, b"%d,n%d" % (n, n), AT_MS + n, (("trace", b"n%d" % n),)) for n in range(200)
    ]


def test_tables_through_spark_connect(
    connect_spark: Any, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, target = make_topic(), make_topic(suffix="-copy")
    rows = connect_spark.range(20).selectExpr("id", "named_struct('v', id * 2) AS nested")
    write(rows, bootstrap, topic, {"format": "json", "key.format": "json", "key.fields": "id"})
    schema = StructType(
        [
            StructField("id", LongType()),
            StructField("nested", StructType([StructField("v", LongType())])),
            StructField("pos", LongType(), True, {"penstock.metadata": "offset"}),
        ]
    )
    found = read(connect_spark, bootstrap, topic, schema, JSON).orderBy("id").collect()
    assert [(row.id, row.nested.v) for row in found] == [(number, 2 * number) for number in range(20)]
    assert sorted(row.pos for row in found) == list(range(20))
    stream = read_stream(connect_spark, bootstrap, topic, schema, JSON).drop("pos")
    start = stream.writeStream.format("penstock").option("properties.bootstrap.servers", bootstrap)
    start = start.option("topic", target).option("format", "avro")
    start = start.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    with stopped(start.start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    copied = read(connect_spark, bootstrap, target, "id BIGINT, nested STRUCT<v: BIGINT>", {"format": "avro"})
    assert sorted((row.id, row.nested.v) for row in copied.collect()) == [(n, 2 * n) for n in range(20)]
