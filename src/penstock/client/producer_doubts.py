"""Batches that a broker calls out of order although it may hold them: the leader is asked what it has.

Runs on the executor, on a producer's sender thread under its lock. Invariant: a batch in doubt is neither
sent again nor counted as written before the leader has told its last sequence number of this producer.

A restarted broker remembers only the last batch of each producer (its snapshot holds no more). When the
answers to several batches were lost with it, it refuses the resend of all but the last as out of order.
Java's client gives up there; DescribeProducers tells the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.client import producer_failures as failures
from penstock.client.broker_errors import is_retriable
from penstock.client.connection import PendingResponse
from penstock.client.idempotence import ProducerIdentity
from penstock.client.producer_delivery import DeliveryQueue, LeaderOf
from penstock.client.producer_requests import describe_producers_request, last_sequence
from penstock.client.producer_verdicts import (
    LEADER_MOVED,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    RETRIABLE,
    describe,
)
from penstock.errors import PenstockError
from penstock.types import TopicPartition

SendQuestion = Callable[[Any, int, Callable[[PendingResponse], None]], None]
"""Send a request to a broker; the callback runs later, on the sender thread."""


class Doubts:
    """Questions to leaders about what they hold of a producer.

    Args:
        delivery: the batches.
        identity: of the producer.
        now_ms: the clock.
        send: sends a question.
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
        self._asked: set[TopicPartition] = set()

    def ask(self, now_ms: int, leader_of: LeaderOf) -> None:
        """Ask the leaders of all topic partitions in doubt that have not been asked."""
        for topic_partition in self._delivery.doubts(now_ms):
            leader_id = leader_of(topic_partition)
            if leader_id is None or topic_partition in self._asked:
                continue
            self._asked.add(topic_partition)
            self._send(
                describe_producers_request(topic_partition),
                leader_id,
                partial(self._on_answer, topic_partition),
            )

    def _on_answer(self, topic_partition: TopicPartition, pending: PendingResponse) -> None:
        self._asked.discard(topic_partition)
        identity = self._identity
        try:
            error_code, sequence = last_sequence(
                pending.result(0), identity.producer_id, identity.producer_epoch
            )
        except PenstockError as error:
            if is_retriable(error):
                self._ask_again(topic_partition)
            else:
                self._give_up(topic_partition, f"and what it holds cannot be asked: {error.message}")
            return
        if error_code in RETRIABLE or error_code in LEADER_MOVED:
            self._ask_again(topic_partition)
        elif error_code:
            name, _ = describe(error_code)
            self._give_up(topic_partition, f"and what it holds cannot be asked: {name}; grant READ")
        elif not self._delivery.settle_doubt(topic_partition, sequence, self._now_ms()):
            batch = self._delivery.first_batch(topic_partition)
            self._fail(failures.refused_after_doubt(batch, sequence))

    def _ask_again(self, topic_partition: TopicPartition) -> None:
        self._delivery.postpone_doubt(topic_partition, self._now_ms())
        self._refresh(topic_partition.topic)

    def _give_up(self, topic_partition: TopicPartition, words: str) -> None:
        batch = self._delivery.first_batch(topic_partition)
        self._fail(failures.refused(batch, OUT_OF_ORDER_SEQUENCE_NUMBER, words))
