"""Batches of which nobody knows whether they were written: the log itself is searched for them.

Runs on the executor, on a producer's sender thread under its lock. Invariant: while a topic partition is in
doubt nothing is sent to it, and the doubt ends only with what the leader's log holds up to its very end.

Why a broker's own recognition of duplicates is not enough (both tried on Kafka 4.3):

- A restarted broker remembers only the last batch of each producer, because its snapshot holds no more. It
  refuses the resend of an earlier one as out of order, although the records are there.
- It forgets a producer altogether when the *record timestamps* of its last batch are older than
  `producer.id.expiration.ms` (a day), and then writes a resend a second time. History written with its
  own timestamps is just that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.client import producer_failures as failures
from penstock.client.broker_errors import is_retriable
from penstock.client.connection import PendingResponse
from penstock.client.fetch_requests import FetchedPartition, read_fetch
from penstock.client.idempotence import ProducerIdentity
from penstock.client.producer_batch_bytes import batches_of_producer
from penstock.client.producer_batches import SearchOutcome
from penstock.client.producer_delivery import DeliveryQueue, LeaderOf
from penstock.client.producer_requests import search_request
from penstock.client.producer_verdicts import LEADER_MOVED, RETRIABLE, describe
from penstock.errors import PenstockError
from penstock.types import TopicPartition

OFFSET_OUT_OF_RANGE = 1

SendQuestion = Callable[[Any, int, Callable[[PendingResponse], None]], None]
"""Send a request to a broker; the callback runs later, on the sender thread."""


@dataclass
class _Search:
    """How far one topic partition's log has been read."""

    next_offset: int
    end_offsets: dict[int, int] = field(default_factory=dict)


class LogSearches:
    """Searches of leaders' logs for batches of one producer.

    Args:
        delivery: the batches.
        identity: of the producer.
        now_ms: the clock.
        send: sends a request.
        refresh: asks who leads a topic's partitions.
        fail: ends the producer with an error.
    """

    def __init__(
        self,
        delivery: DeliveryQueue,
        identity: ProducerIdentity,
        *,
        now_ms: Callable[[], int],
        send: SendQuestion,
        refresh: Callable[[str], None],
        fail: Callable[[PenstockError], None],
    ) -> None:
        self._delivery = delivery
        self._identity = identity
        self._now_ms = now_ms
        self._send = send
        self._refresh = refresh
        self._fail = fail
        self._searches: dict[TopicPartition, _Search] = {}

    def start(self, leader_of: LeaderOf) -> None:
        """Begin to search for all batches in doubt that are not being searched for."""
        for topic_partition, from_offset in self._delivery.doubts(self._now_ms()):
            leader_id = leader_of(topic_partition)
            if leader_id is not None and topic_partition not in self._searches:
                self._searches[topic_partition] = _Search(from_offset)
                self._fetch(topic_partition, leader_id)

    def _fetch(self, topic_partition: TopicPartition, leader_id: int) -> None:
        search = self._searches[topic_partition]
        self._send(
            search_request(topic_partition, search.next_offset),
            leader_id,
            partial(self._on_answer, topic_partition, leader_id),
        )

    def _on_answer(self, topic_partition: TopicPartition, leader_id: int, pending: PendingResponse) -> None:
        try:
            fetched = read_fetch(pending.result(0), topic_partition)
        except PenstockError as error:
            if is_retriable(error):
                self._search_again(topic_partition)
            else:
                self._give_up(topic_partition, error.message)
            return
        if fetched is None or fetched.error_code in RETRIABLE or fetched.error_code in LEADER_MOVED:
            self._search_again(topic_partition)
        elif fetched.error_code == OFFSET_OUT_OF_RANGE:
            self._give_up(topic_partition, "the log no longer holds what was acknowledged before")
        elif fetched.error_code:
            self._give_up(topic_partition, f"{describe(fetched.error_code)[0]}; grant READ on the topic")
        else:
            self._on_records(topic_partition, leader_id, fetched)

    def _on_records(self, topic_partition: TopicPartition, leader_id: int, fetched: FetchedPartition) -> None:
        search = self._searches[topic_partition]
        held = batches_of_producer(fetched.records, self._identity)
        search.end_offsets |= held.end_offsets
        if held.next_offset is not None:
            search.next_offset = held.next_offset
            self._fetch(topic_partition, leader_id)
            return
        del self._searches[topic_partition]
        outcome = self._delivery.settle_search(
            topic_partition, search.end_offsets, fetched.high_watermark, self._now_ms()
        )
        if outcome is SearchOutcome.LOST:
            self._fail(failures.lost_by_broker(self._delivery.first_batch(topic_partition)))
        elif outcome is SearchOutcome.NOT_REPLICATED:
            self._search_again(topic_partition)

    def _search_again(self, topic_partition: TopicPartition) -> None:
        self._searches.pop(topic_partition, None)
        self._delivery.postpone_search(topic_partition, self._now_ms())
        self._refresh(topic_partition.topic)

    def _give_up(self, topic_partition: TopicPartition, why: str) -> None:
        self._searches.pop(topic_partition, None)
        self._fail(failures.undecided(self._delivery.first_batch(topic_partition), why))
