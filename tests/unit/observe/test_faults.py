"""Four faults of a running job, seen as an operator sees them: by `/lag`, by `penstock top`, by the page.

The cluster and the clock are models: a trigger every ten seconds, a look every two. Each fault has to be
named within two triggers, and a healthy job never.
"""

from __future__ import annotations

import io
import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.lag_shown import report_as_text
from penstock.cli.top_shown import ReaderStatus, screen
from penstock.errors import BrokerUnavailableError
from penstock.observe.health import Health, HealthRules
from penstock.observe.lag import Holder, PartitionLook
from penstock.observe.look import ClusterLook
from penstock.observe.serve.http import MetricsServer
from penstock.observe.serve.prometheus import prometheus_text
from penstock.observe.serve.view import SourceView
from penstock.observe.sink_reports import SinkBoard
from penstock.observe.task_reports import nothing_yet
from penstock.options.by_hand import ByHand
from penstock.options.config import KafkaProperties, MetricsSettings, SourceConfig, TopicList
from penstock.source.metrics import SourceMetrics
from penstock.types import TopicPartition

TRIGGER_S, LOOK_EVERY_S = 10, 2
PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
SLOW, HELD, AWAY = PARTITIONS
RATE = 50


class Job:
    """A query that reads three topic partitions; a fault can be set at any time."""

    def __init__(self) -> None:
        self.now_s = 1_000
        self.trigger_s = TRIGGER_S
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.done = dict.fromkeys(PARTITIONS, 0)
        self.read = dict(self.done)
        self.slow_share = 1.0
        self.holder: Holder | None = None
        self.is_broker_away = False
        self.is_cluster_away = False
        self.metrics = SourceMetrics(lambda: self.now_s * 1_000)
        self.board = SinkBoard(lambda: self.now_s * 1_000)
        self.view = SourceView(
            self.metrics,
            self,
            HealthRules(),
            of_tasks=nothing_yet,
            sinks=self.board.states,
            clock_s=lambda: self.now_s,
        )

    def run(self, triggers: int) -> None:
        for _ in range(triggers * self.trigger_s):
            if self.now_s % self.trigger_s == 0:
                self._plan()
            self.now_s += 1
            self.ends = {tp: end + RATE for tp, end in self.ends.items()}
            if self.now_s % LOOK_EVERY_S == 0:
                self.view.report()

    def _plan(self) -> None:
        """Plan a batch. The position is the end of the last one, as in Spark's checkpoint."""
        self.done = dict(self.read)
        for tp, end in self.ends.items():
            wanted = self._stable(tp) - self.read[tp]
            self.read[tp] += int(wanted * self.slow_share) if tp == SLOW else wanted
            assert self.read[tp] <= end
        self.metrics.planned(self.done, self.ends, is_idle=False)

    def hold(self, transactional_id: str) -> None:
        """Open a transaction of another program, or of a sink that was killed."""
        first = self.ends[HELD]
        self.holder = Holder(HELD, 7, transactional_id, first, self.now_s * 1_000)

    def _stable(self, tp: TopicPartition) -> int:
        return self.holder.first_offset if tp == HELD and self.holder else self.ends[tp]

    def look(self, positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        """Answer as an `Observer`."""
        away = BrokerUnavailableError("the leader does not answer")
        silent = PARTITIONS if self.is_cluster_away else [AWAY] if self.is_broker_away else []
        errors = dict.fromkeys(silent, away)
        now_ms = self.now_s * 1_000
        return ClusterLook(
            {
                tp: PartitionLook(
                    now_ms,
                    position,
                    0,
                    self._stable(tp),
                    self.ends[tp],
                    1_000_000 + position * 1_000 // RATE,
                    self.holder if tp == HELD else None,
                )
                for tp, position in positions.items()
                if tp not in errors
            },
            errors,
        )


@pytest.fixture
def job() -> Job:
    job = Job()
    job.run(4)
    return job


@contextmanager
def served(job: Job) -> Iterator[str]:
    config = SourceConfig(KafkaProperties(), TopicList(("orders",)))
    server = MetricsServer(job.view, MetricsSettings(0), config)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.close()


def said_everywhere(job: Job) -> list[str]:
    """What `/lag`, `top` and the page say is wrong."""
    with served(job) as url:
        lag, page = (_json(f"{url}/{path}") for path in ("lag", "page.json"))
    output = io.StringIO()
    Console(file=output, width=250).print(screen([ReaderStatus("q", 1, job.view.report(), None)], None, 3))
    assert lag["health"] == page["report"]["health"]
    return [json.dumps(lag), output.getvalue(), json.dumps(page["report"])]


def _json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a server of this test
        return json.load(answer)


def test_a_healthy_job_is_ok_at_every_look(job: Job) -> None:
    for _ in range(10):
        job.run(1)
        report = job.view.report()
        assert report is not None
        assert (report.health.value, report.reasons, report.errors) == ("OK", [], {})


def test_a_slow_topic_partition_is_named(job: Job) -> None:
    job.slow_share = 0.3
    job.run(3)  # the batch in which it begins, and two more
    for said in said_everywhere(job):
        assert "FALLING_BEHIND" in said
        assert f"the lag in {SLOW} grew from" in said


def test_a_slow_topic_partition_is_named_however_often_somebody_looks(job: Job) -> None:
    job.trigger_s = 50  # 25 looks at each position
    job.run(2)
    job.slow_share = 0.3
    job.run(3)
    report = job.view.report()
    assert report is not None
    assert [row.topic_partition for row in report.rows if row.verdict.health is not Health.OK] == [SLOW]


@pytest.mark.parametrize("transactional_id", ["billing-7", "orders-copier-0-0"])
def test_a_foreign_transaction_and_that_of_a_killed_sink_are_named(job: Job, transactional_id: str) -> None:
    job.hold(transactional_id)
    job.run(2)
    for said in said_everywhere(job):
        assert "BLOCKED_BY_TRANSACTION" in said
        assert f"transaction {transactional_id} (producer 7) has kept back readers of {HELD}" in said
    report = job.view.report()
    assert report is not None
    shown, uncommitted = (
        report_as_text({"group": "g"}, "c", report, ByHand(), with_all=True, reads_committed=each)
        for each in (True, False)
    )
    assert "can be read now with read_committed" in shown
    assert "such a reader is not held back: add --read-uncommitted" in shown
    assert "can be read now" not in uncommitted


def test_a_stalled_broker_is_named(job: Job) -> None:
    job.is_broker_away = True
    job.run(1)
    for said in said_everywhere(job):
        assert str(AWAY) in said
        assert "the leader does not answer" in said
        assert "UNKNOWN" in said


def test_a_fault_that_is_known_goes_before_an_answer_that_is_missing(job: Job) -> None:
    job.is_broker_away = True
    job.hold("billing-7")
    job.run(2)
    report = job.view.report()
    assert report is not None
    assert (report.health, list(report.errors)) == (Health.BLOCKED_BY_TRANSACTION, [AWAY])


def test_a_cluster_that_does_not_answer_is_not_called_healthy(job: Job) -> None:
    job.is_cluster_away = True
    job.run(1)
    lag, top, page = said_everywhere(job)
    for said in (lag, top, page):
        assert "UNKNOWN" in said
        assert "OK" not in said
        assert "the leader does not answer" in said
    for figures in (json.loads(lag), json.loads(page)):
        unknown = {figures[name] for name in ("lag_records", "readable_records", "lag_seconds")}
        assert unknown == {None}
    (row,) = (line.split() for line in top.splitlines() if "UNKNOWN" in line)
    assert row == ["q", "UNKNOWN", "1", *["-"] * 7]
    metrics = prometheus_text(job.view, 100, ("kafka-lag-exporter",)).decode()
    assert 'penstock_source_health{health="UNKNOWN"} 1.0' in metrics
    assert "penstock_source_topic_partitions_without_answer 3.0" in metrics
    for name in ("penstock_source_lag_records", "penstock_source_readable_records", "sum_lag{"):
        assert name not in metrics
    report = job.view.report()
    assert report is not None
    shown = report_as_text({"group": "g"}, "c", report, ByHand(), with_all=True, reads_committed=True)
    assert "UNKNOWN  lag unknown" in shown


def test_names_are_shown_as_they_are_and_never_as_markup(job: Job) -> None:
    job.hold("[red]billing[/]")
    job.run(2)
    output = io.StringIO()
    Console(file=output, width=250).print(
        screen([ReaderStatus("/data/[bold]q[/]", 1, job.view.report(), None)], None, 3)
    )
    assert output.getvalue().count("/data/[bold]q[/]") >= 2
    assert output.getvalue().count("transaction [red]billing[/] (producer 7)") == 2


def test_a_job_whose_broker_was_away_for_a_look_keeps_what_was_seen_before(job: Job) -> None:
    job.slow_share = 0.3
    job.run(2)
    job.is_cluster_away = True
    job.now_s += LOOK_EVERY_S
    job.view.report()
    job.is_cluster_away = False
    job.run(1)
    report = job.view.report()
    assert report is not None
    assert report.health is Health.FALLING_BEHIND


def test_a_sink_that_died_between_two_batches_is_shown_with_its_open_transactions(job: Job) -> None:
    message = {"sink": "orders-copier", "guarantee": "exactly-once"}
    values = {"open_transactions": 2, "oldest_opened_at_ms": job.now_s * 1_000}
    job.board.take({**message, "event": "prepared", "values": values})
    job.run(2)
    (sink,) = job.view.sinks().values()
    for said in said_everywhere(job)[:1]:
        assert '"name": "orders-copier"' in said
        assert '"open_transactions": 2' in said
    assert sink.oldest_transaction_ms(job.now_s * 1_000) == 2 * TRIGGER_S * 1_000
