"""Look up the topic partitions of a subscription again in time, and report changes.

Runs on the driver. Invariant: a topic partition that a query was reading leaves the plan only after that
was reported. One answer of one broker without it is not enough.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from penstock.options.config import SourceConfig
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source._lookup import OffsetLookup
from penstock.source._subscriber import Discovery, discover, is_subscribed
from penstock.source.checkpoint_offset import SourceOffset
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

CONFIRMATIONS = 10
CONFIRMATION_PAUSE_S = 0.2
"""How many times, and at what distance, a topic has to show another id before penstock believes it."""


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class DiscoverySchedule:
    """The subscribed topic partitions, looked up at the start and then at the configured interval."""

    def __init__(self, config: SourceConfig, lookup: OffsetLookup, clock_ms: Callable[[], int]) -> None:
        self._config = config
        self._lookup = lookup
        self._clock_ms = clock_ms
        self._losses = LossPolicy.of(config)
        self._last: Discovery | None = None
        self._last_at_ms = 0
        self._said: set[str] = set()

    def now(self) -> Discovery:
        """Look up now, even if the interval has not passed."""
        self._last = discover(self._lookup, self._config.subscription)
        self._last_at_ms = self._clock_ms()
        return self._last

    def current(self, in_use: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return what exists, looked up again if the interval has passed; report what changed.

        Raises:
            TopicPartitionsRemovedError: a topic partition in use is gone, and data loss is an error.
            UnknownTopicOrPartitionError: a subscribed topic never existed, and data loss is an error.
        """
        discovery = self._last if self._last is not None and not self._is_due() else self.now()
        if self._gone(in_use, discovery):
            discovery = self.now()
        self._report(in_use, discovery)
        return discovery.topic_partitions

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """Return the subscribed topic partitions, as of the last discovery."""
        return self._last.topic_partitions if self._last is not None else frozenset()

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Return the ids of the subscribed topics, as of the last discovery."""
        return self._last.topic_ids if self._last is not None else {}

    def recreated(
        self, offset: SourceOffset, topic_partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the topic partitions whose positions in `offset` belong to an earlier topic of that name.

        Raises:
            TopicPartitionsRemovedError: there are some, and removal is an error.
        """
        changed = self._changed(offset.markers.topic_ids)
        for _ in range(CONFIRMATIONS if changed else 0):
            # A broker with old metadata may still show the first topic, so one answer proves nothing.
            time.sleep(CONFIRMATION_PAUSE_S)
            self.now()
            changed &= self._changed(offset.markers.topic_ids)
            if not changed:
                return []
        found = sorted(tp for tp in topic_partitions if tp.topic in changed)
        if found:
            self._losses.report(data_loss.recreated(found))
        return found

    def _changed(self, topic_ids: Mapping[str, str]) -> set[str]:
        now = self.topic_ids
        return {topic for topic, topic_id in topic_ids.items() if now.get(topic, topic_id) != topic_id}

    def _is_due(self) -> bool:
        return self._config.discovery.is_due(self._clock_ms() - self._last_at_ms)

    def _gone(self, in_use: Iterable[TopicPartition], discovery: Discovery) -> list[TopicPartition]:
        subscription = self._config.subscription
        return [
            tp for tp in in_use if tp not in discovery.topic_partitions and is_subscribed(subscription, tp)
        ]

    def _report(self, in_use: Collection[TopicPartition], discovery: Discovery) -> None:
        fail = self._config.fail_on_data_loss
        gone = self._gone(in_use, discovery)
        if gone:
            self._losses.report(data_loss.removed(gone))
        if fail:
            discovery.raise_if_missing(self._lookup)
        elif discovery.missing:
            self._say_once(f"Not on the Kafka cluster, so not read: {', '.join(discovery.missing)}.")
        left = sorted(tp for tp in in_use if not is_subscribed(self._config.subscription, tp))
        if left:
            names = ", ".join(map(str, left))
            other = (
                " None of the topics of this checkpoint is subscribed now. If this is another query, stop "
                "it, and give it its own checkpointLocation."
            )
            self._say_once(
                f"Not subscribed any more, so not read from now on: {names}. The checkpoint keeps their "
                "positions. When they are subscribed again, they are read from there."
                f"{other if len(left) == len(in_use) else ''}"
            )

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _log.warning("%s", text)
