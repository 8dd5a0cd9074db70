"""`KafkaSource.builder()` on real Spark, classic and Connect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock import with_watermark
from penstock.flink import (
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    PartitionOffsetsRetriever,
)
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import logged_offsets, positions, run_available_now

COUNT = 10


class LastRecords(KafkaOffsetsInitializer):
    """Starts `count` records before the end of each log."""

    def __init__(self, count: int) -> None:
        self.count = count

    def get_partition_offsets(
        self, partitions: Collection[KafkaTopicPartition], retriever: PartitionOffsetsRetriever
    ) -> Mapping[KafkaTopicPartition, int]:
        begins = retriever.beginning_offsets(partitions)
        ends = retriever.end_offsets(partitions)
        return {tp: max(begins[tp], ends[tp] - self.count) for tp in partitions}


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    """Two partitions of ten records each."""
    topic = make_topic(2, config={"retention.ms": "-1"})  # the records are of 1970
    records = [
        judge.Record(value=b"%d" % n, partition=n % 2, timestamp_ms=1000 + n) for n in range(2 * COUNT)
    ]
    judge.produce(bootstrap, topic, *records, config={"linger.ms": 50})
    return topic


@pytest.fixture
def builder(bootstrap: str, topic: str) -> KafkaSourceBuilder:
    return KafkaSource.builder().set_bootstrap_servers(bootstrap).set_topics(topic)


def of_both(topic: str, start: int, stop: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for partition in range(2) for offset in range(start, stop)]


@pytest.mark.promise
def test_a_stream_from_the_builder(
    spark: SparkSession, builder: KafkaSourceBuilder, topic: str, tmp_path: Path
) -> None:
    stream = builder.set_starting_offsets(KafkaOffsetsInitializer.offsets({(topic, 0): 4, (topic, 1): 4}))  # type: ignore[dict-item]
    records = stream.build().load(spark)
    assert records.isStreaming
    [rows] = run_available_now(records, tmp_path)
    assert positions(rows) == of_both(topic, 4, COUNT)


def test_a_bounded_source_is_a_batch(spark: SparkSession, builder: KafkaSourceBuilder, topic: str) -> None:
    source = builder.set_starting_offsets(KafkaOffsetsInitializer.timestamp(1004))
    source.set_bounded(KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, p): 8 for p in range(2)}))
    records = source.build().load(spark)
    assert not records.isStreaming
    assert positions(records.collect()) == of_both(topic, 2, 8)


def test_an_initializer_of_the_user(spark: SparkSession, builder: KafkaSourceBuilder, topic: str) -> None:
    source = builder.set_starting_offsets(LastRecords(3)).set_bounded(LastRecords(1)).build()
    assert positions(source.load(spark).collect()) == of_both(topic, COUNT - 3, COUNT - 1)


def test_an_initializer_is_asked_once_and_the_checkpoint_keeps_its_answer(
    spark: SparkSession, builder: KafkaSourceBuilder, topic: str, bootstrap: str, tmp_path: Path
) -> None:
    source = builder.set_starting_offsets(LastRecords(3)).build()
    [rows] = run_available_now(source.load(spark), tmp_path)
    assert positions(rows) == of_both(topic, COUNT - 3, COUNT)
    more = [judge.Record(value=b"x", partition=n % 2) for n in range(20)]
    judge.produce(bootstrap, topic, *more)
    [rows] = run_available_now(source.load(spark), tmp_path)
    assert positions(rows) == of_both(topic, COUNT, 2 * COUNT)
    assert logged_offsets(tmp_path)[-1][topic] == {"0": 2 * COUNT, "1": 2 * COUNT}


def test_as_a_table(spark: SparkSession, builder: KafkaSourceBuilder) -> None:
    source = builder.set_bounded(KafkaOffsetsInitializer.latest()).build()
    source.as_table(spark, "builder_records")
    query = "SELECT sum(CAST(CAST(value AS STRING) AS INT)) AS total FROM builder_records WHERE partition = 1"
    assert spark.sql(query).first()["total"] == sum(range(1, 2 * COUNT, 2))  # type: ignore[index]


def test_a_stream_as_a_table(
    spark: SparkSession, builder: KafkaSourceBuilder, topic: str, tmp_path: Path
) -> None:
    builder.build().as_table(spark, "builder_stream")
    stream = spark.sql("SELECT * FROM builder_stream WHERE offset >= 5")
    assert stream.isStreaming
    [rows] = run_available_now(stream, tmp_path)
    assert positions(rows) == of_both(topic, 5, COUNT)


def test_through_connect(connect_spark: Any, builder: KafkaSourceBuilder, topic: str) -> None:
    source = builder.set_starting_offsets(LastRecords(3)).set_bounded(LastRecords(1)).build()
    assert positions(source.load(connect_spark).collect()) == of_both(topic, COUNT - 3, COUNT - 1)
    source.as_table(connect_spark, "builder_records")
    assert connect_spark.table("builder_records").count() == 4


def test_a_stream_with_an_initializer_and_a_watermark_through_connect(
    connect_spark: Any, builder: KafkaSourceBuilder, tmp_path: Path
) -> None:
    builder.set_starting_offsets(LastRecords(COUNT)).set_option("scan.watermark.alignment.max-drift", "1 min")
    source = builder.build()
    rows = with_watermark(source.load(connect_spark), "timestamp", "1 minute", source=source)
    assert rows.isStreaming
    start = rows.dropDuplicatesWithinWatermark(["value"]).writeStream.format("memory")
    query = (
        start.queryName("watermarked")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    assert connect_spark.table("watermarked").count() == 2 * COUNT
