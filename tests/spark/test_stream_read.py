"""Streaming reads: rows, limits, starts and checkpoints as with Spark's own Kafka source."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.usage import snapshot
from confluent_kafka.admin import NewPartitions
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests import judge
from tests.fix_broker import MakeTopic
from tests.records import CORNERS
from tests.spark.queries import (
    QUERY_TIMEOUT_S,
    in_order,
    logged_offsets,
    positions,
    read_stream,
    run_available_now,
    stopped,
)
from tests.waiting import PATIENCE_S, wait_until

# Some of the records have times long ago, or far from now.
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    judge.produce(bootstrap, topic, *(judge.Record(b"%d" % n, partition=partition) for n in range(count)))


def options_for(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        **more,
    }


@contextlib.contextmanager
def running(stream: DataFrame, checkpoint: Path) -> Iterator[tuple[StreamingQuery, list[Row]]]:
    """A query with a processing-time trigger, and the rows that it has seen so far."""
    seen: list[Row] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(batch.collect())

    start = stream.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(take)
    with stopped(start.trigger(processingTime="200 milliseconds").start()) as query:
        yield query, seen


@pytest.mark.promise
def test_rows_are_those_of_sparks_own_source(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topics = [make_topic(3, config=ANY_TIME, suffix=f".{name}") for name in ("a", "b", "empty")]
    for topic in topics[:2]:
        judge.produce(bootstrap, topic, *CORNERS)
    options = options_for(bootstrap, ",".join(topics))
    seen = {
        source: run_available_now(read_stream(spark, source, options), tmp_path / source)
        for source in ("penstock", "kafka")
    }
    assert seen["penstock"] == seen["kafka"]
    assert [len(batch) for batch in seen["penstock"]] == [2 * len(CORNERS)]


@pytest.mark.promise
def test_a_checkpoint_moves_from_sparks_source_to_ours_and_back(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(3)
    seen: list[tuple[str, int, int]] = []
    expected: list[tuple[str, int, int]] = []
    for turn, source in enumerate(["kafka", "penstock", "kafka", "penstock", "penstock", "kafka"]):
        for partition in range(2):
            produce(bootstrap, topic, 10, partition)
            expected += [(topic, partition, 10 * turn + n) for n in range(10)]
        # The limit makes several batches in each turn, so that each connector takes over ends of every kind.
        options = options_for(bootstrap, topic, maxOffsetsPerTrigger="8")
        for batch in run_available_now(read_stream(spark, source, options), tmp_path):
            seen += positions(batch)
    assert sorted(seen) == sorted(expected)


def test_offsets_of_a_topic_that_left_are_kept_and_sparks_source_reads_the_checkpoint_at_any_time(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    kept, left = make_topic(suffix="-kept"), make_topic(suffix="-left")
    both, checkpoint, copy = f"{kept},{left}", tmp_path / "checkpoint", tmp_path / "copy"

    def turn(source: str, topics: str, folder: Path) -> list[tuple[str, int, int]]:
        for topic in (kept, left):
            produce(bootstrap, topic, 2)
        stream = read_stream(spark, source, options_for(bootstrap, topics))
        return sorted(at for batch in run_available_now(stream, folder) for at in positions(batch))

    assert turn("penstock", both, checkpoint) == sorted((t, 0, at) for t in (kept, left) for at in (0, 1))
    assert turn("penstock", kept, checkpoint) == [(kept, 0, 2), (kept, 0, 3)]
    assert any(key.startswith("$penstock/1 left ") for key in logged_offsets(checkpoint)[-1])
    shutil.copytree(checkpoint, copy)
    assert turn("kafka", kept, copy) == [(kept, 0, 4), (kept, 0, 5)]
    assert turn("penstock", both, checkpoint) == sorted(
        [(kept, 0, at) for at in range(4, 8)] + [(left, 0, at) for at in range(2, 8)]
    )
    assert turn("kafka", both, checkpoint) == sorted((t, 0, at) for t in (kept, left) for at in (8, 9))


def test_sparks_source_goes_on_after_exactly_one_batch_of_ours_from_latest(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    produce(bootstrap, topic, 5)
    options = options_for(bootstrap, topic, startingOffsets="latest")
    assert run_available_now(read_stream(spark, "penstock", options), tmp_path) == []
    assert len(logged_offsets(tmp_path)) == 1
    produce(bootstrap, topic, 7)
    batches = run_available_now(read_stream(spark, "kafka", options), tmp_path)
    assert [positions(batch) for batch in batches] == [[(topic, 0, offset) for offset in range(5, 12)]]


def test_a_crash_in_the_first_batch_loses_nothing_although_it_starts_at_latest(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    produce(bootstrap, topic, 5)
    options = options_for(bootstrap, topic, startingOffsets="latest", maxOffsetsPerTrigger="4")
    stream = read_stream(spark, "penstock", options)

    def fail(batch: DataFrame, _: int) -> None:
        raise ValueError(f"as if the driver crashed, at {batch.count()} rows")

    start = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(fail)
    with stopped(start.start()) as query, pytest.raises(Exception, match="as if the driver crashed"):
        query.awaitTermination(QUERY_TIMEOUT_S)
    first_start = json.loads(next(iter(logged_offsets(tmp_path)[0])).split(" ", 2)[2])
    assert first_start == {topic: {"0": 5, "1": 0}}

    produce(bootstrap, topic, 6)
    with running(stream, tmp_path) as (query, seen):
        produce(bootstrap, topic, 3)
        query.processAllAvailable()
    assert positions(seen) == [(topic, 0, offset) for offset in range(5, 14)]


@pytest.mark.promise
def test_a_batch_holds_no_more_than_the_limit_and_starves_no_partition(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(3)
    for partition, count in enumerate([60, 20, 2]):
        produce(bootstrap, topic, count, partition)
    options = options_for(bootstrap, topic, maxOffsetsPerTrigger="20")
    ours, sparks = (
        run_available_now(read_stream(spark, source, options), tmp_path / source)
        for source in ("penstock", "kafka")
    )
    assert [positions(batch) for batch in ours] == [positions(batch) for batch in sparks]
    assert all(len(batch) <= 20 + 3 for batch in ours)
    assert {row.partition for row in ours[0]} == {0, 1, 2}


def test_a_small_batch_is_held_back_and_a_batch_has_a_size_in_bytes(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 3)
    held = read_stream(spark, "penstock", options_for(bootstrap, topic, minOffsetsPerTrigger="10"))
    with running(held, tmp_path / "held") as (_, seen):
        wait_until(lambda: len(seen) == 3, "the first batch", timeout_s=QUERY_TIMEOUT_S)
        produce(bootstrap, topic, 4)
        produce(bootstrap, topic, 6)
        wait_until(lambda: len(seen) == 13, "the second batch", timeout_s=QUERY_TIMEOUT_S)
    assert [offset[topic]["0"] for offset in logged_offsets(tmp_path / "held")] == [3, 13]
    flink = {"properties.bootstrap.servers": bootstrap, "topic": topic, "scan.max-bytes-per-batch": "100 b"}
    batches = run_available_now(read_stream(spark, "penstock", flink), tmp_path / "bytes")
    assert 2 <= len(batches) <= 13
    assert sum(map(len, batches)) == 13


def test_available_now_splits_a_large_range_among_tasks(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 100)
    task_counts: list[int] = []
    rows: list[Row] = []

    def take(batch: DataFrame, _: int) -> None:
        task_counts.append(batch.rdd.getNumPartitions())
        rows.extend(batch.collect())

    stream = read_stream(spark, "penstock", options_for(bootstrap, topic, maxRecordsPerPartition="30"))
    start = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(take)
    with stopped(start.trigger(availableNow=True).start()) as query:
        assert query.awaitTermination(QUERY_TIMEOUT_S)
    assert task_counts == [4]
    assert positions(rows) == [(topic, 0, offset) for offset in range(100)]


def test_a_running_query_sees_what_comes_and_rests_when_nothing_does(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    produce(bootstrap, topic, 3)
    with running(read_stream(spark, "penstock", options_for(bootstrap, topic)), tmp_path) as (query, seen):
        query.processAllAvailable()
        batch_count = len(logged_offsets(tmp_path))
        for _ in range(5):
            query.processAllAvailable()  # returns after a trigger that found nothing
        assert len(logged_offsets(tmp_path)) == batch_count
        produce(bootstrap, topic, 4, partition=1)
        query.processAllAvailable()
        progress = query.lastProgress
        assert progress is not None
        assert json.loads(progress["sources"][0]["latestOffset"]) == {topic: {"0": 3, "1": 4}}
    assert positions(seen) == [(topic, 0, n) for n in range(3)] + [(topic, 1, n) for n in range(4)]


@pytest.mark.promise
def test_partitions_and_topics_that_appear_are_read_from_their_first_record(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(suffix=".first")
    options = options_for(bootstrap, topic, startingOffsets="latest")
    options["subscribePattern"] = topic.removesuffix(".first") + r"\..*"
    del options["subscribe"]
    with running(read_stream(spark, "penstock", options), tmp_path) as (query, seen):
        query.processAllAvailable()
        admin = judge.admin(bootstrap)
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
        judge.wait_for_leaders(bootstrap, topic, 2)
        produce(bootstrap, topic, 3, partition=1)
        second = topic.removesuffix(".first") + ".second"
        judge.create_topic(bootstrap, second)
        produce(bootstrap, second, 4)
        wait_until(lambda: len(seen) >= 7, "all new records are seen")
        query.processAllAvailable()
    assert positions(seen) == [(topic, 1, n) for n in range(3)] + [(second, 0, n) for n in range(4)]


@pytest.mark.promise
def test_a_topic_deleted_while_it_is_read_is_an_error(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 3)
    with running(read_stream(spark, "penstock", options_for(bootstrap, topic)), tmp_path) as (query, _):
        query.processAllAvailable()
        judge.delete_topic(bootstrap, topic)
        with pytest.raises(Exception, match=f"Data loss: the query was reading {topic}-0"):
            query.awaitTermination(QUERY_TIMEOUT_S)


@pytest.mark.promise
def test_records_deleted_before_they_were_read_are_an_error_unless_allowed(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 10)
    options = options_for(bootstrap, topic)
    run_available_now(read_stream(spark, "penstock", options), tmp_path)
    produce(bootstrap, topic, 10)
    judge.delete_records(bootstrap, topic, {0: 15})
    with pytest.raises(Exception, match=r"needs offset 10, but the first offset that Kafka still has is 15"):
        run_available_now(read_stream(spark, "penstock", options), tmp_path)
    lossy = read_stream(spark, "penstock", {**options, "failOnDataLoss": "false"})
    batches = run_available_now(lossy, tmp_path)
    assert [positions(batch) for batch in batches] == [[(topic, 0, n) for n in range(15, 20)]]


def test_a_batch_starts_no_process_and_opens_no_connection(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(20)
    stream = read_stream(spark, "penstock", options_for(bootstrap, topic))
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with stopped(writer.start()) as query:

        def run_batches() -> set[tuple[int, str]]:
            for _ in range(3):
                judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=n) for n in range(20)))
                query.processAllAvailable()
            return processes_and_connections(bootstrap)

        run_batches()
        before = run_batches()
        assert run_batches() <= before
    assert any(address for _, address in before), "planning and tasks have connections"


def processes_and_connections(bootstrap: str) -> set[tuple[int, str]]:
    """Our child processes, each once with "" and once with each of its connections to the broker."""
    port = f":{int(bootstrap.rpartition(':')[2]):04X}"
    tables = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    lines = [line.split() for line in tables.splitlines()]
    addresses = {f"socket:[{line[9]}]": line[1] for line in lines if line[2].endswith(port)}
    found: set[tuple[int, str]] = set()
    for pid in snapshot().keys() - {os.getpid()}:
        with contextlib.suppress(OSError):  # it ends now
            links = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
            found |= {(pid, ""), *((pid, addresses[link]) for link in links if link in addresses)}
    return found


@pytest.mark.promise
def test_read_committed_reads_up_to_open_transactions(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"before")
    open_one = judge.transactional_producer(bootstrap, topic)
    open_one.begin_transaction()
    judge.send(open_one, topic, [b"in"])
    open_one.flush()
    judge.produce(bootstrap, topic, b"behind")
    options = options_for(bootstrap, topic, **{"kafka.isolation.level": "read_committed"})
    first = run_available_now(read_stream(spark, "penstock", options), tmp_path)
    open_one.commit_transaction()
    judge.wait_for_markers(bootstrap)
    second = run_available_now(read_stream(spark, "penstock", options), tmp_path)
    values = [[bytes(row.value) for row in in_order(batch)] for batch in first + second]
    assert values == [[b"before"], [b"in", b"behind"]]
