"""The figures of a source as Prometheus metrics, under penstock's names and, if wanted, under others'.

Runs in the process that plans a stream. Needs `prometheus_client` (the extra `prometheus`). Invariant: at
most `topic_partitions_max` topic partitions are shown one by one, those with the largest lag. Totals hold all
of them. `declared.py` has the names and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from penstock.observe.health import Health
from penstock.observe.lag import Totals
from penstock.observe.monitor import Report, Row
from penstock.observe.serve import declared
from penstock.observe.serve.declared import Declared
from penstock.observe.serve.flink import flink_metrics
from penstock.observe.serve.sinks import sink_metrics
from penstock.observe.serve.view import SourceView
from penstock.source.metrics import BatchTimes
from penstock.types import TopicPartition

_OUTCOMES = {
    "failed": "decodeErrors.failed",
    "skipped": "decodeErrors.skipped",
    "dead_letter": "decodeErrors.deadLetters",
    "ignored": "decodeErrors.ignored",
}
_OfRow = Callable[[Row], float | None]
_PENDING = "pendingRecords"


@dataclass(frozen=True)
class _Total:
    """A metric of one value of `Figures.totals`."""

    key: str
    declared: Declared
    divisor: int = 1


_TOTALS = (
    _Total("sourceIdleTime", declared.IDLE_SECONDS, 1000),
    _Total("KafkaSourceReader.commitsSucceeded", declared.COMMITS_SUCCEEDED),
    _Total("KafkaSourceReader.commitsFailed", declared.COMMITS_FAILED),
    _Total("ignoredFutureTimestamps", declared.IGNORED_TIMESTAMPS),
    _Total("numRecordsIn", declared.RECORDS),
    _Total("numBytesIn", declared.BYTES),
    _Total("currentEmitEventTimeLag", declared.EMIT_LAG_SECONDS, 1000),
    _Total("continuous.tasks", declared.TASKS),
    _Total("continuous.tasksBegun", declared.TASKS_BEGUN),
    _Total("continuous.taskStarts", declared.TASK_STARTS),
    _Total("continuous.plan", declared.PLAN),
    _Total("continuous.failedJobs", declared.FAILED_JOBS),
)
"""Values of the whole source. Not every query knows each of them."""


def prometheus_text(view: SourceView, topic_partitions_max: int, aliases: Sequence[str]) -> bytes:
    """Return the metrics of a source in Prometheus's text format.

    Args:
        view: of the source.
        topic_partitions_max: how many topic partitions are shown one by one.
        aliases: sets of other names, of `ALIAS_SETS`.
    """
    registry = CollectorRegistry()
    registry.register(_SourceCollector(view, topic_partitions_max, aliases))
    return generate_latest(registry)


def source_metrics(view: SourceView, topic_partitions_max: int, aliases: Sequence[str]) -> Iterator[Metric]:
    """Yield the metrics of a source; see `prometheus_text`."""
    return _SourceCollector(view, topic_partitions_max, aliases).collect()


class _SourceCollector(Collector):
    def __init__(self, view: SourceView, topic_partitions_max: int, aliases: Sequence[str]) -> None:
        self._view = view
        self._topic_partitions_max = topic_partitions_max
        self._aliases = aliases

    def describe(self) -> Iterator[Metric]:
        """Return nothing: registering must not ask the cluster."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        report = self._view.report()
        values = self._view.totals()
        yield from _totals(values)
        yield from _batches(self._view.batch_times())
        yield from sink_metrics(self._view.sinks())
        if report is not None:
            rows = sorted(report.rows, key=lambda row: -row.look.records)[: self._topic_partitions_max]
            yield from _lag(report)
            yield from _rows(rows, self._view.committed())
            yield declared.LEFT_OUT.of(len(report.rows) - len(rows))
            if "kafka-lag-exporter" in self._aliases:
                yield from _as_kafka_lag_exporter(report, rows, self._view.group_id)
            if "flink" in self._aliases:
                if report.has_lag:
                    values.setdefault(_PENDING, report.totals.records)
                yield from flink_metrics(values, rows, self._view.committed(), self._view.sinks())


