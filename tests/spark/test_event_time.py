"""Event time: Spark does not drop rows of a slow topic partition as late."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock import KafkaSource
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import QUERY_TIMEOUT_S, logged_offsets, read_stream, stopped
from tests.waiting import wait_until

START_MS = 1_700_000_040_000  # a full minute
MINUTE_MS = 60_000
RECORDS_PER_MINUTE = 4
MINUTES = 5
BATCH = 10
KEEP = {"retention.ms": "-1"}  # the records are of 2023


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    """Partition 1 is an hour behind partition 0; partition 2 is empty."""
    topic = make_topic(3, config=KEEP)
    for partition, behind_ms in ((0, 0), (1, 60 * MINUTE_MS)):
        step_ms = MINUTE_MS // RECORDS_PER_MINUTE
        times_ms = [START_MS - behind_ms + number * step_ms for number in range(MINUTES * RECORDS_PER_MINUTE)]
        # Both end at the same time, so that reading the whole slow partition first would not help.
        times_ms += [START_MS + 10 * MINUTE_MS + number * step_ms for number in range(RECORDS_PER_MINUTE)]
        records = [judge.Record(value=b"x", partition=partition, timestamp_ms=ms) for ms in times_ms]
        judge.produce(bootstrap, topic, *records)
    judge.produce(bootstrap, topic, judge.Record(value=b"end", partition=0, timestamp_ms=START_MS + 10**7))
    return topic


def windows(
    spark: SparkSession, source: str, options: dict[str, str], checkpoint: Path
) -> Counter[tuple[int, int]]:
    """Return the records that the query counted, for each minute and partition."""
    rows = penstock.with_watermark(read_stream(spark, source, options), "timestamp", "1 minute")
    counts = rows.groupBy(F.window("timestamp", "1 minute"), "partition").count()
    counted: Counter[tuple[int, int]] = Counter()

    def take(batch: DataFrame, _: int) -> None:
        starts = F.unix_millis("window.start").alias("ms")
        for row in batch.select(starts, "partition", "count").collect():
            counted[(row.ms - START_MS) // MINUTE_MS, row.partition] += row["count"]

    start = counts.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    with stopped(start.foreachBatch(take).trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    return counted


def written(bootstrap: str, topic: str) -> Counter[tuple[int, int]]:
    """Return the same counts from the topic, without the last window, which stays open."""
    records = [record for record in judge.consume_all(bootstrap, topic) if record.value == b"x"]
    return Counter(
        (((record.timestamp_ms or 0) - START_MS) // MINUTE_MS, record.partition or 0) for record in records
    )


@pytest.mark.promise
def test_a_slow_topic_partition_loses_no_row(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    options = {
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "scan.max-records-per-batch": str(BATCH),
        "scan.watermark.alignment.max-drift": "1 min",
    }
    expected = written(bootstrap, topic)
    assert windows(spark, "penstock", options, tmp_path / "aligned") == expected
    assert len(logged_offsets(tmp_path / "aligned")) > 5

    del options["scan.watermark.alignment.max-drift"]
    unaligned = windows(spark, "penstock", options, tmp_path / "unaligned")
    assert unaligned.total() < expected.total(), "the data does not show the problem"


def test_sparks_own_source_does_lose_rows(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH),
    }
    counted = windows(spark, "kafka", options, tmp_path)
    assert counted.total() < written(bootstrap, topic).total()
    assert counted < written(bootstrap, topic)


def test_a_row_dated_next_year_does_not_make_later_rows_late(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2, config=KEEP | {"message.timestamp.after.max.ms": str(2**63 - 1)})
    now_ms = int(time.time() * 1_000)
    times_ms = [START_MS, now_ms + 365 * 24 * 60 * MINUTE_MS, START_MS + MINUTE_MS, START_MS + 2 * MINUTE_MS]
    records = [judge.Record(value=b"x", partition=0, timestamp_ms=ms) for ms in times_ms]
    ends = [judge.Record(b"end", partition=p, timestamp_ms=START_MS + 10 * MINUTE_MS) for p in (0, 1)]
    judge.produce(bootstrap, topic, *records, *ends)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_option("scan.watermark.alignment.max-drift", "1 min")
        .set_option("scan.max-records-per-batch", "1")
        .build()
    )

    def counted(name: str, guard: KafkaSource | None) -> Counter[int]:
        found: Counter[int] = Counter()
        rows = penstock.with_watermark(source.load(spark), "timestamp", "1 minute", source=guard)
        counts = rows.groupBy(F.window("timestamp", "1 minute")).count()

        def take(batch: DataFrame, _: int) -> None:
            starts = F.unix_millis("window.start").alias("ms")
            for row in batch.select(starts, "count").collect():
                found[(row.ms - START_MS) // MINUTE_MS] += row["count"]

        start = counts.writeStream.outputMode("append").option("checkpointLocation", str(tmp_path / name))
        with stopped(start.foreachBatch(take).trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
        return found

    assert counted("guarded", source) == {0: 1, 1: 1, 2: 1}
    assert counted("plain", None).total() < 3, "the data does not show the problem"


def test_a_running_stream_waits_for_the_slow_one_until_it_is_idle(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2, config=KEEP)
    for partition in range(2):
        judge.produce(bootstrap, topic, judge.Record(value=b"1", partition=partition, timestamp_ms=START_MS))
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(bootstrap)
        .set_topics(topic)
        .set_option("scan.watermark.alignment.max-drift", "1 min")
        .set_option("scan.idle-timeout", "10 s")
        .build()
    )
    seen: list[tuple[int, int]] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.extend((row.partition, int(row.value)) for row in batch.collect())

    start = source.load(spark).writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    with stopped(start.start()) as query:
        query.processAllAvailable()
        assert sorted(seen) == [(0, 1), (1, 1)]
        ahead = [judge.Record(value=b"2", partition=0, timestamp_ms=START_MS + 10 * MINUTE_MS)]
        judge.produce(bootstrap, topic, *ahead)
        behind = [judge.Record(value=b"3", partition=1, timestamp_ms=START_MS + MINUTE_MS)]
        judge.produce(bootstrap, topic, *behind)
        # Partition 1 is read to its end again: after 10 s it is idle and no longer holds partition 0 back.
        wait_until(lambda: len(seen) == 4, "the records of both are read")
    assert seen[2:] == [(1, 3), (0, 2)]
