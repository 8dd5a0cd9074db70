"""Align event time: end a micro-batch so that no topic partition runs ahead of the slowest one.

Runs on the driver, in planning. Spark has one watermark: the highest event time of all topic partitions, less
a delay. So rows of a topic partition that lags would be dropped as late. Therefore each batch ends, in each
topic partition, before the first record that is newer than the *limit*: the event time of the slowest topic
partition plus the drift.

- The event time of a topic partition is the timestamp of the next record to read, or of an earlier record if
  that is newer. Like a watermark, it never goes back.
- A topic partition that was read to its end holds the others until it has had no new data for the idle
  time-out. A run with fixed ends does not wait, because no further records come in it.
- If that time-out is "never", a topic partition of which this run has read nothing holds the others too, by
  its last record before the position.
- Kafka can find the first record *of the log* that is not older than a time. If that record lies after the
  position, everything before it is old enough. If not, the records themselves are looked at, some thousand in
  a batch. That happens with records out of order, and with transaction markers, which have the time of the
  broker's clock.
- A timestamp that is too far in the future is ignored (see _future_times.py). The record is read like an old
  one. A topic partition with no other timestamp in its next records does not hold the others.

Invariants: no record newer than the limit is planned, whatever the order of timestamps; the slowest topic
partition with something to read always advances, so there is no deadlock; a replay needs nothing of this,
because the ends of a batch are in Spark's log. Remembered event times only save look-ups: after a restart the
limit may be lower at first, but is never too high.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol

from penstock.client.cluster.results import Results
from penstock.errors import PenstockError
from penstock.options.config import SourceConfig
from penstock.options.values import NEVER_MS
from penstock.source._discovery import monotonic_ms
from penstock.source._future_times import FutureTimes
from penstock.source._window import Window
from penstock.source.checkpoint_offset import Positions
from penstock.types import OffsetRange, TopicPartition

_log = logging.getLogger(__name__)

HOLE_OFFSETS = 10_000
"""How far to look for the next record if the position has none (markers, compaction)."""
LOOK_BACK_OFFSETS = 10
"""How far to look back for the last record of a topic partition that was read to its end."""
HELD_LOG_INTERVAL_MS = 60_000
"""How long nothing is read because of a topic partition without new records, until that is logged (again)."""
SCANNED_RECORDS = 10_000
"""How many records to look at in one batch if Kafka's index by time does not help."""


@dataclass(frozen=True)
class RecordTimes:
    """The offsets and timestamps of consecutive records, and the offset up to which was looked."""

    offsets: tuple[int, ...]
    times_ms: tuple[int, ...]
    next_offset: int


class RecordClock(Protocol):
    """The questions of alignment to a cluster. Each call ends within the time-outs of the client."""

    def first_offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        """Return the first offset of each log with this timestamp or a later one.

        A log without such a record has neither a value nor an error.
        """

    def read_times(
        self, ranges: Collection[OffsetRange], max_records: int
    ) -> Results[TopicPartition, RecordTimes]:
        """Return the timestamps of the first records in each range."""


@dataclass
class _EventTimeState:
    """What is known of one topic partition.

    Attributes:
        active_at_ms: when it last had something to read, or was first seen with nothing to read. The time
            that a batch takes does not count as time without data.
        event_time_ms: the highest timestamp that was looked at; None before the first.
        next_at: the position whose next record was looked at; `next_ms` is the timestamp of that record.
        back_at: the position before which the last records were looked at.
        is_timeless: whether the last records that were looked at had only ignored timestamps.
    """

    active_at_ms: int
    was_waiting: bool = True
    event_time_ms: int | None = None
    next_at: int = -1
    next_ms: int = -1
    back_at: int = -1
    is_timeless: bool = False

    @property
    def is_unknown(self) -> bool:
        """Return whether its next records have to be looked at, because no event time of it counts."""
        return self.event_time_ms is None or self.is_timeless

    def learn(self, time_ms: int) -> None:
        """Note that a record at or before the position has this timestamp."""
        self.is_timeless = False
        known_ms = self.event_time_ms
        self.event_time_ms = time_ms if known_ms is None else max(known_ms, time_ms)


