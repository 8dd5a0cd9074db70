"""A producer's view of its topics: leaders, and whether a topic was recreated.

Runs on the executor. Invariant: looking up never blocks. The cluster is asked on the caller's thread
(`learn`, for a topic's first row) or on a thread of its own (`ask`), so that a broker that does not answer
never delays acknowledgements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol
from uuid import UUID

from penstock.client.cluster.metadata import NO_LEADER, TopicMetadata
from penstock.client.net.backoff import UNKNOWN_TOPIC_GRACE_MS
from penstock.client.net.broker_errors import error_from_code, is_retriable
from penstock.client.net.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from penstock.client.produce._failures import recreated
from penstock.errors import ClientError, PenstockError, UnknownTopicOrPartitionError
from penstock.types import TopicPartition

REFRESH_TIMEOUT_MS = 5_000
"""The limit of one attempt. A failed attempt is repeated until the delivery time-out."""


class TopicSource(Protocol):
    """The methods of `ClusterView` that a producer needs."""

    def topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicMetadata:
        """Return the topic from the cache or the cluster."""

    def reload(self, topics: Collection[str], *, timeout_ms: int | None = None) -> dict[str, TopicMetadata]:
        """Ask the cluster without the cache."""


class ProducerTopics:
    """Leaders and ids of the topics that a producer writes into. Thread-safe."""

    def __init__(self, source: TopicSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._topics: dict[str, TopicMetadata] = {}
        self._topic_ids: Mapping[str, UUID] = {}
        self._missing_since_ms: dict[str, int] = {}

    def learn(self, topic: str, timeout_ms: int) -> TopicMetadata:
        """Return the topic; ask the cluster if it is unknown or its metadata are old.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic, also after a short grace.
            AuthorizationError: it may not be described.
            ProduceError: it is not the topic that this producer began to write into.
        """
        metadata = self._source.topic(topic, timeout_ms=timeout_ms)
        if metadata is not self._topics.get(topic):
            self._accept(metadata)
        return metadata

    def reload(self, topic: str, timeout_ms: int) -> TopicMetadata:
        """Ask the cluster again, because the topic may have more partitions now. Raises as `learn()`."""
        metadata = self._source.reload([topic], timeout_ms=timeout_ms)[topic]
        if metadata.error_code:
            raise error_from_code(metadata.error_code, f"asking for topic {topic!r}", topic=topic)
        self._accept(metadata)
        return metadata

    def leader_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the broker that leads a topic partition; None: unknown."""
        metadata = self._topics.get(topic_partition.topic)
        found = metadata.partitions.get(topic_partition.partition) if metadata is not None else None
        return None if found is None or found.leader_id == NO_LEADER else found.leader_id

    @property
    def topic_ids(self) -> Mapping[str, UUID]:
        return self._topic_ids

    def ask(self, topics: Collection[str], done: Callable[[PenstockError | None], None]) -> None:
        """Ask the cluster on a thread of its own, then call `done` there, with an error if it is final."""
        thread = threading.Thread(
            target=self._ask, args=(topics, done), name="penstock-producer-metadata", daemon=True
        )
        thread.start()

    def _ask(self, topics: Collection[str], done: Callable[[PenstockError | None], None]) -> None:
        try:
            loaded = self._source.reload(topics, timeout_ms=REFRESH_TIMEOUT_MS)
            now_ms = int(time.monotonic() * 1000)
            for metadata in loaded.values():
                self._take(metadata, now_ms)
        except PenstockError as error:
            done(None if is_retriable(error) else error)
        except Exception as error:  # noqa: BLE001  # the sender must hear of it, or would wait in vain
            done(ClientError(f"Asking for cluster metadata failed: {type(error).__name__}: {error}"))
        else:
            done(None)

    def _take(self, metadata: TopicMetadata, now_ms: int) -> None:
        """Take one topic of an answer; raise an error that is not temporary."""
        if not metadata.error_code:
            self._accept(metadata)
        elif metadata.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            self._missing(metadata.topic, now_ms)
        else:
            error = error_from_code(
                metadata.error_code, f"asking for topic {metadata.topic!r}", topic=metadata.topic
            )
            if not is_retriable(error):
                raise error

    def _accept(self, metadata: TopicMetadata) -> None:
        with self._lock:
            if metadata.topic_id is not None:
                first_id = self._topic_ids.get(metadata.topic, metadata.topic_id)
                if first_id != metadata.topic_id:
                    raise recreated(metadata.topic)
                # A new mapping, because the sender thread may iterate over the old one now.
                self._topic_ids = {**self._topic_ids, metadata.topic: first_id}
            self._topics[metadata.topic] = metadata
            self._missing_since_ms.pop(metadata.topic, None)

    def _missing(self, topic: str, now_ms: int) -> None:
        """Note that a broker does not know the topic; it is deleted when that lasts."""
        with self._lock:
            missing_since_ms = self._missing_since_ms.setdefault(topic, now_ms)
        if now_ms - missing_since_ms >= UNKNOWN_TOPIC_GRACE_MS:
            raise UnknownTopicOrPartitionError(
                f"Topic {topic!r} does not exist any more: it was deleted during the write. Records that "
                "were not acknowledged were not written; acknowledged records were deleted with the topic.",
                topic=topic,
            )
