"""Make the Grafana dashboard.

Runs where `penstock dashboard` runs. Pure. Invariant: the same input gives the same text, so that the
dashboard can be kept in a repository.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from typing import Any

_WIDTH = 24
_SOURCE = '{job=~"$job",instance=~"$instance"}'
_COLUMNS_OF_STATS = 4


class _Kind(Enum):
    """How Grafana draws a panel."""

    STAT = "stat"
    PLOT = "timeseries"
    TABLE = "table"


@dataclass(frozen=True)
class _Panel:
    """One panel.

    Attributes:
        title: above it.
        unit: Grafana's name, e.g. `s`, `short`, `Bps`.
        queries: pairs of a legend and a PromQL expression, in which `%` stands for the chosen sources.
        kind: how it is drawn.
        note: what the reader has to know; empty if the title says it.
    """

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    kind: _Kind = _Kind.PLOT
    note: str = ""


_PANELS = (
    _Panel("Health", "short", [("{{health}}", "max by (health) (penstock_source_health% == 1)")], _Kind.STAT),
    _Panel("Lag", "short", [("records", "sum(penstock_source_lag_records%)")], _Kind.STAT),
    _Panel("Oldest unread record", "s", [("age", "max(penstock_source_lag_seconds%)")], _Kind.STAT),
    _Panel("Caught up in", "s", [("time", "max(penstock_source_catch_up_seconds%)")], _Kind.STAT),
    _Panel(
        "Not OK",
        "short",
        [("", "penstock_source_topic_partition_not_ok%")],
        _Kind.TABLE,
        "Each topic partition that is not OK, and the transaction that holds readers back.",
    ),
    _Panel(
        "Lag",
        "short",
        [
            ("{{instance}} lag", "penstock_source_lag_records%"),
            ("{{instance}} readable", "penstock_source_readable_records%"),
        ],
    ),
    _Panel(
        "Records and bytes read",
        "short",
        [
            ("{{instance}} records/s", "rate(penstock_source_records_total%[$__rate_interval])"),
            ("{{instance}} bytes/s", "rate(penstock_source_bytes_total%[$__rate_interval])"),
        ],
    ),
    _Panel(
        "Age and event-time skew",
        "s",
        [
            ("{{instance}} age", "penstock_source_lag_seconds%"),
            ("{{instance}} skew", "penstock_source_event_time_skew_seconds%"),
            ("{{instance}} emitted", "penstock_source_emit_event_time_lag_seconds%"),
        ],
    ),
    _Panel(
        "Phases of the last batch",
        "s",
        [("{{instance}} {{phase}}", "penstock_source_batch_seconds%")],
        note="rest: tasks, the sink, Spark's logs, and waiting for the trigger.",
    ),
    _Panel(
        "Largest lags of topic partitions",
        "short",
        [("{{topic}}-{{partition}}", "topk(10, penstock_source_topic_partition_lag_records%)")],
    ),
    _Panel(
        "Decode errors and commits of offsets",
        "short",
        [
            ("decode {{outcome}}", "sum by (outcome) (increase(penstock_source_decode_errors_total%[5m]))"),
            ("failed commits", "sum(increase(penstock_source_offset_commits_failed_total%[5m]))"),
            ("no answer", "sum(penstock_source_topic_partitions_without_answer%)"),
        ],
    ),
    _Panel(
        "Records and bytes written",
        "short",
        [
            ("{{sink}} records/s", "rate(penstock_sink_records_total%[$__rate_interval])"),
            ("{{sink}} bytes/s", "rate(penstock_sink_bytes_total%[$__rate_interval])"),
        ],
    ),
    _Panel(
        "Produce requests",
        "s",
        [
            (
                "{{sink}} mean time",
                "rate(penstock_sink_request_seconds_total%[5m]) / rate(penstock_sink_requests_total%[5m])",
            ),
            ("{{sink}} commit", "penstock_sink_commit_seconds%"),
        ],
    ),
    _Panel(
        "Transactions of sinks",
        "short",
        [
            ("{{sink}} open", "penstock_sink_open_transactions%"),
            ("{{sink}} decided, unfinished", "penstock_sink_unfinished_batches%"),
            ("{{sink}} age of the oldest, s", "penstock_sink_oldest_transaction_seconds%"),
        ],
    ),
    _Panel(
        "Trouble of sinks",
        "short",
        [
            ("{{sink}} batches given up", "increase(penstock_sink_failed_batches_total%[5m])"),
            ("{{sink}} sent again", "increase(penstock_sink_resends_total%[5m])"),
            ("{{sink}} replayed tasks", "increase(penstock_sink_replays_total%[5m])"),
        ],
    ),
    _Panel(
        "Tasks of continuous queries",
        "short",
        [
            ("{{instance}} planned", "penstock_continuous_tasks%"),
            ("{{instance}} begun", "penstock_continuous_tasks_begun%"),
            ("{{instance}} transactions/s", "rate(penstock_sink_transactions_total%[$__rate_interval])"),
        ],
        note="Fewer have begun than are planned: Spark has no slot for them, or their job has failed.",
    ),
    _Panel(
        "Trouble of continuous queries",
        "short",
        [
            ("{{instance}} plans", "changes(penstock_continuous_plan%[5m])"),
            (
                "{{instance}} tasks started again",
                "penstock_continuous_task_starts% - penstock_continuous_tasks%",
            ),
            ("{{instance}} failed jobs", "increase(penstock_continuous_failed_jobs_total%[5m])"),
        ],
        note="Tasks start again in place after a fault, such as a coordinator that moves.",
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard, for Grafana's import of JSON (schema 39, Grafana 10 and later)."""
    return {
        "uid": "penstock",
        "title": "penstock",
        "tags": ["kafka", "spark", "penstock"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_data_source(), *(_variable(name) for name in ("job", "instance"))]},
        "panels": _panels(),
    }


def alert_rules() -> str:
    """Return the alert rules, for `rule_files` of Prometheus."""
    return files(__package__).joinpath("alerts.yml").read_text(encoding="utf-8")


def _data_source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": f"label_values(penstock_source_idle_seconds, {name})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    """Return the panels with their cells: a row of numbers, then a table, then two plots side by side."""
    panels: list[dict[str, Any]] = []
    x = y = height = 0
    for panel in _PANELS:
        width, wanted = _size(panel.kind)
        if x + width > _WIDTH or wanted != height:
            x, y = 0, y + height
        height = wanted
        panels.append(_drawn(panel, len(panels) + 1, {"x": x, "y": y, "w": width, "h": height}))
        x += width
    return panels


def _size(kind: _Kind) -> tuple[int, int]:
    """Return width and height in Grafana's units."""
    if kind is _Kind.STAT:
        return _WIDTH // _COLUMNS_OF_STATS, 4
    return (_WIDTH, 6) if kind is _Kind.TABLE else (_WIDTH // 2, 8)


def _drawn(panel: _Panel, number: int, cell: dict[str, int]) -> dict[str, Any]:
    is_table = panel.kind is _Kind.TABLE
    return {
        "id": number,
        "title": panel.title,
        "description": panel.note,
        "type": panel.kind.value,
        "gridPos": cell,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"textMode": "value_and_name"} if panel.title == "Health" else {},
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "expr": expression.replace("%", _SOURCE),
                "legendFormat": legend,
                "instant": is_table,
                "format": "table" if is_table else "time_series",
            }
            for number, (legend, expression) in enumerate(panel.queries)
        ],
    }
