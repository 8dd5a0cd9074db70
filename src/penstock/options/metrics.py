"""Declare the options of metrics. Runs on the driver. They have the same names in both dialects."""

from __future__ import annotations

from ipaddress import ip_address

from penstock.options.config import MetricsSettings
from penstock.options.declare import Declare, Dialect, Option, Side, declared_in
from penstock.options.values import DURATION, POSITIVE_INT, TEXT, ValueType, integer, parse_text, parse_words

ALIAS_SETS = ("flink", "kafka-lag-exporter")
_OFF = "none: metrics are off, and cost nothing"


def _parse_aliases(text: str) -> tuple[str, ...]:
    words = parse_words(text)
    if not set(words) <= set(ALIAS_SETS):
        raise ValueError(f"names of {', '.join(ALIAS_SETS)}, separated by commas")
    return words


def _parse_address(text: str) -> tuple[str, int, str]:
    host, port, token = text.rsplit(":", 2)
    return str(ip_address(host)), int(port), token


def _parse_tasks_host(text: str) -> str:
    host = parse_text(text)
    if host in ("0.0.0.0", "::"):  # noqa: S104 - refused
        raise ValueError("one address or name of the driver: tasks cannot send to 0.0.0.0 or ::")
    return host


_source = Declare(Dialect.SHARED, Side.SOURCE)

HTTP_PORT = Option(
    "metrics.http.port",
    Dialect.SHARED,
    Side.BOTH,
    integer(0, 65_535),
    "The driver serves a page, `/metrics` (Prometheus), `/lag` (JSON), `/healthz` and `/readyz` of a stream "
    "at this port; 0: a free port, which is logged. Needs the extra `prometheus`. On a sink: the port of a "
    "source of the same query, which then also shows this sink. See "
    "[observability.md](observability.md). (Ours.)",
    default_text=_OFF,
)
HTTP_HOST = _source(
    "metrics.http.host",
    TEXT,
    "The address that the port is bound to; `0.0.0.0` for all. There is no login, so other machines can then "
    "see the names of topics and transactions. (Ours.)",
    default=MetricsSettings.http_host,
)
TASKS_HOST = _source(
    "metrics.tasks.host",
    ValueType("text", "not `0.0.0.0` or `::`", _parse_tasks_host),
    "The address of the driver to which tasks send how much they read (UDP). Executors on other machines "
    "need one that they reach. The driver looks up a name once, at the start. Tasks ask no name server. "
    "(Ours.)",
    default=MetricsSettings.tasks_host,
)
TOPIC_PARTITIONS_MAX = _source(
    "metrics.topic-partitions.max",
    POSITIVE_INT,
    "How many topic partitions `/metrics` shows one by one: those with the largest lag. Totals hold all. "
    "(Ours.)",
    default=MetricsSettings.topic_partitions_max,
)
ALIASES = _source(
    "metrics.aliases",
    ValueType("list", f"{', '.join(ALIAS_SETS)}; separated by `,`", _parse_aliases),
    "Serve the same values also under the names of Flink's Prometheus reporter or of kafka-lag-exporter. "
    "(Ours.)",
    default_text="none",
)
STALLED_AFTER = _source(
    "metrics.stalled-after",
    DURATION,
    "The health of a topic partition is STALLED if its position has not moved for this time while there were "
    "records to read. Set it to more than the trigger interval plus the time of a batch. (Ours.)",
    default=MetricsSettings.stalled_after_ms,
)
BLOCKED_AFTER = _source(
    "metrics.blocked-after",
    DURATION,
    "The health of a topic partition is BLOCKED_BY_TRANSACTION if a transaction that has been open for this "
    "time keeps its readers back. (Ours.)",
    default=MetricsSettings.blocked_after_ms,
)
PROGRESS_REPORT_TO = _source(
    "progress.report-to",
    ValueType("address", "what `penstock.batch_progress()` gives", _parse_address),
    "Batch reads: where tasks send how much they have read. `penstock.batch_progress()` sets it. (Ours.)",
    default_text="none",
)

METRICS_OPTIONS = declared_in(globals())
