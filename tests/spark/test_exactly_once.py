"""Exactly-once writes through Spark, judged by an independent read_committed consumer."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter
from typer.testing import CliRunner

import penstock
from penstock.cli.app import app
from penstock.cli.verify import DIFFERS, NOT_ALL_PROVABLE, PROVEN
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import connection_settings
from penstock.client.transactions.steps import Transactions
from penstock.devbroker import DevCluster
from penstock.options.config import KafkaProperties
from tests import judge
from tests.fix_broker import MakeTopic
from tests.spark.queries import stopped
from tests.waiting import wait_until


def write_options(broker: DevCluster, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": topic,
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": f"test-{topic}",
    }


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 3).select(
        (F.col("id") % 7).cast("string").alias("key"), F.col("id").cast("string").alias("value")
    )


def open_transactions(broker: DevCluster, prefix: str) -> list[str]:
    properties = KafkaProperties((("bootstrap.servers", broker.bootstrap_servers),))
    with closing(KafkaConnections(connection_settings(properties, client_id="judge"))) as connections:
        listed = Transactions(connections).list_open(lambda name: name.startswith(prefix))
    return [each.transactional_id for each in listed]


def assert_once(broker: DevCluster, topic: str, count: int) -> None:
    seen = Counter(record.value for record in judge.consume_all(broker.bootstrap_servers, topic))
    assert seen == Counter({b"%d" % number: 1 for number in range(count)})
    assert open_transactions(broker, f"test-{topic}-") == []


def test_a_batch_write_is_seen_as_a_whole(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    rows = numbers(spark, 1_000)
    rows.write.format("penstock").options(**write_options(broker, topic)).mode("append").save()
    assert_once(broker, topic, 1_000)
    decisions = judge.consume_all(broker.bootstrap_servers, f"test-{topic}-decisions")
    newest = {record.key: record.value for record in decisions if b'"batch:' in (record.key or b"")}
    assert list(newest.values()) == [None], "compaction shall leave nothing of it"


def test_a_batch_of_a_stream_leaves_a_receipt_of_what_it_read_and_wrote(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(1)
    servers = broker.bootstrap_servers
    for count in (30, 12):
        options = {"kafka.bootstrap.servers": servers, "topic": source}
        numbers(spark, count).write.format("penstock").options(**options).mode("append").save()
        reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", servers)
        rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
        writer = rows.select("key", "value").writeStream.format("penstock")
        writer = writer.options(**write_options(broker, target))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        if count == 30:
            judge.produce(servers, target, b"of another program")
    prefix = f"test-{target}"
    shown = CliRunner().invoke(app, ["receipts", "--prefix", prefix, "-b", servers, "--json"])
    first, second = json.loads(shown.stdout)
    assert [first["record_count"], second["record_count"]] == [30, 12]
    assert first["written"] == [{"topic": target, "partition": 0, "records": 30}]
    for partition, (begin, end) in {at: (start, stop) for at, start, stop in first["read"][source]}.items():
        assert begin == 0
        rest = {at: (start, stop) for at, start, stop in second["read"][source]}.get(partition)
        assert rest is None or rest[0] == end
    read = [stop - start for each in (first, second) for _, start, stop in each["read"][source]]
    assert sum(read) == 42
    assert (first["penstock"], first["spark"]) == (penstock.__version__, spark.version)
    checkpoint = str(tmp_path / "checkpoint")
    _check_verify(["verify", "--checkpoint", checkpoint, "--copy", "key,value", "-b", servers])
    judge.delete_topic(servers, target)
    gone = CliRunner().invoke(app, ["verify", "--prefix", prefix, "-b", servers, "--json"])
    assert (gone.exit_code, json.loads(gone.stdout)["verdict"]) == (NOT_ALL_PROVABLE, "not provable")


def test_batches_that_a_filter_leaves_empty_are_proven_by_the_next_receipt(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(2), make_topic(1)
    servers, checkpoint = broker.bootstrap_servers, str(tmp_path / "checkpoint")
    for values in ([b"keep"] * 5, [b"drop"] * 3, [b"drop"] * 4, [b"keep"] * 2):
        judge.produce(servers, source, *values)
        reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", servers)
        rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
        kept = rows.where("CAST(value AS STRING) = 'keep'").select("key", "value")
        writer = kept.writeStream.format("penstock").options(**write_options(broker, target))
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()
    command = ["verify", "--checkpoint", checkpoint, "-b", servers, "--json"]
    shown = CliRunner().invoke(app, command)
    report = json.loads(shown.stdout)
    assert [each["batch_id"] for each in report["batches"]] == [0, 3]
    assert (shown.exit_code, report["verdict"]) == (PROVEN, "proven"), shown.stdout
    shown = CliRunner().invoke(app, [*command, "--copy", "value"])
    found = [each["kind"] for one in json.loads(shown.stdout)["batches"] for each in one["findings"]]
    assert (shown.exit_code, set(found)) == (NOT_ALL_PROVABLE, {"nothing-written"})


def _check_verify(arguments: list[str]) -> None:
    """Check that two batches are proven, with a record of another program between them."""
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == NOT_ALL_PROVABLE
    assert "say --other-writers" in shown.stdout
    shown = CliRunner().invoke(app, [*arguments, "--other-writers", "--json"])
    report = json.loads(shown.stdout)
    assert (shown.exit_code, report["verdict"]) == (PROVEN, "proven")
    assert [each["inputs"] for each in report["batches"]] == ["each once"] * 2
    assert report["other_writers"] == 1
    shown = CliRunner().invoke(app, [*arguments, "--only-writer"])
    assert shown.exit_code == DIFFERS
    assert "other-writer at" in shown.stdout


@pytest.mark.promise
def test_a_failed_batch_write_is_not_seen_at_all(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    bad = F.when(F.col("key") == "3", F.raise_error(F.lit("a row that fails"))).otherwise(F.col("value"))
    rows = numbers(spark, 1_000).select("key", bad.alias("value"))
    with pytest.raises(Exception, match="a row that fails"):
        rows.write.format("penstock").options(**write_options(broker, topic)).mode("append").save()
    assert judge.consume_all(broker.bootstrap_servers, topic) == []
    numbers(spark, 10).write.format("penstock").options(**write_options(broker, topic)).mode("append").save()
    assert_once(broker, topic, 10)


@pytest.mark.promise
def test_a_stream_writes_each_row_once_across_restarts(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(3), make_topic(2, suffix="-copy")
    for first in (0, 500):
        judge.produce(broker.bootstrap_servers, source, *(b"%d" % n for n in range(first, first + 500)))
        writer = copy_query(spark, broker, source, write_options(broker, topic), tmp_path / "checkpoint")
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert_once(broker, topic, 1_000)


@pytest.mark.promise
def test_a_batch_that_comes_again_is_not_written_again(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(3), make_topic(2, suffix="-copy")
    judge.produce(broker.bootstrap_servers, source, *(b"%d" % n for n in range(600)))
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        writer = copy_query(spark, broker, source, write_options(broker, topic), checkpoint)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        # As if the driver had died between the commit in Kafka and Spark's own commit log.
        newest = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
        for file in (checkpoint / "commits").iterdir():
            if file.name.strip(".").split(".")[0] == str(newest):
                file.unlink()
    assert_once(broker, topic, 600)


def test_a_missing_prefix_is_said_on_the_driver(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic
) -> None:
    options = write_options(broker, make_topic())
    del options["sink.transactional-id-prefix"]
    with pytest.raises(Exception, match=r"sink\.transactional-id-prefix"):
        numbers(spark, 1).write.format("penstock").options(**options).mode("append").save()


def copy_query(
    spark: SparkSession, broker: DevCluster, source: str, options: dict[str, str], checkpoint: Path
) -> DataStreamWriter:
    rows = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100)
        .load()
        .select("key", "value")
    )
    writer = rows.writeStream.format("penstock").options(**options)
    return writer.option("checkpointLocation", str(checkpoint))


@pytest.mark.promise
def test_a_new_checkpoint_on_a_known_prefix_may_fail_and_then_writes_nothing(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(2, suffix="-copy")
    judge.produce(broker.bootstrap_servers, source, *(b"%d" % n for n in range(50)))
    strict = {**write_options(broker, topic), "sink.on-new-query": "fail"}

    def run(checkpoint: str, options: dict[str, str]) -> None:
        writer = copy_query(spark, broker, source, options, tmp_path / checkpoint)
        with stopped(writer.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(120)

    run("old", strict)
    with pytest.raises(StreamingQueryException, match=r"Not written, because sink\.on-new-query = fail\."):
        run("new", strict)
    judge.produce(broker.bootstrap_servers, source, *(b"%d" % n for n in range(50, 60)))
    run("old", strict)
    assert_once(broker, topic, 60)
    run("new", {**strict, "sink.on-new-query": "warn"})
    seen = Counter(record.value for record in judge.consume_all(broker.bootstrap_servers, topic))
    assert seen == Counter({b"%d" % number: 2 for number in range(60)}), "once for each checkpoint"


def test_a_running_job_becomes_exactly_once(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """docs/exactly-once.md says what the first batch may repeat."""
    source, topic = make_topic(1), make_topic(2, suffix="-copy")
    checkpoint = tmp_path / "checkpoint"
    options = write_options(broker, topic)
    before = {name: text for name, text in options.items() if not name.startswith("sink.")}

    def run(count: int, used: dict[str, str]) -> None:
        judge.produce(broker.bootstrap_servers, source, *(b"%d" % n for n in range(count - 50, count)))
        writer = copy_query(spark, broker, source, used, checkpoint)
        with stopped(writer.trigger(availableNow=True).start()) as query:
            assert query.awaitTermination(120)

    run(50, before)
    run(100, options)
    assert_once(broker, topic, 100)  # stopped between two batches
    run(150, before)
    for name in ("2", ".2.crc"):  # the driver died before Spark noted the batch
        (checkpoint / "commits" / name).unlink()
    run(200, options)
    seen = Counter(record.value for record in judge.consume_all(broker.bootstrap_servers, topic))
    assert seen == Counter({b"%d" % n: 2 if 100 <= n < 150 else 1 for n in range(200)})


def test_two_queries_with_one_prefix_are_told_so(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source = make_topic(1)
    targets = [make_topic(1, suffix=f"-copy-{number}") for number in range(2)]
    options = [{**write_options(broker, targets[0]), "topic": target} for target in targets]
    writers = [
        copy_query(spark, broker, source, each, tmp_path / str(number)) for number, each in enumerate(options)
    ]
    written = 0

    def errors() -> list[str]:
        return [str(query.exception()) for query in queries if query.exception()]

    def one_is_told() -> bool:
        nonlocal written  # new records each time, so that both queries run at the same time
        judge.produce(broker.bootstrap_servers, source, b"%d" % written)
        written += 1
        return any("Another writer has taken the transactional id prefix" in error for error in errors())

    queries = [writer.start() for writer in writers]
    try:
        wait_until(one_is_told, "one to stop and say why")
        # A task of the older query may have fenced a task of the newer one. That task learns it when it is
        # refused, or when its batch is decided. (This Spark does not run tasks again.) Or an older task is
        # taking the id during the decision, and has only aborted the transaction yet.
        taken = r"has taken (the|this) transactional id|this sink\.transactional-id-prefix has aborted it"
        assert all(re.search(taken, error) for error in errors())
        assert any("two queries use the same" in error for error in errors())
    finally:
        for query in queries:
            query.stop()
    for writer in writers:  # one after the other they may share the prefix
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    for target in targets:
        seen = [record.value for record in judge.consume_all(broker.bootstrap_servers, target)]
        assert seen == [b"%d" % number for number in range(written)]
    assert open_transactions(broker, f"test-{targets[0]}-") == []


def test_complete_mode_appends_the_whole_result_once_a_batch(
    spark: SparkSession, broker: DevCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, topic = make_topic(1), make_topic(1, suffix="-counts")
    for _ in range(2):
        judge.produce(broker.bootstrap_servers, source, (b"a", b"1"), (b"b", b"2"))
        counts = (
            spark.readStream.format("penstock")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .load()
            .groupBy("key")
            .agg(F.count("*").cast("string").alias("value"))
        )
        writer = counts.writeStream.format("penstock").options(**write_options(broker, topic))
        query = writer.outputMode("complete").option("checkpointLocation", str(tmp_path / "c"))
        assert query.trigger(availableNow=True).start().awaitTermination(120)
    seen = Counter(
        (record.key, record.value) for record in judge.consume_all(broker.bootstrap_servers, topic)
    )
    assert seen == Counter({(key, count): 1 for key in (b"a", b"b") for count in (b"1", b"2")})
    assert open_transactions(broker, f"test-{topic}-") == []
