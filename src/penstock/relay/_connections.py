"""The sockets of one task, and who leads and coordinates.

Runs on the executor, on the thread of the task. A broker handles the requests of one connection one at a
time, so a Fetch that waits for records would hold back Produce and EndTxn behind it. So each purpose has
connections of its own.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from penstock.client.cluster.coordinators import Coordinators, group_coordinators, transaction_coordinators
from penstock.client.cluster.metadata import (
    NO_LEADER,
    Leader,
    TopicMetadata,
    cluster_view,
    fetch_metadata,
    leader_in,
)
from penstock.client.net import error_codes as codes
from penstock.client.net.backoff import UNKNOWN_TOPIC_GRACE_MS
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import KafkaConnections, PendingResponse
from penstock.client.settings import ConnectionSettings
from penstock.errors import PenstockError, TopicPartitionsRemovedError
from penstock.types import TopicPartition

_LOOK_UP_MS = 5_000
_REFRESH_PAUSE_S = 0.05


class TaskConnections:
    """Connections for coordination, Fetch and Produce.

    Args:
        settings: of the cluster.
        topic_ids: of the topics that are read and written, by their names; None: unknown.

    Raises:
        TopicPartitionsRemovedError: a topic has another id now.
    """

    def __init__(self, settings: ConnectionSettings, topic_ids: Mapping[str, str | None]) -> None:
        self.coordination = KafkaConnections(settings)
        self._fetch = KafkaConnections(replace(settings, client_id=f"{settings.client_id}-fetch"))
        self._produce = KafkaConnections(replace(settings, client_id=f"{settings.client_id}-produce"))
        self._topics: dict[str, TopicMetadata] = {}
        self._stale: set[str] = set()
        self._missing_since: dict[str, float] = {}
        self._refreshed_at = 0.0
        try:
            view = cluster_view(self.coordination)
            self._topics = {topic: view.topic(topic) for topic in topic_ids}
            for topic, topic_id in topic_ids.items():
                check_same(topic, topic_id, self._topics[topic].topic_id)
            for connections in (self._fetch, self._produce):
                fetch_metadata(connections, [])  # learns the brokers
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all sockets."""
        for connections in (self.coordination, self._fetch, self._produce):
            connections.close()

    # ----- leaders

    def topic(self, topic: str) -> TopicMetadata:
        """Return a topic as it was last seen."""
        return self._topics[topic]

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the broker that leads a topic partition; None: unknown now."""
        found = self._topics[topic_partition.topic].partitions.get(topic_partition.partition)
        if found is None or found.leader_id == NO_LEADER:
            self._stale.add(topic_partition.topic)
            return None
        return found.leader_id

    def leader(self, topic_partition: TopicPartition) -> Leader:
        """Return what a Fetch says about the leader."""
        return leader_in(self._topics[topic_partition.topic], topic_partition.partition)

    def invalidate(self, topics: Collection[str]) -> None:
        """Ask who leads these topics before the next requests."""
        self._stale.update(topics)

    def refresh(self) -> None:
        """Ask the cluster about what is stale, at most every 50 ms. No answer is not an error.

        Raises:
            TopicPartitionsRemovedError: a topic was deleted, or deleted and created again.
        """
        if not self._stale or time.monotonic() - self._refreshed_at < _REFRESH_PAUSE_S:
            return
        self._refreshed_at = time.monotonic()
        try:
            found = cluster_view(self.coordination).reload(self._stale, timeout_ms=_LOOK_UP_MS)
            for connections in (self._fetch, self._produce):
                fetch_metadata(connections, [], timeout_ms=_LOOK_UP_MS)
        except PenstockError as error:
            if not is_retriable(error):
                raise
            return
        for name, topic in found.items():
            if topic.error_code == codes.UNKNOWN_TOPIC_OR_PARTITION:
                self._check_missing(name)
            elif not topic.error_code:
                check_same(name, self._topics[name].topic_id, topic.topic_id)
                self._topics[name] = topic
                self._missing_since.pop(name, None)
                self._stale.discard(name)

    def _check_missing(self, topic: str) -> None:
        """Raise if a topic has been missing for longer than a broker may be behind."""
        missing_since = self._missing_since.setdefault(topic, time.monotonic())
        if time.monotonic() - missing_since < UNKNOWN_TOPIC_GRACE_MS / 1000:
            return
        raise TopicPartitionsRemovedError(
            f"Topic {topic!r} does not exist any more: it was deleted while a continuous task used it. Its "
            "records are gone. Nothing more is committed. Create the topic again, and start a "
            "new query with another consumer group.",
            topic=topic,
        )

    # ----- requests

    def fetch(self, request: Any, node_id: int) -> PendingResponse:
        """Send a Fetch."""
        return self._fetch.send(request, node_id)

    def produce(self, request: Any, node_id: int) -> PendingResponse:
        """Send a Produce."""
        return self._produce.send(request, node_id)

    def ask_transaction_coordinator(self, request: Any, transactional_id: str) -> PendingResponse | None:
        """Send to the coordinator of a transactional id; None: it is unknown now, and nothing was sent."""
        return self._ask(transaction_coordinators(self.coordination), request, transactional_id)

    def ask_group_coordinator(self, request: Any, group_id: str) -> PendingResponse | None:
        """Send to the coordinator of a group; None: it is unknown now, and nothing was sent."""
        return self._ask(group_coordinators(self.coordination), request, group_id)

    def _ask(self, coordinators: Coordinators, request: Any, key: str) -> PendingResponse | None:
        found, problems = coordinators.locate([key], {}, _LOOK_UP_MS)
        if key in found:
            return self.coordination.send(request, found[key].node_id)
        if not is_retriable(problems[key].error):
            raise problems[key].error
        return None

    def coordinator_failed(self, key: str, error_code: int | None, *, is_group: bool) -> None:
        """Look a coordinator up again if the code says that it has moved, or (None) no answer came."""
        coordinators = group_coordinators if is_group else transaction_coordinators
        coordinators(self.coordination).failed([key], error_code)


def check_same(topic: str, before: object, now: object) -> None:
    """Raise TopicPartitionsRemovedError if a topic has another id than before. None is an unknown one."""
    if None in (before, now) or str(before) == str(now):
        return
    raise TopicPartitionsRemovedError(
        f"Topic {topic!r} was deleted and created again while a continuous query used it (topic id {before}, "
        f"now {now}). The offsets of the old topic are not valid in the new one. Nothing was read from the "
        "new topic or written to it. Start a new query with another consumer group.",
        topic=topic,
    )
