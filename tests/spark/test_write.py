"""Batch and streaming writes, judged by an independent consumer."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, read_batch, read_stream, stopped

ALL_COLUMNS = (
    "topic STRING, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    "partition INT, timestamp TIMESTAMP"
)


def write(rows: DataFrame, bootstrap: str, **options: str) -> None:
    writer = rows.write.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**options).mode("append").save()


def values(records: list[judge.Record]) -> list[bytes]:
    return sorted(record.value or b"" for record in records)


@pytest.mark.promise
def test_every_column_becomes_its_part_of_the_record(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    forever = {"retention.ms": "-1"}  # the records are of 2024: retention would delete them at once
    topics = [make_topic(3, config=forever, suffix=f".{name}") for name in "ab"]
    time = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000)  # noqa: DTZ001 - the session's time zone is UTC
    rows: list[Any] = [
        (topics[0], b"k", b"v", [("h", b"1"), ("h", None), ("", b"")], 2, time),
        (topics[1], None, b"no key", None, 0, time),
        (topics[1], b"gone", None, [], 1, time),
        (topics[0], b"", b"", None, 1, time),
    ]
    write(spark.createDataFrame(rows, ALL_COLUMNS), bootstrap)
    found = [record for topic in topics for record in judge.consume_all(bootstrap, topic)]
    time_ms = 1714979289123
    assert {
        (record.topic, record.partition, record.key, record.value, record.headers, record.timestamp_ms)
        for record in found
    } == {
        (topics[0], 2, b"k", b"v", (("h", b"1"), ("h", None), ("", b"")), time_ms),
        (topics[1], 0, None, b"no key", (), time_ms),
        (topics[1], 1, b"gone", None, (), time_ms),
        (topics[0], 1, b"", b"", (), time_ms),
    }
    assert len(found) == 4


def test_text_is_written_as_utf_8_and_keys_go_where_javas_client_puts_them(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    ours, sparks = make_topic(7, suffix=".ours"), make_topic(7, suffix=".sparks")
    rows = spark.range(500).selectExpr("CAST(id AS STRING) AS key", "concat('Grüße ', id) AS value")
    write(rows, bootstrap, topic=ours)
    by_spark = rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    by_spark.option("topic", sparks).mode("append").save()
    partitions = [
        {record.key: (record.partition, record.value) for record in judge.consume_all(bootstrap, topic)}
        for topic in (ours, sparks)
    ]
    assert partitions[0] == partitions[1]
    assert len(partitions[0]) == 500


def test_a_large_dataframe_arrives_whole(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(4)
    rows = spark.range(0, 200_000, numPartitions=4).selectExpr("CAST(id AS STRING) AS value")
    write(rows, bootstrap, topic=topic, **{"kafka.compression.type": "lz4"})
    written = read_batch(spark, "kafka", {"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
    assert written.selectExpr("CAST(value AS STRING)").distinct().count() == 200_000
    assert written.count() == 200_000


@pytest.mark.promise
def test_a_stream_writes_each_row_once_across_restarts(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2, suffix=".source"), make_topic(3, suffix=".target")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    copied = read_stream(spark, "penstock", {**options, "maxOffsetsPerTrigger": "7"}).select("key", "value")
    expected = []
    for turn in range(2):
        sent = [b"%d-%d" % (turn, number) for number in range(20)]
        judge.produce(bootstrap, source, *sent)
        expected += sent
        start = copied.writeStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
        start = start.option("topic", target).option("checkpointLocation", str(tmp_path))
        with stopped(start.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
        assert values(judge.consume_all(bootstrap, target)) == sorted(expected)


def test_complete_mode_appends_the_whole_result_again(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(suffix=".source"), make_topic(suffix=".target")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    counts = read_stream(spark, "penstock", options).groupBy("key").count()
    rows = counts.selectExpr("key", "CAST(count AS STRING) AS value")
    start = rows.writeStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    start = start.option("topic", target).option("checkpointLocation", str(tmp_path)).outputMode("complete")
    judge.produce(bootstrap, source, (b"a", b"1"), (b"a", b"2"), (b"b", b"3"))
    with stopped(start.start()) as query:
        query.processAllAvailable()
        judge.produce(bootstrap, source, (b"b", b"4"))
        query.processAllAvailable()
    found = [(record.key, record.value) for record in judge.consume_all(bootstrap, target)]
    assert sorted(found[:2]) == [(b"a", b"2"), (b"b", b"1")]
    assert sorted(found[2:]) == [(b"a", b"2"), (b"b", b"2")]


def test_an_empty_dataframe_writes_nothing_and_asks_no_broker(spark: SparkSession) -> None:
    rows = spark.range(0).selectExpr("CAST(id AS STRING) AS value")
    write(rows, "localhost:1", topic="unused")


def test_a_failed_send_fails_the_job(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "2000"})
    rows = spark.range(3).selectExpr(
        "repeat('x', IF(id = 1, 5000, 1)) AS value", "CAST(id AS STRING) AS key", "0 AS partition"
    )
    with pytest.raises(Exception, match=f"{topic}-0"):
        write(rows.coalesce(1), bootstrap, topic=topic)


@pytest.mark.promise
def test_a_failed_send_fails_the_query(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source = make_topic(suffix=".source")
    target = make_topic(suffix=".target", config={"max.message.bytes": "2000"})
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": source, "startingOffsets": "earliest"}
    judge.produce(bootstrap, source, b"x" * 5000)
    rows = read_stream(spark, "penstock", options).select("value")
    start = rows.writeStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    start = start.option("topic", target).option("checkpointLocation", str(tmp_path))
    with stopped(start.start()) as query, pytest.raises(Exception, match=target):
        query.awaitTermination(QUERY_TIMEOUT_S)
    assert not list((tmp_path / "commits").glob("[0-9]*"))


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ("CAST(id AS STRING) AS value, id AS payload", "column payload"),
        ("id AS value", "column value, got int64"),
        ("CAST(id AS STRING) AS key", "Expected a column named value"),
    ],
)
def test_a_dataframe_that_is_no_kafka_record_is_refused(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, rows: str, complaint: str
) -> None:
    topic = make_topic()
    with pytest.raises(Exception, match=complaint):
        write(spark.range(3).selectExpr(*rows.split(", ")), bootstrap, topic=topic)
    assert judge.consume_all(bootstrap, topic) == []


def test_a_topic_cannot_be_overwritten(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    writer = rows.write.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    with pytest.raises(Exception, match="can only be appended to"):
        writer.option("topic", make_topic()).mode("overwrite").save()
