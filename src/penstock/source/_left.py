"""The positions of topic partitions that left the plan, for the day on which they come back.

Runs on the driver. Pure. Invariant: a position is kept only together with the topic that it belongs to. So
what comes back is read on from there and nothing twice, and another topic of that name from its first record.

Two kinds leave:

- What is not subscribed any more is kept as long as it is away.
- What is subscribed and vanished, where `scan.on-removed-partition` is `drop`, is kept if its topic has an
  id: rights that are taken and given back look like a deletion. Most of these never come back, so their
  number is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.options.config import Subscription
from penstock.source._subscriber import is_subscribed
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import TopicPartition

MAX_VANISHED = 1_000
"""How many vanished topic partitions an offset carries; beyond it only those of the last change."""


def left_after(
    start: SourceOffset,
    begin: Positions,
    subscription: Subscription,
    topic_ids: Mapping[str, str],
) -> dict[TopicPartition, int]:
    """The positions to keep in the offset after `start`.

    Args:
        start: what is planned from; its `left` is carried on.
        begin: what the next range has: it is not away.
        subscription: tells what is not wanted from what vanished.
        topic_ids: of the subscribed topics as they are now; where one has another id than in `start`, the
            positions of the earlier topic are worth nothing.
    """
    away = {
        tp: offset
        for tp, offset in {**start.markers.left, **start.positions}.items()
        if tp not in begin and not _is_another(tp.topic, start.markers.topic_ids, topic_ids)
    }
    vanished = {tp for tp in away if is_subscribed(subscription, tp)}
    known = {tp for tp in vanished if tp.topic in start.markers.topic_ids}
    newly = known & start.positions.keys()
    if newly and len(known) > MAX_VANISHED:
        known = newly
    return {tp: offset for tp, offset in away.items() if tp not in vanished or tp in known}


def ids_with_left(
    topic_ids: Mapping[str, str], left: Positions, earlier: Mapping[str, str]
) -> dict[str, str]:
    """`topic_ids` of what is read, and of the topics that left as a whole their `earlier` ones."""
    topics = {tp.topic for tp in left}
    return {**{topic: found for topic, found in earlier.items() if topic in topics}, **topic_ids}


def _is_another(topic: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return topic in before and topic in now and before[topic] != now[topic]
