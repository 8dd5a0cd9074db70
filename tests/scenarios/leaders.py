"""Scenarios of leaders that move, on a cluster of three brokers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.producer import ProduceRequest

from penstock.client.cluster.log_offsets import describe_topics
from penstock.client.net import error_codes as codes
from penstock.types import TopicPartition
from tests.scenarios.client import read, write
from tests.scenarios.cluster import Cluster, Produced, batch

OK = codes.NO_ERROR


@dataclass
class ThreeBrokers:
    """A cluster. `move` lets another broker lead partition 0 of a topic, which then has all records."""

    cluster: Cluster
    move: Callable[[str, int], None]

    def move_on(self, topic: str) -> tuple[int, int]:
        """Let the next broker lead. Return the old and the new leader."""
        old = self.cluster.leader(topic)
        replicas = describe_topics(self.cluster.connections, [topic])[topic].partitions[0].replica_ids
        new = next(each for each in sorted(replicas) if each != old)
        self.move(topic, new)
        return old, new

    def epoch(self, topic: str) -> int:
        return describe_topics(self.cluster.connections, [topic])[topic].partitions[0].leader_epoch


OF_LEADERS: dict[str, Callable[[ThreeBrokers], None]] = {}


def leader_scenario(function: Callable[[ThreeBrokers], None]) -> Callable[[ThreeBrokers], None]:
    OF_LEADERS[function.__name__] = function
    return function


@leader_scenario
def the_old_leader_and_the_old_epoch_are_refused(three: ThreeBrokers) -> None:
    cluster = three.cluster
    topic = cluster.topic()
    assert cluster.produce(topic, batch(b"a", b"b")) == (OK, 0)
    before = three.epoch(topic)
    old, new = three.move_on(topic)
    now = three.epoch(topic)
    assert now > before
    assert cluster.leader(topic) == new
    refused = produce_to(cluster, old, topic, batch(b"lost"))
    assert (refused.error_code, refused.current_leader.leader_id) == (codes.NOT_LEADER_OR_FOLLOWER, new)
    assert cluster.produce(topic, batch(b"c")) == (OK, 2)
    assert cluster.fetch(topic, epoch=before, node_id=new).error_code == codes.FENCED_LEADER_EPOCH
    assert cluster.fetch(topic, epoch=now, node_id=new).error_code == OK
    assert cluster.fetch(topic, epoch=now + 9, node_id=new).error_code == codes.UNKNOWN_LEADER_EPOCH
    parted = cluster.fetch(topic, 3, last_epoch=before, node_id=new)
    assert (parted.error_code, bytes(parted.records or b"")) == (OK, b"")
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (before, 2)
    beyond = cluster.fetch(topic, 9, last_epoch=before, node_id=new)
    assert (beyond.error_code, beyond.diverging_epoch.end_offset) == (OK, 2)
    joined = cluster.fetch(topic, 2, last_epoch=before, node_id=new)
    assert joined.records
    unknown = cluster.fetch(topic, 2, last_epoch=now + 9, node_id=new)
    assert unknown.error_code == codes.OFFSET_OUT_OF_RANGE
    assert end_of_epoch(cluster, new, topic, before) == (OK, before, 2)
    assert end_of_epoch(cluster, new, topic, now) == (OK, now, 3)
    assert cluster.values(topic) == [b"a", b"b", b"c"]


def produce_to(cluster: Cluster, node_id: int, topic: str, data: bytes) -> Any:
    kind = ProduceRequest.TopicProduceData
    part = kind.PartitionProduceData(index=0, records=data)
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=10_000,
        topic_data=[kind(name=topic, partition_data=[part])], min_version=10, max_version=12,
    )  # fmt: skip
    return cluster.ask(request, node_id).responses[0].partition_responses[0]


def end_of_epoch(cluster: Cluster, node_id: int, topic: str, epoch: int) -> tuple[int, int, int]:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = kind.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[kind(topic=topic, partitions=[part])], min_version=3
    )
    answer = cluster.ask(request, node_id).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@leader_scenario
def a_new_leader_knows_the_producers(three: ThreeBrokers) -> None:
    cluster = three.cluster
    topic, (_, producer_id) = cluster.topic(), cluster.init_idempotent()
    sent = [batch(b"%d" % number, producer=(producer_id, 0, number)) for number in range(3)]
    assert [cluster.produce(topic, each).offset for each in sent] == [0, 1, 2]
    three.move_on(topic)
    assert [cluster.produce(topic, each) for each in sent] == [(OK, 0), (OK, 1), (OK, 2)]
    gap = cluster.produce(topic, batch(b"x", producer=(producer_id, 0, 7)))
    assert gap == Produced(codes.OUT_OF_ORDER_SEQUENCE_NUMBER)


@leader_scenario
def penstock_follows_the_leader(three: ThreeBrokers) -> None:
    cluster = three.cluster
    topic_partition = TopicPartition(cluster.topic(), 0)
    values = [b"%04d" % number for number in range(100)]
    write(cluster, topic_partition, values[:50])
    three.move_on(topic_partition.topic)
    write(cluster, topic_partition, values[50:])
    assert read(cluster, topic_partition.topic, [100]) == [values]
