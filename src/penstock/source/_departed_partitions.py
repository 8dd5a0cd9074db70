"""Keep the positions of topic partitions that left the plan, in case they come back.

Runs on the driver. Pure. Invariant: a position is kept only together with the id of its topic. So a topic
partition that comes back is read from its position, and no record twice. Another topic of the same name is
read from its first record.

Two kinds leave:

- The position of a topic partition that is not subscribed any more is kept as long as it is away.
- A subscribed topic partition may vanish (with `scan.on-removed-partition` = `drop`). Its position is kept if
  its topic has an id, because rights that are taken away and given back look like a deletion. Most of these
  never come back, so their number is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.options.config import Subscription
from penstock.source._subscriber import is_subscribed
from penstock.source.checkpoint_offset import Positions, SourceOffset
from penstock.types import TopicPartition

MAX_VANISHED = 1_000
"""How many vanished topic partitions an offset carries; above that, only those of the last change."""


def departed_after(
    start: SourceOffset,
    begin: Positions,
    subscription: Subscription,
    topic_ids: Mapping[str, str],
) -> dict[TopicPartition, int]:
    """Return the positions to keep in the offset after `start`.

    Args:
        start: the offset to plan from; its `left` is kept.
        begin: the positions of the next range; these topic partitions are not away.
        subscription: tells topic partitions that are not subscribed from those that vanished.
        topic_ids: the present ids of the subscribed topics. If a topic has another id in `start`, its
            positions there belong to an earlier topic and are dropped.
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
    """Return `topic_ids`, with the `earlier` ids of topics that are in `left` only."""
    topics = {tp.topic for tp in left}
    return {**{topic: found for topic, found in earlier.items() if topic in topics}, **topic_ids}


def _is_another(topic: str, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    return topic in before and topic in now and before[topic] != now[topic]
