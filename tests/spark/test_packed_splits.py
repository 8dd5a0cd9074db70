"""Small ranges share a task: the rows are those of Spark's own source, each topic partition in order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import (
    QUERY_TIMEOUT_S,
    in_order,
    logged_offsets,
    positions,
    read_batch,
    read_stream,
    stopped,
)

PARTITIONS = 12


@pytest.fixture
def topic(bootstrap: str, make_topic: MakeTopic) -> str:
    """Partitions of all kinds: empty, of a few records, of hundreds, and with aborted transactions."""
    topic = make_topic(PARTITIONS)
    counts = [0, 1, 400, *random.Random(7).choices(range(2, 40), k=PARTITIONS - 3)]
    records = [
        judge.Record(b"%d" % number, partition=partition)
        for partition, count in enumerate(counts)
        for number in range(count)
    ]
    judge.produce(bootstrap, topic, *records)
    for number, is_committed in enumerate([True, False, True]):
        written = [
            judge.Record(b"%d" % number, partition=partition) for partition in (0, 3, 4) for _ in "abc"
        ]
        judge.produce_in_transaction(
            bootstrap, topic, *written, transactional_id=f"{topic}-{number}", is_committed=is_committed
        )
    return topic


@pytest.mark.parametrize(
    ("limits", "least", "most"),
    [
        ({}, 1, 1),
        ({"scan.pack-small-ranges": "false"}, PARTITIONS, PARTITIONS),
        ({"minPartitions": "5"}, 5, 5),
        ({"maxRecordsPerPartition": "60"}, 7, PARTITIONS),
    ],
    ids=["packed", "apart", "minimum", "maximum"],
)
def test_a_batch_read_gives_the_rows_of_sparks_own_source(
    spark: SparkSession, bootstrap: str, topic: str, limits: dict[str, str], least: int, most: int
) -> None:
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
    }
    ours = read_batch(spark, "penstock", {**given, **limits})
    rows = ours.collect()
    assert in_order(rows) == in_order(read_batch(spark, "kafka", given).collect())
    for partition in range(PARTITIONS):
        offsets = [row.offset for row in rows if row.partition == partition]
        assert offsets == sorted(offsets)
    assert least <= ours.rdd.getNumPartitions() <= most


def test_a_replay_of_a_packed_batch_reads_the_same_in_the_same_tasks(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "300",
        "minPartitions": "3",
    }
    runs: list[dict[int, list[list[tuple[str, int, int]]]]] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        tasks = batch.select("topic", "partition", "offset").rdd.map(tuple).glom().collect()
        runs[-1][batch_id] = tasks

    for _ in range(2):
        runs.append({})
        stream = read_stream(spark, "penstock", options)
        start = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(take)
        with stopped(start.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(QUERY_TIMEOUT_S)
        # As if the driver had died in the last batch, before Spark's own commit log.
        newest = max(first_run := runs[0])
        for name in (str(newest), f".{newest}.crc"):
            (tmp_path / "commits" / name).unlink(missing_ok=True)
    assert len(logged_offsets(tmp_path)) == len(first_run) >= 2
    assert runs[1] == {newest: first_run[newest]}
    assert all(len(tasks) >= 3 for tasks in first_run.values())
    read = [position for tasks in first_run.values() for task in tasks for position in task]
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    assert sorted(read) == positions(read_batch(spark, "kafka", given).collect())
