"""Start and stop everything that shows one source.

Runs in the process that plans a stream. Invariants: what cannot start (a port in use, an exporter of
OpenTelemetry) is a warning, and the query goes on without it; only a missing prometheus_client is an error,
because the user asked for what it does; after an error no thread and no socket is left.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.client.net.connection import KafkaConnections
from penstock.extras import lacking, missing_extra, needs
from penstock.observe.health import HealthRules
from penstock.observe.look import Observer
from penstock.observe.sink_reports import QueryBoard, SinkBoard, SinkState, announce
from penstock.observe.task_reports import Receiver, ReportAddress, nothing_yet
from penstock.options.config import IsolationLevel, MetricsSettings, SourceConfig

if TYPE_CHECKING:  # loaded when they are used, because their packages are extras
    from penstock.observe.serve.http import MetricsServer
    from penstock.observe.serve.otlp import OtlpPush
    from penstock.observe.serve.view import Figures, SourceView

_log = logging.getLogger(__name__)

_LOOK_TIMEOUT_MS = 3_000
_OTLP_ENDPOINTS = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(frozen=True)
class KnownHere:
    """What this process knows itself of a query, so that no other process has to report it.

    Attributes:
        sinks: returns the sinks of the query, by name.
        warnings: returns what weakens the query.
    """

    sinks: Callable[[], dict[str, SinkState]]
    warnings: Callable[[], tuple[str, ...]]


class SourceExposure:
    """The HTTP end of one source, and for a stream the receiver of what its tasks and sinks report.

    Args:
        config: of the source; its `metrics` is set.
        connections: for looks. The caller closes them after this.
        figures: what the query counts.
        known: of a continuous query. None: of a stream, whose tasks and sinks report.

    Raises:
        MissingExtraError: `prometheus_client` is not installed.
    """

    def __init__(
        self,
        config: SourceConfig,
        connections: KafkaConnections,
        figures: Figures,
        known: KnownHere | None = None,
    ) -> None:
        settings = config.metrics
        assert settings is not None, "the caller asks only with metrics"  # noqa: S101  # for mypy
        check_installed()
        from penstock.observe.serve.view import SourceView  # noqa: PLC0415 - after the check

        self._receiver: Receiver | None = None
        of_tasks: Callable[[], dict[str, int]] = dict
        if known is None:
            sinks, query = SinkBoard(), QueryBoard()
            self._receiver = _receiver(settings, sinks, query)
            known, of_tasks = KnownHere(sinks.states, query.warnings), self._of_tasks
        self._announced: Path | None = None
        self._push: OtlpPush | None = None
        self._server: MetricsServer | None = None
        view = SourceView(
            figures,
            Observer(connections, config, _LOOK_TIMEOUT_MS),
            HealthRules(
                stalled_after_ms=settings.stalled_after_ms,
                blocked_after_ms=settings.blocked_after_ms,
                reads_committed=config.isolation_level is IsolationLevel.READ_COMMITTED,
            ),
            of_tasks=of_tasks,
            group_id=config.group_id or "",
            sinks=known.sinks,
            query_warnings=known.warnings,
        )
        try:
            self._push = _push(view, settings)
            self._server = _server(view, settings, config)
            if self._server is not None and self._receiver is not None:
                self._announced = announce(self._server.port, self._receiver.address)
        except BaseException:
            self.close()
            raise

    @property
    def task_address(self) -> ReportAddress | None:
        """Return where tasks send their figures."""
        return None if self._receiver is None else self._receiver.address

    @property
    def port(self) -> int | None:
        """Return the port of the HTTP end; None if it could not start."""
        return None if self._server is None else self._server.port

    def close(self) -> None:
        """Stop both."""
        if self._push is not None:
            self._push.close()
        if self._announced is not None:
            self._announced.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        if self._receiver is not None:
            self._receiver.close()

    def _of_tasks(self) -> dict[str, int]:
        return nothing_yet() if self._receiver is None else self._receiver.snapshot()


def _receiver(settings: MetricsSettings, sinks: SinkBoard, query: QueryBoard) -> Receiver | None:
    def take(message: Mapping[str, Any]) -> None:
        """Give a message to both; each ignores what is not its own."""
        sinks.take(message)
        query.take(message)

    try:
        return Receiver(settings.tasks_host, take)
    except OSError as error:
        _log.warning(
            "Cannot receive the figures of tasks at %s: %s. Their numbers of records and bytes stay 0.",
            settings.tasks_host,
            error,
        )
        return None


def _server(view: SourceView, settings: MetricsSettings, config: SourceConfig) -> MetricsServer | None:
    from penstock.observe.serve.http import MetricsServer  # noqa: PLC0415 - after the check

    try:
        server = MetricsServer(view, settings, config)
    except OSError as error:
        where = f"{settings.http_host}:{settings.http_port}"
        _log.warning("Cannot serve metrics at %s: %s. The query runs without them.", where, error)
        return None
    _log.warning("Metrics of this source: http://%s:%s/", settings.http_host, server.port)
    return server


def wants_otlp(environment: Mapping[str, str]) -> bool:
    """Return whether OpenTelemetry's variables ask for metrics by OTLP."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_other = environment.get("OTEL_METRICS_EXPORTER", "otlp") != "otlp"
    return not (is_off or is_other) and any(environment.get(name) for name in _OTLP_ENDPOINTS)


def _push(view: SourceView, settings: MetricsSettings) -> OtlpPush | None:
    if not wants_otlp(os.environ):
        return None
    # The variables may be there for other programs, so nothing here is an error.
    try:
        from penstock.observe.serve.otlp import start_push  # noqa: PLC0415 - only if it is wanted
        from penstock.observe.serve.prometheus import source_metrics  # noqa: PLC0415 - after the check

        return start_push(lambda: source_metrics(view, settings.topic_partitions_max, ()))
    except ImportError as error:
        _log.warning(
            "A variable of OpenTelemetry asks for metrics by OTLP. This %s (%s) The query runs without "
            "them. OTEL_METRICS_EXPORTER=none says that they are not wanted.",
            needs("otel"),
            error,
        )
    except Exception as error:  # noqa: BLE001 - figures are for watching: the query goes on
        _log.warning(
            "Cannot push metrics by OTLP: %s: %s. The query runs without them. See the variables OTEL_*.",
            type(error).__name__,
            error,
        )
    return None


def check_installed() -> None:
    """Check that the package for `metrics.http.port` is installed. Raises MissingExtraError if it is not."""
    if lacking("prometheus"):
        raise missing_extra(
            "prometheus",
            "Option 'metrics.http.port'",
            "Nothing was read. The query runs without the option.",
            option="metrics.http.port",
        )
