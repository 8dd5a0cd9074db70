"""What a continuous query shows to the tools that watch streams: health, the page, `/metrics`, `top`.

Runs on the driver. Thread-safe: it reads what the supervisor's thread has left, and asks neither Kafka nor
Spark. Invariants: the figures are of committed transactions; a value that is unknown is missing, and never 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.relay.supervisor import Supervisor
from penstock.source.metrics import BatchTimes
from penstock.types import TopicPartition


class QueryFigures:
    """Figures of one query, under the names that `SourceMetrics` has for a stream.

    Args:
        supervisor: of the query.
        clock_s: since 1970.
    """

    def __init__(self, supervisor: Supervisor, clock_s: Callable[[], float] = time.time) -> None:
        self._supervisor = supervisor
        self._clock_s = clock_s

    @property
    def has_planned(self) -> bool:
        """Return whether there are positions: they come with the first plan."""
        return bool(self._supervisor.progress.positions)

    @property
    def not_ready(self) -> str:
        """Return why not every task reads; empty if each does."""
        return "; ".join(self.warnings())

    def warnings(self) -> tuple[str, ...]:
        """Return a sentence if some tasks have not begun."""
        begun, tasks = self._supervisor.begun_tasks, self._task_count
        if tasks and begun >= tasks:
            return ()
        return (f"{begun} of {tasks} tasks have begun. {self._supervisor.message}.",)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the group's offsets at the last look."""
        return dict(self._supervisor.progress.positions)

    def committed(self) -> dict[TopicPartition, int]:
        """Return the same: a continuous query has no other positions."""
        return self.positions()

    def batch_times(self) -> list[BatchTimes]:
        """Return an empty list, because a continuous query has no micro-batches."""
        return []

    def totals(self) -> dict[str, int]:
        """Return the values of the whole query."""
        supervisor, progress = self._supervisor, self._supervisor.progress
        committed = progress.committed
        idle_since_s = progress.idle_since_s
        idle_ms = 0 if idle_since_s is None else max(0, int((self._clock_s() - idle_since_s) * 1000))
        plan = supervisor.plan
        return {
            "sourceIdleTime": idle_ms,
            "KafkaSourceReader.commitsSucceeded": committed.transactions,
            "numRecordsIn": committed.records_in,
            "numBytesIn": committed.bytes_in,
            "decodeErrors.skipped": committed.skipped,
            "decodeErrors.deadLetters": committed.dead_letters,
            "decodeErrors.ignored": committed.ignored,
            "continuous.tasks": self._task_count,
            "continuous.tasksBegun": supervisor.begun_tasks,
            "continuous.taskStarts": progress.task_starts,
            "continuous.plan": 0 if plan is None else plan.membership.generation,
            "continuous.failedJobs": supervisor.failed_jobs,
        }

    def written(self) -> dict[str, int]:
        """Return what was written, by the names of a sink's totals."""
        committed = self._supervisor.progress.committed
        return {
            "records": committed.records_out,
            "batch_bytes": committed.bytes_out,
            "transactions": committed.transactions,
        }

    @property
    def _task_count(self) -> int:
        plan = self._supervisor.plan
        return 0 if plan is None else len(plan.tasks)
