"""The figures of one source, for all that show them.

Runs in the process that plans a stream. Thread-safe. Invariants: the cluster is asked at most once in
`REFRESH_S`, by one thread, however many readers there are; the others get the last report.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.observe.health import HealthRules
from penstock.observe.look import ClusterLook
from penstock.observe.monitor import Monitor, Report
from penstock.observe.sink_reports import SinkState
from penstock.source.metrics import BatchTimes
from penstock.types import TopicPartition

REFRESH_S = 1.0
_HISTORY_KEPT = 300


class Looks(Protocol):
    """What a view asks of an `Observer`."""

    def look(self, positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        """Look at the topic partitions of `positions`."""


class Figures(Protocol):
    """What a reader counts itself: the planning of a stream (`SourceMetrics`), or a continuous query.

    Nothing of it asks the cluster. All of it is thread-safe.
    """

    @property
    def has_planned(self) -> bool:
        """Return whether the positions are known."""

    @property
    def not_ready(self) -> str:
        """Return why the query does not read yet, or does not read now; empty if it reads."""

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each topic partition."""

    def committed(self) -> dict[TopicPartition, int]:
        """Return the offsets that this run has committed to the consumer group."""

    def totals(self) -> dict[str, int]:
        """Return the values of the whole source by Flink's names, and by ours that `prometheus.py` lists.

        A value that this kind of query does not know is missing.
        """

    def batch_times(self) -> list[BatchTimes]:
        """Return the times of the last micro-batches, oldest first. A continuous query has none."""


class SourceView:
    """Shows one source.

    Args:
        figures: what the query counts itself.
        observer: looks at the cluster.
        rules: of the health.
        of_tasks: returns the totals that tasks have sent, by Flink's names.
        group_id: the consumer group to which offsets are committed; empty without one.
        sinks: returns the sinks of the query, by name.
        query_warnings: returns what a listener has reported of the query.
        clock_s: monotonic.
    """

    def __init__(
        self,
        figures: Figures,
        observer: Looks,
        rules: HealthRules,
        *,
        of_tasks: Callable[[], dict[str, int]],
        group_id: str = "",
        sinks: Callable[[], dict[str, SinkState]] = dict,
        query_warnings: Callable[[], tuple[str, ...]] = tuple,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group_id = group_id
        self._figures = figures
        self._observer = observer
        self._monitor = Monitor(rules)
        self._of_tasks = of_tasks
        self._sinks = sinks
        self._query_warnings = query_warnings
        self._clock_s = clock_s
        self._refresh_lock = threading.Lock()
        self._report: Report | None = None
        self._looked_at_s = float("-inf")
        self._history: deque[dict[str, float | None]] = deque(maxlen=_HISTORY_KEPT)

    def report(self) -> Report | None:
        """Return a report that is at most `REFRESH_S` old, or the last one while another thread looks.

        None before the positions are known.
        """
        if not self._figures.has_planned:
            return None
        # Only the first report of all is waited for.
        if self._refresh_lock.acquire(blocking=self._report is None):
            try:
                if self._clock_s() - self._looked_at_s >= REFRESH_S:
                    found = self._observer.look(self._figures.positions())
                    self._report = self._monitor.add(found.partitions, found.errors)
                    self._looked_at_s = self._clock_s()
                    if self._report.rows:
                        self._history.append(_point(self._report))
            finally:
                self._refresh_lock.release()
        return self._report

    @property
    def not_ready(self) -> str:
        return self._figures.not_ready

    def history(self) -> list[dict[str, float | None]]:
        """Return what the last looks saw, oldest first, for plots. Asks nothing."""
        return list(self._history)

    def totals(self) -> dict[str, int]:
        """Return the values of the whole source, by Flink's names. Asks nothing."""
        return {**self._figures.totals(), **self._of_tasks()}

    def batch_times(self) -> list[BatchTimes]:
        """Return the times of the last batches, oldest first."""
        return self._figures.batch_times()

    def sinks(self) -> dict[str, SinkState]:
        return self._sinks()

    def query_warnings(self) -> tuple[str, ...]:
        """Return what a listener has reported of the query: sentences about what weakens it."""
        return self._query_warnings()

    def committed(self) -> dict[TopicPartition, int]:
        """Return the offsets that this run has committed to the consumer group."""
        return self._figures.committed()


def _point(report: Report) -> dict[str, float | None]:
    """Return the figures of a look that plots show. Some topic partition has answered."""
    totals, rates = report.totals, report.rates
    return {
        "at_ms": max(row.look.at_ms for row in report.rows),
        "lag_records": totals.records,
        "readable_records": totals.readable_records,
        "lag_seconds": None if totals.age_ms is None else totals.age_ms / 1000,
        "skew_seconds": totals.skew_ms / 1000,
        "read_per_second": None if rates is None else round(rates.read_per_s, 1),
        "written_per_second": None if rates is None else round(rates.written_per_s, 1),
    }
