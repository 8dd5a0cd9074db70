"""Every metric that a source serves, declared once: name, kind, labels, help text.

Runs in the process that plans a stream. Needs `prometheus_client` (the extra `prometheus`). The tables of
docs/metrics.md and docs/continuous-reference.md are made of this (`python -m tests.metrics_page`). `flink.py`
has Flink's names. Invariant: no other metric is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


@dataclass(frozen=True)
class Declared:
    """A metric.

    Attributes:
        name: of its family. Prometheus shows a counter with `_total` behind it.
        help: what Prometheus and the docs say about it.
        labels: of each value.
        family: its kind.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    family: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily

    @property
    def is_counter(self) -> bool:
        return self.family is CounterMetricFamily

    @property
    def shown(self) -> str:
        """Return the name as Prometheus shows it."""
        return f"{self.name}_total" if self.is_counter else self.name

    def of(self, value: float) -> Metric:
        """Return the metric with its only value."""
        return self.family(self.name, self.help, value=value)

    def each(self, values: Iterable[tuple[Sequence[str], float | None]]) -> Metric:
        """Return the metric with a value for each set of labels. None: there is no such value."""
        made = self.family(self.name, self.help, labels=self.labels)
        for labels, value in values:
            if value is not None:
                made.add_metric(labels, value)
        return made


def _gauge(name: str, text: str, *labels: str) -> Declared:
    return Declared(f"penstock_source_{name}", text, labels)


def _counter(name: str, text: str, *labels: str) -> Declared:
    return Declared(f"penstock_source_{name}", text, labels, CounterMetricFamily)


def _of_one(name: str, text: str) -> Declared:
    return _gauge(f"topic_partition_{name}", text, "topic", "partition")


LAG_RECORDS = _gauge("lag_records", "Offsets from the positions at the last planning to the high watermarks.")
READABLE_RECORDS = _gauge(
    "readable_records",
    "Offsets from the positions to the last stable offsets, which `read_committed` may read.",
)
LAG_SECONDS = _gauge("lag_seconds", "Age of the oldest next unread record.")
EVENT_TIME_SKEW_SECONDS = _gauge(
    "event_time_skew_seconds",
    "Time between the oldest and the newest of the next unread records of the topic partitions.",
)
CATCH_UP_SECONDS = _gauge(
    "catch_up_seconds", "Time until the lag is gone at the rates of now. Missing if the lag does not shrink."
)
HEALTH = _gauge("health", "1 for the word that applies to the source.", "health")
NOT_OK = _gauge(
    "topic_partition_not_ok",
    "1 for each topic partition whose health is not OK, with the transaction that holds readers back.",
    *("topic", "partition", "health", "transactional_id"),
)
POSITION = _of_one("position", "The next offset to read.")
LOG_START_OFFSET = _of_one("log_start_offset", "The oldest offset that the broker still has.")
LAST_STABLE_OFFSET = _of_one("last_stable_offset", "The end of the log for `read_committed`.")
HIGH_WATERMARK = _of_one("high_watermark", "The end of the log.")
LAG_RECORDS_OF_ONE = _of_one("lag_records", "Offsets from the position to the high watermark.")
LAG_SECONDS_OF_ONE = _of_one("lag_seconds", "Age of the next unread record.")
COMMITTED_OFFSET = _of_one(
    "committed_offset", "The offset that this run has committed to the consumer group."
)
LEFT_OUT = _gauge(
    "topic_partitions_left_out",
    "Topic partitions that are only in the totals (`metrics.topic-partitions.max`).",
)
WITHOUT_ANSWER = _gauge("topic_partitions_without_answer", "Topic partitions that did not answer.")
RECORDS = _counter("records", "Records that tasks gave to Spark. Records of repeated tasks count again.")
BYTES = _counter("bytes", "Bytes of the records that tasks gave to Spark, in Arrow.")
EMIT_LAG_SECONDS = _gauge(
    "emit_event_time_lag_seconds",
    "From the timestamp of the last record of a task to the moment when it went to Spark.",
)
DECODE_ERRORS = _counter(
    "decode_errors",
    "Records that could not be decoded and `failed` the task, were `skipped`, went to the `dead_letter` "
    "topic, or were `ignored` (`ignore-parse-errors`).",
    "outcome",
)
BATCH_SECONDS = _gauge(
    "batch_seconds",
    "How long each phase of the last batch took: `latestOffset`, `partitions`, and the `rest`.",
    "phase",
)
BATCHES = _counter("batches", "Batches that have ended.")
IDLE_SECONDS = _gauge("idle_seconds", "Time since the last batch with records.")
COMMITS_SUCCEEDED = _counter(
    "offset_commits_succeeded", "Commits of offsets to the consumer group that succeeded."
)
COMMITS_FAILED = _counter("offset_commits_failed", "Commits of offsets to the consumer group that failed.")
IGNORED_TIMESTAMPS = _counter(
    "ignored_future_timestamps",
    "Records whose timestamp is so far in the future that the alignment ignored it.",
)


