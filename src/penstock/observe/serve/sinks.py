"""The figures of sinks as Prometheus metrics.

Runs in the process that plans a stream. Needs `prometheus_client` (the extra `prometheus`). Invariant: a
figure that no report has named is missing, not 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.observe.sink_reports import SinkState

_SINK = "penstock_sink_"
_TOTALS: tuple[tuple[str, str, Callable[[SinkState], float | None]], ...] = (
    ("records", "Records that Kafka has acknowledged.", lambda sink: sink.totals.get("records")),
    ("bytes", "Bytes of these records, compressed.", lambda sink: sink.totals.get("batch_bytes")),
    ("requests", "Answered Produce requests.", lambda sink: sink.totals.get("requests")),
    (
        "request_seconds",
        "Sum of the times from a Produce request to its answer.",
        lambda sink: sink.totals["request_ms"] / 1000 if "request_ms" in sink.totals else None,
    ),
    ("resends", "Record batches that were sent again.", lambda sink: sink.totals.get("resends")),
    (
        "transactions",
        "Transactions of a continuous query that were committed; without them, commits of offsets.",
        lambda sink: sink.totals.get("transactions"),
    ),
    ("batches", "Micro-batches that were written.", lambda sink: sink.batches if sink.has_batches else None),
    (
        "failed_batches",
        "Micro-batches that Spark gave up.",
        lambda sink: sink.failed if sink.has_batches else None,
    ),
    (
        "replays",
        "Tasks that got rows which were written already, and did not write them again.",
        lambda sink: sink.totals.get("replays"),
    ),
)
_GAUGES: tuple[tuple[str, str, Callable[[SinkState], float | None]], ...] = (
    (
        "compression_ratio",
        "Bytes before compression by bytes after it.",
        lambda sink: sink.compression_ratio,
    ),
    (
        "open_transactions",
        "Transactions that are written and not ended yet.",
        lambda sink: sink.gauges.get("open_transactions"),
    ),
    (
        "oldest_transaction_seconds",
        "Age of the oldest open transaction, at most.",
        lambda sink: (
            sink.oldest_transaction_ms(_now_ms()) / 1000
            if sink.guarantee == "exactly-once" and sink.has_batches
            else None
        ),
    ),
    (
        "unfinished_batches",
        "Batches that are decided and not finished.",
        lambda sink: sink.gauges.get("unfinished_batches"),
    ),
    (
        "commit_seconds",
        "How long the commit of the last batch took.",
        lambda sink: sink.gauges["commit_ms"] / 1000 if "commit_ms" in sink.gauges else None,
    ),
)


def sink_metrics(sinks: Mapping[str, SinkState]) -> Iterator[Metric]:
    """Yield the metrics of all sinks, with the name of the sink as a label; none without a sink."""
    if not sinks:
        return
    for name, doc, total_of in _TOTALS:
        counter = CounterMetricFamily(_SINK + name, doc, labels=["sink"])
        for sink, state in sinks.items():
            if (total := total_of(state)) is not None:
                counter.add_metric([sink], total)
        if counter.samples:
            yield counter
    for name, doc, value_of in _GAUGES:
        gauge = GaugeMetricFamily(_SINK + name, doc, labels=["sink"])
        for sink, state in sinks.items():
            if (value := value_of(state)) is not None:
                gauge.add_metric([sink], value)
        yield gauge


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
