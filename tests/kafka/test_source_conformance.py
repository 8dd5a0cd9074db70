"""The source follows Flink's rules and Spark's, on a real broker. There is one case for each rule.

Brackets hold the name or number of the rule in the specification, if there is one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as JudgePartition
from confluent_kafka.admin import NewPartitions

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets
from penstock.devbroker import DevCluster
from penstock.errors import (
    ClientError,
    OffsetOutOfRangeError,
    OptionError,
    TopicPartitionsRemovedError,
    UnknownTopicOrPartitionError,
)
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judge import Record
from tests.kafka.source_runs import Query, Row, read_batch
from tests.records import connected
from tests.waiting import PATIENCE_S, wait_until


def positions(rows: list[Row]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append(row.offset)
    return found


def collect(rows: list[Row], more: list[Row]) -> int:
    rows += more
    return len(rows)


def produce(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    judge.produce(bootstrap, topic, *(Record(b"%d" % n, partition=partition) for n in range(count)))


def commit(bootstrap: str, group_id: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    wanted = [JudgePartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def committed(bootstrap: str, group_id: str, topic: str, partitions: int = 1) -> dict[int, int]:
    """Return the committed offsets that librdkafka sees, without partitions that have none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    found = consumer.committed([JudgePartition(topic, n) for n in range(partitions)], timeout=PATIENCE_S)
    consumer.close()
    return {entry.partition: entry.offset for entry in found if entry.offset >= 0}


def add_partition(bootstrap: str, topic: str) -> None:
    admin = judge.admin(bootstrap)  # held: its futures never end once it is collected
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(PATIENCE_S)
    judge.wait_for_leaders(bootstrap, topic, 2)


def flink(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    options = {"properties.bootstrap.servers": bootstrap, "topic": topic}
    return {**options, **{key.replace("__", "-").replace("_", "."): text for key, text in more.items()}}


def spark(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}


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


# ----- stopping: what lies at the end of the log, and what happens on a restart


@pytest.mark.parametrize("end", ["a commit marker", "aborted records", "a compaction gap"])
def test_a_bounded_read_ends_by_position_whatever_lies_at_the_end(
    end: str, bootstrap: str, make_topic: MakeTopic
) -> None:
    """TestConsumingTransactionalMessage [FLINK-34470]."""
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"a", b"b", transactional_id=f"{topic}-1")
    if end == "aborted records":
        judge.produce_in_transaction(
            bootstrap, topic, b"c", b"d", transactional_id=f"{topic}-2", is_committed=False
        )
    if end == "a compaction gap":
        judge.delete_records(bootstrap, topic, {0: 3})
    options = flink(bootstrap, topic) | {
        "scan.bounded.mode": "latest-offset",
        "properties.isolation.level": "read_committed",
    }
    expected = [] if end == "a compaction gap" else [b"a", b"b"]
    assert [row.value for row in read_batch(options)] == expected
    query = Query(options)
    assert [row.value for row in query.run()] == expected
    assert query.run() == []


def test_a_restored_bounded_query_ends_where_it_would_have(bootstrap: str, make_topic: MakeTopic) -> None:
    """[FLINK-31006] Flink hangs."""
    topic = make_topic(2)
    produce(bootstrap, topic, 10)
    query = Query(flink(bootstrap, topic) | {"scan.bounded.mode": "latest-offset"})
    query.options |= {"scan.max-records-per-batch": "4"}
    with query.running() as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        first = [row for split in reader.partitions(start, end) for row in reader.read(split)]
        assert sum(batch.num_rows for batch in first) == 4
        query.checkpoint.append(end)
    produce(bootstrap, topic, 10)
    produce(bootstrap, topic, 5, partition=1)
    assert positions(query.run()) == {0: [4, 5, 6, 7, 8, 9]}
    assert query.run() == []


