"""Where topic partitions live: topics, their ids, leaders and replicas.

Runs on driver and executor. Invariants: asking never creates a topic; a cached leader is replaced only by
a newer one (leader epoch) unless a caller reported it wrong; a missing topic is an error after a short grace,
because each broker takes a moment to learn of a new topic.
"""

from __future__ import annotations

import threading
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from penstock.client.net import error_codes as codes
from penstock.client.net import versions
from penstock.client.net.backoff import Patience, Problem, ProblemKind, left_ms
from penstock.client.net.broker_errors import error_from_code, is_retriable, naming_principal
from penstock.client.net.connection import KafkaConnections
from penstock.errors import BrokerUnavailableError, PenstockError, UnknownTopicOrPartitionError
from penstock.types import TopicPartition

NO_LEADER = -1
_NEVER = float("-inf")

_UNKNOWN_TOPIC_CODES = frozenset((codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID))


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the cluster."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class TopicPartitionMetadata:
    """Leader and replicas of one topic partition. `leader_id` is NO_LEADER while it has no leader."""

    leader_id: int
    leader_epoch: int
    replica_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic in a broker's description. If `error_code` is not 0, the rest may be empty."""

    topic: str
    topic_id: uuid.UUID | None
    is_internal: bool
    error_code: int
    partitions: Mapping[int, TopicPartitionMetadata] = field(default_factory=dict)
    authorized_operations: object = None
    """The rights on the topic if they were asked for, as the broker told them; see `rights.known_rights`."""

    @property
    def topic_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, partition) for partition in sorted(self.partitions)]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The answer of one broker about the cluster."""

    brokers: Mapping[int, Broker]
    controller_id: int
    cluster_id: str | None
    topics: Mapping[str, TopicMetadata]


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads one topic partition. `leader_epoch` -1: unknown."""

    node_id: int
    leader_epoch: int
    topic_id: uuid.UUID | None


def fetch_metadata(
    connections: KafkaConnections,
    topics: Collection[str] | None,
    *,
    with_rights: bool = False,
    timeout_ms: int | None = None,
) -> ClusterMetadata:
    """Ask any broker about these topics (None: all topics; empty: brokers only).

    Errors of single topics stand in their `error_code`. `with_rights` also asks what this user may do.
    """
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(
        topics=wanted,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=with_rights,
        **versions.METADATA.bounds,
    )
    response = connections.request(request, timeout_ms=timeout_ms)
    if response.error_code:
        raise error_from_code(response.error_code, "Asking for cluster metadata")
    connections.learn_brokers(response)
    is_epoch_reliable = versions.METADATA_RELIABLE_EPOCHS.has(response.API_VERSION)
    return ClusterMetadata(
        brokers={
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        },
        controller_id=response.controller_id,
        cluster_id=response.cluster_id,
        topics={topic.name: _topic_metadata(topic, is_epoch_reliable) for topic in response.topics},
    )


def _topic_metadata(described: Any, is_epoch_reliable: bool) -> TopicMetadata:
    topic_id = described.topic_id
    return TopicMetadata(
        topic=described.name,
        topic_id=topic_id if topic_id is not None and topic_id.int else None,
        is_internal=bool(described.is_internal),
        error_code=described.error_code,
        authorized_operations=described.authorized_operations,
        partitions={
            partition.partition_index: TopicPartitionMetadata(
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch if is_epoch_reliable else -1,
                replica_ids=tuple(partition.replica_nodes),
            )
            for partition in described.partitions
        },
    )


