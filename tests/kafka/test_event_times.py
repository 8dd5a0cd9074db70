"""Timestamps of records from a real broker, and the alignment over them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import source_connection_settings
from penstock.options.config import SourceConfig
from penstock.options.parse import parse_read
from penstock.source.alignment import Alignment, RecordTimes
from penstock.source.enumerator import SplitEnumerator
from penstock.source.kafka_event_times import KafkaRecordClock
from penstock.source.kafka_lookup import KafkaOffsetLookup
from penstock.types import OffsetRange, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
KEEP = {"retention.ms": "-1"}  # the records are of 2023


def config_of(bootstrap: str, topic: str, **options: str) -> SourceConfig:
    given = {
        "properties.bootstrap.servers": bootstrap,
        "topic": topic,
        "scan.watermark.alignment.max-drift": "1 min",
        **options,
    }
    return parse_read(given, streaming=True).source


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    return make_topic(2, config=KEEP)


@pytest.fixture
def config(bootstrap: str, topic: str) -> SourceConfig:
    return config_of(bootstrap, topic)


@pytest.fixture
def connections(config: SourceConfig) -> Iterator[KafkaConnections]:
    opened = KafkaConnections(source_connection_settings(config))
    yield opened
    opened.close()


@pytest.fixture
def clock(connections: KafkaConnections, config: SourceConfig) -> KafkaRecordClock:
    return KafkaRecordClock(connections, config)


def records(partition: int, *minutes: float) -> list[judge.Record]:
    return [
        judge.Record(value=b"x", partition=partition, timestamp_ms=START_MS + int(minute * MINUTE_MS))
        for minute in minutes
    ]


def test_offsets_by_time(clock: KafkaRecordClock, bootstrap: str, topic: str) -> None:
    zero, one, nowhere = (TopicPartition(topic, partition) for partition in (0, 1, 7))
    judge.produce(bootstrap, topic, *records(0, 0, 1, 2), *records(1, 0))
    answers = clock.first_offsets_at(dict.fromkeys((zero, one, nowhere), START_MS + 1))
    assert answers.values == {zero: 1}
    assert answers.errors.keys() == {nowhere}


def test_times_of_records(clock: KafkaRecordClock, bootstrap: str, topic: str) -> None:
    zero, one, nowhere = (TopicPartition(topic, partition) for partition in (0, 1, 7))
    judge.produce(bootstrap, topic, *records(0, 0, 0.5, 2), *records(1, 3))
    answers = clock.read_times(
        [OffsetRange(zero, 1, 3), OffsetRange(one, 0, 1), OffsetRange(nowhere, 0, 1)], 9
    )
    assert answers.values == {
        zero: RecordTimes((1, 2), (START_MS + 30_000, START_MS + 120_000), 3),
        one: RecordTimes((0,), (START_MS + 180_000,), 1),
    }
    assert answers.errors.keys() == {nowhere}
    first = clock.read_times([OffsetRange(zero, 0, 3)], 1).values[zero]
    assert first == RecordTimes((0,), (START_MS,), 1)


def test_deleted_records_are_passed_over(clock: KafkaRecordClock, bootstrap: str, topic: str) -> None:
    zero = TopicPartition(topic, 0)
    judge.produce(bootstrap, topic, *records(0, 0, 1, 2, 3))
    judge.delete_records(bootstrap, topic, {0: 2})
    assert clock.read_times([OffsetRange(zero, 0, 4)], 1).values[zero].offsets == (2,)
    # The whole range is gone. Planning will report it. Here it only must not hold back the others.
    assert clock.read_times([OffsetRange(zero, 0, 2)], 1).values[zero] == RecordTimes((), (), 2)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_of_old_records_are_held_together_in_spite_of_their_markers(
    bootstrap: str, topic: str, connections: KafkaConnections, level: str
) -> None:
    """Markers carry the broker's time, years after these records, and are in its index of times."""

    def write(*written: judge.Record, is_committed: bool = True) -> None:
        judge.produce_in_transaction(
            bootstrap, topic, *written, transactional_id=topic, is_committed=is_committed
        )

    for minute in (0, 1, 2):
        write(*records(1, minute, minute + 0.5))
        write(*records(1, minute), is_committed=False)
    write(*records(0, 60, 60.5), *records(1, 60))
    config = config_of(bootstrap, topic, **{"properties.isolation.level": level})
    alignment = Alignment.of(config, KafkaRecordClock(connections, config))
    enumerator = SplitEnumerator(config, KafkaOffsetLookup(connections), alignment=alignment)
    clock = KafkaRecordClock(connections, config)
    enumerator.freeze()
    start = enumerator.initial_offset()
    newest_ms, read_count = 0, 0
    while (end := enumerator.latest_offset(start, None)) is not start:
        splits = enumerator.plan(start, end)
        ranges = [each.offset_range for split in splits for each in split.ranges]
        times_ms = [ms for times in clock.read_times(ranges, 100).values.values() for ms in times.times_ms]
        assert not times_ms or min(times_ms) >= newest_ms - MINUTE_MS
        newest_ms, read_count = max([newest_ms, *times_ms]), read_count + len(times_ms)
        start = end
    assert read_count == (9 if level == "read_committed" else 12)


@pytest.mark.parametrize(("skew", "offsets_read"), [("1 d", [4, 2]), ("0", [1, 2])])
def test_a_record_dated_next_year_stalls_nothing(
    bootstrap: str,
    make_topic: MakeTopic,
    caplog: pytest.LogCaptureFixture,
    skew: str,
    offsets_read: list[int],
) -> None:
    topic = make_topic(2, config=KEEP | {"message.timestamp.after.max.ms": str(2**63 - 1)})
    next_year = (time.time() * 1_000 - START_MS) / MINUTE_MS + 60 * 24 * 365
    judge.produce(bootstrap, topic, *records(0, 0, next_year, 0.5, 1), *records(1, 0, 1))
    given = {"scan.watermark.alignment.max-future-skew": skew, "scan.idle-timeout": "1 h"}
    config = config_of(bootstrap, topic, **given)
    with closing(KafkaConnections(source_connection_settings(config))) as connections:
        alignment = Alignment.of(config, KafkaRecordClock(connections, config))
        enumerator = SplitEnumerator(config, KafkaOffsetLookup(connections), alignment=alignment)
        start = enumerator.initial_offset()
        while (end := enumerator.latest_offset(start, None)) is not start:
            start = end
    assert [start.positions[TopicPartition(topic, partition)] for partition in (0, 1)] == offsets_read
    is_bounded = skew != "0"
    assert enumerator.ignored_times == is_bounded
    assert (f"The last one is of offset 1 of {topic}-0" in caplog.text) is is_bounded


def test_the_drift_is_off_without_the_option(connections: KafkaConnections, config: SourceConfig) -> None:
    assert Alignment.of(config, KafkaRecordClock(connections, config)) is not None
    plain = parse_read(
        {"properties.bootstrap.servers": "a:1", "topic": "t", "scan.idle-timeout": "1 s"}, streaming=True
    ).source
    assert Alignment.of(plain, KafkaRecordClock(connections, plain)) is None