@dataclass
class _Plan:
    """One call of `cap`: the beginning, what waits to be read, and the ends so far."""

    begin: Positions
    waiting: Mapping[TopicPartition, int]
    caught_up: Collection[TopicPartition]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    looked: set[TopicPartition] = field(default_factory=set)

    def keep_back(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Read nothing of these in this batch."""
        self.ends.update({tp: self.begin[tp] for tp in topic_partitions})


class Alignment:
    """Ends batches by event time; one object for a running query.

    Args:
        max_drift_ms: how far a topic partition may be ahead of the slowest.
        idle_timeout_ms: how long a topic partition without new data still holds the others, or NEVER_MS.
        clock: timestamps of records.
        now_ms: a monotonic clock.
        future: tells which timestamps to ignore; None for no limit.
    """

    def __init__(
        self,
        max_drift_ms: int,
        idle_timeout_ms: int,
        clock: RecordClock,
        now_ms: Callable[[], int],
        *,
        future: FutureTimes | None = None,
    ) -> None:
        self._max_drift_ms = max_drift_ms
        self._idle_timeout_ms = idle_timeout_ms
        self._clock = clock
        self._now_ms = now_ms
        self._future = future or FutureTimes()
        self._states: dict[TopicPartition, _EventTimeState] = {}
        self._held_logged_at_ms: int | None = None

    @classmethod
    def of(cls, config: SourceConfig, clock: RecordClock) -> Alignment | None:
        """Return the alignment of a query; None if its options do not ask for one."""
        if config.max_drift_ms is None:
            return None
        future = FutureTimes(config.max_future_skew_ms)
        return cls(config.max_drift_ms, config.idle_timeout_ms, clock, monotonic_ms, future=future)

    @property
    def ignored_count(self) -> int:
        """Return how many records of this run had a timestamp that is too far in the future."""
        return self._future.ignored_count

    def cap(self, window: Window) -> Window:
        """End the window before the first record that is newer than the limit."""
        stops = window.stops
        # A topic partition at its stop does not advance any more, so it must not hold the others.
        begin = {tp: offset for tp, offset in window.begin.items() if stops is None or offset < stops[tp]}
        for tp in window.new_starts:
            self._states.pop(tp, None)
        self._future.begin(window.new_starts)
        ends = self._ends(begin, window.ends, more_may_come=not window.is_last)
        self._future.log()
        return window.ending_at(ends)

    def _ends(self, begin: Positions, latest: Positions, *, more_may_come: bool) -> dict[TopicPartition, int]:
        waiting = {tp: latest[tp] for tp in begin if latest.get(tp, 0) > begin[tp]}
        self._follow(begin, waiting)
        caught_up = self._not_idle(begin.keys() - waiting.keys()) if more_may_come else []
        plan = _Plan(begin, waiting, caught_up, ends={**begin, **waiting})
        if self._idle_timeout_ms == NEVER_MS and waiting:
            unknown = [tp for tp in caught_up if self._states[tp].event_time_ms is None]
            self._look_back(plan, [tp for tp in unknown if tp in latest])
        self._look(plan, [tp for tp in waiting if self._states[tp].is_unknown])
        limit_ms = self._limit(plan)
        if limit_ms is None or self._keep_back_for_holes(plan):
            return plan.ends
        answers = self._ask(plan, limit_ms)
        if any(answers.values.get(tp, end) < end for tp, end in plan.ends.items()):
            # A topic partition has to wait, so now the event time of each is worth a look-up.
            self._look(plan, [tp for tp in waiting if self._states[tp].next_at != begin[tp]])
            known = [tp for tp in caught_up if self._states[tp].event_time_ms is not None]
            self._look_back(plan, [tp for tp in known if tp in latest])
            exact_ms = self._limit(plan)
            if exact_ms is not None and exact_ms != limit_ms:
                limit_ms, answers = exact_ms, self._ask(plan, exact_ms)
        self._cut(plan, limit_ms, answers)
        self._log_if_held(plan)
        return plan.ends

    def _follow(self, begin: Positions, waiting: Collection[TopicPartition]) -> None:
        """Keep the state of each of `begin`."""
        now_ms, before = self._now_ms(), self._states
        self._states = {}
        for tp in begin:
            state = before.get(tp) or _EventTimeState(now_ms)
            if tp in waiting or state.was_waiting:
                state.active_at_ms = now_ms
            state.was_waiting = tp in waiting
            self._states[tp] = state

    def _not_idle(self, caught_up: Iterable[TopicPartition]) -> list[TopicPartition]:
        now_ms = self._now_ms()
        return [
            tp for tp in sorted(caught_up)
            if now_ms - self._states[tp].active_at_ms < self._idle_timeout_ms
        ]  # fmt: skip

    def _limit(self, plan: _Plan) -> int | None:
        """Return the newest timestamp that may be read, from all event times that are known."""
        states = (self._states[tp] for tp in (*plan.waiting, *plan.caught_up))
        times_ms = [s.event_time_ms for s in states if s.event_time_ms is not None and not s.is_timeless]
        return min(times_ms) + self._max_drift_ms if times_ms else None

    def _ask(self, plan: _Plan, limit_ms: int) -> Results[TopicPartition, int]:
        answers = self._clock.first_offsets_at(dict.fromkeys(plan.waiting, limit_ms + 1))
        _warn_of(answers.errors)
        return answers

    def _look(self, plan: _Plan, unknown: Iterable[TopicPartition]) -> None:
        """Learn the timestamp of the next record; without one near, the batch ends after that hole."""
        left = {tp: plan.begin[tp] for tp in unknown if tp not in plan.looked}
        plan.looked.update(left)
        ahead: dict[TopicPartition, int] = {}
        for length in (1, HOLE_OFFSETS):
            ranges = [
                OffsetRange(tp, at, min(at + length, plan.waiting[tp]))
                for tp, at in sorted(left.items())
                if at < plan.waiting[tp]
            ]
            found = self._read(ranges, max_records=1)
            plan.keep_back(found.errors)
            left = {}
            for tp, times in found.values.items():
                if not times.times_ms:
                    plan.ends[tp] = left[tp] = times.next_offset
                    continue
                if self._future.is_ignored(times.times_ms[0]):
                    ahead[tp] = times.offsets[0]
                    continue
                self._learn_next(plan, tp, times.times_ms[0])
        self._look_past(plan, ahead)

    def _look_past(self, plan: _Plan, ahead: Mapping[TopicPartition, int]) -> None:
        """Learn the first timestamp that counts, after records with ignored ones at these offsets."""
        ranges = [OffsetRange(tp, at, plan.waiting[tp]) for tp, at in sorted(ahead.items())]
        found = self._read(ranges, max_records=SCANNED_RECORDS)
        plan.keep_back(found.errors)
        for tp, times in found.values.items():
            counting_ms = [time_ms for time_ms in times.times_ms if not self._future.is_ignored(time_ms)]
            if counting_ms:
                self._learn_next(plan, tp, counting_ms[0])
                continue
            self._future.count(tp, times.offsets, times.times_ms)
            plan.ends[tp] = times.next_offset
            self._states[tp].is_timeless = True

    def _learn_next(self, plan: _Plan, tp: TopicPartition, time_ms: int) -> None:
        state = self._states[tp]
        state.next_at, state.next_ms = plan.begin[tp], time_ms
        state.learn(time_ms)
        plan.ends[tp] = plan.waiting[tp]

    def _keep_back_for_holes(self, plan: _Plan) -> bool:
        """Hold the others while a topic partition reads through a hole before its first record."""
        states = self._states
        unknown = {
            tp for tp in plan.waiting if states[tp].event_time_ms is None and not states[tp].is_timeless
        }
        in_holes = {tp for tp in unknown if plan.ends[tp] > plan.begin[tp]}
        if in_holes:
            plan.keep_back(plan.waiting.keys() - in_holes)
        return bool(in_holes)

    def _look_back(self, plan: _Plan, caught_up: Iterable[TopicPartition]) -> None:
        """Learn the event times of topic partitions that were read to their end, from their last records."""
        ranges = []
        for tp in caught_up:
            state, at = self._states[tp], plan.begin[tp]
            # The records before a position do not change, so they are read once for each position.
            if at > 0 and state.back_at != at:
                state.back_at = at
                ranges.append(OffsetRange(tp, max(0, at - LOOK_BACK_OFFSETS), at))
        found = self._read(ranges, max_records=LOOK_BACK_OFFSETS)
        for tp in found.errors:
            self._states[tp].back_at = -1  # to be read in the next batch again
        for tp, times in found.values.items():
            state = self._states[tp]
            for time_ms in times.times_ms:
                if self._future.is_ignored(time_ms):
                    state.is_timeless = True
                else:
                    state.learn(time_ms)

    def _cut(self, plan: _Plan, limit_ms: int, answers: Results[TopicPartition, int]) -> None:
        """End before the first record that is newer than the limit."""

        def may_be_read(time_ms: int) -> bool:
            return time_ms <= limit_ms or self._future.is_ignored(time_ms)

        plan.keep_back(answers.errors)
        unclear = []
        for tp, end in list(plan.ends.items()):
            begin, first_newer = plan.begin[tp], answers.values.get(tp, end)
            if end == begin or self._states[tp].is_timeless:
                continue
            if first_newer > begin:
                plan.ends[tp] = min(end, first_newer)
            elif self._states[tp].next_at == begin and self._states[tp].next_ms > limit_ms:
                plan.keep_back([tp])
            else:
                unclear.append(OffsetRange(tp, begin, end))
        scanned = self._read(unclear, max_records=SCANNED_RECORDS)
        plan.keep_back(scanned.errors)
        for tp, times in scanned.values.items():
            old_count = sum(1 for _ in takewhile(may_be_read, times.times_ms))
            self._future.count(tp, times.offsets[:old_count], times.times_ms[:old_count])
            is_all_old = old_count == len(times.times_ms)
            plan.ends[tp] = times.next_offset if is_all_old else times.offsets[old_count]

    def _log_if_held(self, plan: _Plan) -> None:
        """Log that nothing is read because of a topic partition that has had no new records for long."""
        times_ms = {
            tp: time_ms
            for tp in plan.caught_up
            if (time_ms := self._states[tp].event_time_ms) is not None and not self._states[tp].is_timeless
        }
        if not times_ms or any(plan.ends[tp] > plan.begin[tp] for tp in plan.waiting):
            return
        now_ms, slowest = self._now_ms(), min(times_ms, key=times_ms.__getitem__)
        quiet_ms = now_ms - self._states[slowest].active_at_ms
        logged_at_ms = self._held_logged_at_ms
        if quiet_ms < HELD_LOG_INTERVAL_MS:
            return
        if logged_at_ms is not None and now_ms - logged_at_ms < HELD_LOG_INTERVAL_MS:
            return
        self._held_logged_at_ms = now_ms
        _log.warning(
            "Nothing is read, because %s has had no new record for %d s. Its event time is %s ms since 1970, "
            "and the other topic partitions are further ahead than the drift, so Spark could drop its next "
            "rows as late. If it stays without records, set 'scan.idle-timeout' (with_idleness of "
            "WatermarkStrategy).",
            slowest,
            quiet_ms // 1000,
            times_ms[slowest],
        )

    def _read(
        self, ranges: Collection[OffsetRange], max_records: int
    ) -> Results[TopicPartition, RecordTimes]:
        if not ranges:
            return Results({}, {})
        answers = self._clock.read_times(ranges, max_records)
        _warn_of(answers.errors)
        return answers


def _warn_of(errors: Mapping[TopicPartition, PenstockError]) -> None:
    for tp, error in sorted(errors.items()):
        _log.warning("No event time of %s could be looked up; it is left for the next batch: %s", tp, error)