class ClusterView:
    """Cached topics and leaders of one cluster, shared by everything in the process. Thread-safe."""

    def __init__(self, connections: KafkaConnections) -> None:
        # A weak reference: the cache that holds the view has the connections as its weak key.
        self._weak_connections = weakref.ref(connections)
        self._lock = threading.Lock()
        self._topics: dict[str, tuple[float, TopicMetadata]] = {}

    def topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicMetadata:
        return self.topics([topic], timeout_ms=timeout_ms)[topic]

    def topics(
        self, topics: Iterable[str], *, with_rights: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        """Return several topics; ask the cluster in one request for those that are not cached.

        `with_rights` asks about all of them, and also what this user may do.

        Raises:
            UnknownTopicOrPartitionError: a topic does not exist.
            AuthorizationError: a topic may not be described.
        """
        wanted = set(topics)
        return self._settle(
            wanted,
            lambda known: [(topic, problem) for topic in wanted if (problem := topic_problem(known, topic))],
            timeout_ms,
            with_rights=with_rights,
        )

    def leader_of(self, topic_partition: TopicPartition, *, timeout_ms: int | None = None) -> Leader:
        return self.leaders_of([topic_partition], timeout_ms=timeout_ms)[topic_partition]

    def leaders_of(
        self, topic_partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, Leader]:
        """Return the leaders of topic partitions; ask the cluster for those that are not cached.

        Raises:
            UnknownTopicOrPartitionError: a topic or one of its partitions does not exist.
            AuthorizationError: a topic may not be described.
            BrokerUnavailableError: a topic partition has no leader until the time is up.
        """
        wanted = list(topic_partitions)
        topics = self._settle(
            {tp.topic for tp in wanted},
            lambda known: [(tp.topic, problem) for tp in wanted if (problem := leader_problem(known, tp))],
            timeout_ms,
        )
        return {tp: leader_in(topics[tp.topic], tp.partition) for tp in wanted}

    def reload(
        self, topics: Collection[str], *, with_rights: bool = False, timeout_ms: int | None = None
    ) -> dict[str, TopicMetadata]:
        """Ask the cluster without the cache; single topics may come back with an error code."""
        cluster = fetch_metadata(self._connections, topics, with_rights=with_rights, timeout_ms=timeout_ms)
        with self._lock:
            return {name: self._remember(topic) for name, topic in cluster.topics.items()}

    def learn(self, topics: Iterable[TopicMetadata]) -> None:
        """Cache topics that a caller asked the cluster for; leave out those with an error."""
        with self._lock:
            for topic in topics:
                if not topic.error_code:
                    self._remember(topic)

    def invalidate(self, topic: str) -> None:
        """Let the next caller ask the cluster, because a leader or the topic's id turned out to be wrong."""
        with self._lock:
            if topic in self._topics:
                # Kept, because a broker with old metadata must not bring back an older leader.
                self._topics[topic] = (_NEVER, self._topics[topic][1])

    def apply_hint(self, topic_partition: TopicPartition, leader_id: int, leader_epoch: int) -> bool:
        """Take a new leader from the error response of the old one (KIP-951).

        Returns:
            True if the cache now holds that leader, so that no metadata request is needed.
        """
        topic, partition = topic_partition
        if leader_id == NO_LEADER or leader_epoch < 0 or not self._connections.knows_broker(leader_id):
            return False
        with self._lock:
            loaded_at, cached = self._topics.get(topic, (_NEVER, None))
            old = cached.partitions.get(partition) if cached is not None else None
            if cached is None or old is None or leader_epoch <= old.leader_epoch:
                return False
            new = replace(old, leader_id=leader_id, leader_epoch=leader_epoch)
            changed = replace(cached, partitions={**cached.partitions, partition: new})
            self._topics[topic] = (loaded_at, changed)
        return True

    @property
    def _connections(self) -> KafkaConnections:
        connections = self._weak_connections()
        if connections is None:
            raise BrokerUnavailableError("The connections of this view of the cluster are closed.")
        return connections

    def look_up(self, topics: Collection[str], *, timeout_ms: int | None = None) -> dict[str, TopicMetadata]:
        """Return the topics from the cache or, in one request, from the cluster.

        Neither waits for problems to pass nor raises them: a topic that does not exist has an error code. Use
        `leader_problem()` to judge the answer.
        """
        known = self._cached(topics)
        missing = set(topics) - known.keys()
        return known | self.reload(missing, timeout_ms=timeout_ms) if missing else known

    def _settle(
        self,
        topics: Collection[str],
        find_problems: _FindProblems,
        timeout_ms: int | None,
        *,
        with_rights: bool = False,
    ) -> dict[str, TopicMetadata]:
        """Ask again for the topics with a problem, until none has one or the patience is over."""
        connections = self._connections
        patience = Patience.from_now(connections.settings, timeout_ms)
        backoff = connections.new_backoff()
        worst: Problem | None = None
        while True:
            try:
                look_up = partial(self.reload, with_rights=True) if with_rights else self.look_up
                known = look_up(topics, timeout_ms=left_ms(patience.deadline))
            except BrokerUnavailableError as error:
                # The time is up. The problem before says more than the missing answer now.
                raise worst.error if worst is not None else error from None
            problems = find_problems(known)
            if not problems:
                return known
            for topic, _ in problems:
                self.invalidate(topic)
            worst = min((problem for _, problem in problems), key=lambda problem: problem.kind)
            if not backoff.pause(patience.ends_for(worst)):
                raise naming_principal(worst.error, connections.settings)

    def _cached(self, topics: Collection[str]) -> dict[str, TopicMetadata]:
        oldest = time.monotonic() - self._connections.settings.metadata_max_age_ms / 1000
        with self._lock:
            entries = {topic: self._topics[topic] for topic in topics if topic in self._topics}
        return {topic: metadata for topic, (loaded_at, metadata) in entries.items() if loaded_at > oldest}

    def _remember(self, loaded: TopicMetadata) -> TopicMetadata:
        """Cache the loaded topic, but keep cached leaders that are newer than this broker's answer."""
        if loaded.error_code:
            self._topics.pop(loaded.topic, None)
            return loaded
        _, old = self._topics.get(loaded.topic, (_NEVER, None))
        if old is not None and old.topic_id is not None and old.topic_id == loaded.topic_id:
            newest = {
                partition: max(new, old.partitions.get(partition, new), key=lambda it: it.leader_epoch)
                for partition, new in loaded.partitions.items()
            }
            loaded = replace(loaded, partitions=newest)
        self._topics[loaded.topic] = (time.monotonic(), loaded)
        return loaded


_FindProblems = Callable[[Mapping[str, TopicMetadata]], list[tuple[str, Problem]]]
"""The problems of topics, each with its topic's name."""


def topic_problem(known: Mapping[str, TopicMetadata], topic: str) -> Problem | None:
    """Return the problem that keeps the topic from being used, judged by a broker's answer."""
    metadata = known.get(topic)
    if metadata is not None and not metadata.error_code:
        return None
    code = metadata.error_code if metadata is not None else codes.UNKNOWN_TOPIC_OR_PARTITION
    if code in _UNKNOWN_TOPIC_CODES:
        error: PenstockError = UnknownTopicOrPartitionError(
            f"Topic {topic!r} does not exist, or this user may not see it. Check the name, or create it: "
            "penstock does not create the topics that it reads or writes.",
            topic=topic,
        )
        return Problem(ProblemKind.UNKNOWN, error)
    error = error_from_code(code, f"Asking for topic {topic!r}", topic=topic)
    return Problem(ProblemKind.PASSING if is_retriable(error) else ProblemKind.FINAL, error)


def leader_problem(known: Mapping[str, TopicMetadata], topic_partition: TopicPartition) -> Problem | None:
    """Return the problem that keeps the topic partition's leader from being asked."""
    topic, partition = topic_partition
    if (problem := topic_problem(known, topic)) is not None:
        return problem
    metadata = known[topic].partitions.get(partition)
    facts = {"topic": topic, "partition": partition}
    if metadata is None:
        count = len(known[topic].partitions)
        text = f"Topic {topic!r} has no partition {partition}: it has {count} (0 to {count - 1})."
        return Problem(ProblemKind.UNKNOWN, UnknownTopicOrPartitionError(text, **facts))
    if metadata.leader_id == NO_LEADER:
        text = (
            f"{topic_partition} has no leader: none of its replicas (brokers {list(metadata.replica_ids)}) "
            "is available. Its records are not lost, but cannot be read or written until one is back."
        )
        return Problem(ProblemKind.PASSING, BrokerUnavailableError(text, **facts))
    return None


def leader_in(metadata: TopicMetadata, partition: int) -> Leader:
    found = metadata.partitions[partition]
    return Leader(found.leader_id, found.leader_epoch, metadata.topic_id)


_views: weakref.WeakKeyDictionary[KafkaConnections, ClusterView] = weakref.WeakKeyDictionary()


def cluster_view(connections: KafkaConnections) -> ClusterView:
    # `setdefault` is atomic, so that no lock is needed, which a forked child could inherit while it is held.
    return _views.get(connections) or _views.setdefault(connections, ClusterView(connections))
