"""Look at a cluster: how far is a reader from the ends of its logs?

Runs wherever the question is asked. Invariants: looking changes nothing; a few requests to each broker answer
for all topic partitions; the time of the next unread record takes a small part of a Fetch for each topic
partition, so it is asked for `MAX_TIMES` of them at most, within the time-out; a topic partition that does
not answer is an error of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.client.cluster.log_offsets import list_offsets_each
from penstock.client.fetch.first_records import first_record_times
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import fetch_settings
from penstock.client.transactions.holders import first_open_transactions
from penstock.errors import PenstockError
from penstock.observe.lag import Holder, PartitionLook
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.types import LogEnd, OffsetRange, TopicPartition

MAX_TIMES = 1_000
"""Of how many topic partitions the time of the next record is read: those with the largest lag."""
_ENDS = (
    (LogEnd.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    # The last stable offset before the high watermark, which it never passes.
    (LogEnd.LATEST, IsolationLevel.READ_COMMITTED),
    (LogEnd.LATEST, IsolationLevel.READ_UNCOMMITTED),
)


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """What was seen of each topic partition, and the error of each that gave no answer."""

    partitions: Mapping[TopicPartition, PartitionLook]
    errors: Mapping[TopicPartition, PenstockError]


class Observer:
    """Looks at the topic partitions of one reader, again and again.

    Args:
        connections: to the cluster. The caller closes them.
        config: a read of the same cluster. Its consumer properties (sizes, time-outs) are used.
        timeout_ms: how long each question of a look may wait for a topic partition that does not answer.
    """

    def __init__(self, connections: KafkaConnections, config: SourceConfig, timeout_ms: int) -> None:
        self._connections = connections
        self._timeout_ms = timeout_ms
        self._fetch_settings = fetch_settings(config.properties)

    def look(self, positions: Mapping[TopicPartition, int], *, with_times: bool = True) -> ClusterLook:
        """Look at the topic partitions of `positions`, the next offsets to read. Raises nothing.

        Args:
            positions: of the reader. Read them before the call, so that a lag is never too small.
            with_times: whether to read the time of the next unread record of each.
        """
        errors: dict[TopicPartition, PenstockError] = {}
        ends: list[Mapping[TopicPartition, int]] = []
        for end, isolation in _ENDS:
            # A topic partition that did not answer is not waited for again.
            wanted = dict.fromkeys(positions.keys() - errors.keys(), end)
            found = list_offsets_each(self._connections, wanted, isolation, timeout_ms=self._timeout_ms)
            errors |= found.errors
            ends.append(found.values)
        log_starts, last_stables, high_watermarks = ends
        at_ms = time.time_ns() // 1_000_000
        looks = {
            tp: PartitionLook(at_ms, position, log_starts[tp], last_stables[tp], high_watermarks[tp])
            for tp, position in positions.items()
            if tp not in errors
        }
        self._add_holders(looks)
        if with_times:
            self._add_times(looks)
        return ClusterLook(looks, errors)

    def _add_holders(self, found: dict[TopicPartition, PartitionLook]) -> None:
        held = [tp for tp, look in found.items() if look.last_stable < look.high_watermark]
        for tp, each in first_open_transactions(self._connections, held, timeout_ms=self._timeout_ms).items():
            look = found[tp]
            # The log grew after the last stable offset was asked for, so that one may be too old.
            if each is None:
                found[tp] = replace(look, last_stable=look.high_watermark)
                continue
            holder = Holder(
                tp,
                each.producer_id,
                each.transactional_id,
                each.first_offset,
                each.open_since_ms,
                each.is_looked_up,
            )
            stable = min(max(look.last_stable, each.first_offset), look.high_watermark)
            found[tp] = replace(look, last_stable=stable, holder=holder)

    def _add_times(self, found: dict[TopicPartition, PartitionLook]) -> None:
        behind = sorted((tp for tp, look in found.items() if look.records), key=lambda tp: -found[tp].records)
        ranges = [_unread(tp, found[tp]) for tp in behind[:MAX_TIMES]]
        # The next unread record counts from the moment when it is in the log, committed or not.
        times = first_record_times(
            self._connections,
            [each for each in ranges if len(each)],
            self._fetch_settings,
            timeout_ms=self._timeout_ms,
        )
        for tp, first in times.items():
            found[tp] = replace(
                found[tp],
                next_time_ms=first.time_ms,
                came_at_ms=first.time_ms if first.is_of_broker else None,
            )


def _unread(topic_partition: TopicPartition, look: PartitionLook) -> OffsetRange:
    return OffsetRange(topic_partition, max(look.position, look.log_start), look.high_watermark)
