"""Write the rows of a task as acknowledged record batches: the produce loop.

Runs on the executor. Two threads share a producer: the writing thread fills batches (`append`); the
producer's sender thread sends them, reads the answers and sends again if needed. So the next rows are encoded
while earlier rows are acknowledged, and a slow query and a slow broker do not stop each other.

Guarantee: after `flush()` Kafka holds every appended record, once (with an identity), in order within each
topic partition; otherwise `flush()` raises. Each batch is acknowledged within
`delivery_timeout_ms` or fails the producer. A failed producer stays failed; make a new one. Only with
`logs_failures` a batch that Kafka does not take is logged as lost, and the producer continues.

    append -> FillingBatches -> DeliveryQueue.plan -> Produce -> answer -> acknowledged
                                      ^------------ again ----------'
"""

from __future__ import annotations

import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa

from penstock.client.cluster.metadata import TopicMetadata
from penstock.client.net.broker_errors import is_retriable
from penstock.client.net.connection import PendingResponse
from penstock.client.produce import _failures as failures
from penstock.client.produce._filling import FillingBatches
from penstock.client.produce._log_search import LogSearches
from penstock.client.produce._topics import ProducerTopics, TopicSource
from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.delivery import DeliveryLimits, DeliveryQueue, PlannedRequest
from penstock.client.produce.figures import ProduceFigures
from penstock.client.produce.idempotence import ANONYMOUS, ProducerIdentity, SequenceNumbers
from penstock.client.produce.requests import is_by_name, produce_answers, produce_request
from penstock.client.produce.spans import NOTHING_WRITTEN, WrittenSpan
from penstock.client.produce.verdicts import Verdict
from penstock.client.settings import ProduceSettings
from penstock.codec import RecordColumns
from penstock.errors import PenstockError, ProduceError
from penstock.types import TopicPartition

_log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_SECONDS = 5.0
_BUSY_WRITER_RETRY_MS = 20
"""The sender's pause when the writer uses the open batches; the writer's `offer` usually wakes it earlier."""


class Connections(Protocol):
    """The methods of `KafkaConnections` that a producer needs."""

    def send(self, request: Any, node_id: int, timeout_ms: int | None = None) -> PendingResponse:
        """Send without blocking."""


