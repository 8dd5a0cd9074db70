"""Search a leader's log for batches of which it is unknown whether they were written.

Runs on the executor, on a producer's sender thread under its lock. Invariant: while a topic partition is in
doubt nothing is sent to it, and the doubt ends only when everything that the leader's log held at the
start of the search is replicated and has been read. So a batch that is found cannot be lost, and a batch that
is not found is not in the log.

Why a broker's own recognition of duplicates is not enough (both tried on Kafka 4.3):

- A restarted broker remembers only the last batch of each producer, because its snapshot holds no more. It
  refuses the resend of an earlier batch as out of order, although the log holds its records.
- A broker forgets a producer when the *record timestamps* of its last batch are older than
  `producer.id.expiration.ms` (a day), and then writes a resend a second time. Old records that are written
  with their own timestamps are such a case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from penstock.client.fetch.requests import read_fetch
from penstock.client.net import error_codes as codes
from penstock.client.net.broker_errors import is_retriable, is_retriable_code
from penstock.client.net.connection import PendingResponse
from penstock.client.produce import _failures as failures
from penstock.client.produce.delivery import DeliveryQueue, LeaderOf
from penstock.client.produce.idempotence import ProducerIdentity
from penstock.client.produce.requests import log_end, log_end_request, search_request
from penstock.client.produce.verdicts import describe
from penstock.codec import BatchHeaders
from penstock.errors import CorruptBatchError, PenstockError
from penstock.types import TopicPartition

SendQuestion = Callable[[Any, int, Callable[[PendingResponse], None]], None]
"""Send a request to a broker; the callback runs later, on the sender thread."""


@dataclass
class _Search:
    """The position in one topic partition's log, and the end of the search."""

    leader_id: int
    next_offset: int
    log_end_offset: int = -1
    end_offsets: dict[int, int] = field(default_factory=dict)


class BatchesOfProducer(NamedTuple):
    """The batches of one producer in a piece of a log."""

    end_offsets: dict[int, int]
    """Base sequence of each of its batches -> the offset after the batch."""
    next_offset: int | None
    """The offset after the piece; None when the piece holds no whole batch."""


def batches_of_producer(
    data: bytes | memoryview, topic_partition: TopicPartition, identity: ProducerIdentity
) -> BatchesOfProducer:
    """Return the batches of a producer in the records of a Fetch response.

    A partial last batch and all that follows a damaged header are left out; both are fetched again.
    """
    ours = (identity.producer_id, identity.producer_epoch)
    end_offsets: dict[int, int] = {}
    next_offset = None
    try:
        for header in BatchHeaders(data, *topic_partition):
            next_offset = header.last_offset + 1
            if (header.producer_id, header.producer_epoch) == ours:
                end_offsets[header.base_sequence] = next_offset
    except CorruptBatchError:
        pass  # The batches before it are whole. Without progress the delivery time-out ends the search.
    return BatchesOfProducer(end_offsets, next_offset)


class LogSearches:
    """Searches of leaders' logs for batches of one producer."""

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
        """Begin a search for each topic partition in doubt that has none."""
        for topic_partition, from_offset in self._delivery.doubts(self._now_ms()):
            leader_id = leader_of(topic_partition)
            if leader_id is not None and topic_partition not in self._searches:
                self._searches[topic_partition] = _Search(leader_id, from_offset)
                self._ask(topic_partition, log_end_request(topic_partition), self._on_log_end)

    def _ask(
        self, topic_partition: TopicPartition, request: Any, take: Callable[[TopicPartition, Any], None]
    ) -> None:
        leader_id = self._searches[topic_partition].leader_id
        self._send(request, leader_id, partial(self._on_answer, topic_partition, take))

    def _on_answer(
        self,
        topic_partition: TopicPartition,
        take: Callable[[TopicPartition, Any], None],
        pending: PendingResponse,
    ) -> None:
        try:
            response = pending.result(0)
        except PenstockError as error:
            if is_retriable(error):
                self._search_again(topic_partition)
            else:
                self._give_up(topic_partition, error.message)
        else:
            take(topic_partition, response)

    def _on_log_end(self, topic_partition: TopicPartition, response: Any) -> None:
        error_code, log_end_offset = log_end(response)
        if self._is_good(topic_partition, error_code):
            self._searches[topic_partition].log_end_offset = log_end_offset
            self._read_on(topic_partition)

    def _read_on(self, topic_partition: TopicPartition) -> None:
        """Ask for the next piece of the log, or settle when all of it has been read."""
        search = self._searches[topic_partition]
        if search.next_offset < search.log_end_offset:
            request = search_request(topic_partition, search.next_offset)
            self._ask(topic_partition, request, self._on_records)
            return
        del self._searches[topic_partition]
        if not self._delivery.settle_search(topic_partition, search.end_offsets, self._now_ms()):
            self._fail(failures.lost_by_broker(self._delivery.first_batch(topic_partition)))

    def _on_records(self, topic_partition: TopicPartition, response: Any) -> None:
        fetched = read_fetch(response, topic_partition)
        if fetched is None:
            self._search_again(topic_partition)
            return
        if not self._is_good(topic_partition, fetched.error_code):
            return
        search = self._searches[topic_partition]
        held = batches_of_producer(fetched.records, topic_partition, self._identity)
        search.end_offsets |= held.end_offsets
        if held.next_offset is None:
            self._search_again(topic_partition)  # the rest is not replicated yet
        else:
            search.next_offset = held.next_offset
            self._read_on(topic_partition)

    def _is_good(self, topic_partition: TopicPartition, error_code: int) -> bool:
        """Return whether an answer is valid; if not, search again or give up."""
        if error_code and is_retriable_code(error_code):
            self._search_again(topic_partition)
        elif error_code == codes.OFFSET_OUT_OF_RANGE:
            self._give_up(topic_partition, "the log no longer holds records that were acknowledged before")
        elif error_code:
            self._give_up(topic_partition, f"{describe(error_code)[0]}; grant READ on the topic")
        return error_code == codes.NO_ERROR

    def _search_again(self, topic_partition: TopicPartition) -> None:
        self._searches.pop(topic_partition, None)
        self._delivery.postpone_search(topic_partition, self._now_ms())
        self._refresh(topic_partition.topic)

    def _give_up(self, topic_partition: TopicPartition, why: str) -> None:
        self._searches.pop(topic_partition, None)
        self._fail(failures.undecided(self._delivery.first_batch(topic_partition), why))
