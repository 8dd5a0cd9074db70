"""What a continuous query shows over HTTP: the page, metrics and health of a stream. On the fake Kafka."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import UnknownTopicOrPartitionError
from penstock.relay.driver import PlanDriver, QueryPlan
from penstock.relay.figures import QueryFigures
from penstock.relay.supervisor import Supervisor
from penstock.spark._continuous_shown import Shown
from tests.unit.relay.fake_query import GROUP, PARTITIONS, SOURCE, Query, query_on_fake
from tests.unit.relay.thread_job import ThreadJob
from tests.waiting import wait_until


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    with query_on_fake(monkeypatch) as made:
        made.source |= {"metrics.http.port": "0", "metrics.aliases": "flink"}
        yield made


@contextmanager
def shown(query: Query, slots: int = 99) -> Iterator[tuple[Supervisor, str]]:
    """Run a query whose figures are served, as `penstock.continuous` does."""

    def start_job(plan: QueryPlan, on_end: Callable[[], None]) -> ThreadJob:
        query.jobs.append(ThreadJob(plan, on_end, slots))
        return query.jobs[-1]

    at_end = ExitStack()
    settings = query.settings()
    running = Supervisor(PlanDriver(settings), start_job, None, {}, at_end.close)
    served = Shown(settings, QueryFigures(running))
    at_end.callback(served.close)
    url = f"http://127.0.0.1:{served.port}"
    assert get(f"{url}/readyz")[0] == 503, "there is no plan yet"
    running.start()
    try:
        yield running, url
    finally:
        running.stop()
        assert running.join(60)
    with pytest.raises(OSError, match="refused"):
        get(f"{url}/healthz")


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a server of this test
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def metrics(url: str) -> dict[str, float]:
    """Return the metrics that have one value, without their labels."""
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families(get(f"{url}/metrics")[1]):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def test_a_query_is_shown_as_a_stream_is(query: Query) -> None:
    query.write()
    count = len(query.written)
    with shown(query) as (running, url):
        query.await_all()
        wait_until(lambda: get(f"{url}/readyz")[0] == 200, "all tasks have begun")
        wait_until(lambda: running.progress.committed.records_in == count, "the driver has seen the offsets")
        wait_until(lambda: json.loads(get(f"{url}/lag")[1])["lag_records"] == 0, "a look sees no lag")
        found = metrics(url)
        assert get(f"{url}/healthz") == (200, "ok\n")
        assert "OK" in top(url)
        assert f"sink {GROUP} (exactly-once): {count} records" in top(url)
        data: dict[str, Any] = json.loads(get(f"{url}/page.json")[1])
    assert found["penstock_source_records_total"] == found["penstock_sink_records_total"] == count
    assert found["penstock_sink_transactions_total"] >= 1
    assert (
        found["penstock_source_offset_commits_succeeded_total"] == found["penstock_sink_transactions_total"]
    )
    assert found["penstock_continuous_tasks"] == found["penstock_continuous_tasks_begun"] == PARTITIONS
    assert found["penstock_continuous_failed_jobs_total"] == found["penstock_source_lag_records"] == 0
    of_flink = "flink_taskmanager_job_task_operator_"
    assert found[f"{of_flink}pendingRecords"] == 0
    assert found[f"{of_flink}numRecordsIn"] == found[f"{of_flink}numRecordsSend"] == count
    assert found[f"{of_flink}numBytesSend"] == found["penstock_sink_bytes_total"] > 6 * count
    assert found[f"{of_flink}numBytesIn"] == found["penstock_source_bytes_total"] > 6 * count
    assert found[f"{of_flink}numRecordsInErrors"] == 0
    unknown = ("batch_seconds", "failed_batches", "open_transactions", "compression_ratio", "requests")
    assert [name for name in found if any(each in name for each in unknown)] == []
    assert (data["title"], data["group"], data["batches"]) == (SOURCE, GROUP, [])
    assert data["promise"].startswith("Exactly once from end to end")
    assert data["sinks"][0]["totals"] == {
        "records": count,
        "batch_bytes": int(found["penstock_sink_bytes_total"]),
        "transactions": int(found["penstock_sink_transactions_total"]),
    }
    query.check()


def top(url: str) -> str:
    arguments = ["top", "--url", url, "--looks", "1", "--partitions", "5"]
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_query_without_slots_is_alive_and_not_ready(query: Query) -> None:
    query.write()
    with shown(query, slots=0) as (running, url):
        assert get(f"{url}/healthz")[0] == 200
        status, text = get(f"{url}/readyz")
        assert (status, text.startswith(f"0 of {PARTITIONS} tasks have begun")) == (503, True)
        assert json.loads(get(f"{url}/lag")[1])["lag_records"] == len(query.written), "it can be watched"
        assert json.loads(get(f"{url}/page.json")[1])["warnings"][-1].startswith("0 of 3 tasks have begun")
        wait_until(lambda: query.jobs, "the supervisor has started a job")
        query.jobs[-1].give_slots(PARTITIONS)
        query.await_all()
        wait_until(lambda: get(f"{url}/readyz")[0] == 200, "all tasks have begun")
        assert running.error is None
    query.check()


def test_a_port_in_use_does_not_stop_the_query(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    query.write()
    with shown(query) as (_, url):
        query.source["metrics.http.port"] = url.rpartition(":")[2]
        running = query.supervisor()
        Shown(query.settings(), QueryFigures(running)).close()
        assert "The query runs without them" in caplog.text
        running.start()  # it takes the group over
        query.await_all()
        running.stop()
        assert running.join(60)


def test_a_query_that_cannot_start_serves_nothing_any_more(query: Query) -> None:
    query.source["topic"] = "absent"
    at_end = ExitStack()
    running = Supervisor(PlanDriver(query.settings()), ThreadJob, None, {}, at_end.close)
    served = Shown(query.settings(), QueryFigures(running))
    at_end.callback(served.close)
    with pytest.raises(UnknownTopicOrPartitionError, match="absent"):
        running.start()
    with pytest.raises(OSError, match="refused"):
        get(f"http://127.0.0.1:{served.port}/healthz")
