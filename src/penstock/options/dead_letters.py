"""The sink of a source's dead letters, from the source's own options.

Runs on the driver. Invariant: dead letters never go to a topic that the same source reads, where each would
come back as the next bad record.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import OptionError
from penstock.options.config import SinkConfig, Subscription, TopicList, TopicPattern
from penstock.options.declare import Reader
from penstock.options.properties.promise import produce_promise
from penstock.options.recognise import recognise
from penstock.options.table import DEAD_LETTER_TOPIC
from penstock.options.topic_pattern import compile_pattern


def dead_letter_sink(options: Mapping[str, str], topic: str, subscription: Subscription) -> SinkConfig:
    """Make the config by which dead letters are written, at-least-once.

    Args:
        options: of the source; its Kafka properties for producers count.
        topic: what `scan.dead-letter.topic` says.
        subscription: what the source reads.

    Raises:
        OptionError: the source reads that topic, or a property contradicts the guarantee.
    """
    if _reads(subscription, topic):
        raise OptionError(
            f"Option '{DEAD_LETTER_TOPIC.key}' is '{topic}', which this source reads: each dead letter would "
            "come back as a bad record. Choose another topic.",
            option=DEAD_LETTER_TOPIC.key,
            topic=topic,
        )
    config = SinkConfig(recognise(options, Reader.SINK).properties, topic)
    produce_promise(config.properties, config.delivery_guarantee)
    return config


def _reads(subscription: Subscription, topic: str) -> bool:
    if isinstance(subscription, TopicList):
        return topic in subscription.topics
    if isinstance(subscription, TopicPattern):
        return compile_pattern(subscription.pattern).fullmatch(topic) is not None
    return topic in {one.topic for one in subscription.topic_partitions}
