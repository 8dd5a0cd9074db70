"""A producer's picture of its topics, seen by two threads."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from penstock.client.cluster.metadata import TopicMetadata
from penstock.client.produce._topics import ProducerTopics


class AnyTopic:
    """Knows every topic."""

    def topic(self, topic: str, *, timeout_ms: int | None = None) -> TopicMetadata:
        return TopicMetadata(topic, uuid.uuid5(uuid.NAMESPACE_DNS, topic), False, 0)

    def reload(self, topics: Collection[str], *, timeout_ms: int | None = None) -> dict[str, TopicMetadata]:
        return {topic: self.topic(topic) for topic in topics}


def test_a_new_topic_does_not_disturb_a_reader_of_the_ids() -> None:
    """The sender goes through the ids for each answer, while the writer learns of another topic."""
    topics = ProducerTopics(AnyTopic())
    topics.learn("a", 1_000)
    reader = iter(topics.topic_ids.items())
    topics.learn("b", 1_000)
    assert [topic for topic, _ in reader] == ["a"]
    assert set(topics.topic_ids) == {"a", "b"}
