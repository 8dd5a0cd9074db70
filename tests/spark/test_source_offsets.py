"""Ends and committed offsets of streams on Spark, and starts by time as with Spark's own source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgePartition
from pyspark.sql import SparkSession

import penstock
from penstock.errors import OptionError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judge import Record
from tests.spark.queries import (
    QUERY_TIMEOUT_S,
    in_order,
    logged_offsets,
    positions,
    read_batch,
    read_stream,
    run_available_now,
    stopped,
)
from tests.waiting import PATIENCE_S, wait_until


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    judge.produce(bootstrap, topic, *(Record(b"%d" % n, partition=partition) for n in range(count)))


def bounded_options(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": bootstrap,
        "properties.group.id": f"g-{topic}",
        "topic": topic,
        "scan.bounded.mode": "latest-offset",
        **more,
    }


def committed(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g-{topic}"})
    (found,) = consumer.committed([JudgePartition(topic, 0)], timeout=PATIENCE_S)
    consumer.close()
    return int(found.offset)


def start_copy(spark: Any, options: dict[str, str], checkpoint: Path, target: str) -> Any:
    """A query that writes the offset of each record to a topic."""
    stream = spark.readStream.format("penstock").options(**options).load()
    offsets = stream.selectExpr("CAST(CAST(offset AS STRING) AS BINARY) AS value")
    writer = offsets.writeStream.format("penstock").option("checkpointLocation", str(checkpoint))
    servers = options["properties.bootstrap.servers"]
    writer = writer.option("properties.bootstrap.servers", servers).option("topic", target)
    return writer.trigger(processingTime="0 seconds").start()


def wait_for_committed(bootstrap: str, topic: str, offset: int) -> None:
    """Wait for the last commit: Spark ends a query before its Python process, which commits, has stopped."""
    wait_until(lambda: committed(bootstrap, topic) == offset, f"{offset} to be committed")


def copied(bootstrap: str, target: str) -> list[int]:
    return sorted(int(record.value or b"") for record in judge.consume_all(bootstrap, target))


@pytest.mark.promise
@pytest.mark.parametrize("session", ["spark", "connect_spark"])
def test_a_running_stream_stops_where_it_was_told_to(
    session: str, request: pytest.FixtureRequest, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    spark = request.getfixturevalue(session)
    topic, target = make_topic(), make_topic(suffix="-copy")
    produce(bootstrap, topic, 10)
    options = bounded_options(bootstrap, topic, **{"scan.max-records-per-batch": "4"})
    for _ in range(2):
        query = start_copy(spark, options, tmp_path, target)
        with stopped(query):
            produce(bootstrap, topic, 5)
            assert penstock.run_until_bounded(query, timeout=QUERY_TIMEOUT_S)
            assert not query.isActive
        # The second run is already at its end, although the topic has more records by then.
        marker = next(key for key in logged_offsets(tmp_path)[-1] if " stop " in key)
        stop = json.loads(marker.split(" ", 2)[2])[topic]["0"]
        assert stop in (10, 15)
        assert copied(bootstrap, target) == list(range(stop))
        wait_for_committed(bootstrap, topic, stop)


def test_waiting_for_the_end_has_a_time_out_and_needs_an_end(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic, target = make_topic(), make_topic(suffix="-copy")
    produce(bootstrap, topic, 5)
    far = bounded_options(
        bootstrap,
        topic,
        **{"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:9"},
    )
    with stopped(start_copy(spark, far, tmp_path / "far", target)) as query:
        assert not penstock.run_until_bounded(query, timeout=0.2)
        assert query.isActive
        produce(bootstrap, topic, 6)
        assert penstock.run_until_bounded(query, timeout=QUERY_TIMEOUT_S)
    assert copied(bootstrap, target) == list(range(9))
    endless = bounded_options(bootstrap, topic, **{"scan.bounded.mode": "unbounded"})
    with stopped(start_copy(spark, endless, tmp_path / "endless", target)) as query:
        with pytest.raises(OptionError, match=r"No source of this query has an end"):
            penstock.run_until_bounded(query, timeout=QUERY_TIMEOUT_S)
        assert query.isActive


def test_available_now_commits_its_last_batch(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 10)
    options = bounded_options(bootstrap, topic, **{"scan.bounded.mode": "unbounded"})
    options["scan.max-records-per-batch"] = "4"
    assert len(run_available_now(read_stream(spark, "penstock", options), tmp_path)) == 3
    wait_for_committed(bootstrap, topic, 10)


@pytest.mark.promise
def test_a_group_never_is_ahead_of_the_checkpoint(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 10)
    options = bounded_options(bootstrap, topic, **{"scan.max-records-per-batch": "4"})
    seen: list[int] = []

    def look(batch: Any, batch_id: int) -> None:
        seen.append(committed(bootstrap, topic))
        assert batch.count() or batch_id > 2

    stream = read_stream(spark, "penstock", options)
    query = stream.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(look).start()
    with stopped(query):
        assert penstock.run_until_bounded(query, timeout=QUERY_TIMEOUT_S)
    assert seen[0] < 0
    assert all(offset <= 4 * batch for batch, offset in enumerate(seen))
    wait_for_committed(bootstrap, topic, 10)


def test_sparks_own_source_reads_the_checkpoint_of_a_bounded_stream(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 5)
    ours = bounded_options(bootstrap, topic)
    assert [len(batch) for batch in run_available_now(read_stream(spark, "penstock", ours), tmp_path)] == [5]
    produce(bootstrap, topic, 4)
    sparks = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    batches = run_available_now(read_stream(spark, "kafka", sparks), tmp_path)
    assert [positions(batch) for batch in batches] == [[(topic, 0, offset) for offset in range(5, 9)]]


BY_TIME: dict[str, dict[str, str]] = {
    "both ends": {"startingTimestamp": "2000", "endingTimestamp": "4000"},
    "a start before all": {"startingTimestamp": "0"},
    "an end behind all": {"endingTimestamp": "9000"},
    "for each": {
        "startingOffsetsByTimestamp": '{"{topic}":{"0":2000,"1":1500}}',
        "endingOffsetsByTimestamp": '{"{topic}":{"0":4500,"1":9000}}',
    },
    "no match, as latest": {"startingTimestamp": "4500", "startingOffsetsByTimestampStrategy": "latest"},
    "precedence": {"startingTimestamp": "3000", "startingOffsets": "earliest", "endingOffsets": "latest"},
}


@pytest.mark.parametrize("options", BY_TIME.values(), ids=BY_TIME)
def test_a_batch_by_time_is_sparks_own(
    options: dict[str, str], spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(2, config={"retention.ms": "-1"})
    times = {0: [1000, 2000, 3000, 5000, 4000], 1: [1000, 2000, 4000]}
    for partition, of_partition in times.items():
        records = [Record(b"x", partition=partition, timestamp_ms=time_ms) for time_ms in of_partition]
        judge.produce(bootstrap, topic, *records)
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    given |= {key: text.replace("{topic}", topic) for key, text in options.items()}
    ours, sparks = (in_order(read_batch(spark, source, given).collect()) for source in ("penstock", "kafka"))
    assert positions(ours) == positions(sparks) != []
