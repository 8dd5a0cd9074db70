"""The HTTP end of a source, read as its users read it: with Prometheus's parser, as JSON, by status."""

from __future__ import annotations

import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.errors import BrokerUnavailableError
from penstock.observe.health import HealthRules
from penstock.observe.lag import Holder, PartitionLook
from penstock.observe.look import ClusterLook
from penstock.observe.serve.http import MetricsServer
from penstock.observe.serve.prometheus import prometheus_text
from penstock.observe.serve.start import SourceExposure
from penstock.observe.serve.view import SourceView
from penstock.observe.sink_reports import SinkBoard
from penstock.options.config import KafkaProperties, MetricsSettings, SourceConfig, TopicList
from penstock.source.metrics import Phase, SourceMetrics
from penstock.types import TopicPartition

A, B, GONE = TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("gone", 0)
NOW_MS = 100_000
CONFIG = SourceConfig(KafkaProperties(), TopicList(("a", "b")))
LABELS = ("sink", "phase", "outcome", "group", "topic", "partition", "health", "transactional_id")


class FakeObserver:
    """Answers from fixed looks; counts the questions."""

    def __init__(self) -> None:
        self.looks = {
            A: PartitionLook(NOW_MS, 5, 1, 9, 9, NOW_MS - 2_500),
            B: PartitionLook(
                NOW_MS, 7, 0, 7, 8, NOW_MS - 60_000, Holder(B, 3, "billing", 7, NOW_MS - 60_000)
            ),
        }
        self.errors = {GONE: BrokerUnavailableError("no leader")}
        self.count = 0
        self.is_broken = False

    def look(self, positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        assert with_times
        assert positions
        self.count += 1
        if self.is_broken:
            raise RuntimeError("secret detail")
        return ClusterLook(self.looks, self.errors)


class Served:
    """A view with a clock by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.observer = FakeObserver()
        self.now_ms = NOW_MS
        self.metrics = SourceMetrics(lambda: self.now_ms)
        self.sinks = SinkBoard(lambda: self.now_ms)
        self.of_continuous: dict[str, int] = {}
        self.view = SourceView(
            self.metrics,
            self.observer,
            HealthRules(),
            of_tasks=lambda: {
                "numRecordsIn": 12,
                "numBytesIn": 99,
                "currentEmitEventTimeLag": 1_500,
                "decodeErrors.skipped": 2,
                "decodeErrors.deadLetters": 3,
                **self.of_continuous,
            },
            sinks=self.sinks.states,
            group_id="g",
            clock_s=lambda: self.now_s,
        )

    def plan(self) -> None:
        self.metrics.planned({A: 5, B: 7}, {A: 9, B: 8}, is_idle=False)
        self.metrics.commit_succeeded({A: 5})

    def have_everything(self) -> None:
        """Make each metric exist."""
        self.plan()
        self.view.report()
        later_ms = NOW_MS + 1_000
        self.observer.looks = {
            tp: replace(look, at_ms=later_ms, position=look.position + look.records // 2)
            for tp, look in self.observer.looks.items()
        }
        self.now_s += 1
        for _ in range(2):
            for phase in (Phase.LATEST_OFFSET, Phase.PARTITIONS):
                with self.metrics.phase(phase):
                    pass
        message = {"sink": "orders", "guarantee": "exactly-once", "event": "written"}
        values = {"batch_bytes": 1, "open_transactions": 0, "unfinished_batches": 0, "commit_ms": 1}
        self.sinks.take({**message, "values": values})
        names = ("tasks", "tasksBegun", "taskStarts", "plan", "failedJobs")
        self.of_continuous = {f"continuous.{name}": 1 for name in names}

    def families(self, most: int = 1_000, *aliases: str) -> dict[str, dict[tuple[str, ...], float]]:
        text = prometheus_text(self.view, most, aliases).decode()
        return {
            sample.name: {
                tuple(each.labels[name] for name in LABELS if name in each.labels): each.value
                for each in family.samples
                if each.name == sample.name
            }
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


@pytest.fixture
def served() -> Served:
    return Served()


def test_the_metrics_have_the_values_of_the_looks(served: Served) -> None:
    served.plan()
    found = served.families()
    only = {name: value[()] for name, value in found.items() if () in value}
    assert only["penstock_source_lag_records"] == 5
    assert only["penstock_source_readable_records"] == 4
    assert only["penstock_source_lag_seconds"] == 60
    assert only["penstock_source_records_total"] == 12
    assert only["penstock_source_bytes_total"] == 99
    assert only["penstock_source_emit_event_time_lag_seconds"] == 1.5
    assert only["penstock_source_idle_seconds"] == 0
    assert only["penstock_source_offset_commits_succeeded_total"] == 1
    assert only["penstock_source_topic_partitions_without_answer"] == 1
    assert found["penstock_source_topic_partition_lag_records"] == {("a", "0"): 4, ("b", "1"): 1}
    assert found["penstock_source_topic_partition_lag_seconds"] == {("a", "0"): 2.5, ("b", "1"): 60}
    assert found["penstock_source_topic_partition_position"] == {("a", "0"): 5, ("b", "1"): 7}
    assert found["penstock_source_topic_partition_committed_offset"] == {("a", "0"): 5}
    assert found["penstock_source_topic_partition_not_ok"] == {
        ("b", "1", "BLOCKED_BY_TRANSACTION", "billing"): 1
    }
    words = {word: value for (word,), value in found["penstock_source_health"].items()}
    assert [word for word, value in words.items() if value] == ["BLOCKED_BY_TRANSACTION"]


def test_the_topic_partitions_with_the_largest_lag_are_shown(served: Served) -> None:
    served.plan()
    found = served.families(1)
    assert found["penstock_source_topic_partition_position"] == {("a", "0"): 5}
    assert found["penstock_source_topic_partitions_left_out"] == {(): 1}
    assert found["penstock_source_lag_records"] == {(): 5}


def test_aliases_are_served_only_if_wanted(served: Served) -> None:
    served.plan()
    assert all(name.startswith("penstock_source_") for name in served.families())
    found = served.families(1_000, "flink", "kafka-lag-exporter")
    assert found["kafka_consumergroup_group_lag"] == {("g", "a", "0"): 4, ("g", "b", "1"): 1}
    assert found["kafka_consumergroup_group_sum_lag"] == {("g",): 5}
    flink = "flink_taskmanager_job_task_operator_"
    assert found[f"{flink}pendingRecords"] == {(): 5}
    assert found[f"{flink}KafkaSourceReader_commitsSucceeded"] == {(): 1}
    of_one = f"{flink}KafkaSourceReader_topic_partition_"
    assert found[f"{of_one}currentOffset"] == {("a", "0"): 4, ("b", "1"): 6}
    assert found[f"{of_one}committedOffset"] == {("a", "0"): 5, ("b", "1"): -1}


def test_the_phases_of_the_last_batch_are_shown(served: Served) -> None:
    assert "penstock_source_batch_seconds" not in served.families()
    for latest_ms, partitions_ms, rest_ms in [(1, 2, 3), (10, 200, 3_000), (0, 0, 0)]:
        with served.metrics.phase(Phase.LATEST_OFFSET):
            served.now_ms += latest_ms
        with served.metrics.phase(Phase.PARTITIONS):
            served.now_ms += partitions_ms
        served.now_ms += rest_ms
    found = served.families()
    phases = {"latestOffset": 0.01, "partitions": 0.2, "rest": 3}
    assert found["penstock_source_batch_seconds"] == {(name,): took_s for name, took_s in phases.items()}
    assert found["penstock_source_batches_total"] == {(): 2}


def test_planning_without_news_is_no_batch(served: Served) -> None:
    for _ in range(3):
        with served.metrics.phase(Phase.LATEST_OFFSET):
            served.now_ms += 1
    assert served.view.batch_times() == []


def test_skew_and_decode_errors_are_shown(served: Served) -> None:
    served.plan()
    found = served.families()
    assert found["penstock_source_event_time_skew_seconds"] == {(): 57.5}
    assert found["penstock_source_decode_errors_total"] == {
        ("failed",): 0,
        ("skipped",): 2,
        ("dead_letter",): 3,
        ("ignored",): 0,
    }


def test_the_figures_of_sinks_are_shown(served: Served) -> None:
    assert not any(name.startswith("penstock_sink_") for name in served.families())
    values = {"records": 10, "batch_bytes": 50, "plain_bytes": 200, "requests": 4, "request_ms": 80}
    message = {"sink": "orders", "guarantee": "exactly-once"}
    served.sinks.take({**message, "event": "begun", "values": {"unfinished_batches": 1}})
    opened = {"open_transactions": 2, "oldest_opened_at_ms": NOW_MS}
    served.sinks.take({**message, "event": "prepared", "values": opened})
    assert served.families()["penstock_sink_open_transactions"] == {("orders",): 2}
    assert served.families()["penstock_sink_oldest_transaction_seconds"][("orders",)] > 0
    served.sinks.take({**message, "event": "written", "values": {**values, "commit_ms": 30}})
    served.sinks.take({**message, "event": "failed", "values": {}})
    found = {name: value for name, value in served.families().items() if name.startswith("penstock_sink")}
    assert found == {
        f"penstock_sink_{name}": {("orders",): value}
        for name, value in {
            "records_total": 10,
            "bytes_total": 50,
            "requests_total": 4,
            "request_seconds_total": 0.08,
            "resends_total": 0,
            "batches_total": 1,
            "failed_batches_total": 1,
            "replays_total": 0,
            "compression_ratio": 4,
            "open_transactions": 0,
            "oldest_transaction_seconds": 0,
            "unfinished_batches": 1,
            "commit_seconds": 0.03,
        }.items()
    }


def test_before_the_first_batch_there_are_only_counts(served: Served) -> None:
    assert "penstock_source_lag_records" not in served.families()
    assert served.families()["penstock_source_records_total"] == {(): 12}
    assert served.observer.count == 0


def test_the_cluster_is_asked_once_a_second(served: Served) -> None:
    served.plan()
    for _ in range(5):
        served.view.report()
    assert served.observer.count == 1
    served.now_s = 1.0
    served.view.report()
    assert served.observer.count == 2


def test_a_reader_does_not_wait_for_the_look_of_another(served: Served) -> None:
    served.plan()
    first = served.view.report()
    served.now_s = 1.0
    is_looking, may_end = threading.Event(), threading.Event()
    look = served.observer.look

    def slow(positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        is_looking.set()
        may_end.wait(60)
        return look(positions, with_times=with_times)

    served.observer.look = slow  # type: ignore[method-assign]
    other = threading.Thread(target=served.view.report)
    other.start()
    assert is_looking.wait(60)
    assert served.view.report() is first
    may_end.set()
    other.join()
    assert served.view.report() is not first


@pytest.fixture
def url(served: Served) -> Iterator[str]:
    server = MetricsServer(served.view, MetricsSettings(0), CONFIG)
    yield f"http://127.0.0.1:{server.port}"
    server.close()


def get(url: str, method: str = "GET") -> tuple[int, str, str]:
    request = urllib.request.Request(url, method=method)  # noqa: S310 - a server of this test
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_each_path_answers(served: Served, url: str) -> None:
    assert get(f"{url}/healthz")[0] == 200
    assert get(f"{url}/readyz")[0] == get(f"{url}/lag")[0] == 503
    served.plan()
    assert get(f"{url}/readyz") == (200, "text/plain; charset=utf-8", "ok\n")
    status, kind, text = get(f"{url}/lag?x=1")
    lag: dict[str, Any] = json.loads(text)
    assert (status, kind, lag["lag_records"]) == (200, "application/json", 5)
    assert "transaction billing (producer 3)" in lag["reasons"][0]
    status, kind, text = get(f"{url}/metrics")
    assert (status, kind.startswith("text/plain; version=0.0.4")) == (200, True)
    assert "penstock_source_lag_records 5.0" in text
    assert get(f"{url}/metrics", "HEAD")[2] == ""
    assert get(f"{url}/nothing")[0] == 404
    assert get(f"{url}/metrics", "DELETE")[0] == 501


def test_a_source_without_an_answer_is_not_ready(served: Served, url: str) -> None:
    served.plan()
    served.observer.looks = {}
    assert get(f"{url}/readyz")[::2] == (503, "no topic partition answers\n")


def test_an_exporter_that_cannot_start_costs_the_query_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    before = set(threading.enumerate())  # those of earlier tests may end at any time
    for name in [each for each in sys.modules if each.startswith("opentelemetry.sdk")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    monkeypatch.delitem(sys.modules, "penstock.observe.serve.otlp", raising=False)
    exposed().close()
    assert "pip install 'pyspark-penstock[otel]'" in caplog.text
    assert set(threading.enumerate()) <= before


def exposed() -> SourceExposure:
    unused: Any = None  # no batch is planned, so no broker is asked
    config = replace(CONFIG, metrics=MetricsSettings(0))
    return SourceExposure(config, unused, SourceMetrics(lambda: NOW_MS))


def test_an_exporter_that_fails_costs_the_query_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

    def fails(_: object) -> None:
        raise RuntimeError("no certificate")

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr("penstock.observe.serve.otlp.start_push", fails)
    exposed().close()
    assert "Cannot push metrics by OTLP: RuntimeError: no certificate" in caplog.text


def test_an_error_at_the_start_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a mistake")

    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.setattr("penstock.observe.serve.http.MetricsServer.__init__", fails)
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="a mistake"):
        exposed()
    assert set(threading.enumerate()) <= before


def test_an_error_is_a_status_and_tells_no_details(
    served: Served, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    served.plan()
    served.observer.is_broken = True
    status, _, text = get(f"{url}/metrics")
    assert (status, text) == (500, "see the log of the driver\n")
    assert "Cannot answer /metrics" in caplog.text
    served.observer.is_broken = False
    assert get(f"{url}/metrics")[0] == 200


def test_ten_thousand_topic_partitions_are_bounded(served: Served) -> None:
    one = served.observer.looks[A]
    served.observer.looks = {
        TopicPartition("t", number): replace(one, position=one.position - number % 3)
        for number in range(10_000)
    }
    served.plan()
    found = served.families(100)
    assert len(found["penstock_source_topic_partition_lag_records"]) == 100
    assert found["penstock_source_topic_partitions_left_out"] == {(): 9_900}


def test_no_name_server_is_asked(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(*_: object) -> str:
        raise AssertionError("it would wait for a name server")

    for name in ("getfqdn", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, asks)
    served.plan()
    server = MetricsServer(served.view, MetricsSettings(0, "0.0.0.0"), CONFIG)  # noqa: S104 - any address
    assert get(f"http://127.0.0.1:{server.port}/lag")[0] == 200
    server.close()


def test_closing_leaves_no_thread_and_frees_the_port(served: Served) -> None:
    before = set(threading.enumerate())
    server = MetricsServer(served.view, MetricsSettings(0), CONFIG)
    with pytest.raises(OSError, match="in use"):
        MetricsServer(served.view, MetricsSettings(server.port), CONFIG)
    server.close()
    assert set(threading.enumerate()) <= before
    MetricsServer(served.view, MetricsSettings(server.port), CONFIG).close()
