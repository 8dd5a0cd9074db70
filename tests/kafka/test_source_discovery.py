"""Topics and partitions that appear, vanish or are created again, on a real broker."""

from __future__ import annotations

import pytest

from penstock.client.cluster.log_offsets import commit_offsets, committed_offsets
from penstock.devbroker import DevCluster
from penstock.errors import TopicPartitionsRemovedError
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.source_cases import add_partition, collect, flink, positions, produce
from tests.kafka.source_runs import Query, Row
from tests.records import connected
from tests.waiting import wait_until


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


@pytest.mark.promise
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


def test_a_commit_finds_the_coordinator_that_took_over(cluster3: DevCluster, make_topic: MakeTopic) -> None:
    bootstrap = cluster3.bootstrap_servers
    topic = make_topic(cluster=cluster3)
    here = TopicPartition(topic, 0)
    with connected(bootstrap) as connections:
        assert commit_offsets(connections, "moved", {here: 0}) == {}
        before = judge.group_coordinator(bootstrap, "moved")
        cluster3.kill(before)
        assert commit_offsets(connections, "moved", {here: 7}) == {}
        assert judge.group_coordinator(bootstrap, "moved") != before
        assert committed_offsets(connections, "moved", [here]) == {here: 7}
