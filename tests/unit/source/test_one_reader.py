"""A stream and a continuous query with one consumer group, on the fake Kafka: no record is read by both."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.client.net import error_codes as codes
from penstock.client.net.connection import KafkaConnections
from penstock.errors import AuthorizationError, ClientError, OffsetOutOfRangeError, OptionError, PenstockError
from penstock.options.parse import parse_read
from penstock.relay.take_over import TakeOver
from penstock.source import one_reader as room
from penstock.source.checkpoint_offset import Markers, SourceOffset
from penstock.source.one_reader import OneReader
from penstock.spark._older_stream_reader import OlderStreamReader
from penstock.spark.schema import source_schema
from penstock.testing.fake._groups import CommittedOffset
from penstock.testing.fake.control import Refuse, SeenRequest
from penstock.testing.fake.rights import Acl, Rights
from penstock.types import TopicPartition
from tests import judge
from tests.kafka.source_runs import Query as Stream
from tests.unit.relay.fake_query import GROUP, SOURCE, Query, query_on_fake
from tests.waiting import wait_until

FIRST = TopicPartition(SOURCE, 0)
AT_GROUP = {"scan.startup.mode": "group-offsets"}
WITHOUT_COMMITS = {"commit.offsets.on.checkpoint": "false"}
NO_ANSWER = Refuse(codes.GROUP_AUTHORIZATION_FAILED)


TASK = "penstock1 - 1 0 0 1 5 5 1"
"""The note of a task."""


@pytest.fixture(autouse=True)
def asks_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_AGAIN_S", 0.0)


@pytest.fixture
def query(monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    with query_on_fake(monkeypatch) as made:
        yield made


def stream_of(query: Query, **more: str) -> Stream:
    names = ("topic", "properties.bootstrap.servers", "properties.group.id")
    return Stream({**{name: query.source[name] for name in names}, **more})


def left_at(query: Query, offset: int, note: str = "penstock1 -", topic: str = SOURCE) -> None:
    """Let a continuous query have stopped at this offset of each topic partition."""
    offsets = query.fake._state.groups.of(GROUP).offsets
    for partition in range(3):
        offsets[topic, partition] = CommittedOffset(offset, metadata=note)


def notes(query: Query) -> set[str]:
    return {str(each.metadata) for each in query.fake._state.groups.of(GROUP).offsets.values()}


def offsets(query: Query) -> set[int]:
    return set(query.positions().values())


def killed_in_its_next_batch(stream: Stream) -> dict[str, Any]:
    """Plan a batch that is not finished, and return its end."""
    with stream.running() as reader:
        start = stream.checkpoint[-1] if stream.checkpoint else reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert reader.partitions(start, end)
        assert end != start
        return end


# ----- a stream that takes over leaves a mark


@pytest.mark.parametrize(
    "more", [AT_GROUP, AT_GROUP | WITHOUT_COMMITS, {"scan.startup.mode": "latest-offset"}]
)
def test_a_continuous_query_does_not_start_after_a_stream_was_killed_in_its_first_batch(
    query: Query, more: dict[str, str]
) -> None:
    query.write()
    left_at(query, 10)
    stream = stream_of(query, **more)
    with stream.running() as reader:
        begin = reader.initialOffset()
        query.write()
        reader.partitions(begin, reader.latestOffset(begin, reader.getDefaultReadLimit()))
    assert offsets(query) == ({20} if "latest" in str(more) else {10})
    assert notes(query) == {"penstock-checkpoint"}
    with query.planning() as driver, pytest.raises(OptionError, match="penstock take-over"):
        driver.new_plan(None)


def test_a_continuous_query_that_starts_while_a_stream_looks_for_its_start_wins(query: Query) -> None:
    query.write()
    left_at(query, 10)
    with stream_of(query, **AT_GROUP).running() as reader:
        begin = reader.initialOffset()
        with query.planning() as driver:
            driver.new_plan(None)
            with pytest.raises(ClientError, match="is the member of the consumer group"):
                reader.latestOffset(begin, reader.getDefaultReadLimit())
        left_at(query, 15)
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 10 of source-0.* read on to offset 15"):
            reader.latestOffset(begin, reader.getDefaultReadLimit())


def test_a_mark_that_is_refused_ends_the_stream(query: Query) -> None:
    """A continuous query may join after it was asked who is the member."""
    query.write()
    left_at(query, 10)
    stream = stream_of(query, **AT_GROUP)
    with (
        query.fake.control("OffsetCommit", Refuse(codes.UNKNOWN_MEMBER_ID), times=None),
        pytest.raises(ClientError, match="did not take those of this stream"),
    ):
        stream.run()
    with (
        query.fake.control("OffsetCommit", Refuse(codes.TOPIC_AUTHORIZATION_FAILED), times=None),
        pytest.raises(ClientError, match="did not take those of this stream"),
    ):
        stream.run()
    assert len(stream.run()) == 30


def test_a_group_that_no_continuous_query_has_used_gets_no_commit_and_needs_no_right(
    query: Query,
) -> None:
    query.write()
    for partition in range(3):
        query.fake._state.groups.of(GROUP).offsets[SOURCE, partition] = CommittedOffset(5)
    acls = [Acl("*", "ALL", "TOPIC", SOURCE), Acl("*", "DESCRIBE", "GROUP", GROUP)]
    query.fake._state.rights = Rights(acls=acls)
    assert len(stream_of(query, **AT_GROUP, **WITHOUT_COMMITS).run()) == 45
    assert (offsets(query), notes(query)) == ({5}, {""})
    left_at(query, 5)
    with pytest.raises((AuthorizationError, ClientError), match="READ"):
        stream_of(query, **AT_GROUP, **WITHOUT_COMMITS).run()


def test_a_stream_that_goes_on_after_a_take_over_that_was_not_used_leaves_a_mark_too(query: Query) -> None:
    query.write()
    stream = stream_of(query)
    stream.run()
    left_at(query, 20)
    query.write()
    killed_in_its_next_batch(stream)
    with query.planning() as driver, pytest.raises(OptionError, match="penstock take-over"):
        driver.new_plan(None)


# ----- a batch that is repeated


def assert_is_not_repeated(stream: Stream, end: dict[str, Any], begun_at: int, read_on_to: int) -> None:
    """Let Spark repeat the first batch of a stream, which is refused."""
    told = rf"offset {begun_at} of source-0.* read on to offset {read_on_to}"
    with stream.running() as reader:
        begin = reader.initialOffset()
        with pytest.raises(OffsetOutOfRangeError, match=told):
            reader.partitions(begin, end)


def test_a_first_batch_is_not_repeated_after_a_continuous_query_has_read_it(query: Query) -> None:
    query.write()
    stream = stream_of(query, **{"scan.startup.mode": "earliest-offset"})
    end = killed_in_its_next_batch(stream)
    left_at(query, 15)
    assert_is_not_repeated(stream, end, 0, 15)


def test_a_first_batch_that_began_at_the_group_is_not_repeated(query: Query) -> None:
    """Its start would be resolved to where the continuous query is now."""
    query.write()
    left_at(query, 5)
    stream = stream_of(query, **AT_GROUP)
    end = killed_in_its_next_batch(stream)
    left_at(query, 15)
    assert_is_not_repeated(stream, end, 5, 15)
    assert notes(query) == {"penstock1 -"}, "the next start sees it, too"


def test_a_later_batch_is_not_repeated(query: Query) -> None:
    query.write()
    stream = stream_of(query)
    stream.run()
    query.write()
    end = killed_in_its_next_batch(stream)
    left_at(query, 30)
    with stream.running() as reader, pytest.raises(OffsetOutOfRangeError, match="read on to offset 30"):
        reader.partitions(stream.checkpoint[-1], end)


@pytest.mark.parametrize("asks_first", [False, True])
def test_a_batch_is_not_repeated_on_an_older_spark(query: Query, *, asks_first: bool) -> None:
    """The wrapper for availableNow asks for an end before Spark repeats a batch."""
    query.write()
    stream = stream_of(query)
    stream.run()
    query.write()
    end = killed_in_its_next_batch(stream)
    left_at(query, 30)
    config = parse_read(stream.options, streaming=True).source
    reader = OlderStreamReader(config, source_schema(include_headers=False))
    try:
        reader.partitions(end, end)
        if asks_first:
            reader.latestOffset()
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 20 .*read on to offset 30"):
            reader.partitions(stream.checkpoint[-1], end)
    finally:
        reader.stop()


def test_a_query_on_an_older_spark_that_takes_over_leaves_a_mark(query: Query) -> None:
    query.write()
    left_at(query, 10)
    config = parse_read(stream_of(query, **AT_GROUP).options, streaming=True).source
    reader = OlderStreamReader(config, source_schema(include_headers=False))
    try:
        end = reader.latestOffset()
        reader.partitions(reader.initialOffset(), end)
    finally:
        reader.stop()
    assert notes(query) == {"penstock-checkpoint"}


def test_the_start_of_a_range_is_that_of_its_markers(query: Query) -> None:
    """A topic partition that did not answer begins in a later batch."""
    query.write()
    left_at(query, 10)
    second = TopicPartition(SOURCE, 1)
    with stream_of(query).running() as reader:
        start = SourceOffset({FIRST: 10}).to_json()
        end = SourceOffset({FIRST: 12, second: 12}, Markers(partial_start={second: 9})).to_json()
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 9 of source-1"):
            reader.partitions(start, end)


def test_records_between_a_continuous_query_and_a_stream_are_not_left_out(query: Query) -> None:
    """With the default of Spark's dialect a new stream begins at the ends of the logs."""
    query.write()
    left_at(query, 10, TASK)
    with pytest.raises(
        OffsetOutOfRangeError, match=r"begins at offset 20 of source-0.* stopped at offset 10"
    ):
        stream_of(query, **{"scan.startup.mode": "latest-offset"}).run()
    assert (offsets(query), notes(query)) == ({10}, {TASK})
    assert len(stream_of(query, **AT_GROUP).run()) == 30


