"""The word about a reader: each rule at its limit, and what holds for all readers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.observe.health import Health, HealthRules, Sample, judge, worst
from penstock.observe.lag import Holder, PartitionLook
from penstock.types import TopicPartition

TP = TopicPartition("orders", 3)
RULES = HealthRules(stalled_after_ms=60_000, blocked_after_ms=10_000, behind_looks=4, behind_after_ms=10_000)
NOW_MS = 1_000_000


def look(
    position: int,
    end: int,
    *,
    stable: int | None = None,
    next_time_ms: int | None = None,
    holder: Holder | None = None,
) -> PartitionLook:
    return PartitionLook(NOW_MS, position, 0, end if stable is None else stable, end, next_time_ms, holder)


def held(open_since_ms: int | None, transactional_id: str | None = "billing-7") -> Holder:
    return Holder(TP, 42, transactional_id, 5, open_since_ms)


def word(now: PartitionLook, *earlier: Sample, rules: HealthRules = RULES) -> Health:
    return judge(TP, earlier, now, rules).health


def test_a_reader_at_the_end_is_ok() -> None:
    assert word(look(9, 9)) is Health.OK
    assert judge(TP, (), look(9, 9), RULES).reason == ""


def test_a_lag_alone_says_nothing() -> None:
    assert word(look(0, 1_000_000, next_time_ms=0)) is Health.OK


@pytest.mark.parametrize(("age_ms", "expected"), [(60_000, Health.STALLED), (59_999, Health.OK)])
def test_a_reader_that_leaves_records_unread_is_stalled(age_ms: int, expected: Health) -> None:
    assert word(look(5, 9), Sample(NOW_MS - age_ms, 5, 4)) is expected
    planned = Sample(NOW_MS - age_ms, 5, has_unread=True)
    assert word(look(5, 9), Sample(0, 5), planned) is expected
    assert word(look(5, 9, next_time_ms=NOW_MS + 1), planned) is expected  # of a clock that is ahead


def test_an_old_timestamp_is_not_the_time_that_a_reader_stands_still() -> None:
    silent_for_an_hour = Sample(NOW_MS - 3_600_000, 5)
    event_of_yesterday = look(5, 9, next_time_ms=NOW_MS - 86_400_000)
    verdict = judge(TP, [silent_for_an_hour], event_of_yesterday, RULES)
    assert verdict.health is Health.UNKNOWN
    assert verdict.reason == (
        "the position in orders-3 has stood at 5 for 3600 s, with 4 records to read. It is unknown since "
        "when these wait, because producers set the timestamps. Look for longer than 60 s to know if it is "
        "STALLED"
    )
    seen_waiting = Sample(NOW_MS - 59_999, 5, 4)
    assert word(event_of_yesterday, silent_for_an_hour, seen_waiting) is Health.UNKNOWN
    assert word(event_of_yesterday, silent_for_an_hour, replace(seen_waiting, at_ms=NOW_MS - 60_000)) is (
        Health.STALLED
    )
    seen_empty = Sample(NOW_MS - 1_000, 5, 0)
    assert word(event_of_yesterday, silent_for_an_hour, seen_empty) is Health.OK
    assert word(event_of_yesterday, Sample(NOW_MS - 59_999, 5)) is Health.OK
    assert word(look(5, 5), silent_for_an_hour) is Health.OK


def test_a_time_of_the_broker_says_since_when_a_record_waits() -> None:
    silent_for_an_hour = Sample(NOW_MS - 3_600_000, 5)

    def came(age_ms: int) -> PartitionLook:
        return replace(look(5, 9, next_time_ms=NOW_MS - age_ms), came_at_ms=NOW_MS - age_ms)

    assert word(came(60_000), silent_for_an_hour) is Health.STALLED
    assert word(came(59_999), silent_for_an_hour) is Health.OK
    assert word(came(86_400_000), Sample(NOW_MS - 59_999, 5)) is Health.OK  # it read others until then
    assert word(came(86_400_000)) is Health.OK  # nothing is known of the reader


def test_a_young_record_did_not_wait_during_the_silence_before_it() -> None:
    silent_for_an_hour = Sample(NOW_MS - 3_600_000, 5)
    assert word(look(5, 9, next_time_ms=NOW_MS - 59_999), silent_for_an_hour) is Health.OK
    assert word(look(5, 9, next_time_ms=NOW_MS - 60_000), silent_for_an_hour) is Health.UNKNOWN
    assert word(look(5, 9), silent_for_an_hour) is Health.UNKNOWN  # without a timestamp


def test_a_reader_that_moved_is_not_stalled() -> None:
    assert word(look(6, 9), Sample(NOW_MS - 90_000, 5, 4), Sample(NOW_MS - 1, 6, 3)) is Health.OK


def test_a_position_that_went_back_is_rewound() -> None:
    verdict = judge(TP, [Sample(NOW_MS - 2, 7), Sample(NOW_MS - 1, 4)], look(5, 9), RULES)
    assert verdict.health is Health.REWOUND
    assert verdict.reason == "the position in orders-3 went back from 7 to 4"
    assert word(look(3, 9), Sample(NOW_MS - 1, 4)) is Health.REWOUND


def test_a_log_that_ends_before_the_position_is_rewound() -> None:
    assert word(look(5, 4)) is Health.REWOUND
    assert word(look(5, 5)) is Health.OK


def test_a_transaction_blocks_after_a_while() -> None:
    young, old = held(NOW_MS - 9_999), held(NOW_MS - 10_000)
    assert word(look(5, 9, stable=5, holder=young)) is Health.OK
    verdict = judge(TP, (), look(5, 9, stable=5, holder=old), RULES)
    assert verdict.health is Health.BLOCKED_BY_TRANSACTION
    assert verdict.reason == (
        "transaction billing-7 (producer 42) has kept back readers of orders-3 at offset 5 for 10 s; "
        "4 records wait"
    )


def test_a_transaction_that_no_coordinator_shows_blocks_since_its_first_record() -> None:
    hanging = look(5, 9, stable=5, holder=held(None, None), next_time_ms=NOW_MS - 10_000)
    assert "a transaction of producer 42, which no coordinator shows" in judge(TP, (), hanging, RULES).reason
    unknown = replace(hanging, holder=replace(held(None, None), is_looked_up=False))
    assert "producer 42, whose coordinator did not answer" in judge(TP, (), unknown, RULES).reason
    assert word(replace(hanging, holder=None)) is Health.BLOCKED_BY_TRANSACTION
    assert word(replace(hanging, next_time_ms=None)) is Health.OK


def test_a_transaction_does_not_block_who_has_other_work_or_reads_uncommitted() -> None:
    old = held(0)
    assert word(look(4, 9, stable=5, holder=old)) is Health.OK
    assert word(look(6, 9, stable=5, holder=old)) is Health.OK
    uncommitted = replace(RULES, reads_committed=False)
    assert word(look(5, 9, stable=5, holder=old), rules=uncommitted) is Health.OK
    waits = Sample(NOW_MS - 60_000, 5, 4)
    assert word(look(5, 9, stable=5, holder=old), waits, rules=uncommitted) is Health.STALLED


def falling(*records: int, age_ms: int = 10_000) -> Health:
    *earlier, last = records
    samples = [Sample(NOW_MS - 1_000 * (len(earlier) - at), 10 + at, of) for at, of in enumerate(earlier)]
    return word(look(50, 50 + last, next_time_ms=NOW_MS - age_ms), *samples)


def test_a_lag_that_only_grows_is_falling_behind() -> None:
    assert falling(10, 10, 11, 12) is Health.FALLING_BEHIND
    assert falling(99, 10, 10, 11, 12) is Health.FALLING_BEHIND  # the newest looks count
    assert falling(10, 11, 12) is Health.OK  # too few looks
    assert falling(10, 12, 11, 13) is Health.OK  # it shrank once
    assert falling(10, 10, 10, 10) is Health.OK  # it keeps up
    assert falling(0, 10, 11, 12) is Health.OK  # it was at the end
    assert falling(10, 10, 11, 12, age_ms=9_999) is Health.OK  # it is fresh


@pytest.mark.parametrize(("every_ms", "expected"), [(3_333, Health.OK), (3_334, Health.FALLING_BEHIND)])
def test_a_lag_of_unknown_age_has_to_grow_for_a_while(every_ms: int, expected: Health) -> None:
    samples = [Sample(NOW_MS - every_ms * (3 - at), 10 + at, 10 + at) for at in range(3)]
    assert word(look(50, 63, next_time_ms=None), *samples) is expected


def test_a_lag_that_grows_fast_is_named_after_two_batches() -> None:
    assert falling(10, 12, 15) is Health.FALLING_BEHIND
    assert falling(10, 12, 14) is Health.OK
    assert falling(10, 15) is Health.OK


def test_a_lag_that_grew_once_is_not_falling_behind() -> None:
    assert falling(10, 1_000, 1_000, 1_001) is Health.OK


def test_between_two_batches_every_lag_grows() -> None:
    samples = [Sample(NOW_MS - 2_000 * at, 10, 100 - at) for at in range(20, 0, -1)]
    assert word(look(10, 110, next_time_ms=NOW_MS - 40_000), *samples) is Health.OK


def test_more_records_of_the_same_age_are_kept_up_with() -> None:
    def aged(*ages_ms: int) -> Health:
        samples = [
            Sample(NOW_MS - 40_000 + 10_000 * at, at, 10 * (at + 1), age) for at, age in enumerate(ages_ms)
        ]
        return word(look(len(ages_ms) - 1, 150, next_time_ms=NOW_MS - 12_000), *samples)

    assert aged(11_800, 12_000, 13_700) is Health.OK
    assert aged(10_000, 10_000, 12_000) is Health.FALLING_BEHIND
    assert aged(900_000, 900_000, 902_000) is Health.FALLING_BEHIND


def test_samples_of_unknown_lag_do_not_count_for_falling_behind() -> None:
    unknown = [Sample(NOW_MS - 4_000 + at, at) for at in range(5)]
    assert word(look(50, 60, next_time_ms=0), *unknown) is Health.OK


def test_the_worst_word_wins() -> None:
    assert worst([]) is Health.OK
    assert worst([Health.OK, Health.STALLED, Health.FALLING_BEHIND]) is Health.STALLED
    assert worst([Health.UNKNOWN, Health.OK]) is Health.UNKNOWN
    assert worst(Health) is Health.REWOUND


samples = st.lists(
    st.builds(
        Sample,
        st.integers(NOW_MS - 200_000, NOW_MS - 1),
        st.integers(0, 10),
        st.none() | st.integers(0, 10),
        has_unread=st.booleans(),
    ),
    max_size=6,
).map(lambda found: sorted(found, key=lambda each: each.at_ms))


@given(
    earlier=samples,
    position=st.integers(0, 10),
    stable=st.integers(0, 10),
    more=st.integers(0, 10),
    next_time_ms=st.none() | st.integers(NOW_MS - 200_000, NOW_MS),
    open_since_ms=st.none() | st.integers(NOW_MS - 200_000, NOW_MS),
    reads_committed=st.booleans(),
)
def test_more_records_never_make_the_word_better(
    earlier: list[Sample],
    position: int,
    stable: int,
    more: int,
    next_time_ms: int | None,
    open_since_ms: int | None,
    reads_committed: bool,
) -> None:
    rules = replace(RULES, reads_committed=reads_committed)
    end = max(stable, position)
    now = look(position, end, stable=stable, next_time_ms=next_time_ms, holder=held(open_since_ms))
    later = replace(now, high_watermark=end + more)
    before, after = word(now, *earlier, rules=rules), word(later, *earlier, rules=rules)
    assert worst([before, after]) is after
