"""Decide what a producer sends next, over all topic partitions and brokers, and track the outcome.

Runs on the executor. Pure: no I/O, time comes in as an argument, leaders through a function. Invariant:
each batch that was added is exactly one of waiting, under way, acknowledged, or given up (only if the user
accepts the loss); `unacknowledged_bytes` is the memory of the first two.

    add -> plan -> (answer | no_answer) -> ... -> acknowledged
                      ^---- again ----'
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.produce.batches import ProducerBatch, TopicPartitionQueue
from penstock.client.produce.verdicts import Verdict, describe, judge, may_be_written
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """The settings that the order and timing of sending depend on."""

    max_in_flight: int = 5
    max_request_size_bytes: int = 1 << 20
    delivery_timeout_ms: int = 120_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    is_idempotent: bool = True


class Answer(NamedTuple):
    """A broker's answer about one batch. `base_offset` -1: the broker did not tell the offset."""

    error_code: int
    base_offset: int = -1
    words: str = ""

    def end_offset(self, batch: ProducerBatch) -> int | None:
        """Return the offset after the batch; None: unknown."""
        return self.base_offset + batch.record_count if self.base_offset >= 0 else None


@dataclass(eq=False, slots=True)
class PlannedRequest:
    """Batches for one broker, at most one of each topic partition, as Produce demands."""

    node_id: int
    batches: dict[TopicPartition, ProducerBatch] = field(default_factory=dict)
    size_bytes: int = 0
    planned_at_ms: int = 0

    def add(self, batch: ProducerBatch) -> None:
        self.batches[batch.topic_partition] = batch
        self.size_bytes += len(batch.data)


def _jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311  # no secret depends on it


LeaderOf = Callable[[TopicPartition], int | None]


