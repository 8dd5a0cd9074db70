"""`penstock lag` against a real broker, beside what librdkafka computes."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.cli.lag import NOT_OK_STATUS
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import ConnectionSettings
from penstock.client.transactions.holders import describe_producers
from penstock.devbroker.java import find_java
from penstock.errors import CheckpointError, MissingOptionError, OptionError
from penstock.types import TopicPartition as OurTopicPartition
from tests import judge, quick_jvm
from tests.checkpoint_files import write_checkpoint
from tests.fix_broker import MakeTopic
from tests.jars import kafka_tools_jars
from tests.kafka.source_cases import committed
from tests.kafka.source_runs import Query
from tests.waiting import PATIENCE_S, wait_until


def run_lag(bootstrap: str, *arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["lag", "-b", bootstrap, *arguments], catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.stdout


def asked(bootstrap: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_lag(bootstrap, "--json", *arguments))
    return found


def lags_of_librdkafka(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """What kafka-consumer-groups shows: the high watermark minus the committed offset."""
    client = judge.admin(bootstrap)
    committed = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge"})
    try:
        return {
            (each.topic, each.partition): consumer.get_watermark_offsets(each, timeout=60)[1] - each.offset
            for each in committed.topic_partitions
        }
    finally:
        consumer.close()


def lags_of_kafkas_tool(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """What kafka-consumer-groups prints."""
    jars = ":".join(map(str, kafka_tools_jars()))
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    arguments = ["--bootstrap-server", bootstrap, "--describe", "--group", group]
    command = [str(find_java()), *quick_jvm.OPTIONS.split(), "-cp", jars, tool, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    header, *rows = [
        line.split() for line in done.stdout.splitlines() if line.strip() and "no active members" not in line
    ]
    topic, partition, lag = (header.index(name) for name in ("TOPIC", "PARTITION", "LAG"))
    return {(row[topic], int(row[partition])): int(row[lag]) for row in rows}


def test_kafkas_own_tool_shows_the_same_lag_of_a_running_query(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=p) for p in (0, 0, 0, 1, 1)))
    judge.produce_in_transaction(bootstrap, topic, judge.Record(b"v", partition=2), transactional_id=topic)
    options = {
        "properties.bootstrap.servers": bootstrap,
        "properties.group.id": topic,
        "properties.isolation.level": "read_committed",
        "topic": topic,
        "metrics.http.port": "0",
    }
    query = Query(options)
    with query.running() as reader:
        assert len(query.catch_up(reader)) == 6
        wait_until(
            lambda: committed(bootstrap, topic, topic, 3) == {0: 3, 1: 2, 2: 2}, "the commit of offsets"
        )
        judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=p) for p in (0, 0, 2, 2, 2)))
        judge.produce_in_transaction(
            bootstrap, topic, judge.Record(b"v", partition=2), transactional_id=topic
        )
        of_kafka = lags_of_kafkas_tool(bootstrap, topic)
        assert of_kafka == {(topic, 0): 2, (topic, 1): 0, (topic, 2): 5}, "a marker is an offset, too"
        assert _lags(asked(bootstrap, "--group", topic)) == of_kafka
        assert reader._exposure is not None
        url = f"http://127.0.0.1:{reader._exposure.port}/lag"

        def served() -> dict[tuple[str, int], int]:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return _lags(json.load(answer))

        wait_until(lambda: served() == of_kafka, "the same lag at the query's own end")


def _lags(found: dict[str, Any]) -> dict[tuple[str, int], int]:
    return {(row["topic"], row["partition"]): row["lag_records"] for row in found["topic_partitions"]}


@pytest.mark.promise
def test_the_lag_of_a_group_is_the_one_of_other_tools(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, other = make_topic(3), make_topic(1, suffix="-other")
    judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=p) for p in (0, 0, 0, 0, 1, 1)))
    judge.produce_in_transaction(bootstrap, other, b"1", b"2", transactional_id=other)
    judge.commit_offsets(bootstrap, topic, topic, {0: 1, 1: 2, 2: 0})
    judge.commit_offsets(bootstrap, topic, other, {0: 1})
    found = asked(bootstrap, "--group", topic)
    ours = {(row["topic"], row["partition"]): row["lag_records"] for row in found["topic_partitions"]}
    assert ours == lags_of_librdkafka(bootstrap, topic)
    # The marker of the transaction is an offset, too.
    assert ours == {(topic, 0): 3, (topic, 1): 0, (topic, 2): 0, (other, 0): 2}
    assert (found["group"], found["lag_records"], found["health"]) == (topic, 5, "OK")


def test_the_lag_in_seconds_is_the_age_of_the_next_unread_record(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(2)
    now_ms = int(time.time() * 1000)
    ages_s = (9_000, 500, 7_000)
    records = [judge.Record(b"v", partition=0, timestamp_ms=now_ms - 1000 * age) for age in ages_s]
    judge.produce(bootstrap, topic, *records)
    folder = write_checkpoint(tmp_path / "checkpoint", {topic: {"0": 1, "1": 0}})
    found = asked(bootstrap, "--checkpoint", str(folder))
    assert found["lag_seconds"] == pytest.approx(500, abs=100)
    assert [row["lag_seconds"] for row in found["topic_partitions"]][1] == 0
    assert (found["batch_id"], found["lag_records"]) == (0, 2)
    text = run_lag(bootstrap, "--checkpoint", str(folder), "--partitions")
    assert "lag 2 records, 8 min" in text
    assert f"{topic}-1" in text


def test_a_gap_before_the_next_record_has_no_age(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"1", transactional_id=topic)
    record = judge.Record(b"2", timestamp_ms=int(time.time() * 1000) - 70_000)
    judge.produce(bootstrap, topic, record)
    behind = write_checkpoint(tmp_path / "behind", {topic: {"0": 1}})  # the marker, then the record
    assert asked(bootstrap, "--checkpoint", str(behind))["lag_seconds"] == pytest.approx(70, abs=60)
    judge.delete_records(bootstrap, topic, {0: 2})
    lost = asked(bootstrap, "--checkpoint", str(behind))["topic_partitions"][0]
    assert (lost["deleted_records"], lost["lag_records"], lost["log_start_offset"]) == (1, 2, 2)
    assert lost["lag_seconds"] == pytest.approx(70, abs=60)


def test_who_holds_readers_back_is_named(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(2)
    judge.produce(bootstrap, topic, judge.Record(b"1", partition=1))
    foreign = judge.transactional_producer(bootstrap, f"foreign-{topic}")
    foreign.begin_transaction()
    judge.send(foreign, topic, [judge.Record(b"2", partition=1), judge.Record(b"3", partition=1)])
    judge.flush(foreign)
    try:
        folder = str(write_checkpoint(tmp_path / "checkpoint", {topic: {"0": 0, "1": 1}}))
        young = asked(bootstrap, "--checkpoint", folder, "--blocked-after", "3600")
        assert young["health"] == "OK"
        text = run_lag(
            bootstrap, "--checkpoint", folder, "--blocked-after", "0", "--check", status=NOT_OK_STATUS
        )
        assert f"transaction foreign-{topic} (producer" in text
        assert f"has kept back readers of {topic}-1 at offset 1" in text
        row = young["topic_partitions"][1]
        assert row["held_back_by"]["transactional_id"] == f"foreign-{topic}"
        assert (row["held_back_by"]["first_offset"], row["last_stable_offset"], row["high_watermark"]) == (
            1,
            1,
            3,
        )
        assert (row["lag_records"], row["readable_records"]) == (2, 0)
        assert row["held_back_by"]["open_since_ms"] == pytest.approx(time.time() * 1000, abs=600_000)
        uncommitted = ("--blocked-after", "0", "--read-uncommitted")
        assert asked(bootstrap, "--checkpoint", folder, *uncommitted)["health"] == "OK"
    finally:
        foreign.abort_transaction(60)
    judge.wait_for_markers(bootstrap)
    after = asked(bootstrap, "--checkpoint", folder, "--blocked-after", "0")
    assert (after["health"], after["topic_partitions"][1]["held_back_by"]) == ("OK", None)


def test_a_stopped_query_is_stalled_and_a_recreated_topic_rewound(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"1", b"2")
    stopped = write_checkpoint(tmp_path / "stopped", {topic: {"0": 1}})
    # Any time at all without movement is too long here.
    found = asked(bootstrap, "--checkpoint", str(stopped), "--stalled-after", "0")
    assert found["health"] == "STALLED"
    assert found["reasons"][0].startswith(f"the position in {topic}-0 has stood at 1 for ")
    beyond = write_checkpoint(tmp_path / "beyond", {topic: {"0": 99}})
    assert asked(bootstrap, "--checkpoint", str(beyond))["health"] == "REWOUND"


def test_events_of_yesterday_do_not_make_an_idle_query_stalled(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    hour_ago_s = time.time() - 3_600
    folder = write_checkpoint(tmp_path / "idle", {topic: {"0": 0}})
    os.utime(folder / "commits" / "0", (hour_ago_s, hour_ago_s))
    # The query was idle for an hour. Now a producer writes what happened yesterday.
    judge.produce(bootstrap, topic, judge.Record(b"1", timestamp_ms=int(time.time() - 86_400) * 1_000))
    found = json.loads(
        run_lag(bootstrap, "--json", "--checkpoint", str(folder), "--check", status=NOT_OK_STATUS)
    )
    assert found["health"] == "UNKNOWN"
    assert "It is unknown since when these wait" in found["reasons"][0]
    seen_waiting = ("--watch", "1.2", "--stalled-after", "1")
    assert asked(bootstrap, "--checkpoint", str(folder), *seen_waiting)["health"] == "STALLED"
    (folder / "offsets" / "1").write_text(f'v1\n{{}}\n{{"{topic}": {{"0": 1}}}}')
    assert asked(bootstrap, "--checkpoint", str(folder))["health"] == "OK", "it has just planned a batch"
    os.utime(folder / "offsets" / "1", (hour_ago_s + 60, hour_ago_s + 60))
    assert asked(bootstrap, "--checkpoint", str(folder))["health"] == "STALLED", "a batch is not done"


def test_a_time_of_the_broker_needs_no_second_look(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    folder = write_checkpoint(tmp_path / "idle", {topic: {"0": 0}})
    hour_ago_s = time.time() - 3_600
    os.utime(folder / "commits" / "0", (hour_ago_s, hour_ago_s))
    judge.produce(bootstrap, topic, b"1")
    arguments = ("--checkpoint", str(folder), "--stalled-after")
    assert asked(bootstrap, *arguments, "1800")["health"] == "OK"

    def word() -> str:
        found: str = asked(bootstrap, *arguments, "1")["health"]
        return found

    wait_until(lambda: word() == "STALLED", "a second after the broker has set the time")


def test_watching_shows_rates(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"1", b"2")
    folder = write_checkpoint(tmp_path / "checkpoint", {topic: {"0": 1}})
    assert asked(bootstrap, "--checkpoint", str(folder))["rates"] is None
    watched = asked(bootstrap, "--checkpoint", str(folder), "--watch", "0.2")
    assert watched["rates"] == {"read_per_second": 0, "written_per_second": 0, "catch_up_seconds": None}


def test_a_deleted_topic_does_not_hide_the_others(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    positions = {topic: {"0": 0}, f"{topic}-gone": {"0": 4}}
    folder = write_checkpoint(tmp_path / "checkpoint", positions)
    found = asked(bootstrap, "--checkpoint", str(folder))
    assert list(found["errors"]) == [f"{topic}-gone-0"]
    assert [row["topic"] for row in found["topic_partitions"]] == [topic]
    run_lag(bootstrap, "--checkpoint", str(folder), "--check", status=NOT_OK_STATUS)


def test_one_reader_has_to_be_named(bootstrap: str, tmp_path: Path, topic_name: str) -> None:
    with pytest.raises(MissingOptionError, match="Name one reader"):
        run_lag(bootstrap)
    with pytest.raises(MissingOptionError, match="Name one reader"):
        run_lag(bootstrap, "--group", "g", "--checkpoint", str(tmp_path))
    with pytest.raises(OptionError, match="has no committed offsets"):
        run_lag(bootstrap, "--group", topic_name)
    with pytest.raises(CheckpointError, match="Expected the checkpoint of a query"):
        run_lag(bootstrap, "--checkpoint", str(tmp_path))


def test_producers_of_a_missing_topic_are_an_error_of_it_alone(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"1", transactional_id=topic)
    connections = KafkaConnections(ConnectionSettings(tuple(bootstrap.split(",")), "test-lag"))
    here, gone = OurTopicPartition(topic, 0), OurTopicPartition(f"{topic}-gone", 0)
    try:
        found = describe_producers(connections, [here, gone], timeout_ms=3_000)
    finally:
        connections.close()
    assert list(found.errors) == [gone]
    (producer,) = found.values[here]
    assert producer.transaction_start == -1
