"""The figures of sinks as Prometheus metrics.

Runs in the process that plans a stream. Needs `prometheus_client` (the extra `prometheus`). Invariant: a
figure that no report has named is missing, not 0. `declared.py` has the names and texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from penstock.observe.serve import declared
from penstock.observe.serve.declared import Declared
from penstock.observe.sink_reports import SinkState

_OfSink = Callable[[SinkState], float | None]


def _seconds(values: Mapping[str, int], name: str) -> float | None:
    return values[name] / 1000 if name in values else None


def _oldest_transaction_s(sink: SinkState) -> float | None:
    if sink.guarantee != "exactly-once" or not sink.has_batches:
        return None
    return sink.oldest_transaction_ms(time.time_ns() // 1_000_000) / 1000


_SHOWN: tuple[tuple[Declared, _OfSink], ...] = (
    (declared.SINK_RECORDS, lambda sink: sink.totals.get("records")),
    (declared.SINK_BYTES, lambda sink: sink.totals.get("batch_bytes")),
    (declared.SINK_REQUESTS, lambda sink: sink.totals.get("requests")),
    (declared.SINK_REQUEST_SECONDS, lambda sink: _seconds(sink.totals, "request_ms")),
    (declared.SINK_RESENDS, lambda sink: sink.totals.get("resends")),
    (declared.SINK_TRANSACTIONS, lambda sink: sink.totals.get("transactions")),
    (declared.SINK_BATCHES, lambda sink: sink.batches if sink.has_batches else None),
    (declared.SINK_FAILED_BATCHES, lambda sink: sink.failed if sink.has_batches else None),
    (declared.SINK_REPLAYS, lambda sink: sink.totals.get("replays")),
    (declared.SINK_COMPRESSION_RATIO, lambda sink: sink.compression_ratio),
    (declared.SINK_OPEN_TRANSACTIONS, lambda sink: sink.gauges.get("open_transactions")),
    (declared.SINK_OLDEST_TRANSACTION_SECONDS, _oldest_transaction_s),
    (declared.SINK_UNFINISHED_BATCHES, lambda sink: sink.gauges.get("unfinished_batches")),
    (declared.SINK_COMMIT_SECONDS, lambda sink: _seconds(sink.gauges, "commit_ms")),
)


def sink_metrics(sinks: Mapping[str, SinkState]) -> Iterator[Metric]:
    """Yield the metrics of all sinks, with the name of the sink as a label; none without a sink."""
    if not sinks:
        return
    for metric, value_of in _SHOWN:
        found = metric.each(([name], value_of(state)) for name, state in sinks.items())
        if found.samples or not metric.is_counter:
            yield found
