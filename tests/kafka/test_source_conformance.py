"""Where reads start and stop by Flink's rules and Spark's, on a real broker. There is one case for each rule.

Brackets hold the name or number of the rule in the specification, if there is one.
"""

from __future__ import annotations

import time

import pytest

from penstock.errors import OptionError
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judge import Record
from tests.kafka.source_cases import commit, flink, positions, produce, spark
from tests.kafka.source_runs import Query, read_batch

# ----- starting and stopping: partition 0 holds times 1000 to 5000, partition 1 two of 1000, 2 nothing

P0, P1 = list(range(5)), list(range(2))


@pytest.fixture
def timed_topic(bootstrap: str, make_topic: MakeTopic) -> str:
    topic = make_topic(3, config={"retention.ms": "-1"})
    early = [Record(b"x", partition=0, timestamp_ms=1000 * (n + 1)) for n in P0]
    judge.produce(bootstrap, topic, *early, *(Record(b"x", partition=1, timestamp_ms=1000) for _ in P1))
    commit(bootstrap, f"group-of-{topic}", topic, {0: 3})
    return topic


GROUPED = {"properties.group.id": "group-of-{topic}"}
STARTS: dict[str, tuple[dict[str, str], dict[int, list[int]]]] = {
    "earliest is the default": ({}, {0: P0, 1: P1}),
    "earliest": ({"scan.startup.mode": "earliest-offset"}, {0: P0, 1: P1}),
    "latest": ({"scan.startup.mode": "latest-offset"}, {}),
    "group, reset to earliest": (
        {**GROUPED, "scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"},
        {0: [3, 4], 1: P1},
    ),
    "group, reset to latest": (
        {**GROUPED, "scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "latest"},
        {0: [3, 4]},
    ),
    "a time: the first record that is not older, or the end": (
        {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "2500"},
        {0: [2, 3, 4]},
    ),
    "a time in ISO 8601": (
        {"scan.startup.mode": "timestamp", "scan.startup.timestamp": "1970-01-01T01:00:02.5+01:00"},
        {0: [2, 3, 4]},
    ),
    "specific, the others at earliest": (
        {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": "partition:0,offset:4"},
        {0: [4], 1: P1},
    ),
    "specific, the others at the group's offset, then at earliest": (
        {
            **GROUPED,
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:1,offset:1",
        },
        {0: [3, 4], 1: [1]},
    ),
    "a sentinel for the group's offset": (
        {
            **GROUPED,
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:0,offset:-3;partition:1,offset:-1",
        },
        {0: [3, 4]},
    ),
}


@pytest.mark.promise
@pytest.mark.parametrize(("options", "expected"), STARTS.values(), ids=STARTS)
def test_a_stream_and_a_batch_start_at(
    options: dict[str, str], expected: dict[int, list[int]], bootstrap: str, timed_topic: str
) -> None:
    given = flink(bootstrap, timed_topic) | {k: v.format(topic=timed_topic) for k, v in options.items()}
    assert positions(read_batch(given)) == expected
    assert positions(Query(given).run()) == expected


STOPS: dict[str, tuple[dict[str, str], dict[int, list[int]]]] = {
    "latest": ({"scan.bounded.mode": "latest-offset"}, {0: P0, 1: P1}),
    "a time, exclusive": (
        {"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "3000"},
        {0: [0, 1], 1: P1},
    ),
    "specific, the others not at all": (
        {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": "partition:0,offset:2"},
        {0: [0, 1]},
    ),
    "specific, the others at the group's offset": (
        {
            **GROUPED,
            "scan.bounded.mode": "specific-offsets",
            "scan.bounded.specific-offsets": "partition:1,offset:1",
        },
        {0: [0, 1, 2], 1: [0]},
    ),
    "before the start": (
        {
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:0,offset:4;partition:1,offset:0",
            "scan.bounded.mode": "specific-offsets",
            "scan.bounded.specific-offsets": "partition:0,offset:2;partition:1,offset:0",
        },
        {},
    ),
}


@pytest.mark.promise
@pytest.mark.parametrize(("options", "expected"), STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("available_now", [True, False])
def test_a_stream_and_a_batch_stop_at(
    options: dict[str, str],
    expected: dict[int, list[int]],
    available_now: bool,
    bootstrap: str,
    timed_topic: str,
) -> None:
    given = flink(bootstrap, timed_topic) | {k: v.format(topic=timed_topic) for k, v in options.items()}
    assert positions(read_batch(given)) == expected
    query = Query(given)
    rows = query.run(available_now=available_now)
    produce(bootstrap, timed_topic, 3)
    assert positions(rows + query.run()) == expected


def test_a_group_that_has_an_offset_everywhere_is_an_end(bootstrap: str, timed_topic: str) -> None:
    commit(bootstrap, f"group-of-{timed_topic}", timed_topic, {0: 3, 1: 0, 2: 0})
    options = flink(bootstrap, timed_topic, properties_group_id=f"group-of-{timed_topic}")
    options |= {"scan.bounded.mode": "group-offsets"}
    assert positions(read_batch(options)) == {0: [0, 1, 2]}
    assert positions(Query(options).run()) == {0: [0, 1, 2]}


@pytest.mark.parametrize("end", ["startup", "bounded"])
@pytest.mark.parametrize("reset", [{}, {"properties.auto.offset.reset": "none"}])
def test_a_group_without_an_offset_and_no_reset_strategy_is_an_error_that_names_where(
    end: str, reset: dict[str, str], bootstrap: str, timed_topic: str
) -> None:
    """KafkaTableITCase.testStartFromGroupOffsetsNone."""
    options = flink(bootstrap, timed_topic, properties_group_id=f"group-of-{timed_topic}")
    options |= {f"scan.{end}.mode": "group-offsets", **reset}
    expected = rf"no committed offset for {timed_topic}-1, {timed_topic}-2"
    with pytest.raises(OptionError, match=expected):
        read_batch(options)
    with pytest.raises(OptionError, match=expected):
        Query(options).run()


SPARKS_STARTS: dict[str, tuple[dict[str, str], dict[int, list[int]]]] = {
    "startingTimestamp beats the others": (
        {
            "startingTimestamp": "4000",
            "startingOffsetsByTimestamp": '{"{topic}":{"0":1,"1":1,"2":1}}',
            "startingOffsets": "earliest",
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {0: [3, 4]},
    ),
    "startingOffsetsByTimestamp beats startingOffsets": (
        {
            "startingOffsetsByTimestamp": '{"{topic}":{"0":1500,"1":500,"2":0}}',
            "startingOffsets": "earliest",
            "startingOffsetsByTimestampStrategy": "latest",
        },
        {0: [1, 2, 3, 4], 1: P1},
    ),
}


@pytest.mark.promise
@pytest.mark.parametrize(("options", "expected"), SPARKS_STARTS.values(), ids=SPARKS_STARTS)
def test_in_sparks_dialect_a_stream_and_a_batch_start_at(
    options: dict[str, str], expected: dict[int, list[int]], bootstrap: str, timed_topic: str
) -> None:
    given = {k: v.replace("{topic}", timed_topic) for k, v in options.items()}
    assert positions(read_batch(spark(bootstrap, timed_topic, **given))) == expected
    assert positions(Query(spark(bootstrap, timed_topic, **given)).run()) == expected


def test_times_before_now_begin_and_end_a_read(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, now_ms = make_topic(2), time.time_ns() // 1_000_000
    ages_min = (120, 30, 5)
    judge.produce(
        bootstrap,
        topic,
        *(Record(b"x", partition=n, timestamp_ms=now_ms - age * 60_000) for n in (0, 1) for age in ages_min),
    )
    in_flinks = flink(bootstrap, topic) | {
        "scan.startup.mode": "timestamp",
        "scan.startup.timestamp": "-1 h",
        "scan.bounded.mode": "timestamp",
        "scan.bounded.timestamp": "-10 min",
    }
    expected = {0: [1], 1: [1]}
    assert positions(read_batch(in_flinks)) == expected
    assert positions(Query(in_flinks).run()) == expected
    in_sparks = spark(bootstrap, topic, startingTimestamp="-1 h")
    assert positions(read_batch(in_sparks | {"endingTimestamp": "-10 min"})) == expected
    assert positions(Query(in_sparks).run()) == {0: [1, 2], 1: [1, 2]}


def test_in_sparks_dialect_a_time_without_a_record_is_an_error(bootstrap: str, timed_topic: str) -> None:
    options = spark(bootstrap, timed_topic, startingTimestamp="4000")
    with pytest.raises(OptionError, match=rf"given time or a later time in {timed_topic}-1, {timed_topic}-2"):
        read_batch(options)


def test_in_sparks_dialect_a_batch_ends_by_time(bootstrap: str, timed_topic: str) -> None:
    everywhere = {"endingTimestamp": "3000", "endingOffsets": "latest"}
    assert positions(read_batch(spark(bootstrap, timed_topic, **everywhere))) == {0: [0, 1], 1: P1}
    each = f'{{"{timed_topic}":{{"0":3000,"1":1000,"2":5}}}}'
    one = spark(bootstrap, timed_topic, endingOffsetsByTimestamp=each, endingOffsets="latest")
    assert positions(read_batch(one)) == {0: [0, 1]}


def test_a_start_is_resolved_once_and_ignored_with_a_checkpoint(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """[FLINK-28303] latest, stopped before the first record, must not be a later latest."""
    topic = make_topic()
    produce(bootstrap, topic, 3)
    query = Query(flink(bootstrap, topic) | {"scan.startup.mode": "latest-offset"})
    assert query.run() == []
    produce(bootstrap, topic, 2)
    assert positions(query.run()) == {0: [3, 4]}