class DeliveryQueue:
    """Closed batches on their way to acknowledgement.

    Args:
        limits: order and timing.
        jitter: factor on every pause, so that many tasks do not ask a broker again at the same time.
    """

    def __init__(self, limits: DeliveryLimits, *, jitter: Callable[[], float] = _jitter) -> None:
        self.unacknowledged_bytes = 0
        self.acknowledged_record_count = 0
        self.acknowledged_bytes = 0
        self.given_up_record_count = 0
        self.resend_count = 0
        self._limits = limits
        self._jitter = jitter
        self._queues: dict[TopicPartition, TopicPartitionQueue] = {}
        # Queues with unacknowledged batches, least recently served first, so that each gets its turn.
        self._busy: OrderedDict[TopicPartition, TopicPartitionQueue] = OrderedDict()
        self._requests_under_way: Counter[int] = Counter()
        self._planned_at_ms = -1

    @property
    def is_empty(self) -> bool:
        return not self._busy

    def would_send(self, topic_partition: TopicPartition, now_ms: int, leader_id: int | None) -> bool:
        """Return whether a batch that is added now would be sent at once.

        Without a leader: return whether it would be the first to wait, so that the leader is asked for.
        """
        if leader_id is None:
            return topic_partition not in self._busy
        if self._requests_under_way[leader_id] >= self._limits.max_in_flight:
            return False
        queue = self._busy.get(topic_partition)
        return queue is None or queue.would_send(now_ms, leader_id)

    def leaderless(self, leader_of: LeaderOf) -> set[str]:
        """Return the topics with batches for a topic partition that has no known leader."""
        return {topic_partition.topic for topic_partition in self._busy if leader_of(topic_partition) is None}

    def add(self, batch: ProducerBatch) -> None:
        """Take a closed batch; its sequence number follows the last one of its topic partition."""
        topic_partition = batch.topic_partition
        queue = self._queues.get(topic_partition)
        if queue is None:
            limits = self._limits
            queue = TopicPartitionQueue(limits.max_in_flight, is_idempotent=limits.is_idempotent)
            self._queues[topic_partition] = queue
        queue.add(batch)
        self._busy[topic_partition] = queue
        self.unacknowledged_bytes += len(batch.data)

    def plan(self, now_ms: int, leader_of: LeaderOf) -> list[PlannedRequest]:
        """Return the requests to send now, in this order; their batches count as under way from now on."""
        self._planned_at_ms = now_ms
        planned: list[PlannedRequest] = []
        while round_of_requests := self._plan_round(now_ms, leader_of):
            planned += round_of_requests
        return planned

    def _plan_round(self, now_ms: int, leader_of: LeaderOf) -> list[PlannedRequest]:
        """Take at most one batch of each topic partition, and at most one request for each broker."""
        requests: dict[int, PlannedRequest] = {}
        for topic_partition, queue in self._busy.items():
            leader_id = leader_of(topic_partition)
            if leader_id is None or self._requests_under_way[leader_id] >= self._limits.max_in_flight:
                continue
            batch = queue.next_to_send(now_ms, leader_id)
            if batch is None:
                continue
            request = requests.setdefault(leader_id, PlannedRequest(leader_id, planned_at_ms=now_ms))
            if request.batches and request.size_bytes + len(batch.data) > self._limits.max_request_size_bytes:
                continue  # the next round's request takes it
            queue.mark_sent(batch, leader_id)
            self.resend_count += batch.is_resend
            request.add(batch)
        for node_id, request in requests.items():
            self._requests_under_way[node_id] += 1
            for topic_partition in request.batches:
                self._busy.move_to_end(topic_partition)
        return list(requests.values())

    def request_done(self, request: PlannedRequest) -> None:
        """Note that this request no longer awaits an answer. Call it before judging the request's batches."""
        self._requests_under_way[request.node_id] -= 1

    def answer(self, batch: ProducerBatch, answer: Answer, now_ms: int) -> Verdict:
        """Take the broker's answer to one batch.

        FAILED leaves the batch where it is: the producer ends with that error.
        """
        queue = self._queues[batch.topic_partition]
        verdict = judge(answer.error_code, batch, is_first=queue.is_first(batch))
        if verdict is Verdict.DOUBT and queue.search_from_offset is None:
            return Verdict.FAILED
        if verdict is Verdict.ACKNOWLEDGED:
            queue.acknowledge(batch, answer.end_offset(batch), now_ms)
            self._acknowledged([batch])
        elif verdict is not Verdict.FAILED:
            batch.last_problem = describe(answer.error_code)[0]
            self._take_back(queue, batch, now_ms)
            if verdict is Verdict.DOUBT:
                queue.doubt(is_refused=True)
            elif may_be_written(answer.error_code):
                self._doubt_if_forgettable(queue, batch)
        return verdict

    def no_answer(self, batch: ProducerBatch, now_ms: int, problem: str = "no answer") -> None:
        """Send a batch again whose answer was lost with the connection or came too late."""
        batch.last_problem = problem
        queue = self._queues[batch.topic_partition]
        self._take_back(queue, batch, now_ms)
        self._doubt_if_forgettable(queue, batch)

    def _doubt_if_forgettable(self, queue: TopicPartitionQueue, batch: ProducerBatch) -> None:
        # The first batch of a producer has no offset to search from; it is sent again without a search.
        if batch.is_forgettable and self._limits.is_idempotent and queue.search_from_offset is not None:
            queue.doubt(is_refused=False)

    def _take_back(self, queue: TopicPartitionQueue, batch: ProducerBatch, now_ms: int) -> None:
        if queue.take_back(batch):
            self._pause(queue, now_ms)

    def _pause(self, queue: TopicPartitionQueue, now_ms: int) -> None:
        limits = self._limits
        queue.pause_until(now_ms, limits.retry_backoff_ms, limits.retry_backoff_max_ms, self._jitter())

    def give_up(self, batch: ProducerBatch) -> None:
        """Take out a batch that is lost; the caller logs it."""
        queue = self._queues[batch.topic_partition]
        queue.give_up(batch)
        self.unacknowledged_bytes -= len(batch.data)
        self.given_up_record_count += batch.record_count
        if not queue.batches:
            self._busy.pop(batch.topic_partition, None)

    def _acknowledged(self, batches: list[ProducerBatch]) -> None:
        for batch in batches:
            self.unacknowledged_bytes -= len(batch.data)
            self.acknowledged_bytes += len(batch.data)
            self.acknowledged_record_count += batch.record_count
            if not self._queues[batch.topic_partition].batches:
                self._busy.pop(batch.topic_partition, None)

    def doubts(self, now_ms: int) -> list[tuple[TopicPartition, int]]:
        """Return the topic partitions whose log must be searched now, and from which offset."""
        return [
            (topic_partition, queue.search_from_offset)
            for topic_partition, queue in self._busy.items()
            if queue.is_in_doubt
            and not queue.under_way_count
            and now_ms >= queue.retry_at_ms
            and queue.search_from_offset is not None
        ]

    def postpone_search(self, topic_partition: TopicPartition, now_ms: int) -> None:
        """Search again later, because the leader gave no valid answer."""
        self._pause(self._queues[topic_partition], now_ms)

    def settle_search(
        self, topic_partition: TopicPartition, end_offsets: Mapping[int, int], now_ms: int
    ) -> bool:
        """Take a search's result for a topic partition in doubt; False: records are lost. See the queue."""
        written = self._queues[topic_partition].settle_search(end_offsets, now_ms)
        if written is None:
            return False
        self._acknowledged(written)
        return True

    def first_batch(self, topic_partition: TopicPartition) -> ProducerBatch:
        return self._queues[topic_partition].batches[0]

    def expired(self, now_ms: int) -> ProducerBatch | None:
        """Return a batch whose delivery has taken longer than allowed."""
        oldest_ms = now_ms - self._limits.delivery_timeout_ms
        return next((batch for batch in self._first_batches() if batch.closed_at_ms <= oldest_ms), None)

    def next_wakeup_ms(self) -> int | None:
        """Return when the next pause or time-out ends; None: nothing waits for the clock.

        The time may be past, because something became due after the last plan.
        """
        due = [batch.closed_at_ms + self._limits.delivery_timeout_ms for batch in self._first_batches()]
        due += [queue.retry_at_ms for queue in self._busy.values() if queue.retry_at_ms > self._planned_at_ms]
        return min(due, default=None)

    def _first_batches(self) -> Iterator[ProducerBatch]:
        return (queue.batches[0] for queue in self._busy.values())
