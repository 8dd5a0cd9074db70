"""The metrics of Flink's Kafka connector, and what stands for each of them here.

Runs in the process that plans a stream. Needs `prometheus_client` (the extra `prometheus`). Invariant: every
name of Flink's documentation is in `FLINK_NAMES`, with its meaning or the reason why it is missing; only
names of this table are served (`metrics.aliases` = `flink`). docs/metrics.md has the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric

from penstock.observe.monitor import Row
from penstock.observe.sink_reports import SinkState
from penstock.types import TopicPartition

PREFIX = "flink_taskmanager_job_task_operator_"
"""As Flink's Prometheus reporter begins the names of an operator's metrics."""
_OF_ONE = ("topic", "partition")
_OF_PARTITION = "KafkaSourceReader_topic_partition_"
_DOC = "See Flink's documentation."
_NONE_YET = -1
_DECODE_ERRORS = ("decodeErrors.failed", "decodeErrors.skipped", "decodeErrors.deadLetters")


@dataclass(frozen=True)
class FlinkName:
    """One metric of Flink.

    Attributes:
        flink: its name in Flink's documentation.
        served: its name here after `PREFIX`; None if it is not served.
        meaning: what it is here, or why it is missing and what to use instead.
    """

    flink: str
    served: str | None
    meaning: str


FLINK_NAMES = (
    FlinkName("pendingRecords", "pendingRecords", "offsets to the ends of the logs, as of the last planning"),
    FlinkName("sourceIdleTime", "sourceIdleTime", "ms since the last batch with records"),
    FlinkName(
        "currentEmitEventTimeLag",
        "currentEmitEventTimeLag",
        "ms from the timestamp of a task's last record to the moment when it went to Spark",
    ),
    FlinkName("numRecordsIn", "numRecordsIn", "records that tasks gave to Spark, repeated ones included"),
    FlinkName("numBytesIn", "numBytesIn", "bytes of these records in Arrow; Flink counts those in Kafka"),
    FlinkName("numRecordsInErrors", "numRecordsInErrors", "records that could not be decoded"),
    FlinkName("watermarkLag", None, 'Spark has the watermark: `query.lastProgress["eventTime"]`'),
    FlinkName(
        "KafkaSourceReader.commitsSucceeded", "KafkaSourceReader_commitsSucceeded", "commits of offsets"
    ),
    FlinkName("KafkaSourceReader.commitsFailed", "KafkaSourceReader_commitsFailed", "refused commits"),
    FlinkName(
        "KafkaSourceReader.topic.<t>.partition.<p>.currentOffset",
        f"{_OF_PARTITION}currentOffset",
        "the last offset that was read; labels `topic` and `partition`; -1: none yet",
    ),
    FlinkName(
        "KafkaSourceReader.topic.<t>.partition.<p>.committedOffset",
        f"{_OF_PARTITION}committedOffset",
        "the offset in the consumer group; -1: none committed in this run",
    ),
    FlinkName("KafkaSourceReader.currentOffsets", None, "the documentation's plural of `currentOffset`"),
    FlinkName("KafkaSourceReader.committedOffsets", None, "the documentation's plural of `committedOffset`"),
    FlinkName("current-offsets", None, "the name in Flink 1.11 and before of `currentOffset`"),
    FlinkName("committed-offsets", None, "the name in Flink 1.11 and before of `committedOffset`"),
    FlinkName(
        "KafkaSourceReader.KafkaConsumer.records-consumed-total",
        None,
        "penstock has no Java consumer; use `numRecordsIn`",
    ),
    FlinkName(
        "KafkaSourceReader.KafkaConsumer.records-lag-max",
        None,
        "the largest of `penstock_source_topic_partition_lag_records`",
    ),
    FlinkName("KafkaSourceReader.KafkaConsumer.*", None, "penstock has no Java consumer"),
    FlinkName(
        "currentSendTime", "currentSendTime", "ms: the mean time of the Produce requests of the last batch"
    ),
    FlinkName("numRecordsSend", "numRecordsSend", "acknowledged records of a sink; label `sink`"),
    FlinkName("numBytesSend", "numBytesSend", "their bytes, compressed; label `sink`"),
    FlinkName(
        "numRecordsSendErrors",
        None,
        "a record that Kafka refuses fails its batch: `penstock_sink_failed_batches_total`",
    ),
    FlinkName(
        "KafkaProducer.*", None, "penstock has no Java producer; `penstock_sink_*` has requests and resends"
    ),
)  # fmt: skip


def flink_metrics(
    values: Mapping[str, int],
    rows: Sequence[Row],
    committed: Mapping[TopicPartition, int],
    sinks: Mapping[str, SinkState],
) -> Iterator[Metric]:
    """Yield the metrics as Flink's Prometheus reporter names them: all gauges, times in milliseconds.

    Args:
        values: of the whole source, by Flink's names.
        rows: the topic partitions that are shown one by one.
        committed: the offsets in the consumer group.
        sinks: by name.
    """
    served = {each.served for each in FLINK_NAMES}
    for name, value in values.items():
        if (as_served := name.replace(".", "_")) in served:
            yield GaugeMetricFamily(PREFIX + as_served, _DOC, value=value)
    if errors := [values[name] for name in _DECODE_ERRORS if name in values]:
        yield GaugeMetricFamily(f"{PREFIX}numRecordsInErrors", _DOC, value=sum(errors))
    yield from _of_partitions(rows, committed)
    yield from _of_sinks(sinks)


def _of_partitions(rows: Sequence[Row], committed: Mapping[TopicPartition, int]) -> Iterator[Metric]:
    shown: tuple[tuple[str, Callable[[Row], float]], ...] = (
        ("currentOffset", lambda row: row.look.position - 1),
        ("committedOffset", lambda row: committed.get(row.topic_partition, _NONE_YET)),
    )
    for name, of_row in shown:
        family = GaugeMetricFamily(PREFIX + _OF_PARTITION + name, _DOC, labels=_OF_ONE)
        for row in rows:
            topic, partition = row.topic_partition
            family.add_metric([topic, str(partition)], of_row(row))
        yield family


def _of_sinks(sinks: Mapping[str, SinkState]) -> Iterator[Metric]:
    shown: tuple[tuple[str, Callable[[SinkState], float | None]], ...] = (
        ("currentSendTime", lambda sink: sink.gauges.get("send_ms", _NONE_YET)),
        ("numRecordsSend", lambda sink: sink.totals.get("records")),
        ("numBytesSend", lambda sink: sink.totals.get("batch_bytes")),
    )
    for name, of_sink in shown:
        family = GaugeMetricFamily(PREFIX + name, _DOC, labels=["sink"])
        for sink, state in sinks.items():
            if (value := of_sink(state)) is not None:
                family.add_metric([sink], value)
        yield family
