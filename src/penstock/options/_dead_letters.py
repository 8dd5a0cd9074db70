"""Make the sink for dead letters of a source from the options of the source.

Runs on the driver. Invariant: dead letters never go to a topic that the same source reads, because each would
come back as a bad record.
"""

from __future__ import annotations

from penstock.errors import OptionError
from penstock.options._recognise import FoundOptions
from penstock.options.config import SinkConfig, Subscription, TopicList, TopicPattern
from penstock.options.declare import Side
from penstock.options.java_pattern import compile_pattern
from penstock.options.properties.promise import produce_promise
from penstock.options.table import DEAD_LETTER_TOPIC


def dead_letter_sink(found: FoundOptions, subscription: Subscription, topic: str) -> SinkConfig:
    """Return the config that writes dead letters, at-least-once.

    Args:
        found: the options of the source, with Kafka properties for producers.
        subscription: what the source reads.
        topic: the value of `scan.dead-letter.topic`.

    Raises:
        OptionError: the source reads that topic, or a property contradicts the guarantee.
    """
    if _reads(subscription, topic):
        raise OptionError(
            f"Option '{DEAD_LETTER_TOPIC.key}' is '{topic}', which this source reads, so each dead letter "
            "would come back as a bad record. Choose another topic.",
            option=DEAD_LETTER_TOPIC.key,
            topic=topic,
        )
    config = SinkConfig(found.of_side(Side.SINK).properties, topic)
    produce_promise(config.properties, config.delivery_guarantee)
    return config


def _reads(subscription: Subscription, topic: str) -> bool:
    if isinstance(subscription, TopicList):
        return topic in subscription.topics
    if isinstance(subscription, TopicPattern):
        return compile_pattern(subscription.pattern).fullmatch(topic) is not None
    return topic in {one.topic for one in subscription.topic_partitions}
