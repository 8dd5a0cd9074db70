"""A query stops between two batches: nothing comes again, so the next start may be of a changed query."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

import penstock
from penstock.devbroker import DevCluster
from penstock.spark.stop_after_batch import _StoppingQuery, stop_all_after_batch
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import read_stream
from tests.waiting import wait_until

STOPS = 20
RECORDS = 60_000
WAIT_MS = 120_000


def batches(checkpoint: Path, log: str) -> list[int]:
    folder = checkpoint / log
    names = [file.name for file in folder.iterdir()] if folder.exists() else []
    return sorted(int(name) for name in names if name.isdigit())


def assert_between_batches(checkpoint: Path) -> None:
    assert batches(checkpoint, "offsets") == batches(checkpoint, "commits")


@pytest.mark.long
def test_twenty_stops_under_load_repeat_no_batch_of_a_query_that_changes_each_time(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Each run has another filter. A replay would end with TransactionsInDoubtError or show in the target."""
    servers = broker.bootstrap_servers
    topics, target = (make_topic(2), make_topic(1, suffix="-b")), make_topic(2, suffix="-copy")
    written = [
        record
        for number, topic in enumerate(topics)
        for record in judge.produce(servers, topic, *(b"%d" % n for n in range(number, RECORDS, 2)))
    ]
    expected, position = Counter[bytes | None](), dict[Any, int]()
    for run in range(STOPS):
        copy_until(spark, servers, (*topics, target), tmp_path, run)
        assert_between_batches(tmp_path)
        reached = ends(tmp_path)
        expected.update(
            record.value
            for record in written
            if position.get(topic_partition_of(record), 0)
            <= (record.offset or 0)
            < reached[topic_partition_of(record)]
            and int(record.value or b"") % (run + 2) == 0
        )
        position = reached
    assert sum(position.values()) < len(written), "there was always more to read"
    assert Counter(record.value for record in judge.consume_all(servers, target)) == expected


def copy_until(
    spark: SparkSession, servers: str, topics: tuple[str, str, str], checkpoint: Path, run: int
) -> None:
    """Start the query of a run, and stop it after some batches: within one, or when one ends."""
    first, second = (read_stream(spark, "penstock", read_options(servers, each)) for each in topics[:2])
    rows = first.unionAll(second).select("key", "value")
    rows = rows.where((F.col("value").cast("string").cast("bigint") % (run + 2)) == 0)
    writer = rows.writeStream.format("penstock").options(**write_options(servers, topics[2]))
    before = max(batches(checkpoint, "commits"), default=-1)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    wait_until(
        lambda: max(batches(checkpoint, ("offsets", "commits")[run % 2]), default=-1) > before + 1,
        "a batch of this run",
        progress=lambda: query.exception() and query.awaitTermination(),
    )
    assert penstock.stop_after_batch(query, WAIT_MS)


def topic_partition_of(record: judge.Record) -> tuple[str | None, int | None]:
    return record.topic, record.partition


def read_options(servers: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
    }


def write_options(servers: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": servers,
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"test-{topic}",
    }


def ends(checkpoint: Path) -> dict[Any, int]:
    newest = checkpoint / "offsets" / str(batches(checkpoint, "offsets")[-1])
    found = {}
    for line in newest.read_text().splitlines()[2:]:
        for topic, positions in json.loads(line).items():
            if topic.startswith("_") or not all(name.isdigit() for name in positions):
                continue
            found.update({(topic, int(number)): offset for number, offset in positions.items()})
    return found


class Held:
    """A function of foreachBatch that waits in each batch until it is let go."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, batch: DataFrame, _: int) -> None:
        batch.count()
        self.begun.set()
        assert self.may_end.wait(WAIT_MS / 1000)


def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def windows(spark: SparkSession) -> DataFrame:
    """Rows whose windows close in batches without new rows, too."""
    rows = rate(spark).withWatermark("timestamp", "1 second")
    return rows.groupBy(F.window("timestamp", "1 second")).count()


@pytest.mark.parametrize(
    ("rows", "trigger"),
    [
        (rate, {}),
        (rate, {"processingTime": "1 hour"}),
        (rate, {"availableNow": True}),
        (windows, {"processingTime": "100 milliseconds"}),
    ],
)
def test_a_batch_is_waited_for_and_no_other_begins(
    spark: SparkSession, tmp_path: Path, rows: Callable[[SparkSession], DataFrame], trigger: dict[str, Any]
) -> None:
    held = Held()
    writer = rows(spark).writeStream.foreachBatch(held).option("checkpointLocation", str(tmp_path))
    query = (writer.trigger(**trigger) if trigger else writer).start()
    try:
        assert held.begun.wait(WAIT_MS / 1000)
        assert penstock.stop_after_batch(query, 300) is False
        assert batches(tmp_path, "commits") == []
        held.may_end.set()
        assert penstock.stop_after_batch(query, WAIT_MS)
        assert batches(tmp_path, "commits") == batches(tmp_path, "offsets") == [0]
    finally:
        held.may_end.set()
        query.stop()
    assert penstock.stop_after_batch(query)  # it has stopped


def test_a_query_that_waits_for_its_trigger_stops_at_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = start(rate(spark), tmp_path, processingTime="1 hour")
    wait_until(lambda: batches(tmp_path, "commits") == [0], "the first batch")
    assert stop_all_after_batch([query], WAIT_MS)
    assert_between_batches(tmp_path)
    assert caplog.text == ""
    monkeypatch.setattr(
        _StoppingQuery, "_is_between_batches", lambda _: False
    )  # as if the batch had been cut off
    assert penstock.stop_after_batch(query, WAIT_MS)
    assert "its last batch is planned and not finished" in caplog.text


def start(rows: DataFrame, checkpoint: Path, **trigger: str) -> StreamingQuery:
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def test_a_failure_is_raised_after_the_others_have_stopped(spark: SparkSession, tmp_path: Path) -> None:
    bad = rate(spark).where(F.raise_error(F.lit("a row that fails")).isNull())
    queries = [start(rows, tmp_path / str(n)) for n, rows in enumerate([bad, rate(spark)])]
    wait_until(lambda: queries[0].exception() is not None, "the failure")
    with pytest.raises(StreamingQueryException, match="a row that fails"):
        stop_all_after_batch(queries, WAIT_MS)
    assert not queries[1].isActive
    assert_between_batches(tmp_path / "1")


@pytest.mark.promise
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_after_the_batch(spark: SparkSession, tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    held = Held()
    query = rate(spark).writeStream.foreachBatch(held).option("checkpointLocation", str(tmp_path)).start()

    def send() -> None:
        held.begun.wait()
        os.kill(os.getpid(), number)
        held.may_end.set()

    threading.Thread(target=send).start()
    with penstock.stop_on_signal(query):
        query.awaitTermination()
    assert_between_batches(tmp_path)
    assert signal.getsignal(number) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-stop"]