def test_a_bounded_query_over_nothing_ends(bootstrap: str, topic_name: str) -> None:
    options = {
        "properties.bootstrap.servers": bootstrap,
        "topic-pattern": f"{topic_name}.*",
        "scan.bounded.mode": "latest-offset",
    }
    assert read_batch(options) == []
    assert Query(options).run() == []


def test_deleted_records_before_the_stop_leave_nothing_to_read(bootstrap: str, make_topic: MakeTopic) -> None:
    """testKafkaSourceEmptyResultOnDeletedOffsets: start 1, stop 3, all below 3 deleted."""
    topic = make_topic()
    produce(bootstrap, topic, 5)
    judge.delete_records(bootstrap, topic, {0: 3})
    options = flink(bootstrap, topic) | {
        "scan.startup.mode": "specific-offsets",
        "scan.startup.specific-offsets": "partition:0,offset:1",
        "scan.bounded.mode": "specific-offsets",
        "scan.bounded.specific-offsets": "partition:0,offset:3",
    }
    for read in (read_batch, lambda given: Query(given).run()):
        with pytest.raises(OffsetOutOfRangeError) as raised:
            read(options)
        facts = raised.value.facts
        assert (facts["topic"], facts["partition"], facts["offset"]) == (topic, 0, 1)
        assert facts["log_start_offset"] == 3
        assert read(options | {"scan.on-data-loss": "continue"}) == []


# ----- rate


