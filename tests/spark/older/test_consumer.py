"""`FlinkKafkaConsumer` on real Spark and the real broker."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgesTopicPartition
from pyspark.sql import DataFrame, SparkSession

from penstock import (
    ConsumerRecord,
    FlinkKafkaConsumer,
    FlinkKafkaConsumer010,
    JsonDeserializationSchema,
    JSONKeyValueDeserializationSchema,
    KafkaDeserializationSchema,
    KafkaTopicPartition,
    KeyedDeserializationSchema,
    SimpleStringSchema,
)
from penstock.errors import OptionError, UnsupportedOptionError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.waiting import wait_until

COUNT = 5


class Placed(KeyedDeserializationSchema):
    """Everything that Flink gives; a tombstone is skipped."""

    def deserialize(
        self, message_key: bytes | None, message: bytes | None, topic: str, partition: int, offset: int
    ) -> Any:
        return None if message is None else (message_key, message, topic, partition, offset)

    def get_produced_type(self) -> str:
        return "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"


class UntilEnd(KafkaDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> Any:
        return (record.value or b"").decode(), record.partition

    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element[0] == "end")

    def get_produced_type(self) -> str:
        return "value STRING, partition INT"


def group() -> str:
    return f"older-{uuid.uuid4().hex[:8]}"


def commit(bootstrap: str, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    wanted = [JudgesTopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    client.commit(offsets=wanted, asynchronous=False)
    client.close()


def committed(bootstrap: str, group_id: str, topic: str, count: int) -> list[int]:
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    found = client.committed([JudgesTopicPartition(topic, partition) for partition in range(count)], 30)
    client.close()
    return [each.offset for each in found]


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    """Three partitions of five records: `<partition>-<offset>`."""
    topic = make_topic(3)
    fill(bootstrap, topic, range(COUNT))
    return topic


def fill(bootstrap: str, topic: str, offsets: range, partitions: int = 3) -> None:
    records = [
        judge.Record(b"%d-%d" % (partition, offset), partition=partition)
        for partition in range(partitions)
        for offset in offsets
    ]
    judge.produce(bootstrap, topic, *records)


def values(rows: list[Any]) -> list[str]:
    return sorted(row.value for row in rows)


def of(starts: dict[int, int], stop: int = COUNT) -> list[str]:
    return [f"{partition}-{n}" for partition, start in starts.items() for n in range(start, stop)]


@pytest.mark.parametrize(("reset", "without"), [("earliest", 0), ("largest", COUNT)])
def test_each_topic_partition_falls_back_to_the_group_and_then_to_the_reset(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path, reset: str, without: int
) -> None:
    group_id = group()
    commit(bootstrap, group_id, topic, {1: 3})
    properties = {"bootstrap.servers": bootstrap, "group.id": group_id, "auto.offset.reset": reset}
    consumer = FlinkKafkaConsumer010(topic, SimpleStringSchema(), properties)
    assert values(consumer.load_batch(spark).collect()) == of({0: without, 1: 3, 2: without})

    consumer.set_start_from_specific_offsets({KafkaTopicPartition(topic, 0): 4})
    stream = consumer.load(spark)
    assert stream.isStreaming
    batches = run_values(stream, tmp_path)
    assert batches == of({0: 4, 1: 3, 2: without})
    # The process that plans the query commits while it ends, and Spark does not wait for it.
    wait_until(lambda: committed(bootstrap, group_id, topic, 3) == [COUNT] * 3, "the offsets to be committed")

    fill(bootstrap, topic, range(COUNT, COUNT + 1))
    again = FlinkKafkaConsumer010(topic, SimpleStringSchema(), properties).set_start_from_earliest()
    again.set_commit_offsets_on_checkpoints(False)
    assert run_values(again.load(spark), tmp_path) == of(dict.fromkeys(range(3), COUNT), COUNT + 1)
    assert committed(bootstrap, group_id, topic, 3) == [COUNT] * 3, "nothing is committed any more"


def run_values(stream: DataFrame, checkpoint: Path) -> list[str]:
    found: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(row.value for row in batch.collect())

    start = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    with stopped(start.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(120)
    return sorted(found)


@pytest.mark.parametrize("interval_ms", [None, 100])
def test_discovery_is_off_by_default_and_can_be_turned_on(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path, interval_ms: int | None
) -> None:
    topic = make_topic(1)
    fill(bootstrap, topic, range(COUNT), partitions=1)
    properties: dict[str, Any] = {"bootstrap.servers": bootstrap}
    if interval_ms is not None:
        properties["flink.partition-discovery.interval-millis"] = interval_ms
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), properties).set_start_from_latest()
    found: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(row.value for row in batch.collect())

    start = consumer.load(spark).writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(take)
    with stopped(start.start()) as query:
        query.processAllAvailable()
        assert not found
        judge.add_partitions(bootstrap, topic, 2)
        judge.produce(bootstrap, topic, judge.Record(b"new", partition=1))
        judge.produce(bootstrap, topic, judge.Record(b"old", partition=0))
        wanted = ["old"] if interval_ms is None else ["new", "old"]
        wait_until(lambda: sorted(found) == wanted, "the records are read")
        query.processAllAvailable()
        assert sorted(found) == wanted


def test_end_of_stream_ends_each_topic_partition_by_itself(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    for partition, texts in ((0, ["a", "end", "b"]), (1, ["c", "d", "end", "end", "e"])):
        judge.produce(bootstrap, topic, *(judge.Record(t.encode(), partition=partition) for t in texts))
    consumer = FlinkKafkaConsumer(topic, UntilEnd(), {"bootstrap.servers": bootstrap})
    consumer.set_start_from_earliest()
    assert values(consumer.load_batch(spark).collect()) == ["a", "c", "d"]
    with pytest.raises(UnsupportedOptionError, match=r"Use load_batch\(spark\)"):
        consumer.load(spark)
    # A micro-batch for each record, so a task does not know the end. A restart ends at the same places.
    stream = consumer.set_option("scan.max-records-per-batch", "2").load_bounded(spark)
    assert run_values(stream, tmp_path) == ["a", "c", "d"]
    judge.produce(bootstrap, topic, judge.Record(b"later", partition=0))
    assert run_values(consumer.load_bounded(spark), tmp_path) == []
    with pytest.raises(OptionError, match=r"'scan\.min-splits' divides a topic partition"):
        consumer.set_option("scan.min-splits", "4").load_batch(spark)


def test_the_schemas(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    judge.produce(bootstrap, topic, (b'"k"', b'{"a": 1}'), (b'"t"', None), (None, b"[2]"))
    properties = {"bootstrap.servers": bootstrap}

    def rows(schema: Any) -> list[tuple[Any, ...]]:
        consumer = FlinkKafkaConsumer([topic], schema, properties).set_start_from_earliest()
        return [tuple(row) for row in consumer.load_batch(spark).collect()]

    assert rows(Placed()) == [(b'"k"', b'{"a": 1}', topic, 0, 0), (None, b"[2]", topic, 0, 2)]
    assert rows(JsonDeserializationSchema()) == [('{"a": 1}',), ("[2]",)]
    found = rows(JSONKeyValueDeserializationSchema(include_metadata=True))
    assert found[0] == ('"k"', '{"a": 1}', (0, topic, 0))
    assert [row[1] for row in found] == ['{"a": 1}', None, "[2]"]
