"""The HTTP end of a source on a real broker, beside what librdkafka computes, and `penstock top`."""

from __future__ import annotations

import json
import logging
import socket
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import MissingOptionError
from penstock.observe.serve import view
from penstock.spark._stream_reader import PenstockStreamReader
from tests import judge
from tests.checkpoint_files import write_checkpoint
from tests.fix_broker import MakeTopic
from tests.judges.promtool import ask, find_promtool
from tests.kafka.source_runs import Query
from tests.kafka.test_lag import lags_of_librdkafka
from tests.waiting import wait_until

LABELS = ("group", "topic", "partition", "health", "transactional_id")
Values = dict[str, dict[tuple[str, ...], float]]


def options(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    return {
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "metrics.http.port": "0",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def read(reader: PenstockStreamReader, path: str) -> str:
    assert reader._exposure is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{reader._exposure.port}{path}", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def scrape(reader: PenstockStreamReader) -> Values:
    found: Values = {}
    for family in text_string_to_metric_families(read(reader, "/metrics")):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in LABELS if name in sample.labels)
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


@pytest.mark.promise
def test_a_running_source_shows_what_other_tools_compute(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    records = [judge.Record(b"v" * 10, partition=number % 2) for number in range(10)]
    judge.produce(bootstrap, topic, *records)
    query = Query(
        options(bootstrap, topic, properties_group_id=topic, metrics_aliases="flink,kafka-lag-exporter")
    )
    with query.running() as reader:
        assert len(query.catch_up(reader)) == 10
        wait_until(lambda: scrape(reader)["penstock_source_records_total"][()] == 10, "the reports of tasks")
        found = scrape(reader)
        assert found["penstock_source_bytes_total"][()] > 100
        assert found["penstock_source_lag_records"] == {(): 0}
        commits = "penstock_source_offset_commits_succeeded_total"
        wait_until(lambda: scrape(reader)[commits][()] > 0, "the commit of offsets")
        time_ms = int(time.time() * 1000) - 90_000
        behind = [judge.Record(b"v", partition=1, timestamp_ms=time_ms) for _ in range(3)]
        judge.produce(bootstrap, topic, *behind)
        judges = {
            (name, str(number)): lag for (name, number), lag in lags_of_librdkafka(bootstrap, topic).items()
        }
        assert judges == {(topic, "0"): 0, (topic, "1"): 3}
        lag = "penstock_source_topic_partition_lag_records"
        wait_until(lambda: scrape(reader)[lag] == judges, "the lag that the judge computes")
        found = scrape(reader)
        exported = found["kafka_consumergroup_group_lag"]
        assert exported == {(topic, *labels): value for labels, value in judges.items()}
        assert found["penstock_source_lag_seconds"][()] == pytest.approx(90, abs=60)
        assert found[
            "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset"
        ] == {
            (topic, "0"): 4,
            (topic, "1"): 4,
        }
        assert json.loads(read(reader, "/lag"))["lag_records"] == 3
        assert read(reader, "/readyz") == "ok\n"
        if find_promtool() is not None:
            _, *complaints = ask("metrics", read(reader, "/metrics"))
            assert [each for each in complaints if not each.startswith("flink_")] == []


@pytest.mark.parametrize("partitions", [1, 60])
def test_a_look_is_a_few_requests_for_all_who_read_it(
    bootstrap: str,
    make_topic: MakeTopic,
    requests: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    partitions: int,
) -> None:
    monkeypatch.setattr(view, "REFRESH_S", 3_600.0)  # on a slow machine the readers may take long
    topic = make_topic(partitions)
    query = Query({**options(bootstrap, topic), "metrics.aliases": "flink,kafka-lag-exporter"})
    with query.running() as reader:
        assert query.catch_up(reader) == []
        judge.produce(bootstrap, topic, *(judge.Record(b"v", partition=n) for n in range(partitions)))
        before = Counter(requests)
        paths = ["/metrics", "/lag", "/page.json", "/readyz"]
        with ThreadPoolExecutor(8) as readers:
            list(readers.map(partial(read, reader), paths * 5))
        assert json.loads(read(reader, "/lag"))["lag_records"] == partitions
        assert scrape(reader)["penstock_source_topic_partition_lag_seconds"].keys() == {
            (topic, str(n)) for n in range(partitions)
        }
        # Both ends and the last stable offset, and the next record of all topic partitions together.
        assert requests - before == {"ListOffsetsRequest": 3, "FetchRequest": 1}


def test_an_open_transaction_of_another_program_is_named(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    given = options(bootstrap, topic, properties_isolation_level="read_committed")
    query = Query({**given, "metrics.blocked-after": "0"})
    foreign = judge.transactional_producer(bootstrap, f"foreign-{topic}")
    foreign.begin_transaction()
    judge.send(foreign, topic, [b"1"])
    judge.flush(foreign)
    try:
        with query.running() as reader:
            assert query.catch_up(reader) == []
            lag = json.loads(read(reader, "/lag"))
            assert lag["health"] == "BLOCKED_BY_TRANSACTION"
            assert f"transaction foreign-{topic} (producer" in lag["reasons"][0]
            assert f"has kept back readers of {topic}-0 at offset 0" in lag["reasons"][0]
            not_ok = scrape(reader)["penstock_source_topic_partition_not_ok"]
            assert not_ok == {(topic, "0", "BLOCKED_BY_TRANSACTION", f"foreign-{topic}"): 1}
            (row,) = lag["topic_partitions"]
            assert row["held_back_by"]["transactional_id"] == f"foreign-{topic}"
            assert (row["lag_records"], row["readable_records"]) == (1, 0)
    finally:
        foreign.abort_transaction(60)


@pytest.mark.parametrize(("after", "health"), [("0", "STALLED"), ("10 min", "OK")])
def test_an_option_says_how_long_a_source_may_stand_still(
    bootstrap: str, make_topic: MakeTopic, after: str, health: str
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"1")
    query = Query({**options(bootstrap, topic), "metrics.stalled-after": after})
    with query.running() as reader:
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())  # planned, and not read
        assert json.loads(read(reader, "/lag"))["health"] == health


def test_a_port_in_use_is_a_warning_and_the_query_runs(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        query = Query(
            {**options(bootstrap, topic), "metrics.http.port": port, "metrics.tasks.host": "192.0.2.1"}
        )
        with caplog.at_level(logging.WARNING), query.running() as reader:
            assert len(query.catch_up(reader)) == 1
    assert f"Cannot serve metrics at 127.0.0.1:{port}" in caplog.text
    assert "Cannot receive the figures of tasks at 192.0.2.1" in caplog.text


def test_top_shows_readers_and_their_errors(bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"1", b"2", b"3")
    folder = write_checkpoint(tmp_path / "c", {topic: {"0": 1}})
    arguments = ["top", "-b", bootstrap, "--checkpoint", str(folder), "--group", "no-such-group"]
    more = ["--looks", "2", "--interval", "0.2", "--partitions", "3", "--stalled-after", "0"]
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, [*arguments, *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.output.count(f"{topic}-0") >= 2
    rows = [line.split() for line in result.output.splitlines() if line.startswith(f"{folder} ")]
    assert [row[1] for row in rows if len(row) > 1] == ["STALLED", "STALLED"]
    assert "Group 'no-such-group' has no committed offsets" in result.output
    with pytest.raises(MissingOptionError, match="Name what to watch"):
        CliRunner().invoke(app, ["top", "-b", bootstrap], catch_exceptions=False)