def _totals(values: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the values of the whole source. What this kind of query does not know is left out."""
    for each in _TOTALS:
        if each.key in values:
            yield each.declared.of(values[each.key] / each.divisor)
    if any(key in values for key in _OUTCOMES.values()):
        yield declared.DECODE_ERRORS.each(
            ([outcome], values.get(key, 0)) for outcome, key in _OUTCOMES.items()
        )


def _batches(batches: Sequence[BatchTimes]) -> Iterator[Metric]:
    """Yield the times of the last batch; nothing before the first has ended."""
    if not batches:
        return
    last = batches[-1]
    phases = {
        "latestOffset": last.latest_offset_ms,
        "partitions": last.partitions_ms,
        "rest": last.rest_ms,
    }
    yield declared.BATCH_SECONDS.each(([phase], took_ms / 1000) for phase, took_ms in phases.items())
    yield declared.BATCHES.of(last.number)


def _lag(report: Report) -> Iterator[Metric]:
    if report.has_lag:
        yield from _lag_totals(report.totals)
    if report.rates is not None and report.rates.catch_up_s is not None:
        yield declared.CATCH_UP_SECONDS.of(report.rates.catch_up_s)
    yield declared.WITHOUT_ANSWER.of(len(report.errors))
    yield declared.HEALTH.each(([word.value], word is report.health) for word in Health)


def _lag_totals(totals: Totals) -> Iterator[Metric]:
    yield declared.LAG_RECORDS.of(totals.records)
    yield declared.READABLE_RECORDS.of(totals.readable_records)
    if totals.age_ms is not None:
        yield declared.LAG_SECONDS.of(totals.age_ms / 1000)
    yield declared.EVENT_TIME_SKEW_SECONDS.of(totals.skew_ms / 1000)


def _labels(row: Row) -> list[str]:
    return [row.topic_partition.topic, str(row.topic_partition.partition)]


def _age_s(row: Row) -> float | None:
    age_ms = row.look.age_ms
    return None if age_ms is None else age_ms / 1000


_OF_ROWS: tuple[tuple[Declared, _OfRow], ...] = (
    (declared.POSITION, lambda row: row.look.position),
    (declared.LOG_START_OFFSET, lambda row: row.look.log_start),
    (declared.LAST_STABLE_OFFSET, lambda row: row.look.last_stable),
    (declared.HIGH_WATERMARK, lambda row: row.look.high_watermark),
    (declared.LAG_RECORDS_OF_ONE, lambda row: row.look.records),
    (declared.LAG_SECONDS_OF_ONE, _age_s),
)


def _rows(rows: Sequence[Row], committed: Mapping[TopicPartition, int]) -> Iterator[Metric]:
    for metric, of_row in _OF_ROWS:
        yield metric.each((_labels(row), of_row(row)) for row in rows)
    yield declared.COMMITTED_OFFSET.each((_labels(row), committed.get(row.topic_partition)) for row in rows)
    yield declared.NOT_OK.each(
        ([*_labels(row), row.verdict.health.value, _transaction(row)], 1)
        for row in rows
        if row.verdict.health is not Health.OK
    )


def _transaction(row: Row) -> str:
    """Return the id of the transaction that holds readers back; empty without one."""
    holder = row.look.holder
    return (holder.transactional_id if holder is not None else None) or ""


_OF_EXPORTER: tuple[tuple[Declared, _OfRow], ...] = (
    (declared.EXPORTER_LAG, lambda row: row.look.records),
    (declared.EXPORTER_LAG_SECONDS, _age_s),
    (declared.EXPORTER_OFFSET, lambda row: row.look.position),
)


def _as_kafka_lag_exporter(report: Report, rows: Sequence[Row], group: str) -> Iterator[Metric]:
    """Yield the metrics of seglo's kafka-lag-exporter that mean something without a membership."""
    yield declared.EXPORTER_SUM_LAG.each([([group], report.totals.records if report.has_lag else None)])
    for metric, of_row in _OF_EXPORTER:
        yield metric.each(([group, *_labels(row)], of_row(row)) for row in rows)
