"""The figures of a source as Prometheus metrics, under penstock's names and, if wanted, under others'.

Runs in the process that plans a stream. Needs `prometheus_client` (the extra `prometheus`). Invariant: at
most `topic_partitions_max` topic partitions are shown one by one, those with the largest lag. Totals hold all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.observe.health import Health
from penstock.observe.lag import Totals
from penstock.observe.monitor import Report, Row
from penstock.observe.serve.flink import flink_metrics
from penstock.observe.serve.sinks import sink_metrics
from penstock.observe.serve.view import SourceView
from penstock.source.metrics import BatchTimes
from penstock.types import TopicPartition

_OF_ONE = ("topic", "partition")
_SOURCE = "penstock_source_"
_EXPORTER = "kafka_consumergroup_group_"
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
    family: type[CounterMetricFamily | GaugeMetricFamily]
    name: str
    doc: str
    divisor: int = 1

    def metric(self, value: int) -> Metric:
        return self.family(f"penstock_{self.name}", self.doc, value=value / self.divisor)


_TOTALS = (
    _Total(
        "sourceIdleTime", GaugeMetricFamily, "source_idle_seconds",
        "Time since the last batch with records.", 1000,
    ),
    _Total(
        "KafkaSourceReader.commitsSucceeded", CounterMetricFamily, "source_offset_commits_succeeded",
        "Commits of offsets to the consumer group.",
    ),
    _Total(
        "KafkaSourceReader.commitsFailed", CounterMetricFamily, "source_offset_commits_failed",
        "Commits of offsets to the consumer group.",
    ),
    _Total(
        "ignoredFutureTimestamps", CounterMetricFamily, "source_ignored_future_timestamps",
        "Records whose timestamp is too far in the future for the alignment.",
    ),
    _Total(
        "numRecordsIn", CounterMetricFamily, "source_records",
        "Records that tasks gave to Spark, repeated ones included.",
    ),
    _Total("numBytesIn", CounterMetricFamily, "source_bytes", "Bytes of these records, in Arrow."),
)  # fmt: skip
"""Values of the whole source."""
_MORE_TOTALS = (
    _Total(
        "currentEmitEventTimeLag", GaugeMetricFamily, "source_emit_event_time_lag_seconds",
        "From the timestamp of the last record of a task to the moment when it went to Spark.", 1000,
    ),
    _Total(
        "continuous.tasks", GaugeMetricFamily, "continuous_tasks",
        "Tasks of the present plan of a continuous query.",
    ),
    _Total(
        "continuous.tasksBegun", GaugeMetricFamily, "continuous_tasks_begun",
        "Tasks of the present plan that have begun.",
    ),
    _Total(
        "continuous.taskStarts", GaugeMetricFamily, "continuous_task_starts",
        "Starts of the tasks of the present plan; more than the tasks after faults.",
    ),
    _Total(
        "continuous.plan", GaugeMetricFamily, "continuous_plan",
        "The number of the present plan, which is the generation of the consumer group.",
    ),
    _Total(
        "continuous.failedJobs", CounterMetricFamily, "continuous_failed_jobs",
        "Jobs of Spark that have failed and were started again.",
    ),
)  # fmt: skip
"""Values of the whole source that not every query knows."""


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
            yield _gauge(
                "topic_partitions_left_out",
                "Topic partitions that are only in the totals.",
                len(report.rows) - len(rows),
            )
            if "kafka-lag-exporter" in self._aliases:
                yield from _as_kafka_lag_exporter(report, rows, self._view.group_id)
            if "flink" in self._aliases:
                if report.has_lag:
                    values.setdefault(_PENDING, report.totals.records)
                yield from flink_metrics(values, rows, self._view.committed(), self._view.sinks())


def _totals(values: Mapping[str, int]) -> Iterator[Metric]:
    """Yield the values of the whole source. What this kind of query does not know is left out."""
    yield from (each.metric(values[each.key]) for each in _TOTALS if each.key in values)
    if any(key in values for key in _OUTCOMES.values()):
        yield _decode_errors(values)
    yield from (each.metric(values[each.key]) for each in _MORE_TOTALS if each.key in values)


def _decode_errors(values: Mapping[str, int]) -> Metric:
    errors = CounterMetricFamily(
        f"{_SOURCE}decode_errors",
        "Records that could not be decoded, by what happened to them.",
        labels=["outcome"],
    )
    for outcome, key in _OUTCOMES.items():
        errors.add_metric([outcome], values.get(key, 0))
    return errors


def _batches(batches: Sequence[BatchTimes]) -> Iterator[Metric]:
    """Yield the times of the last batch; nothing before the first has ended."""
    if not batches:
        return
    last = batches[-1]
    family = GaugeMetricFamily(
        f"{_SOURCE}batch_seconds", "How long each phase of the last batch took.", labels=["phase"]
    )
    phases = {
        "latestOffset": last.latest_offset_ms,
        "partitions": last.partitions_ms,
        "rest": last.rest_ms,
    }
    for phase, took_ms in phases.items():
        family.add_metric([phase], took_ms / 1000)
    yield family
    yield CounterMetricFamily(f"{_SOURCE}batches", "Batches that have ended.", value=last.number)


def _lag(report: Report) -> Iterator[Metric]:
    if report.has_lag:
        yield from _lag_totals(report.totals)
    if report.rates is not None and report.rates.catch_up_s is not None:
        yield _gauge(
            "catch_up_seconds", "When the lag is gone, at the rates of now.", report.rates.catch_up_s
        )
    yield _gauge(
        "topic_partitions_without_answer", "Topic partitions that did not answer.", len(report.errors)
    )
    words = GaugeMetricFamily(
        f"{_SOURCE}health", "1 for the word that applies to the source.", labels=["health"]
    )
    for word in Health:
        words.add_metric([word.value], word is report.health)
    yield words


def _lag_totals(totals: Totals) -> Iterator[Metric]:
    yield _gauge("lag_records", "Offsets from the positions to the high watermarks.", totals.records)
    yield _gauge(
        "readable_records", "Offsets up to the last stable offsets, which read_committed may read.",
        totals.readable_records,
    )  # fmt: skip
    if totals.age_ms is not None:
        yield _gauge("lag_seconds", "Age of the oldest next unread record.", totals.age_ms / 1000)
    yield _gauge(
        "event_time_skew_seconds",
        "Between the oldest and the newest of the next unread records of the topic partitions.",
        totals.skew_ms / 1000,
    )


def _rows(rows: Sequence[Row], committed: Mapping[TopicPartition, int]) -> Iterator[Metric]:
    shown: tuple[tuple[str, str, _OfRow], ...] = (
        ("topic_partition_position", "The next offset to read.", lambda row: row.look.position),
        ("topic_partition_log_start_offset", "The oldest offset.", lambda row: row.look.log_start),
        (
            "topic_partition_last_stable_offset",
            "The end for read_committed.",
            lambda row: row.look.last_stable,
        ),
        ("topic_partition_high_watermark", "The end of the log.", lambda row: row.look.high_watermark),
        ("topic_partition_lag_records", "Offsets to the high watermark.", lambda row: row.look.records),
        ("topic_partition_lag_seconds", "Age of the next unread record.", _age_s),
        (
            "topic_partition_committed_offset",
            "The offset that this run has committed to the consumer group.",
            lambda row: committed.get(row.topic_partition),
        ),
    )
    for name, doc, value_of in shown:
        family = GaugeMetricFamily(_SOURCE + name, doc, labels=_OF_ONE)
        for row in rows:
            value = value_of(row)
            if value is not None:
                family.add_metric(_labels(row), value)
        yield family
    health = GaugeMetricFamily(
        f"{_SOURCE}topic_partition_not_ok",
        "1 for a topic partition whose health is not OK, and the transaction that holds readers back.",
        labels=[*_OF_ONE, "health", "transactional_id"],
    )
    for row in rows:
        if row.verdict.health is not Health.OK:
            holder = row.look.holder
            name = (holder.transactional_id if holder is not None else None) or ""
            health.add_metric([*_labels(row), row.verdict.health.value, name], 1)
    yield health


def _as_kafka_lag_exporter(report: Report, rows: Sequence[Row], group: str) -> Iterator[Metric]:
    """Yield the metrics of seglo's kafka-lag-exporter that mean something without a membership."""
    total = GaugeMetricFamily(f"{_EXPORTER}sum_lag", "Sum of the lags.", labels=["group"])
    if report.has_lag:
        total.add_metric([group], report.totals.records)
    yield total
    shown: tuple[tuple[str, _OfRow], ...] = (
        ("lag", lambda row: row.look.records),
        ("lag_seconds", _age_s),
        ("offset", lambda row: row.look.position),
    )
    for name, of_row in shown:
        family = GaugeMetricFamily(_EXPORTER + name, "See kafka-lag-exporter.", labels=["group", *_OF_ONE])
        for row in rows:
            if (value := of_row(row)) is not None:
                family.add_metric([group, *_labels(row)], value)
        yield family


def _gauge(name: str, doc: str, value: float) -> Metric:
    return GaugeMetricFamily(_SOURCE + name, doc, value=value)


def _labels(row: Row) -> list[str]:
    return [row.topic_partition.topic, str(row.topic_partition.partition)]


def _age_s(row: Row) -> float | None:
    age_ms = row.look.age_ms
    return None if age_ms is None else age_ms / 1000
