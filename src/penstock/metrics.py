"""`penstock.metrics.MetricsListener`: lag and health of streaming queries, from Spark's own progress reports.

Runs in the user's program, on Spark classic and Connect. A Python source cannot put metrics into Spark's
`sources[].metrics`, so the listener computes them from the offsets that are in each report. Invariants: it
asks neither Kafka nor Spark; an error in it, or in the user's function, is logged and ends no query.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from penstock._pyspark import explain_import_error
from penstock.observe.health import HealthRules
from penstock.observe.monitor import Monitor, report_to_json
from penstock.observe.progress import (
    late_warnings,
    looks_of_progress,
    offsets_behind_latest,
    state_warnings,
)
from penstock.observe.sink_reports import report_query

try:
    from pyspark.sql.streaming.listener import StreamingQueryListener
except ImportError as error:
    explain_import_error(error)
    raise

__all__ = ["HealthRules", "MetricsListener", "json_lines"]

_log = logging.getLogger(__name__)


class MetricsListener(StreamingQueryListener):
    """Adds lag and health to the progress of each query that reads Kafka.

        listener = penstock.metrics.MetricsListener()
        spark.streams.addListener(listener)
        ...
        listener.latest()  # {query id: figures}

    The figures of a query are a dict that `json.dumps` takes: `query_id`, `run_id`, `name`, `batch_id`,
    `timestamp`, `input_rows`, `input_rows_per_second`, `processed_rows_per_second`, `batch_ms` (Spark's
    `durationMs`), `late_rows`, `warnings` (sentences, e.g. an aggregation without a watermark), and
    `sources`. `late_rows` says how many rows the stateful operators have dropped in the batch because the
    watermark had passed them: rows or more, because Spark adds up those of one group before it counts them.

    Each source that reads Kafka has its `number` and `description`, `metrics` (`minOffsetsBehindLatest`,
    `maxOffsetsBehindLatest`, `avgOffsetsBehindLatest`, texts as Spark has them), `health`, `reasons`,
    `lag_records`, `rates`, `topic_partitions`. The lag is from the end of the batch to the ends of the logs
    when it was planned.

    Args:
        on_progress: gets the figures after each report, on Spark's listener thread; None: nothing is called.
        rules: of the health.
        pages: the port of the page (`metrics.http.port` of the source) for the names of queries. The page
            then also shows the warnings of its query. The driver must run on this machine.
    """

    def __init__(
        self,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        rules: HealthRules | None = None,
        *,
        pages: Mapping[str, int] | None = None,
    ) -> None:
        self._on_progress = on_progress
        self._rules = rules or HealthRules()
        self._pages = dict(pages or {})
        self._lock = threading.Lock()
        self._latest: dict[str, dict[str, Any]] = {}
        self._monitors: dict[tuple[str, int], Monitor] = {}

    def latest(self) -> dict[str, dict[str, Any]]:
        """Return the newest figures of each query that runs, by query id."""
        with self._lock:
            return dict(self._latest)

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: the first report has the first figures."""

    def onQueryProgress(self, event: Any) -> None:
        """Keep the figures of a report, and hand them on."""
        try:
            figures = self._figures(event.progress)
            with self._lock:
                self._latest[figures["query_id"]] = figures
            if (port := self._pages.get(figures["name"])) is not None:
                report_query(port, figures["warnings"])
            if self._on_progress is not None:
                self._on_progress(figures)
        except Exception:  # noqa: BLE001 - a listener must not end its thread
            _log.exception("The figures of a progress report are lost. The query is not affected.")

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:
        """Forget the query."""
        query_id = str(event.id)
        with self._lock:
            self._latest.pop(query_id, None)
            self._monitors = {key: of for key, of in self._monitors.items() if key[0] != query_id}

    def _figures(self, progress: Any) -> dict[str, Any]:
        query_id = str(progress.id)
        dropped = Counter[str]()
        for each in progress.stateOperators:
            dropped[each.operatorName] += max(0, each.numRowsDroppedByWatermark)
        names = (each.operatorName for each in progress.stateOperators)
        return {
            "query_id": query_id,
            "run_id": str(progress.runId),
            "name": progress.name,
            "batch_id": progress.batchId,
            "timestamp": progress.timestamp,
            "input_rows": progress.numInputRows,
            "input_rows_per_second": progress.inputRowsPerSecond,
            "processed_rows_per_second": progress.processedRowsPerSecond,
            "batch_ms": dict(progress.durationMs),
            "late_rows": dropped.total(),
            "warnings": [*state_warnings(names, progress.eventTime or {}), *late_warnings(dropped)],
            "sources": [
                shown
                for number, source in enumerate(progress.sources)
                if (shown := self._of_source(query_id, number, source, _ms_of(progress.timestamp)))
                is not None
            ],
        }

    def _of_source(self, query_id: str, number: int, source: Any, at_ms: int) -> dict[str, Any] | None:
        looks = looks_of_progress(source.endOffset, source.latestOffset, at_ms)
        if looks is None:
            return None
        with self._lock:
            monitor = self._monitors.setdefault((query_id, number), Monitor(self._rules))
            report = monitor.add(looks)
        shown = report_to_json(report)
        return {
            "number": number,
            "description": source.description,
            "metrics": {**offsets_behind_latest(looks), **dict(source.metrics)},
            "health": shown["health"],
            "reasons": shown["reasons"],
            "lag_records": shown["lag_records"],
            "rates": shown["rates"],
            "topic_partitions": [
                {name: row[name] for name in ("topic", "partition", "health", "position", "lag_records")}
                for row in shown["topic_partitions"]
            ],
        }


def json_lines(write: Callable[[str], Any]) -> Callable[[dict[str, Any]], None]:
    """Return an `on_progress` that writes each report as one line of JSON.

    Args:
        write: e.g. `open(path, "a", buffering=1).write`, so that no line waits; gets the line with its end.
    """

    def on_progress(figures: dict[str, Any]) -> None:
        write(json.dumps(figures) + "\n")

    return on_progress


def _ms_of(timestamp: str) -> int:
    moment = datetime.fromisoformat(timestamp.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
