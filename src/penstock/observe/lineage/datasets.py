"""Name the topics that a query reads and writes as OpenLineage names datasets of Kafka.

Runs in the user's program. Pure. Invariant: from the options only the brokers and the topics are used, so no
secret can reach an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.options.config import KafkaProperties, Subscription, TopicList, TopicPartitionSet, TopicPattern
from penstock.options.java_pattern import compile_pattern
from penstock.options.parse import parse_read, parse_write


class Input:
    """A read of a query.

    Attributes:
        namespace: of the cluster, `kafka://host:port`.
        topics: those that the options name. Those of a pattern are known when the query has read them.

    Args:
        options: those of the source, in either dialect.
        schema: the `schema` of the DataFrame that the source gives; None: the events have no schema.

    Raises:
        OptionError: the options are not those of a read.
    """

    def __init__(self, options: Mapping[str, str], schema: Any = None) -> None:
        source = parse_read(dict(options), streaming=True).source
        self.schema = schema
        self.namespace = namespace_of(source.properties)
        self.topics = _named_topics(source.subscription)
        self._subscription = source.subscription

    def may_read(self, topic: str) -> bool:
        """Return whether the options name a topic, themselves or by a pattern."""
        if isinstance(self._subscription, TopicPattern):
            return compile_pattern(self._subscription.pattern).fullmatch(topic) is not None
        return topic in self.topics


class Output:
    """A write of a query.

    Attributes:
        namespace: of the cluster, `kafka://host:port`.
        topics: the topics that are written.

    Args:
        options: those of the sink.
        schema: the `schema` of the DataFrame that is written; None: the events have no schema.
        topics: the topics, if the rows name them.

    Raises:
        OptionError: the options are not those of a write.
    """

    def __init__(self, options: Mapping[str, str], schema: Any = None, topics: Sequence[str] = ()) -> None:
        sink = parse_write(dict(options)).sink
        self.schema = schema
        self.namespace = namespace_of(sink.properties)
        self.topics = tuple(topics) if sink.topic is None else (sink.topic,)


def namespace_of(properties: KafkaProperties) -> str:
    """Return OpenLineage's namespace of a cluster: `kafka://` and the first of its bootstrap servers."""
    first = (properties.get("bootstrap.servers") or "unknown").split(",")[0].strip()
    return f"kafka://{first.rpartition('://')[2]}"


def _named_topics(subscription: Subscription) -> tuple[str, ...]:
    if isinstance(subscription, TopicList):
        return subscription.topics
    if isinstance(subscription, TopicPartitionSet):
        return tuple(sorted({each.topic for each in subscription.topic_partitions}))
    return ()