class Producer:
    """Writes record batches to one cluster under one identity.

    Not for several writing threads. Not usable in a forked child.

    Args:
        connections: to the cluster; not closed by the producer.
        topics: where topics are asked for, e.g. the `ClusterView` of the connections.
        settings: how to send.
        identity: who writes; ANONYMOUS writes without idempotence, one with a transactional id in a
            transaction, which the caller ends.
        register: called on the writing thread with each topic partition before its first rows.
    """

    def __init__(
        self,
        connections: Connections,
        topics: TopicSource,
        settings: ProduceSettings,
        identity: ProducerIdentity = ANONYMOUS,
        register: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        self.identity = identity
        self.first_written: tuple[TopicPartition, int] | None = None
        """The topic partition and offset of one acknowledged record."""
        self.spans: dict[TopicPartition, WrittenSpan] = {}
        """Where the acknowledged records are."""
        self.writes_by_name = False
        """Whether a broker took records by the topic's name: then it may have been a recreated topic."""
        self._register = register
        self._registered: set[TopicPartition] = set()
        self._connections = connections
        self._settings = settings
        self._topics = ProducerTopics(topics)
        self._filling_lock = threading.Lock()
        self._filling = FillingBatches(
            settings,
            SequenceNumbers(identity),
            self._hand_on,
            _now_ms,
            is_transactional=identity.transactional_id is not None,
        )
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._delivery = DeliveryQueue(_limits(settings, identity))
        self._searches = LogSearches(
            self._delivery,
            identity,
            now_ms=_now_ms,
            send=self._send_request,
            refresh=self._want_metadata,
            fail=self._fail,
        )
        self._failure: PenstockError | None = None
        self._events: queue.Queue[Callable[[], None]] = queue.Queue()
        self._sleeps_until_ms: float = math.inf
        """When the sender wakes up by itself. An earlier due time has to wake it."""
        self._wants_metadata: set[str] = set()
        self._is_asking_metadata = False
        self._metadata_retry_at_ms = 0
        self._is_closing = False
        self._request_count = 0
        self._request_ms = 0
        self._pid = os.getpid()
        self._sender = threading.Thread(target=self._run, name="penstock-producer", daemon=True)
        self._sender.start()

    # ----- on the writing thread

    @property
    def is_usable(self) -> bool:
        """Return whether rows may be appended: not failed, not closed, not in a forked child."""
        return self._failure is None and not self._is_closing and self._pid == os.getpid()

    @property
    def acknowledged_record_count(self) -> int:
        return self._delivery.acknowledged_record_count

    @property
    def given_up_record_count(self) -> int:
        """Return the number of records lost since the producer was made; 0 unless the user accepts it."""
        return self._delivery.given_up_record_count

    @property
    def acknowledged_bytes(self) -> int:
        """Return the bytes of the acknowledged batches, compressed."""
        return self._delivery.acknowledged_bytes

    @property
    def figures(self) -> ProduceFigures:
        """Return the totals since the producer was made."""
        return ProduceFigures(
            self._delivery.acknowledged_record_count,
            self._delivery.acknowledged_bytes,
            self._filling.closed_plain_bytes,
            self._request_count,
            self._request_ms,
            self._delivery.resend_count,
        )

    @property
    def written_topics(self) -> dict[str, UUID | None]:
        """Return the topics of the appended rows, each with its id if that is known."""
        topic_ids = self._topics.topic_ids
        return {topic: topic_ids.get(topic) for topic, _ in self._registered}

    @property
    def held_bytes(self) -> int:
        """Return the bytes of all batches in memory: open, waiting, and under way."""
        return self._delivery.unacknowledged_bytes + self._filling.size_bytes

    def topic(self, topic: str) -> TopicMetadata:
        """Return a topic with its present topic partitions.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic; raised within seconds.
            AuthorizationError: it may not be described.
        """
        return self._topics.learn(topic, self._settings.max_block_ms)

    def refresh_topic(self, topic: str) -> TopicMetadata:
        """Return a topic as the cluster describes it now, e.g. with partitions that were just added."""
        return self._topics.reload(topic, self._settings.max_block_ms)

    def has_open_batch(self, topic_partition: TopicPartition) -> bool:
        return self._filling.is_open(topic_partition)

    def append(
        self,
        topic_partition: TopicPartition,
        columns: RecordColumns,
        rows: pa.Int32Array,
        first: int = 0,
        *,
        default_timestamp_ms: int,
    ) -> int:
        """Append `rows[first:]` to the open batch until it is full; a full batch is sent.

        The topic must be known (`topic()`), and must have the partition.

        Args:
            topic_partition: where the rows go.
            columns: keys, values, headers and timestamps of the rows.
            rows: which rows.
            first: the first of them to append.
            default_timestamp_ms: for rows whose timestamp is null.

        Returns:
            The index of the first row that was not appended, `len(rows)` when all were.

        Raises:
            ProduceError: an earlier batch failed, or there was no room within `max_block_ms`.
            RecordTooLargeError: a record fits in no request.
        """
        if self._register is not None and topic_partition not in self._registered:
            self._register(topic_partition)
            self._registered.add(topic_partition)
        self._wait_for_room()
        with self._filling_lock:
            return self._filling.append(topic_partition, columns, rows, first, default_timestamp_ms)

    def offer(self) -> None:
        """Tell the sender about open batches, which it sends after `linger.ms`; call this after `append`."""
        self._check_usable()
        with self._filling_lock:
            open_batches = self._filling.due_ms()
        # Do not wake a sender that wakes up in time anyway: it would only compete with this thread.
        if min((due_ms for _, due_ms in open_batches), default=math.inf) >= self._sleeps_until_ms:
            return
        with self._lock:  # not inside `_filling_lock`: the sender tries to get that one while it has this one
            due_ms = min((due_ms for _, due_ms in self._sendable(open_batches, _now_ms())), default=math.inf)
        if due_ms < self._sleeps_until_ms:
            self._wake()

    def flush(self) -> None:
        """Send everything and wait until all of it is acknowledged.

        Raises:
            ProduceError: a batch was refused, or not acknowledged within `delivery_timeout_ms`.
        """
        self._check_usable()
        self._close_all()
        with self._changed:
            while not self._delivery.is_empty:
                self._changed.wait(1.0)
                self._check_usable()
        self._check_usable()

    def send_all(self) -> None:
        """Send everything, and do not wait for acknowledgements. A later failure is logged."""
        self._check_usable()
        self._close_all()

    def close(self) -> None:
        """End the sender thread and drop unflushed records. Calling it again does nothing."""
        if self._is_closing or self._pid != os.getpid():
            return
        self._is_closing = True
        self._wake()
        if self._sender is not threading.current_thread():
            self._sender.join(_CLOSE_TIMEOUT_SECONDS)

    def _close_all(self) -> None:
        with self._filling_lock:
            self._filling.close_all()

    def _hand_on(self, batch: Any) -> None:
        with self._lock:
            self._delivery.add(batch)
        self._wake()

    def _wake(self) -> None:
        self._events.put(_nothing)

    def _check_usable(self) -> None:
        if self._failure is not None:
            # A copy each time, because a raised exception carries a traceback.
            raise type(self._failure)(self._failure.message, **self._failure.facts)
        if self._is_closing or self._pid != os.getpid() or not self._sender.is_alive():
            raise ProduceError(
                "The producer is closed, or was opened in another process. Open a new producer."
            )

    def _wait_for_room(self) -> None:
        """Wait while too many bytes are held, so that a slow broker does not fill the task's memory."""
        self._check_usable()
        limit_bytes = self._settings.buffer_memory_bytes
        if self.held_bytes < limit_bytes:
            return
        if self._filling.size_bytes > limit_bytes // 2:
            self._close_all()  # many topic partitions with a little each
        deadline_ms = _now_ms() + self._settings.max_block_ms
        with self._changed:
            while self.held_bytes >= limit_bytes and self._delivery.unacknowledged_bytes:
                left_ms = deadline_ms - _now_ms()
                if left_ms <= 0:
                    raise failures.buffer_full(self.held_bytes, limit_bytes, self._settings.max_block_ms)
                self._changed.wait(min(left_ms, 1000) / 1000)
                self._check_usable()

    # ----- on the sender thread

    def _run(self) -> None:
        try:
            while not self._is_closing and self._failure is None:
                self._hear(self._next_wakeup_seconds())
                self._send_lingered()
                with self._changed:
                    self._step(_now_ms())
                    self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  # any error must reach the waiting writer
            _log.exception("the producer's sender thread failed")
            self._fail(failures.crashed(error))
        with self._changed:
            self._changed.notify_all()

    def _hear(self, timeout_seconds: float | None) -> None:
        """Wait for the next event, then handle all events that have arrived."""
        try:
            event = self._events.get(timeout=timeout_seconds)
            while True:
                with self._lock:
                    event()
                event = self._events.get_nowait()
        except queue.Empty:
            pass

    def _next_wakeup_seconds(self) -> float | None:
        """Return the time until the next due time; None: there is none."""
        # First, so that an `offer` after this line is seen below, or sees the result, or wakes the sender.
        self._sleeps_until_ms = math.inf
        now_ms = _now_ms()
        with self._lock:
            due_ms = [self._delivery.next_wakeup_ms(), self._next_lingered_ms(now_ms)]
            if self._wants_metadata and not self._is_asking_metadata:
                due_ms.append(self._metadata_retry_at_ms)
        earliest_ms = min((at_ms for at_ms in due_ms if at_ms is not None), default=None)
        if earliest_ms is None:
            return None
        self._sleeps_until_ms = earliest_ms
        return max(0, earliest_ms - now_ms) / 1000

    def _next_lingered_ms(self, now_ms: int) -> int | None:
        """Return when an open batch has to be sent."""
        if not self._filling_lock.acquire(blocking=False):
            return now_ms + _BUSY_WRITER_RETRY_MS
        try:
            return min((due_ms for _, due_ms in self._sendable(self._filling.due_ms(), now_ms)), default=None)
        finally:
            self._filling_lock.release()

    def _send_lingered(self) -> None:
        """Close batches after their linger time, unless the writer uses them right now."""
        if not self._filling_lock.acquire(blocking=False):
            return
        try:
            now_ms, leader_of = _now_ms(), self._topics.leader_of
            lingering = list(self._sendable(self._filling.due_ms(), now_ms))
            leaders = {
                leader_of(topic_partition) for topic_partition, due_ms in lingering if due_ms <= now_ms
            }
            # Batches that waited half as long go too, so that batches begun together share a request.
            ahead_ms = now_ms + self._settings.linger_ms // 2
            for topic_partition, due_ms in lingering:
                if due_ms <= ahead_ms and leader_of(topic_partition) in leaders:
                    self._filling.close(topic_partition)
        finally:
            self._filling_lock.release()

    def _sendable(
        self, open_batches: list[tuple[TopicPartition, int]], now_ms: int
    ) -> Iterator[tuple[TopicPartition, int]]:
        """Yield the batches that would be sent if they were closed now, each with the time when it is due.

        The other batches gather rows until an answer or the end of a pause; the sender wakes up for both.
        Call it with `_lock`, or on the sender thread with `_filling_lock`, so that the queues do not change.
        """
        for topic_partition, due_ms in open_batches:
            if self._delivery.would_send(topic_partition, now_ms, self._topics.leader_of(topic_partition)):
                yield topic_partition, due_ms

    def _step(self, now_ms: int) -> None:
        """Send the batches that may be sent now."""
        if self._failure is not None:
            return
        while (batch := self._delivery.expired(now_ms)) is not None:
            option = f"{self._settings.property_prefix}delivery.timeout.ms"
            if not self._lose(batch, failures.expired(batch, option, self._settings.delivery_timeout_ms)):
                return
        for request in self._delivery.plan(now_ms, self._topics.leader_of):
            self._send(request)
        self._searches.start(self._topics.leader_of)
        self._ask_metadata(now_ms)

    def _send(self, request: PlannedRequest) -> None:
        produce = produce_request(
            request.batches.values(),
            self._topics.topic_ids,
            acks=self._settings.acks,
            timeout_ms=self._settings.request_timeout_ms,
            identity=self.identity,
        )
        self._send_request(produce, request.node_id, partial(self._on_answered, request))

    def _send_request(self, request: Any, node_id: int, on_answer: Callable[[PendingResponse], None]) -> None:
        """Send a request; `on_answer` runs on the sender thread, with the response or error."""
        pending = self._connections.send(request, node_id, self._settings.request_timeout_ms)
        pending.add_done_callback(lambda answered: self._events.put(partial(on_answer, answered)))

    def _on_answered(self, request: PlannedRequest, pending: PendingResponse) -> None:
        now_ms = _now_ms()
        self._delivery.request_done(request)
        try:
            response = pending.result(0)
        except PenstockError as error:
            self._on_unanswered(request, error, now_ms)
            return
        self._request_count += 1
        self._request_ms += now_ms - request.planned_at_ms
        self.writes_by_name |= is_by_name(response)
        for batch, answer in produce_answers(response, request.batches, self._topics.topic_ids):
            if batch.is_given_up:
                continue
            verdict = self._delivery.answer(batch, answer, now_ms)
            if verdict is Verdict.FAILED:
                self._lose(batch, failures.refused(batch, answer.error_code, answer.words))
            elif verdict is Verdict.RETRY_ELSEWHERE:
                self._want_metadata(batch.topic_partition.topic)
            elif verdict is Verdict.ACKNOWLEDGED:
                if self.first_written is None and answer.base_offset >= 0:
                    self.first_written = batch.topic_partition, answer.base_offset
                span = self.spans.get(batch.topic_partition, NOTHING_WRITTEN)
                self.spans[batch.topic_partition] = span.with_batch(answer.base_offset, batch.record_count)

    def _on_unanswered(self, request: PlannedRequest, error: PenstockError, now_ms: int) -> None:
        """Take back the batches of an unanswered request; the broker may have written them."""
        batches = [batch for batch in request.batches.values() if not batch.is_given_up]
        if not is_retriable(error):
            for batch in batches:
                self._lose(batch, failures.broken(batch, error))
            return
        for batch in batches:
            self._delivery.no_answer(batch, now_ms, error.message)
            self._want_metadata(batch.topic_partition.topic)

    def _want_metadata(self, topic: str) -> None:
        self._wants_metadata.add(topic)

    def _ask_metadata(self, now_ms: int) -> None:
        self._wants_metadata |= self._delivery.leaderless(self._topics.leader_of)
        if not self._wants_metadata or self._is_asking_metadata or now_ms < self._metadata_retry_at_ms:
            return
        self._is_asking_metadata = True
        topics, self._wants_metadata = self._wants_metadata, set()
        self._topics.ask(topics, lambda error: self._events.put(partial(self._on_metadata, error)))

    def _on_metadata(self, error: PenstockError | None) -> None:
        self._is_asking_metadata = False
        self._metadata_retry_at_ms = _now_ms() + self._settings.retry_backoff_ms
        if error is not None:
            self._fail(error)

    def _lose(self, batch: ProducerBatch, error: PenstockError) -> bool:
        """Log the loss of a batch that Kafka did not take, and return True; fail if this is not allowed."""
        if not self._settings.logs_failures:
            self._fail(error)
            return False
        self._delivery.give_up(batch)
        _log.error(
            "%d records for %s are LOST, because 'sink.on-delivery-failure' = 'log': %s",
            batch.record_count,
            batch.topic_partition,
            failures.without_retry(error),
        )
        return True

    def _fail(self, error: PenstockError) -> None:
        if self._failure is not None:
            return
        self._failure = error
        if not self._settings.is_flushed:
            _log.error(
                "Unacknowledged records (%d bytes) may be LOST, because 'sink.flush-on-checkpoint' = "
                "'false': %s",
                self.held_bytes,
                error.message,
            )


def _limits(settings: ProduceSettings, identity: ProducerIdentity) -> DeliveryLimits:
    return DeliveryLimits(
        max_in_flight=settings.max_in_flight,
        max_request_size_bytes=settings.max_request_size_bytes,
        delivery_timeout_ms=settings.delivery_timeout_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
        is_idempotent=identity.is_idempotent,
    )


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _nothing() -> None:
    """Do nothing: the event that only wakes the sender."""
