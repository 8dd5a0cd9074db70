"""Alignment: no topic partition runs ahead of the slowest, and every record is read in the end."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.cluster.results import Results
from penstock.errors import PenstockError, RequestTimeoutError
from penstock.options.values import NEVER_MS
from penstock.source._future_times import FutureTimes
from penstock.source._window import Window
from penstock.source.alignment import HOLE_OFFSETS, SCANNED_RECORDS, Alignment, RecordTimes
from penstock.types import OffsetRange, TopicPartition
from tests.examples import examples
from tests.unit.planning import tp

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Slot:
    """One offset: a record, a transaction marker (not read, but in the index by time), or a hole."""

    time_ms: int
    is_record: bool = True
    is_indexed: bool = True


@dataclass
class FakeClock:
    """Logs in memory that answer like a broker."""

    logs: dict[TopicPartition, list[Slot]]
    failing: set[TopicPartition] = field(default_factory=set)
    failing_look_ups: set[TopicPartition] = field(default_factory=set)
    failing_reads_from: int | None = None
    look_ups: int = 0
    reads: int = 0
    records_read: int = 0

    def first_offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        self.look_ups += 1
        found, failing = {}, self.failing | self.failing_look_ups
        for topic_partition, time_ms in times_ms.items():
            assert time_ms >= 0, "a negative time means something else to a broker"
            slots = enumerate(self.logs[topic_partition])
            first = next((at for at, slot in slots if slot.is_indexed and slot.time_ms >= time_ms), None)
            if first is not None and topic_partition not in failing:
                found[topic_partition] = first
        return Results(found, {t: _error(t) for t in times_ms if t in failing})

    def read_times(
        self, ranges: Collection[OffsetRange], max_records: int
    ) -> Results[TopicPartition, RecordTimes]:
        times: dict[TopicPartition, RecordTimes] = {}
        errors: dict[TopicPartition, PenstockError] = {}
        for piece in ranges:
            self.reads += 1
            is_too_long = self.failing_reads_from is not None and len(piece) >= self.failing_reads_from
            if piece.topic_partition in self.failing or is_too_long:
                errors[piece.topic_partition] = _error(piece.topic_partition)
                continue
            log = self.logs[piece.topic_partition]
            found = [at for at in range(piece.starting_offset, piece.stopping_offset) if log[at].is_record]
            is_cut = len(found) >= max_records
            found = found[:max_records]
            self.records_read += len(found)
            times[piece.topic_partition] = RecordTimes(
                tuple(found),
                tuple(log[at].time_ms for at in found),
                found[-1] + 1 if is_cut else piece.stopping_offset,
            )
        return Results(times, errors)


def _error(topic_partition: TopicPartition) -> PenstockError:
    return RequestTimeoutError(f"{topic_partition} does not answer")


class Query:
    """Reads batch by batch, like a query that plans with the alignment."""

    def __init__(
        self,
        logs: dict[TopicPartition, list[Slot]],
        max_drift_ms: int,
        *,
        idle_timeout_ms: int = 0,
        skew_ms: int = 0,
        wall_ms: int = 100 * MINUTE_MS,
    ) -> None:
        self.clock = FakeClock(logs)
        self.now_ms = 0
        self.more_may_come = idle_timeout_ms > 0
        self.position = dict.fromkeys(logs, 0)
        self.recreated: set[TopicPartition] = set()
        self.settings = (max_drift_ms, idle_timeout_ms)
        self.future_settings = (skew_ms, wall_ms)
        self.restart()

    def restart(self) -> None:
        skew_ms, wall_ms = self.future_settings
        future = FutureTimes(skew_ms, lambda: wall_ms + self.now_ms)
        self.alignment = Alignment(*self.settings, self.clock, lambda: self.now_ms, future=future)

    def ends(self) -> dict[TopicPartition, int]:
        latest = {topic_partition: len(log) for topic_partition, log in self.clock.logs.items()}
        recreated, self.recreated = self.recreated, set()
        window = Window(self.position, latest, new_starts=recreated, is_last=not self.more_may_come)
        return dict(self.alignment.cap(window).ends)

    def batch(self, max_records: int | None = None) -> dict[TopicPartition, list[int]]:
        """Return the timestamps of the records of one batch."""
        times_ms = {}
        for topic_partition, end in self.ends().items():
            begin = self.position[topic_partition]
            assert begin <= end <= len(self.clock.logs[topic_partition])
            stop = end if max_records is None else min(end, begin + max_records)
            slots = self.clock.logs[topic_partition][begin:stop]
            times_ms[topic_partition] = [slot.time_ms for slot in slots if slot.is_record]
            self.position[topic_partition] = stop
        return times_ms

    @property
    def is_done(self) -> bool:
        return all(self.position[t] == len(log) for t, log in self.clock.logs.items())


def records(*minutes: float) -> list[Slot]:
    return [Slot(int(minute * MINUTE_MS)) for minute in minutes]


def minutes_of(query: Query) -> list[dict[int, list[float]]]:
    """Return the minutes that each batch reads of each partition, until every record is read."""
    batches = []
    while not query.is_done:
        read = query.batch()
        assert any(read.values()), "a batch without progress"
        batches.append({t.partition: [ms / MINUTE_MS for ms in read[t]] for t in read if read[t]})
    return batches


def test_a_topic_partition_an_hour_ahead_waits_for_the_slow_one() -> None:
    query = Query({tp(0): records(60, 61, 62), tp(1): records(0, 0.5, 1.5, 60.5, 63)}, MINUTE_MS)
    assert minutes_of(query) == [{1: [0, 0.5]}, {1: [1.5]}, {0: [60, 61], 1: [60.5]}, {0: [62], 1: [63]}]


def test_within_the_drift_everything_is_one_batch_and_one_look_up() -> None:
    query = Query({tp(0): records(1, 2, 3), tp(1): records(2, 3)}, 5 * MINUTE_MS)
    assert minutes_of(query) == [{0: [1, 2, 3], 1: [2, 3]}]
    assert query.clock.look_ups == 1
    query.clock.logs[tp(0)] += records(4, 5)
    assert minutes_of(query) == [{0: [4, 5]}]
    assert (query.clock.look_ups, query.clock.reads) == (2, 2), "only what was new at first was looked at"


def test_a_topic_partition_without_records_holds_no_other() -> None:
    query = Query({tp(0): records(1, 90), tp(1): []}, MINUTE_MS, idle_timeout_ms=30_000)
    assert minutes_of(query) == [{0: [1]}, {0: [90]}]


def test_a_topic_partition_at_its_end_holds_the_others_until_it_is_idle() -> None:
    query = Query({tp(0): records(1, 90), tp(1): records(1)}, MINUTE_MS, idle_timeout_ms=30_000)
    assert query.batch() == {tp(0): [MINUTE_MS], tp(1): [MINUTE_MS]}
    query.now_ms = 100_000  # a slow batch, during which nothing was planned
    assert query.batch() == {tp(0): [], tp(1): []}
    query.now_ms = 129_999
    assert query.batch() == {tp(0): [], tp(1): []}
    query.now_ms = 130_000
    assert query.batch() == {tp(0): [90 * MINUTE_MS], tp(1): []}


def test_an_idle_topic_partition_holds_the_others_again_from_its_next_record() -> None:
    query = Query({tp(0): records(1, 5), tp(1): records(1)}, MINUTE_MS, idle_timeout_ms=30_000)
    query.batch()
    query.batch()
    query.now_ms = 30_000
    query.batch()
    query.clock.logs[tp(0)] += records(60)
    query.clock.logs[tp(1)] += records(6)
    assert query.batch() == {tp(0): [], tp(1): [6 * MINUTE_MS]}


def test_without_an_idle_timeout_it_holds_the_others_until_it_has_a_record(
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = Query({tp(0): records(1, 90), tp(1): records(1)}, MINUTE_MS, idle_timeout_ms=NEVER_MS)
    query.batch()
    query.now_ms = 10**9
    assert query.batch() == {tp(0): [], tp(1): []}
    assert not caplog.records
    query.now_ms += 60_000
    assert query.batch() == {tp(0): [], tp(1): []}
    query.batch()
    assert caplog.text.count("Nothing is read, because t-1 has had no new record for 60 s") == 1
    query.clock.logs[tp(1)] += records(89.5)
    assert query.batch() == {tp(0): [90 * MINUTE_MS], tp(1): [int(89.5 * MINUTE_MS)]}


def test_a_quiet_topic_partition_is_not_logged_while_others_are_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = {tp(0): records(1, 1.2, 1.4, 90), tp(1): records(1)}
    query = Query(logs, MINUTE_MS, idle_timeout_ms=NEVER_MS)
    for _ in range(3):
        query.now_ms += 10**6
        assert query.batch(max_records=1)[tp(0)]
    assert not caplog.records


def test_without_an_idle_timeout_it_holds_them_after_a_restart_too() -> None:
    query = Query({tp(0): records(1, 90), tp(1): records(1), tp(2): []}, MINUTE_MS, idle_timeout_ms=NEVER_MS)
    query.batch()
    query.restart()
    assert not any(query.batch().values()), "Spark would drop the next row of partition 1"
    read_before = query.clock.records_read
    query.batch()
    assert query.clock.records_read == read_before, "the same records are not looked at again"
    query.clock.logs[tp(1)] += records(2)
    assert query.batch() == {tp(0): [], tp(1): [2 * MINUTE_MS], tp(2): []}


def test_the_last_records_of_a_topic_partition_tell_its_event_time() -> None:
    query = Query({tp(0): records(1, 9, 10), tp(1): records(1, 2, 9)}, 10 * MINUTE_MS, idle_timeout_ms=30_000)
    query.batch()
    query.clock.logs[tp(0)] += records(15)
    assert query.batch()[tp(0)] == [15 * MINUTE_MS], "partition 1 stands at minute 9, not at minute 1"


def test_a_run_with_fixed_ends_does_not_wait_for_new_records() -> None:
    query = Query({tp(0): records(1, 90), tp(1): records(1)}, MINUTE_MS, idle_timeout_ms=30_000)
    query.more_may_come = False
    assert minutes_of(query) == [{0: [1], 1: [1]}, {0: [90]}]


def test_records_out_of_order_are_read_up_to_the_first_that_is_too_new() -> None:
    query = Query({tp(0): records(50, 1, 1.5, 70, 2, 3), tp(1): records(1, 2, 3)}, MINUTE_MS)
    batches = minutes_of(query)
    assert batches[0] == {1: [1, 2]}, "the next record of partition 0 is of minute 50"
    assert batches[1:] == [{1: [3]}, {0: [50, 1, 1.5]}, {0: [70, 2, 3]}]


def test_an_old_record_between_newer_ones_does_not_turn_the_time_back() -> None:
    query = Query({tp(0): records(10, 1, 11), tp(1): records(10, 10.5, 11.5)}, MINUTE_MS)
    assert query.batch(max_records=1) == {tp(0): [10 * MINUTE_MS], tp(1): [10 * MINUTE_MS]}
    assert query.batch()[tp(1)] == [int(10.5 * MINUTE_MS)]


def test_a_waiting_topic_partition_is_not_fetched_with_every_batch() -> None:
    query = Query({tp(0): records(*range(60, 70)), tp(1): records(*range(20))}, MINUTE_MS)
    for _ in range(5):
        assert not query.batch()[tp(0)]
    assert query.clock.records_read <= 1 + 5


def test_timestamps_of_transaction_markers_do_not_count() -> None:
    marker = Slot(1_000 * MINUTE_MS, is_record=False)
    slow = [*records(1), marker, *records(2, 3), marker, *records(60), marker]
    query = Query({tp(0): records(60, 61), tp(1): slow}, MINUTE_MS)
    assert minutes_of(query) == [{1: [1]}, {1: [2, 3]}, {0: [60, 61], 1: [60]}]


def test_a_long_hole_is_passed() -> None:
    hole = [Slot(0, is_record=False, is_indexed=False)] * (2 * HOLE_OFFSETS + 500)
    query = Query({tp(0): records(60), tp(1): [*hole, *records(1), *hole, *records(2)]}, MINUTE_MS)
    read = [query.batch() for _ in range(10)]
    assert query.is_done
    times_ms = [time_ms for batch in read for t in (tp(1), tp(0)) for time_ms in batch[t]]
    assert times_ms == [1 * MINUTE_MS, 2 * MINUTE_MS, 60 * MINUTE_MS]


def test_only_the_topic_partition_that_does_not_answer_waits() -> None:
    query = Query({tp(0): records(1, 2), tp(1): records(1, 2)}, MINUTE_MS)
    query.clock.failing = {tp(1)}
    assert query.batch() == {tp(0): [MINUTE_MS, 2 * MINUTE_MS], tp(1): []}
    query.clock.failing = set()
    assert query.batch() == {tp(0): [], tp(1): [MINUTE_MS, 2 * MINUTE_MS]}


def test_only_the_topic_partition_without_offsets_by_time_waits() -> None:
    query = Query({tp(0): records(1, 2), tp(1): records(1, 2)}, MINUTE_MS)
    query.clock.failing_look_ups = {tp(1)}
    assert query.batch() == {tp(0): [MINUTE_MS, 2 * MINUTE_MS], tp(1): []}


def test_only_the_topic_partition_whose_records_cannot_be_read_waits() -> None:
    query = Query({tp(0): records(60, 50, 50.5, 70), tp(1): records(60, 50.5)}, MINUTE_MS)
    query.batch(max_records=1)
    query.restart()
    query.clock.failing_reads_from = 2
    read = query.batch()
    assert read[tp(0)] == [], "a newer record lies behind it: only its records say how far it may be read"
    assert read[tp(1)] == [int(50.5 * MINUTE_MS)]


def test_a_recreated_topic_begins_with_a_new_event_time() -> None:
    query = Query({tp(0): records(60, 61), tp(1): records(60, 61)}, MINUTE_MS)
    assert len(minutes_of(query)) == 1
    query.clock.logs[tp(1)] = records(1, 2)
    query.position[tp(1)] = 0
    query.recreated = {tp(1)}
    query.clock.logs[tp(0)] += records(60.8)
    assert minutes_of(query) == [{1: [1, 2]}, {0: [60.8]}]


def test_the_cost_of_planning_does_not_grow_with_the_batches() -> None:
    logs = {tp(p): records(*(minute / 10 for minute in range(p, 600 + p))) for p in range(20)}
    query = Query(logs, 10 * MINUTE_MS)
    batches = len(minutes_of(query))
    assert batches <= 8
    assert query.clock.look_ups <= 2 * batches
    assert query.clock.records_read <= 2 * batches * len(logs)


SLOTS = st.builds(Slot, st.integers(0, 60), st.booleans() | st.just(True), st.booleans() | st.just(True))
LOGS = st.lists(st.lists(SLOTS, max_size=25), min_size=1, max_size=4)


@settings(max_examples=examples(400), deadline=None)
@given(LOGS, st.integers(0, 20), st.none() | st.integers(1, 5), st.sets(st.integers(0, 40)))
def test_the_drift_is_never_passed_and_everything_is_read(
    logs: list[list[Slot]], max_drift_ms: int, max_records: int | None, restarts: set[int]
) -> None:
    query = Query(indexed(logs), max_drift_ms)
    read_all(query, max_drift_ms, max_records, restarts)


def indexed(logs: list[list[Slot]]) -> dict[TopicPartition, list[Slot]]:
    """Put each record into the index by time, as Kafka does. Holes and markers are not records."""
    return {
        tp(partition): [Slot(s.time_ms, s.is_record, s.is_indexed or s.is_record) for s in log]
        for partition, log in enumerate(logs)
    }


def read_all(
    query: Query,
    max_drift_ms: int,
    max_records: int | None,
    restarts: set[int],
    bound_ms: int = sys.maxsize,
) -> None:
    """Read to the end, and check each batch. Timestamps past the bound do not count."""
    for batch in range(1_000):
        if query.is_done:
            break
        if batch in restarts:
            query.restart()
        before = dict(query.position)
        read = query.batch(max_records)
        assert query.position != before, "the batch is empty, so the run would end too early"
        counting = [ms for times_ms in read.values() for ms in times_ms if ms <= bound_ms]
        if counting:
            assert max(counting) <= slowest_ms(query, before, bound_ms) + max_drift_ms
    assert query.is_done


def slowest_ms(query: Query, position: dict[TopicPartition, int], bound_ms: int = sys.maxsize) -> int:
    """Return the event time of the slowest: the highest timestamp of read records and the next one.

    Timestamps past the bound do not count.
    """
    event_times_ms = []
    for topic_partition, at in position.items():
        log = query.clock.logs[topic_partition]
        ahead = [slot.time_ms for slot in log[at:] if slot.is_record and slot.time_ms <= bound_ms][:1]
        behind = [slot.time_ms for slot in log[:at] if slot.is_record and slot.time_ms <= bound_ms]
        if ahead:
            event_times_ms.append(max(ahead + behind))
    return min(event_times_ms)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 200), max_size=30).map(sorted), min_size=1, max_size=4),
    st.integers(0, 50),
    st.none() | st.integers(1, 5),
    st.sets(st.integers(0, 40)),
)
def test_no_row_is_late_if_each_log_is_in_order(
    logs: list[list[int]], max_drift_ms: int, max_records: int | None, restarts: set[int]
) -> None:
    """Spark would drop a row that is older than the newest row of earlier batches, less the delay."""
    slots = {tp(p): [Slot(time_ms) for time_ms in log] for p, log in enumerate(logs)}
    query = Query(slots, max_drift_ms)
    newest_ms, batch = 0, 0
    while not query.is_done:
        if batch in restarts:
            query.restart()
        times_ms = [time_ms for of_one in query.batch(max_records).values() for time_ms in of_one]
        assert min(times_ms) >= newest_ms - max_drift_ms
        newest_ms, batch = max(newest_ms, *times_ms), batch + 1


class TestFutureTimes:
    """Timestamps far in the future: the clock of the driver shows minute 100, and a day more is believed."""

    NEXT_YEAR = 60 * 24 * 365

    def query(self, logs: dict[TopicPartition, list[Slot]], *, idle_timeout_ms: int = 0) -> Query:
        return Query(logs, MINUTE_MS, idle_timeout_ms=idle_timeout_ms, skew_ms=60 * 24 * MINUTE_MS)

    def test_one_record_dated_next_year_holds_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        query = self.query({tp(0): records(1, self.NEXT_YEAR, 1.5, 3), tp(1): records(1, 2, 3)})
        batches = minutes_of(query)
        assert batches == [{0: [1], 1: [1, 2]}, {0: [self.NEXT_YEAR, 1.5]}, {0: [3], 1: [3]}]
        assert query.alignment.ignored_count == 1
        assert "1 in this run. The last one is of offset 1 of t-0" in caplog.text
        assert caplog.text.count("too far in the future") == 1

    def test_without_the_bound_it_holds_its_topic_partition(self) -> None:
        logs = {tp(0): records(1, self.NEXT_YEAR, 1.5), tp(1): records(1, 2)}
        query = Query(logs, MINUTE_MS, idle_timeout_ms=3_600_000)
        query.batch()
        assert all(not any(query.batch().values()) for _ in range(3))

    def test_as_the_first_record_it_does_not_hide_the_event_time_after_it(self) -> None:
        query = self.query({tp(0): records(self.NEXT_YEAR, 1, 2), tp(1): records(60)})
        assert minutes_of(query) == [{0: [self.NEXT_YEAR, 1, 2]}, {1: [60]}]

    def test_a_time_within_the_bound_counts(self) -> None:
        day = 60 * 24
        query = self.query({tp(0): records(100 + day), tp(1): records(1)})
        assert minutes_of(query) == [{1: [1]}, {0: [100 + day]}]
        assert query.alignment.ignored_count == 0
        query = self.query({tp(0): records(101 + day), tp(1): records(1)})
        assert minutes_of(query) == [{0: [101 + day], 1: [1]}]
        assert query.alignment.ignored_count == 1

    def test_a_producer_whose_clock_is_wrong_for_good_holds_no_other(self) -> None:
        query = self.query({tp(0): records(1), tp(1): records(1)}, idle_timeout_ms=3_600_000)
        query.batch()
        for minute in range(2, 50):
            query.clock.logs[tp(1)] += records(minute)
            if minute % 3:  # now and then it has nothing to read
                query.clock.logs[tp(0)] += records(self.NEXT_YEAR + minute)
            for _ in range(3):
                query.batch()
            assert query.is_done
        assert query.alignment.ignored_count == 32

    def test_real_times_after_ignored_ones_hold_the_others_again(self) -> None:
        query = self.query({tp(0): records(1, self.NEXT_YEAR), tp(1): records(1)}, idle_timeout_ms=3_600_000)
        for _ in range(3):
            query.batch()
        assert query.is_done
        query.clock.logs[tp(0)] += records(2)
        query.clock.logs[tp(1)] += records(30)
        assert query.batch() == {tp(0): [2 * MINUTE_MS], tp(1): []}

    def test_they_are_no_event_time_of_a_topic_partition_at_its_end(self) -> None:
        query = self.query({tp(0): records(1, self.NEXT_YEAR), tp(1): records(1)}, idle_timeout_ms=3_600_000)
        for _ in range(3):
            query.batch()
        query.clock.logs[tp(1)] += records(30)
        assert query.batch()[tp(1)] == [30 * MINUTE_MS], "the last records of partition 0 were looked at"
        query.clock.logs[tp(0)] += records(20)
        query.clock.logs[tp(1)] += records(32)
        assert query.batch() == {tp(0): [20 * MINUTE_MS], tp(1): []}

    def test_real_times_after_ignored_ones_count_although_nothing_else_waits(self) -> None:
        logs = {tp(0): records(57, self.NEXT_YEAR), tp(1): records(57, 60)}
        query = self.query(logs, idle_timeout_ms=3_600_000)
        for _ in range(3):
            query.batch()
        assert query.is_done
        query.clock.logs[tp(0)][1] = Slot(0, is_record=False, is_indexed=False)  # Kafka has deleted it
        query.clock.logs[tp(0)] += records(58)
        query.clock.logs[tp(1)] += records(60.5)
        assert query.batch() == {tp(0): [58 * MINUTE_MS], tp(1): []}

    def test_thousands_of_them_take_a_few_batches(self) -> None:
        wrong = records(self.NEXT_YEAR) * (2 * SCANNED_RECORDS + 5)
        query = self.query({tp(0): [*wrong, *records(1)], tp(1): records(1)})
        assert len(minutes_of(query)) <= 4
        assert query.alignment.ignored_count == len(wrong)
        assert query.clock.records_read < 1.5 * len(wrong), "planning reads none of them twice"

    @settings(max_examples=examples(300), deadline=None)
    @given(LOGS, st.integers(0, 20), st.none() | st.integers(1, 5), st.sets(st.integers(0, 40)))
    def test_every_record_is_read_and_none_that_counts_is_too_new(
        self, logs: list[list[Slot]], max_drift_ms: int, max_records: int | None, restarts: set[int]
    ) -> None:
        bound_ms = 45
        slots = indexed(logs)
        query = Query(slots, max_drift_ms, skew_ms=bound_ms, wall_ms=0)
        read_all(query, max_drift_ms, max_records, restarts, bound_ms)
        if not restarts:
            ignored = [s for log in slots.values() for s in log if s.is_record and s.time_ms > bound_ms]
            assert query.alignment.ignored_count <= len(ignored)
