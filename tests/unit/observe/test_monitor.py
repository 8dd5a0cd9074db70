"""Reports over several looks: totals, rates, the time to catch up, bounded memory, JSON."""

from __future__ import annotations

import json

from penstock.errors import BrokerUnavailableError
from penstock.observe.health import Health, HealthRules, Sample
from penstock.observe.lag import Holder, PartitionLook, totals
from penstock.observe.monitor import Monitor, report_to_json
from penstock.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)


def look(at_ms: int, position: int, end: int, next_time_ms: int | None = None) -> PartitionLook:
    return PartitionLook(at_ms, position, 0, end, end, next_time_ms)


def test_totals_are_the_sum_and_the_oldest() -> None:
    found = totals([look(10_000, 5, 9, 4_000), look(10_000, 1, 3, 9_000), look(10_000, 7, 7)])
    assert (found.records, found.readable_records, found.age_ms) == (6, 6, 6_000)
    assert totals([]).age_ms == 0
    assert totals([look(10_000, 5, 9)]).age_ms is None


def test_a_lag_is_never_negative() -> None:
    beyond = PartitionLook(10_000, 9, 0, 3, 5, 20_000)
    assert (beyond.records, beyond.readable_records, beyond.age_ms, beyond.is_kept_back) == (0, 0, 0, False)
    ahead = PartitionLook(10_000, 3, 4, 5, 5, 20_000)  # a record from a clock that is ahead
    assert (ahead.records, ahead.age_ms, ahead.deleted_records) == (2, 0, 1)


def test_rates_and_the_time_to_catch_up() -> None:
    monitor = Monitor(HealthRules())
    assert monitor.add({A: look(0, 0, 1_000)}).rates is None
    rates = monitor.add({A: look(10_000, 300, 1_100), B: look(10_000, 5, 5)}).rates
    assert rates is not None
    assert (rates.read_per_s, rates.written_per_s, rates.catch_up_s) == (30.0, 10.0, 40.0)
    rates = monitor.add({A: look(20_000, 300, 5_000)}).rates
    assert rates is not None
    assert (rates.read_per_s, rates.written_per_s, rates.catch_up_s) == (15.0, 200.0, None)
    rates = monitor.add({A: look(30_000, 5_000, 5_000)}).rates
    assert rates is not None
    assert rates.catch_up_s == 0.0


def test_looks_become_samples_of_later_words() -> None:
    monitor = Monitor(HealthRules(stalled_after_ms=1_000), {A: [Sample(0, 9)]})
    report = monitor.add({A: look(10, 5, 6), B: look(10, 5, 6)})
    assert [row.verdict.health for row in report.rows] == [Health.REWOUND, Health.OK]
    assert report.health is Health.REWOUND
    report = monitor.add({B: look(1_010, 5, 7)})
    assert (report.health, len(report.reasons)) == (Health.STALLED, 1)
    # A topic partition that left is forgotten.
    assert monitor.add({A: look(1_020, 2, 2)}).health is Health.OK


def test_a_topic_partition_that_does_not_answer_once_is_not_forgotten() -> None:
    monitor = Monitor(HealthRules(stalled_after_ms=1_000))
    monitor.add({A: look(10, 5, 6)})
    silent = monitor.add({}, {A: BrokerUnavailableError("no answer")})
    assert (silent.health, silent.totals.age_ms, silent.has_lag) == (Health.UNKNOWN, None, False)
    assert monitor.add({A: look(1_010, 5, 7)}).health is Health.STALLED


def test_memory_is_bounded() -> None:
    monitor = Monitor(HealthRules())
    for at_ms in range(100):
        monitor.add({A: look(at_ms, at_ms, 1_000)})
    assert len(monitor._samples[A]) == len(monitor._earlier) == 16


def test_json_names_units_and_who_holds_readers_back() -> None:
    held = PartitionLook(20_000, 5, 0, 5, 9, 1_500, Holder(A, 7, "billing", 5, 2_000))
    report = Monitor(HealthRules()).add({A: held}, {B: BrokerUnavailableError("no answer")})
    shown = json.loads(json.dumps(report_to_json(report)))
    assert shown["health"] == "BLOCKED_BY_TRANSACTION"
    assert (shown["lag_records"], shown["readable_records"], shown["lag_seconds"]) == (4, 0, 18.5)
    assert shown["errors"] == {"b-1": "no answer"}
    (row,) = shown["topic_partitions"]
    assert row["held_back_by"] == {
        "transactional_id": "billing",
        "producer_id": 7,
        "first_offset": 5,
        "open_since_ms": 2_000,
        "is_looked_up": True,
    }
