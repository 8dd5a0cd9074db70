"""The state of a fake cluster, which the handlers of requests share: brokers, topics, rights, time.

Runs in tests only. Invariant: everything here is read and changed while `changed` is held, and what other
threads may wait for is notified through it.
"""

from __future__ import annotations

import threading
import uuid
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client.net import error_codes as codes
from penstock.testing.fake._coordinator import TransactionCoordinator
from penstock.testing.fake._groups import Groups
from penstock.testing.fake._log import PartitionLog
from penstock.testing.fake.clock import Clock
from penstock.testing.fake.rights import CLUSTER_NAME, Rights

DEFAULTS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "message.max.bytes": "1048588",
    "num.partitions": "1",
    "producer.id.expiration.check.interval.ms": "600000",
    "producer.id.expiration.ms": "86400000",
    "transaction.max.timeout.ms": "900000",
}
"""Settings of the brokers that the fake knows, as they are in Kafka."""
TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}


@dataclass(frozen=True)
class Node:
    """A broker and its address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass
class Partition:
    """A topic partition: its replicas, its leader and its log, which all replicas share."""

    topic: Topic
    index: int
    replicas: list[int]
    leader_id: int
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)


@dataclass
class Topic:
    """A topic. A topic that is created again has another id."""

    name: str
    configs: dict[str, str]
    topic_id: uuid.UUID = field(default_factory=uuid.uuid4)
    partitions: list[Partition] = field(default_factory=list)

    @property
    def is_internal(self) -> bool:
        """Return whether it is one of Kafka's own topics."""
        return self.name in ("__consumer_offsets", "__transaction_state")

    def config(self, name: str) -> str:
        """Return a setting, or its default."""
        return self.configs.get(name, TOPIC_DEFAULTS.get(name, ""))


class State:
    """A cluster.

    Args:
        clock: the time.
        rights: who may do what.
        properties: settings of the brokers that differ from Kafka's.
        transaction_version: the feature `transaction.version`: 2 for Kafka 4's protocol.
    """

    def __init__(
        self, clock: Clock, rights: Rights, properties: Mapping[str, str], transaction_version: int
    ) -> None:
        self.changed = threading.Condition()
        self.clock = clock
        clock.attach(self.changed)
        self.rights = rights
        self.properties = {**DEFAULTS, **properties}
        self.transaction_version = transaction_version
        self.cluster_id = uuid.uuid4().hex[:22]
        self.nodes: dict[int, Node] = {}
        self.stopped: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.groups = Groups()
        self.transactions = TransactionCoordinator(self, self.groups)
        self.moved_coordinators: dict[str, int] = {}
        self.is_closed = False
        self._forgets_at_ms = self.now_ms + int(self.properties["producer.id.expiration.check.interval.ms"])

    @property
    def now_ms(self) -> int:
        """Return the cluster's time."""
        return self.clock.now_ms()

    @property
    def forgotten_before_ms(self) -> int:
        """Return the time before which a producer must have written to be forgotten."""
        return self.now_ms - int(self.properties["producer.id.expiration.ms"])

    def has_right(self, user: str, operation: str, kind: str, name: str = CLUSTER_NAME) -> bool:
        """Return whether a user may do this."""
        return self.rights.allow(user, operation, kind, name)

    @property
    def live_nodes(self) -> list[Node]:
        """Return the brokers that run, in the order of their ids."""
        return [node for node_id, node in sorted(self.nodes.items()) if node_id not in self.stopped]

    def expire(self) -> None:
        """Do what is due by now: abort transactions, drop silent members, forget producers."""
        self.transactions.expire()
        self.groups.expire(self.now_ms)
        if self.now_ms < self._forgets_at_ms:
            return
        self._forgets_at_ms = self.now_ms + int(self.properties["producer.id.expiration.check.interval.ms"])
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.log.forget_producers(self.forgotten_before_ms)

    # ----- topics

    def create_topic(
        self,
        name: str,
        partition_count: int,
        configs: Mapping[str, str],
        replicas: Mapping[int, list[int]] | None = None,
    ) -> Topic:
        """Create a topic. Its partitions are led by the brokers in turn."""
        topic = Topic(name, dict(configs))
        self.topics[name] = topic
        self.add_partitions(topic, partition_count, replicas)
        return topic

    def add_partitions(
        self, topic: Topic, total: int, replicas: Mapping[int, list[int]] | None = None
    ) -> None:
        """Raise the number of a topic's partitions."""
        ids = sorted(self.nodes)
        count = min(len(ids), int(self.properties["default.replication.factor"]))
        for index in range(len(topic.partitions), total):
            chosen = (replicas or {}).get(index) or [ids[(index + at) % len(ids)] for at in range(count)]
            leader = next((each for each in chosen if each not in self.stopped), -1)
            topic.partitions.append(Partition(topic, index, chosen, leader))

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic, its records, and what is committed for it."""
        del self.topics[topic.name]
        self.groups.forget_topic(topic.name)
        self.changed.notify_all()

    def topic_of(self, name: str | None, topic_id: uuid.UUID | None) -> Topic | int:
        """Return a topic by its name, or by its id if the request has one; an error code if there is none."""
        if topic_id is not None and topic_id.int:
            found = next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)
            return codes.UNKNOWN_TOPIC_ID if found is None else found
        return self.topics.get(name or "", codes.UNKNOWN_TOPIC_OR_PARTITION)

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a topic partition; None if there is none."""
        found = self.topics.get(topic)
        return found.partitions[index] if found and 0 <= index < len(found.partitions) else None

    def end_transaction(self, topic: str, index: int, producer: tuple[int, int], *, is_commit: bool) -> None:
        """Write a marker into a topic partition, if it is still there."""
        if (partition := self.partition(topic, index)) is not None:
            epoch, now_ms = partition.leader_epoch, self.now_ms
            partition.log.end_transaction(*producer, is_commit=is_commit, leader_epoch=epoch, now_ms=now_ms)

    # ----- coordinators

    def coordinator_of(self, kind: int, key: str) -> int:
        """Return the broker that coordinates a group (kind 0) or a transactional id (kind 1)."""
        ids = [node.node_id for node in self.live_nodes]
        moved = self.moved_coordinators.get(f"{kind}:{key}")
        return moved if moved in ids else ids[zlib.crc32(key.encode()) % len(ids)]