def test_a_topic_that_is_discovered_later_is_checked_too(query: Query) -> None:
    query.write()
    names = ("properties.bootstrap.servers", "properties.group.id")
    stream = Stream(
        {
            **{name: query.source[name] for name in names},
            "topic-pattern": f"{SOURCE}|later",
            "scan.startup.mode": "earliest-offset",
            "scan.topic-partition-discovery.interval": "1 ms",
        }
    )
    with stream.running() as reader:
        stream.catch_up(reader)
        left_at(query, 1, TASK, "later")
        query.fake.create_topic("later", partitions=3)
        judge.produce(query.fake.bootstrap_servers, "later", *(b"%d" % each for each in range(30)))
        with pytest.raises(OffsetOutOfRangeError, match=r"offset 0 of later-0.* read on to offset 1"):
            stream.trigger(reader)


def test_a_run_with_available_now_on_an_older_spark_commits_the_run_before(query: Query) -> None:
    query.write()
    config = parse_read(stream_of(query).options, streaming=True).source
    last = SourceOffset(dict.fromkeys((TopicPartition(SOURCE, each) for each in range(3)), 5)).to_json()
    reader = OlderStreamReader(config, source_schema(include_headers=False))
    try:
        reader.partitions(last, last)
        end = reader.latestOffset()
        reader.commit(last)
        reader.partitions(last, end)
        wait_until(lambda: offsets(query) == {5}, "the commit")
    finally:
        reader.stop()


