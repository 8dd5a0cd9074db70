"""Push the metrics of a source by OpenTelemetry's protocol (OTLP over HTTP).

Runs in the process that plans a stream, on a thread of its own. Needs the extra `otel`. OpenTelemetry's
variables of the environment set it up: `OTEL_EXPORTER_OTLP_ENDPOINT` turns it on. Invariant: a push that
fails is logged, and the query goes on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    MetricExporter,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

import penstock

_log = logging.getLogger(__name__)

_INTERVAL_S = 60.0
_LAST_PUSH_TIMEOUT_MS = 2_000
_JOIN_TIMEOUT_S = 5.0
_ATTRIBUTES = {
    "topic": "messaging.destination.name",
    "partition": "messaging.destination.partition.id",
    "group": "messaging.consumer.group.name",
}
"""Names of OpenTelemetry's conventions for messaging."""
_CONVENTIONS = {
    "penstock_source_records": "messaging.client.consumed.messages",
    "penstock_sink_records": "messaging.client.sent.messages",
}
"""Values that are sent under the name of the conventions, too."""
_Families = Callable[[], Iterable[Metric]]


class OtlpPush:
    """Pushes metrics again and again until `close`, which pushes once more.

    Args:
        families: returns the metrics of now. It may take seconds, and may fail.
        exporter: sends them.
        interval_s: from one push to the next.
    """

    def __init__(self, families: _Families, exporter: MetricExporter, interval_s: float) -> None:
        self._families = families
        self._exporter = exporter
        self._interval_s = interval_s
        self._resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "penstock")})
        self._started_ns = time.time_ns()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Push once more, and stop. It takes a few seconds at most."""
        self._is_closed.set()
        self._thread.join(_JOIN_TIMEOUT_S)
        try:
            self._exporter.shutdown(timeout_millis=_LAST_PUSH_TIMEOUT_MS)
        except Exception as error:  # noqa: BLE001 - the rest of the source still has to close
            _log.warning("Cannot close the exporter of OTLP: %s. The query is not affected.", error)

    def _run(self) -> None:
        while not self._is_closed.wait(self._interval_s):
            self._push()
        self._push(timeout_ms=_LAST_PUSH_TIMEOUT_MS)

    def _push(self, timeout_ms: float = 10_000) -> None:
        try:
            data = otlp_data(self._families(), self._resource, self._started_ns, time.time_ns())
            self._exporter.export(data, timeout_millis=timeout_ms)
        except Exception as error:  # noqa: BLE001 - figures are for watching: the query goes on
            _log.warning("Cannot push metrics by OTLP: %s. The query is not affected.", error)


def otlp_data(families: Iterable[Metric], resource: Resource, started_ns: int, now_ns: int) -> MetricsData:
    """Return metrics of Prometheus as those of OpenTelemetry.

    `penstock_source_lag_records` becomes `penstock.source.lag_records`.

    Args:
        families: of Prometheus: gauges and counters.
        resource: whose metrics they are.
        started_ns: since when counters count.
        now_ns: the time.
    """
    metrics: list[OtelMetric] = []
    for family in families:
        points = [_point(sample, started_ns, now_ns) for sample in family.samples]
        names = [family.name.replace("_", ".", 2)]
        if (by_convention := _CONVENTIONS.get(family.name)) is not None:
            names.append(by_convention)
        metrics += [_metric(name, family, points) for name in names if points]
    scope = ScopeMetrics(InstrumentationScope("penstock", penstock.__version__), metrics, "")
    return MetricsData([ResourceMetrics(resource, [scope], "")])


def _metric(name: str, family: Metric, points: Sequence[NumberDataPoint]) -> OtelMetric:
    unit = "s" if "seconds" in name else "By" if name.endswith("bytes") else "1"
    if family.type == "counter":
        sums = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
        return OtelMetric(name, family.documentation, unit, sums)
    return OtelMetric(name, family.documentation, unit, Gauge(points))


def _point(sample: Sample, started_ns: int, now_ns: int) -> NumberDataPoint:
    attributes = {_ATTRIBUTES.get(name, name): value for name, value in sample.labels.items()}
    return NumberDataPoint(
        {"messaging.system": "kafka", **attributes}, started_ns, now_ns, float(sample.value)
    )


def start_push(families: _Families, environment: Mapping[str, str] = os.environ) -> OtlpPush:
    """Start to push to where OpenTelemetry's variables say."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 - slow

    return OtlpPush(families, OTLPMetricExporter(), _interval_s(environment))


def _interval_s(environment: Mapping[str, str]) -> float:
    try:
        return max(0.1, int(environment["OTEL_METRIC_EXPORT_INTERVAL"]) / 1000)
    except (KeyError, ValueError):
        return _INTERVAL_S
