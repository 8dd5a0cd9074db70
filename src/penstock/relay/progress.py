"""What a continuous query shows of its work, in the form of Spark's progress of a query.

Runs on the driver. Pure. The figures come from the notes that tasks commit with their offsets, so they are of
committed transactions only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from penstock.client.cluster.log_offsets import CommittedOffset
from penstock.relay.messages import Totals
from penstock.relay.notes import TaskNote, task_note_of
from penstock.types import TopicPartition

KEPT = 100
"""As many as Spark keeps of a query (`spark.sql.streaming.numRecentProgressUpdates`)."""


class Progress:
    """Adds up what the tasks of all plans have said.

    Args:
        names: fields that each report begins with.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.recent: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._names = dict(names)
        self._said: dict[tuple[int, int, int], TaskNote] = {}
        self._forgotten = Totals()
        self._before = Totals()
        self._before_s = 0.0
        self.positions: dict[TopicPartition, int] = {}
        """The group's offsets at the last look. Replaced and never changed, so other threads may read it."""
        self.committed = Totals()
        """`totals` at the last look, for other threads."""
        self.task_starts = 0
        """How often the tasks of the present plan have started, at the last look."""
        self.idle_since_s: float | None = None
        """When a look found nothing new, after one that did; None: the last look found something."""

    @property
    def totals(self) -> Totals:
        """Return what this query has committed since its handle was made."""
        return _sum(self._forgotten, *(each.totals for each in self._said.values()))

    def begin(self, positions: Mapping[TopicPartition, int], now_s: float) -> None:
        """Take where the query begins, before its first task."""
        self.positions, self._before_s = dict(positions), now_s

    def see(
        self, offsets: Mapping[TopicPartition, CommittedOffset], generation: int, now_s: float
    ) -> dict[str, Any] | None:
        """Take the group's offsets. Return a report if something was committed since the last one.

        Args:
            offsets: with the notes of tasks.
            generation: of the present plan. Notes of older queries are left out.
            now_s: since 1970.
        """
        positions = {tp: each.offset for tp, each in offsets.items()}
        for each in offsets.values():
            self._add(task_note_of(each.note), generation)
        self.committed, self.task_starts = self.totals, self._starts(generation)
        if positions == self.positions:
            self.idle_since_s = now_s if self.idle_since_s is None else self.idle_since_s
            return None
        report = self._report(positions, generation, now_s)
        self.recent.append(report)
        self.positions, self._before, self._before_s = positions, self.committed, now_s
        self.idle_since_s = None
        return report

    def _starts(self, generation: int) -> int:
        return sum(each.start_count for key, each in self._said.items() if key[0] == generation)

    def _add(self, note: TaskNote | None, generation: int) -> None:
        if note is None:
            return
        key = note[:3]
        known = self._said.get(key)
        if known is None and note.generation != generation:
            return  # the last words of an earlier query, or of a plan that was added up
        if known is None or note.totals > known.totals:
            self._said[key] = note

    def forget_plans(self, before: int) -> None:
        """Add up the tasks of plans that are over, so that memory does not grow with each plan."""
        for key in [key for key in self._said if key[0] < before]:
            self._forgotten = _sum(self._forgotten, self._said.pop(key).totals)

    def _report(
        self, positions: Mapping[TopicPartition, int], generation: int, now_s: float
    ) -> dict[str, Any]:
        new = self.committed.minus(self._before)
        seconds = max(0.001, now_s - self._before_s)
        moment = datetime.fromtimestamp(now_s, UTC).isoformat(timespec="milliseconds")
        return {
            **self._names,
            "timestamp": moment.replace("+00:00", "Z"),
            "generation": generation,
            **figures_of(new),
            "inputRowsPerSecond": round(new.records_in / seconds, 1),
            "numTaskStarts": self.task_starts,
            "startOffset": _by_topic(self.positions),
            "endOffset": _by_topic(positions),
        }


def figures_of(totals: Totals) -> dict[str, int]:
    """Return totals under the names that users see."""
    return {
        "numInputRows": totals.records_in,
        "numInputBytes": totals.bytes_in,
        "numOutputRows": totals.records_out,
        "numOutputBytes": totals.bytes_out,
        "numTransactions": totals.transactions,
        "numDeadLetters": totals.dead_letters,
        "numSkippedRecords": totals.skipped,
        "numIgnoredRecords": totals.ignored,
    }


def _sum(*totals: Totals) -> Totals:
    return reduce(Totals.plus, totals)


def _by_topic(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for tp, offset in sorted(positions.items()):
        found.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return found