@dataclass
class Call:
    """A request that a broker handles.

    Attributes:
        refused_with: the code of the test that refuses the request; 0: handle it.
    """

    state: State
    api: str
    version: int
    body: Any
    node_id: int
    user: str
    refused_with: int = 0

    def may(self, operation: str, kind: str, name: str = CLUSTER_NAME) -> bool:
        """Return whether the user of the connection may do this."""
        return self.state.has_right(self.user, operation, kind, name)

    def missing(self, operation: str, kind: str, name: str = CLUSTER_NAME) -> int:
        """Return the code by which this request is refused: by the test, or because a right is missing."""
        if self.refused_with or self.may(operation, kind, name):
            return self.refused_with
        return _UNAUTHORIZED[kind]

    def not_coordinator(self, kind: int, key: str) -> int:
        """Return NOT_COORDINATOR if another broker coordinates this key."""
        is_here = self.state.coordinator_of(kind, key) == self.node_id
        return codes.NO_ERROR if is_here else codes.NOT_COORDINATOR

    def wait(self, is_enough: Callable[[], bool], timeout_ms: int) -> None:
        """Wait until the condition holds, the time is over, or the broker stops."""
        deadline_ms = self.state.now_ms + timeout_ms
        while not is_enough() and self.state.now_ms < deadline_ms:
            if self.state.is_closed or self.node_id in self.state.stopped:
                return
            self.state.clock.wait(self.state.changed, deadline_ms)


_UNAUTHORIZED = {
    "TOPIC": codes.TOPIC_AUTHORIZATION_FAILED,
    "GROUP": codes.GROUP_AUTHORIZATION_FAILED,
    "CLUSTER": codes.CLUSTER_AUTHORIZATION_FAILED,
    "TRANSACTIONAL_ID": codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
