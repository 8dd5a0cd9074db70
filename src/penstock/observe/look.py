"""Look at a cluster: how far is a reader from the ends of its logs?

Runs wherever the question is asked. Invariants: looking changes nothing; a few requests to each broker answer
for all topic partitions; the time of the next unread record takes a small read of each topic partition, so it
is asked for `MAX_TIMES` of them at most; a topic partition that does not answer is an error of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.client.cluster.log_offsets import list_offsets_each
from penstock.client.net.connection import KafkaConnections
from penstock.client.transactions.holders import first_open_transactions
from penstock.errors import PenstockError
from penstock.observe.lag import Holder, PartitionLook
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source.kafka_event_times import KafkaRecordClock
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
        timeout_ms: how long one look may wait for a topic partition that does not answer.
    """

    def __init__(
        self, connections: KafkaConnections, config: SourceConfig, timeout_ms: int | None = None
    ) -> None:
        self._connections = connections
        self._timeout_ms = timeout_ms
        # The next unread record counts from the moment when it is in the log, committed or not.
        self._clock = KafkaRecordClock(
            connections, replace(config, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        )

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
                tp, each.producer_id, each.transactional_id, each.first_offset, each.open_since_ms
            )
            stable = min(max(look.last_stable, each.first_offset), look.high_watermark)
            found[tp] = replace(look, last_stable=stable, holder=holder)

    def _add_times(self, found: dict[TopicPartition, PartitionLook]) -> None:
        behind = sorted((tp for tp, look in found.items() if look.records), key=lambda tp: -found[tp].records)
        waiting = behind[:MAX_TIMES]
        # Nearly always the next offset has a record. Only after a gap the rest of the log is searched.
        for is_last in (False, True):
            ranges = [_unread(tp, found[tp], is_last=is_last) for tp in waiting]
            times = self._clock.read_times([each for each in ranges if len(each)], 1).values
            for tp, read in times.items():
                if read.times_ms:
                    found[tp] = replace(found[tp], next_time_ms=read.times_ms[0])
            waiting = [tp for tp in waiting if found[tp].next_time_ms is None]


def _unread(topic_partition: TopicPartition, look: PartitionLook, *, is_last: bool) -> OffsetRange:
    first = max(look.position, look.log_start)
    stop = look.high_watermark if is_last else min(first + 1, look.high_watermark)
    return OffsetRange(topic_partition, first, stop)
