"""`FlinkKafkaProducer` on real Spark and the real broker, judged by an independent consumer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from penstock.devbroker import DevCluster
from penstock.errors import RowError
from penstock.flink import SimpleStringSchema
from penstock.flink.legacy import (
    FlinkKafkaPartitioner,
    FlinkKafkaProducer,
    FlinkKafkaProducer010,
    KafkaSerializationSchema,
    KeyedSerializationSchema,
    ProducerRecord,
    Semantic,
)
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

TIME_MS = 1_700_000_000_000
KEEPS = {"retention.ms": "-1"}
"""The timestamps are of 2023."""


class Keyed(KeyedSerializationSchema):
    """Odd numbers go to another topic. Number 4 is a tombstone, and number 0 has no key."""

    def __init__(self, odd_topic: str) -> None:
        self.odd_topic = odd_topic

    def serialize_key(self, element: Row) -> bytes | None:
        return None if element.number == 0 else b"k%d" % element.number

    def serialize_value(self, element: Row) -> bytes | None:
        return None if element.number == 4 else b"%d" % element.number

    def get_target_topic(self, element: Row) -> str | None:
        return self.odd_topic if element.number % 2 else None


class Whole(KafkaSerializationSchema):
    def __init__(self, topic: str) -> None:
        self.topic = topic

    def serialize(self, element: Row, timestamp: int | None) -> ProducerRecord:
        return ProducerRecord(
            self.topic,
            b"%d" % element.number,
            key=b"k",
            partition=2 if element.number == 0 else None,
            timestamp=None if timestamp is None else timestamp + 1,
            headers=[("h", b"1"), ("none", None)],
        )


class ToLast(FlinkKafkaPartitioner):
    def partition(self, record: Any, key: Any, value: Any, target_topic: str, partitions: Any) -> int:
        return int(partitions[-1])


def numbers(spark: SparkSession, count: int = 6) -> DataFrame:
    return spark.range(count).selectExpr(
        "id AS number", "CAST(id AS STRING) AS value", f"timestamp_millis({TIME_MS} + id) AS event_time"
    )


def consumed(broker: DevCluster, topic: str) -> list[judge.Record]:
    return judge.consume_all(broker.bootstrap_servers, topic)


def test_keys_topics_and_timestamps(spark: SparkSession, broker: DevCluster, make_topic: MakeTopic) -> None:
    even, odd = make_topic(3, config=KEEPS), make_topic(3, config=KEEPS, suffix="-odd")
    config = {"bootstrap.servers": broker.bootstrap_servers}
    producer = FlinkKafkaProducer(even, Keyed(odd), config, ToLast(), Semantic.EXACTLY_ONCE)
    producer.set_transactional_id_prefix(f"older-{even[-12:]}").set_write_timestamp_to_kafka(True)
    producer.write(numbers(spark))
    found = sorted(consumed(broker, even), key=lambda record: record.timestamp_ms or 0)
    assert [(record.key, record.value) for record in found] == [(None, b"0"), (b"k2", b"2"), (b"k4", None)]
    assert [record.timestamp_ms for record in found] == [TIME_MS, TIME_MS + 2, TIME_MS + 4]
    assert sorted(record.value or b"" for record in consumed(broker, odd)) == [b"1", b"3", b"5"]
    assert {record.partition for record in [*found, *consumed(broker, odd)]} == {2}


@pytest.mark.promise
def test_whole_records(spark: SparkSession, broker: DevCluster, make_topic: MakeTopic) -> None:
    topic = make_topic(3, config=KEEPS)
    config = {"bootstrap.servers": broker.bootstrap_servers}
    FlinkKafkaProducer("unused", Whole(topic), config, Semantic.AT_LEAST_ONCE).write(numbers(spark))
    found = sorted(consumed(broker, topic), key=lambda record: record.value or b"")
    assert [record.value for record in found] == [b"%d" % n for n in range(6)]
    assert [record.timestamp_ms for record in found] == [TIME_MS + n + 1 for n in range(6)]
    assert {record.key for record in found} == {b"k"}
    assert {tuple(record.headers) for record in found} == {(("h", b"1"), ("none", None))}
    assert found[0].partition == 2
    assert len({record.partition for record in found[1:]}) == 1


def test_a_column_named_timestamp_of_another_type_is_no_event_time(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr("id AS number", "'a' AS value", "CAST(7 AS BIGINT) AS timestamp")
    config = {"bootstrap.servers": "unused:9092"}
    producer = FlinkKafkaProducer("unused", Whole("unused"), config)
    assert producer.sink().records(rows).collect()[0].timestamp is None
    values = FlinkKafkaProducer("unused", SimpleStringSchema(), config)
    with pytest.raises(RowError, match=r"no column event_time or timestamp of type TIMESTAMP"):
        values.set_write_timestamp_to_kafka(True).sink().records(rows)


def test_timestamps_are_written_only_if_asked_for(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, config=KEEPS, suffix="-target")
    judge.produce(broker.bootstrap_servers, source, b"a", b"b")
    config = {"bootstrap.servers": broker.bootstrap_servers}
    before_ms = int(time.time() * 1000) - 60_000
    stream = (
        spark.readStream.format("penstock")
        .option("properties.bootstrap.servers", broker.bootstrap_servers)
        .option("topic", source)
        .load()
        .selectExpr("CAST(value AS STRING) AS value", f"timestamp_millis({TIME_MS}) AS at")
    )
    made = FlinkKafkaProducer010.write_to_kafka_with_timestamps(stream, topic, SimpleStringSchema(), config)
    with stopped(made.write_stream(str(tmp_path), trigger={"availableNow": True})) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    found = judge.consume_until(broker.bootstrap_servers, topic, 2)
    assert all((record.timestamp_ms or 0) > before_ms for record in found)
    rows = spark.sql(f"SELECT 'c' AS value, timestamp_millis({TIME_MS}) AS at")
    text = SimpleStringSchema(column="value")
    made = FlinkKafkaProducer010.write_to_kafka_with_timestamps(rows, topic, text, config)
    made.set_write_timestamp_to_kafka(True, timestamp_column="at").set_flush_on_checkpoint(True).write()
    found = judge.consume_until(broker.bootstrap_servers, topic, 3)
    assert [record.value for record in found if record.timestamp_ms == TIME_MS] == [b"c"]
    with pytest.raises(RowError, match="no column event_time or timestamp of type TIMESTAMP"):
        made.set_write_timestamp_to_kafka(True).write()
