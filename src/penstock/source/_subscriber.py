"""Find the topic partitions that exist for a subscription now.

Runs on the driver. Invariants: a topic that does not match the subscription is never read; a topic that is
subscribed by name and does not exist is reported, never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import PenstockError, UnknownTopicOrPartitionError
from penstock.options.config import Subscription, TopicList, TopicPartitionSet, TopicPattern
from penstock.options.java_pattern import compile_pattern
from penstock.options.spelling import did_you_mean
from penstock.source._lookup import OffsetLookup, TopicView
from penstock.types import TopicPartition


@dataclass(frozen=True)
class Discovery:
    """The result of one discovery.

    Attributes:
        topic_partitions: these are subscribed and exist.
        topic_ids: the ids of their topics, which tell a topic that was created again from the first one.
            Brokers before Kafka 2.8 have no ids.
        missing: topics or topic partitions that the subscription names and the cluster does not have.
        missing_topics: the names of the topics among them.
    """

    topic_partitions: frozenset[TopicPartition]
    missing: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    missing_topics: tuple[str, ...] = ()

    def raise_if_missing(self, lookup: OffsetLookup) -> None:
        """Raise if anything is missing, because at first planning that is a mistake of the user.

        Args:
            lookup: is asked once for all topics, to find the one that a misspelt name means.

        Raises:
            UnknownTopicOrPartitionError: names everything that is missing.
        """
        if self.missing:
            names = ", ".join(self.missing)
            meant = _meant(lookup, self.missing_topics)
            raise UnknownTopicOrPartitionError(
                f"Not on the Kafka cluster: {names}.{meant} Nothing was read. Check the names in the "
                "subscription, and that the Kafka user may describe the topics. Or create the topics: a read "
                "does not create them.",
                missing=self.missing,
            )


def _meant(lookup: OffsetLookup, missing: tuple[str, ...]) -> str:
    try:
        views = lookup.describe_topics(None) if missing else {}
    except PenstockError:
        return ""  # the error that is about to be raised is the one that matters
    return did_you_mean(missing, (name for name, view in views.items() if not view.is_internal))


def discover(lookup: OffsetLookup, subscription: Subscription) -> Discovery:
    """Look up which subscribed topic partitions exist now."""
    if isinstance(subscription, TopicPattern):
        views = lookup.describe_topics(None)
        matching = {
            name: view for name, view in views.items() if _matches(subscription, name, view.is_internal)
        }
        found = [view.topic_partitions for view in matching.values()]
        return Discovery(frozenset().union(*found), topic_ids=_topic_ids(matching))
    if isinstance(subscription, TopicList):
        views = lookup.describe_topics(sorted(set(subscription.topics)))
        names = tuple(sorted(set(subscription.topics) - set(views)))
        missing = tuple(f"topic {name!r}" for name in names)
        found = [views[name].topic_partitions for name in subscription.topics if name in views]
        return Discovery(frozenset().union(*found), missing, _topic_ids(views), names)
    wanted = frozenset(subscription.topic_partitions)
    views = lookup.describe_topics(sorted({topic_partition.topic for topic_partition in wanted}))
    existing = frozenset().union(*(view.topic_partitions for view in views.values()))
    missing = tuple(f"topic partition {tp}" for tp in sorted(wanted - existing))
    names = tuple(sorted({tp.topic for tp in wanted} - set(views)))
    return Discovery(wanted & existing, missing, _topic_ids(views), names)


def _topic_ids(views: Mapping[str, TopicView]) -> dict[str, str]:
    return {name: view.topic_id for name, view in sorted(views.items()) if view.topic_id is not None}


def is_subscribed(subscription: Subscription, topic_partition: TopicPartition) -> bool:
    """Return whether the subscription covers this topic partition, whether or not it exists."""
    if isinstance(subscription, TopicPartitionSet):
        return topic_partition in subscription.topic_partitions
    if isinstance(subscription, TopicList):
        return topic_partition.topic in subscription.topics
    return _matches(subscription, topic_partition.topic, is_internal=False)


def _matches(subscription: TopicPattern, topic: str, is_internal: bool) -> bool:
    return not is_internal and compile_pattern(subscription.pattern).fullmatch(topic) is not None
