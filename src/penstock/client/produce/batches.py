"""Unacknowledged batches of one topic partition: which batch may be sent next, which must be sent again.

Runs on the executor. Pure: no I/O, no clock of its own. Invariant: a topic partition's batches reach the log
in the order of their sequence numbers even if requests or answers are lost, and a resend carries the same
bytes. The rules:

1. While a batch has to be sent again, nothing is sent until everything under way has been answered;
   then all of them go again, from the first. So a resend never overtakes its predecessor.
2. At most `max_in_flight` batches, counted from the first unacknowledged one, are on their way. The
   broker recognises a duplicate among a producer's last five batches only.
3. While the broker may not know this producer, batches are sent one by one. Such a broker accepts *any*
   sequence number, so that it could write batch 2 before a batch 1 that it refused. This holds before the
   first acknowledgement, after a long pause, and after batches with old timestamps (`is_forgettable`).
4. Batches go to one broker at a time: after a leader change the old leader's answers are awaited first.
5. A batch is *in doubt* when the broker cannot be relied on to recognise its resend. Then the log is
   searched (`producer_search`) and only what it lacks is sent again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.net.backoff import doubled
from penstock.types import TopicPartition

FORGOTTEN_AFTER_MS = 600_000
"""After this time without a write rule 3 starts over, because the broker may have forgotten this producer."""

REFUSALS_MAX = 3
"""A leader change can cause a refused batch that the log does not hold, once or twice. More is an error."""


@dataclass(eq=False, slots=True)
class ProducerBatch:
    """One closed record batch. `data` never changes, so that a resend is the same batch to the broker."""

    topic_partition: TopicPartition
    data: bytes | memoryview
    record_count: int
    base_sequence: int
    closed_at_ms: int
    ordinal: int = 0
    send_count: int = 0
    node_id: int | None = None
    last_problem: str = ""
    """The reason of the last resend, for the error after a delivery that took too long."""
    is_given_up: bool = False
    """Whether it is lost, and the loss is logged. A later answer no longer matters."""
    is_forgettable: bool = False
    """Whether its timestamps are so old that a restarted broker forgets the batch and its producer."""

    @property
    def is_under_way(self) -> bool:
        return self.node_id is not None

    @property
    def is_resend(self) -> bool:
        """Return whether the broker may have seen this batch before its latest sending."""
        return self.send_count > 1


class TopicPartitionQueue:
    """The unacknowledged batches of one topic partition, oldest first.

    Args:
        max_in_flight: how many batches may await an answer (rule 2).
        is_idempotent: False turns rule 3 off, which is needed with sequence numbers only.
    """

    def __init__(self, max_in_flight: int, *, is_idempotent: bool) -> None:
        self.batches: deque[ProducerBatch] = deque()
        self.under_way_count = 0
        self.is_in_doubt = False
        self.search_from_offset: int | None = None
        """The offset after the last batch that was acknowledged in order."""
        self.retry_at_ms = 0
        self._max_in_flight = max_in_flight
        self._is_idempotent = is_idempotent
        self._is_known_to_broker = not is_idempotent
        self._is_resending = False
        self._refusal_count = 0
        self._failure_count = 0
        self._batch_count = 0
        self._acknowledged_at_ms = 0

    def add(self, batch: ProducerBatch) -> None:
        """Append a closed batch; its sequence number must follow the one added before."""
        if (
            self._is_idempotent
            and not self.batches
            and batch.closed_at_ms - self._acknowledged_at_ms > FORGOTTEN_AFTER_MS
        ):
            self._is_known_to_broker = False
        batch.ordinal = self._batch_count
        self._batch_count += 1
        self.batches.append(batch)

    def is_first(self, batch: ProducerBatch) -> bool:
        """Return whether every batch before this one has been acknowledged."""
        return bool(self.batches) and self.batches[0] is batch

    def next_to_send(self, now_ms: int, leader_id: int) -> ProducerBatch | None:
        """Return the batch that may be sent to the leader now, or None."""
        if not self._may_send(now_ms, leader_id):
            return None
        batch = next((batch for batch in self.batches if not batch.is_under_way), None)
        return batch if batch is not None and self._is_in_window(batch.ordinal) else None

    def would_send(self, now_ms: int, leader_id: int) -> bool:
        """Return whether a batch that is added now might be sent at once."""
        is_all_under_way = self.under_way_count == len(self.batches)
        return (
            is_all_under_way and self._is_in_window(self._batch_count) and self._may_send(now_ms, leader_id)
        )

    def _may_send(self, now_ms: int, leader_id: int) -> bool:
        return not (self.is_in_doubt or now_ms < self.retry_at_ms or self._must_wait_for_answers(leader_id))

    def _is_in_window(self, ordinal: int) -> bool:
        return not self.batches or ordinal < self.batches[0].ordinal + self._max_in_flight

    def _must_wait_for_answers(self, leader_id: int) -> bool:
        if not self.under_way_count:
            return False
        if self._is_resending or not self._is_known_to_broker:
            return True
        return any(
            batch.is_under_way and (batch.node_id != leader_id or batch.is_forgettable)
            for batch in self.batches
        )

    def mark_sent(self, batch: ProducerBatch, node_id: int) -> None:
        """Note that the batch was sent to a broker."""
        batch.node_id = node_id
        batch.send_count += 1
        self.under_way_count += 1
        self._is_resending = False

    def acknowledge(self, batch: ProducerBatch, end_offset: int | None, now_ms: int) -> None:
        """Take out a batch that the broker has written; it ends before `end_offset`, if that is known."""
        if batch.is_under_way:
            self._came_back(batch)
        if end_offset is not None and self.is_first(batch):
            self.search_from_offset = end_offset
        self.batches.remove(batch)
        self._is_known_to_broker = not (self._is_idempotent and batch.is_forgettable)
        self._acknowledged_at_ms = now_ms
        self._failure_count = self._refusal_count = 0

    def give_up(self, batch: ProducerBatch) -> None:
        """Take out a batch that is lost. Not with idempotence, because of its sequence number."""
        if batch.is_under_way:
            self._came_back(batch)
        batch.is_given_up = True
        self.batches.remove(batch)

    def take_back(self, batch: ProducerBatch) -> bool:
        """Keep an unanswered or rejected batch for a resend; return whether it is the first to come back.

        Only the first batch of a group that fails together sets the pause before the next attempt. The others
        fail as a consequence and must not make the pause longer.
        """
        self._came_back(batch)
        is_first_to_fail = not self._is_resending
        self._is_resending = True
        return is_first_to_fail

    def pause_until(self, now_ms: int, backoff_ms: int, backoff_max_ms: int, jitter: float) -> None:
        """Set the pause before the next attempt, doubled after each failure without a success between."""
        pause_ms = doubled(backoff_ms, self._failure_count, backoff_max_ms)
        self._failure_count += 1
        self.retry_at_ms = now_ms + int(pause_ms * jitter)

    def _came_back(self, batch: ProducerBatch) -> None:
        batch.node_id = None
        self.under_way_count -= 1

    def doubt(self, *, is_refused: bool) -> None:
        """Send nothing more before the log has been searched.

        Args:
            is_refused: True: the broker called the first batch out of order, so it should be in the log.
                False: it is unknown whether the batch is in the log.
        """
        self.is_in_doubt = True
        self._refusal_count += is_refused

    def settle_search(self, end_offsets: Mapping[int, int], now_ms: int) -> list[ProducerBatch] | None:
        """End the doubt with the search's result, all of which is replicated.

        Args:
            end_offsets: base sequence of each batch of this producer -> the offset after it.
            now_ms: the time.

        Returns:
            The batches that the log holds, now acknowledged; the others are sent again. None if records are
            lost or out of order: the log holds a later batch without its predecessor, or the broker refuses
            a batch again and again that the log does not hold.
        """
        waiting = list(self.batches)
        written = [batch for batch in waiting if batch.base_sequence in end_offsets]
        is_refused_for_nothing = not written and self._refusal_count >= REFUSALS_MAX
        if is_refused_for_nothing or written != waiting[: len(written)]:
            return None
        for batch in written:
            self.acknowledge(batch, end_offsets[batch.base_sequence], now_ms)
        self.is_in_doubt = False
        self._is_known_to_broker = False
        return written