def _sink(name: str, text: str) -> Declared:
    return Declared(f"penstock_sink_{name}", text, ("sink",))


def _sink_total(name: str, text: str) -> Declared:
    return Declared(f"penstock_sink_{name}", text, ("sink",), CounterMetricFamily)


SINK_RECORDS = _sink_total("records", "Records that Kafka has acknowledged.")
SINK_BYTES = _sink_total("bytes", "Bytes of the acknowledged records, compressed.")
SINK_REQUESTS = _sink_total("requests", "Answered Produce requests.")
SINK_REQUEST_SECONDS = _sink_total(
    "request_seconds",
    "Sum of the times from a Produce request to its answer. Divide it by the requests for the mean.",
)
SINK_RESENDS = _sink_total("resends", "Record batches that were sent again.")
SINK_COMPRESSION_RATIO = _sink(
    "compression_ratio", "Bytes before compression divided by bytes after compression."
)
SINK_BATCHES = _sink_total("batches", "Micro-batches that were written.")
SINK_FAILED_BATCHES = _sink_total("failed_batches", "Micro-batches that Spark gave up.")
SINK_OPEN_TRANSACTIONS = _sink(
    "open_transactions",
    "Transactions that tasks have written and that have not ended yet. Only with exactly-once.",
)
SINK_OLDEST_TRANSACTION_SECONDS = _sink(
    "oldest_transaction_seconds",
    "Age of the oldest open transaction, at most. While tasks write, it counts from the begin of the batch. "
    "Only with exactly-once.",
)
SINK_UNFINISHED_BATCHES = _sink(
    "unfinished_batches", "Decided batches whose transactions are not all committed. Only with exactly-once."
)
SINK_COMMIT_SECONDS = _sink(
    "commit_seconds", "How long the commit of the last batch took. Only with exactly-once."
)
SINK_REPLAYS = _sink_total(
    "replays",
    "Tasks that got rows which were written already, and did not write them again. Only with exactly-once.",
)
SINK_TRANSACTIONS = _sink_total(
    "transactions",
    "Transactions of a continuous query that were committed. With `at-least-once` and `none`: commits of "
    "offsets.",
)


def _continuous(name: str, text: str) -> Declared:
    return Declared(f"penstock_continuous_{name}", text)


TASKS = _continuous("tasks", "Tasks of the present plan of a continuous query.")
TASKS_BEGUN = _continuous(
    "tasks_begun",
    "Tasks of the present plan that have begun. Fewer than the tasks for more than 20 s: Spark has no slot "
    "for them, or their job has failed.",
)
TASK_STARTS = _continuous(
    "task_starts",
    "Starts of the tasks of the present plan. It grows when tasks start again in place after a fault.",
)
PLAN = _continuous("plan", "The number of the present plan, which is the generation of the consumer group.")
FAILED_JOBS = Declared(
    "penstock_continuous_failed_jobs",
    "Jobs of Spark that have failed and were started again.",
    family=CounterMetricFamily,
)

_EXPORTER = "kafka_consumergroup_group_"
_OF_GROUP = ("group", "topic", "partition")
EXPORTER_SUM_LAG = Declared(
    f"{_EXPORTER}sum_lag", "Offsets from all positions to the high watermarks.", ("group",)
)
EXPORTER_LAG = Declared(f"{_EXPORTER}lag", "Offsets from the position to the high watermark.", _OF_GROUP)
EXPORTER_LAG_SECONDS = Declared(f"{_EXPORTER}lag_seconds", "Age of the next unread record.", _OF_GROUP)
EXPORTER_OFFSET = Declared(f"{_EXPORTER}offset", "The next offset to read.", _OF_GROUP)

ALL = tuple(each for each in globals().values() if isinstance(each, Declared))
