"""Metrics that are pushed by OTLP, read as a collector reads them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from penstock.observe.serve.otlp import OtlpPush, start_push
from penstock.observe.serve.prometheus import source_metrics
from penstock.observe.serve.start import wants_otlp
from tests.unit.observe.test_serve import Served
from tests.waiting import wait_until


class Collector:
    """Takes what is pushed."""

    def __init__(self) -> None:
        self.pushed: list[Any] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = ExportMetricsServiceRequest()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                outer.pushed.append((self.path, request))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    endpoint = f"http://127.0.0.1:{collector.server.server_port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    yield collector
    collector.close()


def test_a_collector_gets_every_metric_with_its_values(collector: Collector) -> None:
    served = Served()
    served.have_everything()
    push = start_push(lambda: source_metrics(served.view, 100, ()), {"OTEL_METRIC_EXPORT_INTERVAL": "100"})
    try:
        wait_until(lambda: len(collector.pushed) >= 2, "two pushes")
    finally:
        push.close()
    path, request = collector.pushed[-1]
    assert path == "/v1/metrics"
    (of_resource,) = request.resource_metrics
    assert {each.key: each.value.string_value for each in of_resource.resource.attributes}[
        "service.name"
    ] == "orders"
    found = {metric.name: metric for metric in of_resource.scope_metrics[0].metrics}
    assert len(found) > 30
    (lag,) = found["penstock.source.lag_records"].gauge.data_points
    assert lag.as_double == served.families()["penstock_source_lag_records"][()]
    assert found["penstock.source.lag_seconds"].unit == "s"
    for name in ("penstock.source.records", "messaging.client.consumed.messages"):
        (records,) = found[name].sum.data_points
        assert (records.as_double, found[name].sum.is_monotonic) == (12, True)
    assert "messaging.client.sent.messages" in found
    points = found["penstock.source.topic_partition_position"].gauge.data_points
    attributes = [{each.key: each.value.string_value for each in point.attributes} for point in points]
    assert {(each["messaging.destination.name"], each["messaging.system"]) for each in attributes} == {
        ("a", "kafka"),
        ("b", "kafka"),
    }


def test_a_push_that_fails_is_a_warning(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Any:
        raise RuntimeError("no answer")

    before = threading.active_count()
    push = start_push(broken, {})
    push.close()
    assert "Cannot push metrics by OTLP: no answer" in caplog.text
    assert threading.active_count() == before
    assert collector.pushed == []


def test_an_exporter_that_cannot_be_closed_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def export(self, *_: object, **__: object) -> None:
            raise RuntimeError("cannot send")

        def shutdown(self, **_: object) -> None:
            raise RuntimeError("cannot close")

    broken: Any = Broken()
    OtlpPush(lambda: (), broken, 60).close()
    assert "cannot send" in caplog.text
    assert "cannot close" in caplog.text


def test_only_opentelemetrys_variables_turn_it_on() -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert wants_otlp(endpoint)
    assert wants_otlp({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"})
    assert not wants_otlp({})
    assert not wants_otlp({**endpoint, "OTEL_SDK_DISABLED": "true"})
    assert not wants_otlp({**endpoint, "OTEL_METRICS_EXPORTER": "none"})
