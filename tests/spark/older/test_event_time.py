"""Event time of an older consumer: from decoded rows, without a late row of a slow topic partition."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.flink import SimpleStringSchema, TimestampAssigner, WatermarkStrategy
from penstock.flink.legacy import FlinkKafkaConsumer
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, stopped

MINUTE_MS = 60_000
START_MS = 1_700_000_040_000 // MINUTE_MS * MINUTE_MS
PER_MINUTE, MINUTES = 2, 3


class TimeOfText(TimestampAssigner):
    """The time is the text after the partition."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value.partition(" ")[2])


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    """Partition 1 is an hour behind partition 0, in the texts only. Both end at the same time."""
    topic = make_topic(2)
    for partition, behind_ms in ((0, 0), (1, 60 * MINUTE_MS)):
        step_ms = MINUTE_MS // PER_MINUTE
        times_ms = [START_MS - behind_ms + number * step_ms for number in range(MINUTES * PER_MINUTE)]
        times_ms.append(START_MS + 10 * MINUTE_MS)
        texts = [b"%d %d" % (partition, time_ms) for time_ms in times_ms]
        judge.produce(bootstrap, topic, *(judge.Record(text, partition=partition) for text in texts))
    judge.produce(bootstrap, topic, judge.Record(b"9 %d" % (START_MS + 60 * MINUTE_MS), partition=0))
    return topic


@contextlib.contextmanager
def counting(rows: DataFrame, checkpoint: Path) -> Iterator[Counter[tuple[int, str]]]:
    """Count the rows of each minute and partition with a query that has ended when the context ends."""
    partition = F.split("value", " ")[0].alias("partition")
    counts = rows.groupBy(F.window("event_time", "1 minute"), partition).count()
    found: Counter[tuple[int, str]] = Counter()

    def take(batch: DataFrame, _: int) -> None:
        starts = F.unix_millis("window.start").alias("ms")
        for row in batch.select(starts, "partition", "count").collect():
            found[(row.ms - START_MS) // MINUTE_MS, row.partition] += row["count"]

    start = counts.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    with stopped(start.foreachBatch(take).trigger(availableNow=True).start()) as query:
        yield found
        assert query.awaitTermination(QUERY_TIMEOUT_S)


def test_topic_partitions_are_aligned_by_the_time_of_decoded_rows(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    # A drift of 5 min, so that the records of a topic partition fit into a batch or two.
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeOfText())
    strategy = strategy.with_watermark_alignment("test", "5 min")
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), {"bootstrap.servers": bootstrap})
    consumer.set_start_from_earliest().set_option("scan.max-records-per-batch", "8")
    consumer.assign_timestamps_and_watermarks(strategy)
    expected = Counter({(minute, "0"): PER_MINUTE for minute in range(MINUTES)})
    expected += Counter({(minute - 60, "1"): PER_MINUTE for minute in range(MINUTES)})
    expected += Counter({(10, "0"): 1, (10, "1"): 1})
    aligned = consumer.load(spark)
    consumer.assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(TimeOfText())
    )
    # Spark drops late rows by the watermark of two batches before, so the data needs more than two batches.
    consumer.set_option("scan.max-records-per-batch", "4")
    unaligned = consumer.load(spark).withWatermark("event_time", "1 minute")
    with counting(aligned, tmp_path / "1") as found, counting(unaligned, tmp_path / "2") as found_unaligned:
        pass
    assert found == expected
    assert found_unaligned.total() < expected.total(), "the data shows no problem"
    times = consumer.load_batch(spark).selectExpr("value", "unix_millis(event_time) AS ms").collect()
    assert {row.ms for row in times} == {int(row.value.split()[1]) for row in times}