def test_a_batch_holds_about_as_many_bytes_as_the_user_wants(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    large = [Record(b"x" * 1_000, partition=0) for _ in range(100)]
    small = [Record(b"x" * 100, partition=1) for _ in range(100)]
    judge.produce(bootstrap, topic, *large, *small, config={"linger.ms": 50})
    query = Query(flink(bootstrap, topic) | {"scan.max-bytes-per-batch": "22 kb"})
    assert len(query.run()) == 200
    firsts = query.checkpoint[0][topic]
    assert 15 <= firsts["0"] <= 25, "a fifth of 110 kB"
    assert 15 <= firsts["1"] <= 25
    assert 4 <= len(query.checkpoint) <= 8


# ----- isolation


@pytest.fixture
def open_transaction(bootstrap: str, make_topic: MakeTopic) -> Iterator[tuple[str, Producer]]:
    """A topic with two records, and three more in a transaction that is not decided."""
    topic = make_topic()
    produce(bootstrap, topic, 2)
    producer = judge.transactional_producer(bootstrap, f"open-{topic}")
    producer.begin_transaction()
    judge.send(producer, topic, [b"open"] * 3)
    judge.flush(producer)
    yield topic, producer
    producer.abort_transaction(30)


def test_latest_under_read_committed_is_the_last_stable_offset_at_the_start(
    bootstrap: str, open_transaction: tuple[str, Producer]
) -> None:
    topic, producer = open_transaction
    query = Query(flink(bootstrap, topic) | {"scan.startup.mode": "latest-offset"})
    query.options |= {"properties.isolation.level": "read_committed"}
    assert query.run() == []
    producer.commit_transaction(30)
    rows: list[Row] = []
    wait_until(lambda: collect(rows, query.run()) == 3, "the records that were open at the start")
    assert {row.value for row in rows} == {b"open"}
    producer.begin_transaction()


def test_latest_under_read_committed_is_the_last_stable_offset_at_the_stop(
    bootstrap: str, open_transaction: tuple[str, Producer]
) -> None:
    topic, _ = open_transaction
    options = flink(bootstrap, topic) | {"scan.bounded.mode": "latest-offset"}
    for level, count in (("read_committed", 2), ("read_uncommitted", 5)):
        given = options | {"properties.isolation.level": level}
        query = Query(given)
        assert (len(read_batch(given)), len(query.run())) == (count, count)
        (stop,) = (key for key in query.checkpoint[-1] if " stop " in key)
        assert f'"0":{count}' in stop


# ----- commits


def grouped_query(bootstrap: str, topic: str, **more: str) -> Query:
    return Query(flink(bootstrap, topic, properties_group_id=f"g-{topic}") | more)


def test_offsets_are_committed_once_the_checkpoint_holds_them(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    produce(bootstrap, topic, 5)
    query = grouped_query(bootstrap, topic)
    with query.running() as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert reader._committer is not None
        assert reader._committer._submitted is None
        query.checkpoint.append(end)
        assert query.catch_up(reader) == []
        wait_until(lambda: committed(bootstrap, f"g-{topic}", topic, 2) == {0: 5, 1: 0}, "the commit")
        assert reader._metrics is not None
        values = reader._metrics.snapshot()
        scope = f"KafkaSourceReader.topic.{topic}.partition.0"
        assert values["KafkaSourceReader.commitsSucceeded"] == 1
        assert values[f"{scope}.currentOffset"] == 4
        assert values[f"{scope}.committedOffset"] == 5
        assert values[f"{scope}.records-lag"] == values["pendingRecords"] == 0


@pytest.mark.parametrize("available_now", [True, False])
def test_the_last_batch_is_committed_before_an_orderly_stop(
    available_now: bool, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 5)
    query = grouped_query(bootstrap, topic)
    assert len(query.run(available_now=available_now)) == 5
    assert committed(bootstrap, f"g-{topic}", topic) == {0: 5}


def test_a_transactional_topic_that_is_read_to_its_end_has_no_lag(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """[FLINK-33484] Flink's lag stays at 1: it commits the last record + 1, not the position."""
    topic = make_topic()
    judge.produce_in_transaction(bootstrap, topic, b"a", b"b", transactional_id=topic)
    query = grouped_query(bootstrap, topic, **{"properties.isolation.level": "read_committed"})
    assert len(query.run()) == 2
    _, end = judge.offsets_of(bootstrap, topic)[0]
    assert committed(bootstrap, f"g-{topic}", topic) == {0: end} == {0: 3}
    # What kafka-consumer-groups asks: an empty group that is listed, and its offsets.
    admin = judge.admin(bootstrap)
    groups = {group.group_id: group.state for group in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert groups[f"g-{topic}"] is ConsumerGroupState.EMPTY
    wanted = ConsumerGroupTopicPartitions(f"g-{topic}")
    listed = admin.list_consumer_group_offsets([wanted])[f"g-{topic}"].result(PATIENCE_S).topic_partitions
    assert [(entry.topic, entry.partition, entry.offset) for entry in listed] == [(topic, 0, 3)]


def test_nothing_is_committed_when_the_user_says_so(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 5)
    for key in ("commit.offsets.on.checkpoint", "properties.commit.offsets.on.checkpoint"):
        assert len(grouped_query(bootstrap, topic, **{key: "false"}).run()) == 5
        assert committed(bootstrap, f"g-{topic}", topic) == {}


def test_a_new_query_goes_on_from_the_group(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 5)
    mode = {"scan.startup.mode": "group-offsets", "properties.auto.offset.reset": "earliest"}
    assert positions(grouped_query(bootstrap, topic, **mode).run()) == {0: P0}
    produce(bootstrap, topic, 2)
    assert positions(grouped_query(bootstrap, topic, **mode).run()) == {0: [5, 6]}


def test_a_group_with_members_refuses_and_the_query_goes_on(
    bootstrap: str, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic()
    produce(bootstrap, topic, 5)
    member = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g-{topic}"})
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) or member.assignment(), "the member")
    with caplog.at_level(logging.WARNING):
        assert len(grouped_query(bootstrap, topic).run()) == 5
    assert "the group has members of its own" in caplog.text
    with connected(bootstrap) as connections, pytest.raises(ClientError, match="has members of its own"):
        commit_offsets(connections, f"g-{topic}", {TopicPartition(topic, 0): 5})
    member.close()


def test_a_deleted_topic_does_not_hide_the_other_commits(bootstrap: str, make_topic: MakeTopic) -> None:
    kept, gone = make_topic(suffix="-kept"), make_topic(suffix="-gone")
    judge.delete_topic(bootstrap, gone)
    positions_of = {TopicPartition(kept, 0): 0, TopicPartition(gone, 0): 0}
    with connected(bootstrap) as connections:
        refused = commit_offsets(connections, f"g-{kept}", positions_of)
    assert list(refused) == [TopicPartition(gone, 0)]
    assert isinstance(refused[TopicPartition(gone, 0)], UnknownTopicOrPartitionError)
    assert committed(bootstrap, f"g-{kept}", kept) == {0: 0}


# ----- discovery


def test_a_pattern_that_matches_nothing_waits_and_the_users_start_counts_for_the_first(
    bootstrap: str, topic_name: str
) -> None:
    """[FLIP-288] what is found first starts as the user says, what is found later at earliest."""
    query = Query(
        {
            "properties.bootstrap.servers": bootstrap,
            "topic-pattern": f"{topic_name}-.*",
            "scan.topic-partition-discovery.interval": "1 ms",
            "scan.startup.mode": "latest-offset",
        }
    )
    with query.running() as reader:
        assert query.catch_up(reader) == []
        judge.create_topic(bootstrap, f"{topic_name}-first")
        produce(bootstrap, f"{topic_name}-first", 3)
        wait_until(lambda: query.catch_up(reader) == [] and f"{topic_name}-first" in query.checkpoint[-1],
                   "the first topic is found")  # fmt: skip
        judge.create_topic(bootstrap, f"{topic_name}-second")
        produce(bootstrap, f"{topic_name}-second", 4)
        rows: list[Row] = []
        wait_until(lambda: collect(rows, query.catch_up(reader)), "the second topic is found")
        assert positions(rows) == {0: [0, 1, 2, 3]}


def test_a_partition_that_is_added_is_read_from_its_start(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    query = Query(flink(bootstrap, topic) | {"scan.startup.mode": "latest-offset"})
    query.options |= {"scan.topic-partition-discovery.interval": "1 ms"}
    with query.running() as reader:
        assert query.catch_up(reader) == []
        add_partition(bootstrap, topic)
        produce(bootstrap, topic, 3, partition=1)
        rows: list[Row] = []
        wait_until(lambda: collect(rows, query.catch_up(reader)), "the new partition is found")
        assert positions(rows) == {1: [0, 1, 2]}


def test_discovery_can_be_turned_off(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    query = Query(flink(bootstrap, topic) | {"scan.topic-partition-discovery.interval": "0"})
    with query.running() as reader:
        assert query.catch_up(reader) == []
        add_partition(bootstrap, topic)
        produce(bootstrap, topic, 3, partition=1)
        assert query.catch_up(reader) == []
    assert positions(query.run()) == {1: [0, 1, 2]}


def test_a_topic_that_is_not_subscribed_any_more_is_not_read(bootstrap: str, make_topic: MakeTopic) -> None:
    """[FLINK-34089] Flink reads it on."""
    kept, left = make_topic(suffix="-kept"), make_topic(suffix="-left")
    query = Query(flink(bootstrap, f"{kept};{left}"))
    assert query.run() == []
    produce(bootstrap, kept, 1)
    produce(bootstrap, left, 2)
    assert positions(query.run(topic=kept)) == {0: [0]}
    assert left not in query.checkpoint[-1]


def test_a_topic_that_is_subscribed_again_is_read_on_from_where_it_was_left(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    kept, left = make_topic(suffix="-kept"), make_topic(suffix="-left")
    both = f"{kept};{left}"
    query = Query(flink(bootstrap, both))
    produce(bootstrap, left, 3)
    assert len(query.run()) == 3
    produce(bootstrap, left, 2)
    assert query.run(topic=kept) == []
    assert positions(query.run(topic=both)) == {0: [3, 4]}
    assert query.run(topic=kept) == []
    judge.delete_topic(bootstrap, left)
    judge.create_topic(bootstrap, left)
    produce(bootstrap, left, 9)
    with pytest.raises(TopicPartitionsRemovedError, match=f"{left}-0 of a topic that was deleted"):
        query.run(topic=both)
    query.options["scan.on-removed-partition"] = "drop"
    assert positions(query.run()) == {0: list(range(9))}
    assert query.run() == []


@pytest.mark.parametrize("after_restart", [True, False])
def test_a_topic_that_vanishes_stops_the_query_or_is_dropped(
    after_restart: bool, bootstrap: str, make_topic: MakeTopic
) -> None:
    kept, gone = make_topic(suffix="-kept"), make_topic(suffix="-gone")
    options = flink(bootstrap, f"{kept};{gone}") | {"scan.topic-partition-discovery.interval": "1 ms"}
    query = Query(options)
    if after_restart:
        assert query.run() == []
        judge.delete_topic(bootstrap, gone)
        with pytest.raises(TopicPartitionsRemovedError, match=f"{gone}-0"):
            query.run()
    else:
        with query.running() as reader:
            assert query.catch_up(reader) == []
            judge.delete_topic(bootstrap, gone)
            with pytest.raises(TopicPartitionsRemovedError, match=f"{gone}-0"):
                query.catch_up(reader)
    produce(bootstrap, kept, 2)
    pattern = {"properties.bootstrap.servers": bootstrap, "topic-pattern": f"{kept}|{gone}"}
    query.options = {**pattern, "scan.on-removed-partition": "drop"}
    assert positions(query.run()) == {0: [0, 1]}
    assert gone not in query.checkpoint[-1]


def test_a_topic_that_was_created_again_is_noticed_however_much_is_in_it(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """[FLINK-40128] by its topic id: the position exists in the new topic too."""
    topic = make_topic()
    produce(bootstrap, topic, 3)
    query = Query(flink(bootstrap, topic))
    assert len(query.run()) == 3
    judge.delete_topic(bootstrap, topic)
    judge.create_topic(bootstrap, topic)
    produce(bootstrap, topic, 6)
    with pytest.raises(TopicPartitionsRemovedError, match=f"{topic}-0 of a topic that was deleted"):
        query.run()
    query.options["scan.on-removed-partition"] = "drop"
    assert positions(query.run()) == {0: [0, 1, 2, 3, 4, 5]}
    assert query.run() == []


def test_a_topic_that_was_created_again_after_planning_is_noticed_by_the_task(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """The offsets of the plan exist in the new topic too, and mean nothing there."""
    topic = make_topic()
    produce(bootstrap, topic, 3)
    query = Query(flink(bootstrap, topic))
    with query.running() as reader:
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        splits = reader.partitions(start, end)
        judge.delete_topic(bootstrap, topic)
        judge.create_topic(bootstrap, topic)
        produce(bootstrap, topic, 6)
        with pytest.raises(TopicPartitionsRemovedError, match="deleted and created again after"):
            list(reader.read(splits[0]))
    query.options["scan.on-removed-partition"] = "drop"
    with query.running() as reader:
        assert list(reader.read(splits[0])) == []
        query.checkpoint.append(end)
        assert positions(query.catch_up(reader)) == {0: [0, 1, 2, 3, 4, 5]}


def test_a_commit_finds_the_coordinator_that_took_over(
    make_cluster: Callable[..., DevCluster], make_topic: MakeTopic
) -> None:
    cluster = make_cluster(3)
    bootstrap = cluster.bootstrap_servers
    topic = make_topic(cluster=cluster)
    here = TopicPartition(topic, 0)
    with connected(bootstrap) as connections:
        assert commit_offsets(connections, "moved", {here: 0}) == {}
        before = judge.group_coordinator(bootstrap, "moved")
        cluster.kill(before)
        assert commit_offsets(connections, "moved", {here: 7}) == {}
        assert judge.group_coordinator(bootstrap, "moved") != before
        assert committed_offsets(connections, "moved", [here]) == {here: 7}
