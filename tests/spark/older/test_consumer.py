"""`FlinkKafkaConsumer` on real Spark and the real broker."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgesTopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import OptionError, UnsupportedOptionError
from penstock.flink import (
    ConsumerRecord,
    JSONKeyValueDeserializationSchema,
    KafkaTopicPartition,
    SimpleStringSchema,
)
from penstock.flink.legacy import (
    FlinkKafkaConsumer,
    FlinkKafkaConsumer010,
    JsonDeserializationSchema,
    KafkaDeserializationSchema,
    KeyedDeserializationSchema,
)
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.waiting import wait_until

COUNT = 5


class WithOffsets(KeyedDeserializationSchema):
    """Everything that Flink gives; a tombstone is skipped."""

    def deserialize(
        self, message_key: bytes | None, message: bytes | None, topic: str, partition: int, offset: int
    ) -> Any:
        return None if message is None else (message_key, message, topic, partition, offset)

    def get_produced_type(self) -> str:
        return "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"


class UntilEnd(KafkaDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> Any:
        if record.value == b"bad":
            raise ValueError("bad")
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


@pytest.mark.promise
def test_each_topic_partition_falls_back_to_the_group_and_then_to_the_reset(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    group_id = group()
    commit(bootstrap, group_id, topic, {1: 3})
    for reset, without in (("earliest", 0), ("largest", COUNT)):
        properties = {"bootstrap.servers": bootstrap, "group.id": group_id, "auto.offset.reset": reset}
        consumer = FlinkKafkaConsumer010(topic, SimpleStringSchema(), properties)
        assert values(consumer.load_batch(spark).collect()) == of({0: without, 1: 3, 2: without})

    properties["auto.offset.reset"] = "earliest"
    consumer = FlinkKafkaConsumer010(topic, SimpleStringSchema(), properties)
    consumer.set_start_from_specific_offsets({KafkaTopicPartition(topic, 0): 4})
    stream = consumer.load(spark)
    assert stream.isStreaming
    assert run_values(stream, tmp_path) == of({0: 4, 1: 3, 2: 0})
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


def test_discovery_is_off_by_default_and_can_be_turned_on(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(1)
    fill(bootstrap, topic, range(COUNT), partitions=1)
    found: dict[str, list[str]] = {"off": [], "on": []}

    def start(name: str, **more: Any) -> StreamingQuery:
        properties = {"bootstrap.servers": bootstrap, **more}
        consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), properties).set_start_from_latest()

        def take(batch: DataFrame, _: int) -> None:
            found[name].extend(row.value for row in batch.collect())

        writer = consumer.load(spark).writeStream.option("checkpointLocation", str(tmp_path / name))
        return writer.foreachBatch(take).start()

    with (
        stopped(start("off")) as without,
        stopped(start("on", **{"flink.partition-discovery.interval-millis": 100})) as with_discovery,
    ):
        without.processAllAvailable()
        with_discovery.processAllAvailable()
        assert found == {"off": [], "on": []}
        judge.add_partitions(bootstrap, topic, 2)
        judge.produce(bootstrap, topic, judge.Record(b"new", partition=1))
        wait_until(lambda: found["on"] == ["new"], "the new topic partition is read")
        judge.produce(bootstrap, topic, judge.Record(b"old", partition=0))
        without.processAllAvailable()
        with_discovery.processAllAvailable()
        assert found == {"off": ["old"], "on": ["new", "old"]}


def test_end_of_stream_ends_each_topic_partition_by_itself(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, dead_letters = make_topic(2), make_topic(1, suffix="-dead")
    for partition, texts in ((0, ["a", "bad", "end", "b"]), (1, ["c", "d", "end", "end", "e"])):
        judge.produce(bootstrap, topic, *(judge.Record(t.encode(), partition=partition) for t in texts))
    consumer = FlinkKafkaConsumer(topic, UntilEnd(), {"bootstrap.servers": bootstrap})
    consumer.set_start_from_earliest().set_option("scan.on-decode-error", "skip")
    assert values(consumer.load_batch(spark).collect()) == ["a", "c", "d"]
    with pytest.raises(UnsupportedOptionError, match=r"Use load_batch\(spark\)"):
        consumer.load(spark)
    consumer = FlinkKafkaConsumer(topic, UntilEnd(), {"bootstrap.servers": bootstrap})
    consumer.set_start_from_earliest().set_option("scan.on-decode-error", "dead-letter")
    # A micro-batch for each two records, so a task does not know the end.
    consumer.set_option("scan.dead-letter.topic", dead_letters).set_option("scan.max-records-per-batch", "2")
    stream = consumer.load_bounded(spark)
    judge.produce(bootstrap, topic, judge.Record(b"later", partition=0))  # the end is looked for after this
    assert run_values(stream, tmp_path) == ["a", "c", "d"]
    assert [record.value for record in judge.consume_all(bootstrap, dead_letters)] == [b"bad"]
    with pytest.raises(OptionError, match=r"'scan\.min-splits' divides a topic partition"):
        consumer.set_option("scan.min-splits", "4").load_batch(spark)


def test_the_schemas(spark: SparkSession, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    judge.produce(bootstrap, topic, (b'"k"', b'{"a": 1}'), (b'"t"', None), (None, b"[2]"))
    properties = {"bootstrap.servers": bootstrap}

    def rows(schema: Any) -> list[tuple[Any, ...]]:
        consumer = FlinkKafkaConsumer([topic], schema, properties).set_start_from_earliest()
        return [tuple(row) for row in consumer.load_batch(spark).collect()]

    assert rows(WithOffsets()) == [(b'"k"', b'{"a": 1}', topic, 0, 0), (None, b"[2]", topic, 0, 2)]
    assert rows(JsonDeserializationSchema()) == [('{"a": 1}',), ("[2]",)]
    found = rows(JSONKeyValueDeserializationSchema(include_metadata=True))
    assert found[0] == ('"k"', '{"a": 1}', (0, topic, 0))
    assert [row[1] for row in found] == ['{"a": 1}', None, "[2]"]
