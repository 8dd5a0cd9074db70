"""Count what a source does, under the names of Flink's metrics.

Runs on the driver (`SourceMetrics`, one for a running query) and on executors (`SplitMetrics`, one for a
task, if metrics are on). Invariants: counting never sends a request to Kafka and never fails; nothing is
counted per record. Other rooms show the counts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from penstock.types import TopicPartition

_NONE_YET = -1
"""Flink's value of a gauge that has not been set."""


_BATCHES_KEPT = 120


class Phase:
    """The calls of Spark that planning consists of."""

    LATEST_OFFSET = "latestOffset"
    PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """How long the parts of one micro-batch took.

    Attributes:
        number: of the batch in this run, from 1.
        ended_at_ms: when Spark began to plan the next one.
        latest_offset_ms: looking up the end of the batch.
        partitions_ms: dividing it into splits.
        rest_ms: everything after that: tasks, the sink, Spark's logs, and waiting for the trigger.
    """

    number: int
    ended_at_ms: int
    latest_offset_ms: int
    partitions_ms: int
    rest_ms: int


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class SourceMetrics:
    """Progress and commits of one query, as of its last planning. Thread-safe."""

    def __init__(self, clock_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._lags: dict[TopicPartition, int] = {}
        self._idle_since_ms: int | None = None
        self._commits_succeeded = 0
        self._commits_failed = 0
        self._ignored_times = 0
        self._batches = 0
        self._phase_ms: dict[str, int] = {}
        self._ran_since_ms: int | None = None
        self._batch_times: deque[BatchTimes] = deque(maxlen=_BATCHES_KEPT)
        self._batches_run = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note how long one of Spark's calls takes."""
        begun_ms = self._clock_ms()
        if name == Phase.LATEST_OFFSET:
            self._note_end_of_batch(begun_ms)
        try:
            yield
        finally:
            with self._lock:
                self._phase_ms[name] = self._clock_ms() - begun_ms
        if name == Phase.PARTITIONS:
            self._ran_since_ms = self._clock_ms()

    def _note_end_of_batch(self, now_ms: int) -> None:
        if self._ran_since_ms is None:  # nothing was new, so there was no batch
            return
        with self._lock:
            self._batches_run += 1
            times = BatchTimes(
                self._batches_run,
                now_ms,
                self._phase_ms.get(Phase.LATEST_OFFSET, 0),
                self._phase_ms.get(Phase.PARTITIONS, 0),
                now_ms - self._ran_since_ms,
            )
            self._batch_times.append(times)
            self._ran_since_ms = None

    def batch_times(self) -> list[BatchTimes]:
        with self._lock:
            return list(self._batch_times)

    def planned(
        self,
        done: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        *,
        is_idle: bool,
        ignored_times: int = 0,
    ) -> None:
        """Note that a batch was planned.

        Args:
            done: the positions before the batch.
            latest: the ends of the logs that are known.
            is_idle: whether the batch is empty.
            ignored_times: how many records of this run had a timestamp too far in the future.
        """
        lags = {tp: max(0, latest[tp] - offset) for tp, offset in done.items() if tp in latest}
        with self._lock:
            self._positions = dict(done)
            self._batches += 1
            self._lags = lags
            self._ignored_times = ignored_times
            if not is_idle:
                self._idle_since_ms = None
            elif self._idle_since_ms is None:
                self._idle_since_ms = self._clock_ms()

    def commit_succeeded(self, positions: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            self._commits_succeeded += 1
            self._committed.update(positions)

    def commit_failed(self) -> None:
        with self._lock:
            self._commits_failed += 1

    @property
    def has_planned(self) -> bool:
        return self._batches > 0

    @property
    def not_ready(self) -> str:
        """Return why the source does not read yet; empty if it does."""
        return "" if self.has_planned else "no batch was planned yet"

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each topic partition, as of the last planning."""
        with self._lock:
            return dict(self._positions)

    def committed(self) -> dict[TopicPartition, int]:
        """Return the offsets that this run has committed to the consumer group."""
        with self._lock:
            return dict(self._committed)

    def totals(self) -> dict[str, int]:
        """Return the values of the whole source by Flink's names, without those of topic partitions."""
        with self._lock:
            return self._totals()

    def _totals(self) -> dict[str, int]:
        since_ms = self._idle_since_ms
        return {
            "pendingRecords": sum(self._lags.values()),
            "sourceIdleTime": 0 if since_ms is None else self._clock_ms() - since_ms,
            "KafkaSourceReader.commitsSucceeded": self._commits_succeeded,
            "KafkaSourceReader.commitsFailed": self._commits_failed,
            "ignoredFutureTimestamps": self._ignored_times,
        }

    def snapshot(self) -> dict[str, int]:
        """Return all values by Flink's names; `ignoredFutureTimestamps` is ours.

        `currentOffset` is the last offset that was read, `committedOffset` the next one to read.
        """
        with self._lock:
            values = self._totals()
            for tp, position in sorted(self._positions.items()):
                scope = f"KafkaSourceReader.topic.{tp.topic}.partition.{tp.partition}"
                values[f"{scope}.currentOffset"] = position - 1
                values[f"{scope}.committedOffset"] = self._committed.get(tp, _NONE_YET)
                if tp in self._lags:  # not while its log does not answer
                    values[f"{scope}.records-lag"] = self._lags[tp]
        return values


class SplitMetrics:
    """Counts what one task has emitted. Thread-safe."""

    def __init__(self, clock_ms: Callable[[], int] = _wall_clock_ms) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._records = 0
        self._bytes = 0
        self._lag_ms: int | None = None

    def emitted(self, records: pa.RecordBatch) -> None:
        """Note that a batch leaves for Spark. The lag is known if the timestamps were decoded."""
        lag_ms = None
        index = records.schema.get_field_index("timestamp")
        if index >= 0 and records.num_rows:
            last_us = records.column(index)[-1].value
            lag_ms = None if last_us is None else self._clock_ms() - last_us // 1000
        with self._lock:
            self._records += records.num_rows
            self._bytes += records.nbytes
            self._lag_ms = self._lag_ms if lag_ms is None else lag_ms

    def snapshot(self) -> dict[str, int]:
        """Return all values by Flink's names; the lag only if it is known."""
        with self._lock:
            values = {"numRecordsIn": self._records, "numBytesIn": self._bytes}
            return values if self._lag_ms is None else {**values, "currentEmitEventTimeLag": self._lag_ms}