# ----- a coordinator that does not answer


def test_a_check_without_an_answer_is_made_again(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    query.write()
    stream = stream_of(query)
    stream.run()
    left_at(query, 30)
    query.write()
    with stream.running() as reader, caplog.at_level(logging.INFO, room.__name__):
        with query.fake.control("OffsetFetch", NO_ANSWER, times=None) as control:
            assert stream.trigger(reader)
            assert stream.trigger(reader) is None
            assert len(control.seen) >= 2, "each batch asks"
        assert [(each.levelname, "asks again every 10 s" in each.message) for each in caplog.records] == [
            ("WARNING", True)
        ]
        assert notes(query) == {"penstock1 -"}, "a commit would hide what the continuous query has read"
        left_at(query, 50)
        with pytest.raises(OffsetOutOfRangeError, match="read on to offset 50"):
            stream.trigger(reader)


def test_offsets_are_committed_once_the_group_was_checked(query: Query) -> None:
    query.write()
    stream = stream_of(query)
    with stream.running() as reader:
        with query.fake.control("OffsetFetch", NO_ANSWER, times=None):
            stream.catch_up(reader)
        assert query.positions() == {}
        stream.catch_up(reader)
        wait_until(lambda: offsets(query) == {20}, "the commit")


def test_a_stream_that_starts_at_the_group_needs_the_answer(query: Query) -> None:
    query.write()
    left_at(query, 10)
    with stream_of(query, **AT_GROUP).running() as reader:
        begin = reader.initialOffset()
        with (
            query.fake.control("DescribeGroups", NO_ANSWER, times=None),
            pytest.raises(AuthorizationError),
        ):
            reader.latestOffset(begin, reader.getDefaultReadLimit())


def test_a_stream_that_has_begun_at_the_group_goes_on_without_an_answer(query: Query) -> None:
    query.write()
    left_at(query, 10)
    stream = stream_of(query, **AT_GROUP)
    with stream.running() as reader:
        stream.catch_up(reader)
        one_reader = reader._one_reader
        assert one_reader is not None
        one_reader._checked = frozenset()  # a commit was refused, because others subscribe with this group
        query.write()
        with query.fake.control("DescribeGroups", NO_ANSWER, times=None) as control:
            assert stream.trigger(reader)
        assert control.seen


def test_a_commit_that_is_tried_later_does_not_set_a_continuous_query_back(query: Query) -> None:
    config = parse_read(stream_of(query).options, streaming=True).source
    reader = OneReader(config, query.connections)
    reader.check({FIRST: 0})
    commits: list[Any] = []

    def refuse(positions: Any, _: int) -> dict[Any, Any]:
        commits.append(positions)
        raise ClientError("members", error_code=codes.UNKNOWN_MEMBER_ID)

    commit = reader.watching(refuse)
    for _ in range(2):
        with pytest.raises(ClientError):
            commit({FIRST: 5}, 1_000)
    assert len(commits) == 1
    assert not reader.is_done


def test_a_coordinator_that_is_silent_is_asked_again_after_a_pause(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_AGAIN_S", 3_600.0)
    config = parse_read(stream_of(query).options, streaming=True).source
    reader = OneReader(config, query.connections)
    with query.fake.control("DescribeGroups", NO_ANSWER, times=None) as control:
        for _ in range(3):
            reader.check({FIRST: 0})
        assert len(control.seen) == 1
    assert not reader.is_done


def test_a_coordinator_that_is_silent_delays_later_batches_less(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_ms: list[int | None] = []

    def silent(_: KafkaConnections, __: str, *, timeout_ms: int | None = None) -> bool:
        waits_ms.append(timeout_ms)
        raise PenstockError("No answer.")

    monkeypatch.setattr(room, "has_only_member", silent)
    config = parse_read(stream_of(query).options, streaming=True).source
    reader = OneReader(config, query.connections)
    for _ in range(3):
        reader.check({FIRST: 0})
    assert waits_ms == [3_000, 500, 500]


# ----- while a continuous query is the member


@pytest.mark.parametrize("offset", [20, 10])
def test_a_stream_does_not_go_on_beside_a_continuous_query(query: Query, offset: int) -> None:
    query.write()
    stream = stream_of(query)
    stream.run()
    left_at(query, offset)
    with query.planning() as driver:
        driver.new_plan(None)
        with pytest.raises(ClientError, match="would be written twice"):
            stream.run()
    assert stream.run() == []


def test_a_stream_ends_beside_a_continuous_query_that_started_later(query: Query) -> None:
    """The stream had nothing to read when its offsets were taken over."""
    query.write()
    stream = stream_of(query)
    with stream.running() as reader:
        stream.catch_up(reader)
        wait_until(lambda: notes(query) == {"penstock-checkpoint"}, "the commit")
        left_at(query, 20)
        with query.planning() as driver:
            driver.new_plan(None)
            query.write()
            assert stream.trigger(reader)
            assert stream.trigger(reader) is None
            one_reader = reader._one_reader
            assert one_reader is not None
            wait_until(lambda: not one_reader.is_done, "the commit is refused")
            with pytest.raises(ClientError, match="ends before its next batch"):
                stream.trigger(reader)


def test_a_stream_without_commits_that_starts_elsewhere_has_nothing_to_do_with_the_group(
    query: Query,
) -> None:
    query.write()
    left_at(query, 10)
    stream = stream_of(query, **WITHOUT_COMMITS)
    with query.fake.control("DescribeGroups", NO_ANSWER, times=None) as control:
        assert len(stream.run()) == 60
        assert control.seen == []
    assert notes(query) == {"penstock1 -"}


# ----- penstock take-over


def test_a_take_over_names_the_topic_partitions_that_kafka_refused(query: Query) -> None:
    def other_is_gone(seen: SeenRequest) -> None:
        query.fake.delete_topic("other")

    query.fake.create_topic("other", 1)
    other = TopicPartition("other", 0)
    wanted = TakeOver(GROUP, {FIRST: 1, other: 1}, {})
    wanted.check(query.connections)
    with (
        query.fake.control("OffsetCommit", other_is_gone),
        pytest.raises(
            ClientError, match=r"refused the offsets of 1 of 2 topic partitions: other-0.*first rec"
        ),
    ):
        wanted.commit(query.connections)
    assert query.positions(1) == {FIRST: 1}
