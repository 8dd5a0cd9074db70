"""Admin calls on a real broker: they are batched, respect the isolation level, and have precise errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as JudgePartition

from penstock.client.cluster.log_offsets import (
    NO_OFFSET,
    NewTopic,
    committed_offsets,
    create_topics,
    describe_topics,
    list_offsets,
    list_offsets_each,
)
from penstock.client.cluster.metadata import cluster_view
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.devbroker import DevCluster
from penstock.errors import BrokerUnavailableError, ClientError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel
from penstock.types import LogEnd, Time, TopicPartition
from tests import judge
from tests.fix_broker import MakeTopic
from tests.judge import Record
from tests.records import connected, many
from tests.waiting import wait_until


@pytest.fixture
def connections(bootstrap: str) -> Iterator[KafkaConnections]:
    with connected(bootstrap) as opened:
        yield opened


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(count)]


# ----- topic partitions


def test_internal_topics_are_marked(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    topic = make_topic()
    committed_offsets(connections, "makes the internal topic", partitions_of(topic, 1))
    described = describe_topics(connections)
    assert described["__consumer_offsets"].is_internal
    assert not described[topic].is_internal


def test_new_topic_partitions_are_seen_at_once(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    assert describe_topics(connections, [topic])[topic].topic_partitions == partitions_of(topic, 1)
    judge.add_partitions(bootstrap, topic, 4)
    assert describe_topics(connections, [topic])[topic].topic_partitions == partitions_of(topic, 4)


def test_what_does_not_exist_is_named(connections: KafkaConnections, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    view = cluster_view(connections)
    with pytest.raises(UnknownTopicOrPartitionError, match="'no-such-topic' does not exist"):
        view.topics([topic, "no-such-topic"])
    with pytest.raises(
        UnknownTopicOrPartitionError, match=rf"'{topic}' has no partition 7: it has 2 \(0 to 1\)"
    ):
        view.leaders_of([*partitions_of(topic, 2), TopicPartition(topic, 7)])


def test_describe_leaves_out_what_does_not_exist(
    connections: KafkaConnections, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    described = describe_topics(connections, [topic, "no-such-topic"])
    assert list(described) == [topic]
    assert described[topic].topic_partitions == partitions_of(topic, 2)
    assert described[topic].partitions[0].leader_id == 1
    assert described[topic].topic_id is not None
    assert describe_topics(connections, []) == {}


# ----- offsets


def test_the_ends_of_logs(connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(3)
    judge.produce(bootstrap, topic, *many(10, partition=0), *many(4, partition=2))
    judge.delete_records(bootstrap, topic, {0: 3})
    wanted = partitions_of(topic, 3)
    assert list_offsets(connections, dict.fromkeys(wanted, LogEnd.LATEST)) == dict(
        zip(wanted, [10, 0, 4], strict=True)
    )
    assert list_offsets(connections, dict.fromkeys(wanted, LogEnd.EARLIEST)) == dict(
        zip(wanted, [3, 0, 0], strict=True)
    )


def test_latest_of_an_open_transaction(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    judge.produce(bootstrap, topic, b"before")
    producer = judge.transactional_producer(bootstrap, topic)
    producer.begin_transaction()
    judge.send(producer, topic, [b"open", b"open"])
    judge.flush(producer)
    wanted = {TopicPartition(topic, 0): LogEnd.LATEST}
    assert list(list_offsets(connections, wanted, IsolationLevel.READ_COMMITTED).values()) == [1]
    assert list(list_offsets(connections, wanted, IsolationLevel.READ_UNCOMMITTED).values()) == [3]
    producer.commit_transaction(30)
    wait_until(
        lambda: list(list_offsets(connections, wanted, IsolationLevel.READ_COMMITTED).values()) == [4],
        "the commit marker is written",
    )


def test_offsets_by_timestamp(connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"retention.ms": "-1"})  # the records are of 2001
    stamps = [1_000_000_000_000 + 1_000 * number for number in range(5)]
    judge.produce(bootstrap, topic, *(Record(b"v", timestamp_ms=stamp) for stamp in stamps))
    expected = {stamps[0] - 1: 0, stamps[2]: 2, stamps[2] + 1: 3, stamps[4]: 4, stamps[4] + 1: NO_OFFSET}
    topic_partition = TopicPartition(topic, 0)
    for timestamp_ms, offset in expected.items():
        assert list_offsets(connections, {topic_partition: Time(timestamp_ms)}) == {topic_partition: offset}


def test_one_that_does_not_exist_does_not_stop_the_others(
    connections: KafkaConnections, make_topic: MakeTopic
) -> None:
    topic = make_topic(2)
    missing = [TopicPartition(topic, 9), TopicPartition("no-such-topic", 0)]
    wanted = dict.fromkeys([*partitions_of(topic, 2), *missing], LogEnd.LATEST)
    list_offsets(connections, dict.fromkeys(partitions_of(topic, 2), LogEnd.LATEST))  # connects
    answers = list_offsets_each(connections, wanted, timeout_ms=1_000)
    assert answers.values == dict.fromkeys(partitions_of(topic, 2), 0)
    assert set(answers.errors) == set(missing)
    with pytest.raises(UnknownTopicOrPartitionError, match="2 topic partitions") as caught:
        list_offsets(connections, wanted, timeout_ms=1_000)
    assert caught.value.facts["topic_partitions"] == sorted(missing)


def test_two_thousand_topic_partitions_are_asked_for_in_a_few_requests(
    connections: KafkaConnections, make_topic: MakeTopic
) -> None:
    topic = make_topic(2_000)
    found = describe_topics(connections, [topic])[topic].topic_partitions
    wanted = dict.fromkeys(found, LogEnd.LATEST)
    assert len(wanted) == 2_000
    list_offsets(connections, wanted)  # the broker has to make the logs first
    sent = spy(connections)
    describe_topics(connections, [topic])
    assert list_offsets(connections, wanted) == dict.fromkeys(wanted, 0)
    assert sent == ["MetadataRequest", "ListOffsetsRequest"]


def spy(connections: KafkaConnections) -> list[str]:
    """The names of the requests that are sent from now on."""
    sent: list[str] = []
    send = connections.send

    def watched(request: Any, node_id: Any, timeout_ms: int | None = None) -> PendingResponse:
        sent.append(type(request).__name__)
        return send(request, node_id, timeout_ms)

    connections.send = watched  # type: ignore[method-assign]  # a spy
    return sent


# ----- committed offsets


def test_committed_offsets_of_a_group(
    connections: KafkaConnections, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(3)
    group_id = f"group-{topic}"
    assert committed_offsets(connections, group_id, partitions_of(topic, 3)) == {}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": False})
    consumer.commit(offsets=[JudgePartition(topic, 0, 7), JudgePartition(topic, 2, 0)], asynchronous=False)
    consumer.close()
    expected = {TopicPartition(topic, 0): 7, TopicPartition(topic, 2): 0}
    assert committed_offsets(connections, group_id, partitions_of(topic, 3)) == expected
    assert committed_offsets(connections, group_id, []) == {}


# ----- topics


def test_a_created_topic_is_as_wanted_and_has_leaders(
    connections: KafkaConnections, bootstrap: str, topic_name: str
) -> None:
    create_topics(connections, {topic_name: NewTopic(3, configs={"retention.ms": "123456"})})
    assert len(cluster_view(connections).leaders_of(partitions_of(topic_name, 3))) == 3
    judge.produce(bootstrap, topic_name, *many(3, partition=2))
    with pytest.raises(ClientError, match=f"'{topic_name}' failed: TopicAlreadyExistsError"):
        create_topics(connections, {topic_name: NewTopic(3)})
    create_topics(connections, {topic_name: NewTopic(1)}, exist_ok=True)
    assert len(describe_topics(connections, [topic_name])[topic_name].partitions) == 3


def test_a_topic_that_cannot_be_made_says_why(connections: KafkaConnections, topic_name: str) -> None:
    for topic, pattern in (
        (NewTopic(1, 5), "InvalidReplicationFactorError.*only 1 broker"),
        (NewTopic(configs={"no.such.config": "1"}), "InvalidConfigurationError.*no.such.config"),
    ):
        with pytest.raises(ClientError, match=pattern):
            create_topics(connections, {topic_name: topic})
    with pytest.raises(ClientError, match="InvalidTopicError"):
        create_topics(connections, {"not a topic name!": NewTopic()})


# ----- brokers that come and go


def test_no_broker_is_named(topic_name: str) -> None:
    with connected("127.0.0.1:1", default_api_timeout_ms=800) as offline:
        for ask in (
            lambda: describe_topics(offline, [topic_name]),
            lambda: list_offsets(offline, {TopicPartition(topic_name, 0): LogEnd.LATEST}),
            lambda: committed_offsets(offline, "group", [TopicPartition(topic_name, 0)]),
            lambda: create_topics(offline, {topic_name: NewTopic()}),
        ):
            with pytest.raises(BrokerUnavailableError, match=r"127\.0\.0\.1:1"):
                ask()


def test_a_restart_is_waited_for(mortal_broker: DevCluster, topic_name: str) -> None:
    with connected(mortal_broker.bootstrap_servers) as connections:
        create_topics(connections, {topic_name: NewTopic(2)})
        wanted = dict.fromkeys(partitions_of(topic_name, 2), LogEnd.LATEST)
        assert list_offsets(connections, wanted) == dict.fromkeys(wanted, 0)
        mortal_broker.restart()
        judge.produce(mortal_broker.bootstrap_servers, topic_name, *many(3))
        assert list_offsets(connections, wanted)[TopicPartition(topic_name, 0)] == 3


def test_leaders_that_move_and_leaderless_ones(make_topic: MakeTopic, cluster3: DevCluster) -> None:
    bootstrap = cluster3.bootstrap_servers
    with connected(bootstrap) as connections:
        replicated = make_topic(6, cluster=cluster3)
        alone = f"{replicated}-alone"
        create_topics(connections, {alone: NewTopic(replicas={0: [1], 1: [2], 2: [3]})})
        wanted = dict.fromkeys(partitions_of(replicated, 6) + partitions_of(alone, 3), LogEnd.LATEST)
        assert list_offsets(connections, wanted) == dict.fromkeys(wanted, 0)
        cluster3.kill(2)
        try:
            answers = list_offsets_each(connections, wanted, timeout_ms=20_000)
            assert set(answers.errors) == {TopicPartition(alone, 1)}
            assert len(answers.values) == 8
            with pytest.raises(BrokerUnavailableError, match=f"{alone}-1 has no leader.*not lost"):
                list_offsets(connections, {TopicPartition(alone, 1): LogEnd.LATEST}, timeout_ms=1_000)
        finally:
            cluster3.restart(2)
        wait_until(
            lambda: not list_offsets_each(connections, wanted, timeout_ms=1_000).errors, "all lead again"
        )
