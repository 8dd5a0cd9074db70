"""Offsets that a query commits to its consumer group, on a real broker."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions

from penstock.client.cluster.log_offsets import commit_offsets
from penstock.errors import ClientError, UnknownTopicOrPartitionError
from penstock.types import TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.kafka.source_cases import committed, flink, positions, produce
from tests.kafka.source_runs import Query
from tests.records import connected
from tests.waiting import PATIENCE_S, wait_until


def grouped_query(bootstrap: str, topic: str, **more: str) -> Query:
    return Query(flink(bootstrap, topic, properties_group_id=f"g-{topic}") | more)


@pytest.mark.promise
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
    assert positions(grouped_query(bootstrap, topic, **mode).run()) == {0: [0, 1, 2, 3, 4]}
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
