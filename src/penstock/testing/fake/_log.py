"""The log of one topic partition: record batches as bytes, its offsets, its producers, its transactions.

Runs in tests only, under the cluster's lock. The rules are those of Kafka 4's `UnifiedLog` and
`ProducerStateManager`; tests/kfake holds both to the same scenarios.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.net import error_codes as codes
from penstock.codec import RecordBatchDecoder
from penstock.testing.fake.batches import Batch, marker, sequence_after

_REMEMBERED_BATCHES = 5
_NONE = -1


class AppendResult(NamedTuple):
    """The outcome of an append: an error code, or the offset of the first record."""

    code: int
    base_offset: int = _NONE
    append_time_ms: int = _NONE


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a log: its first record, and its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int


class Piece(NamedTuple):
    """Whole batches of a log, and the offset after them."""

    data: bytes | bytearray
    next_offset: int


@dataclass
class Producer:
    """A leader's memory of one producer."""

    epoch: int
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_BATCHES))
    last_timestamp_ms: int = _NONE
    coordinator_epoch: int = _NONE
    transaction_start: int | None = None

    @property
    def last_sequence(self) -> int:
        """Return the sequence number of its last record; -1 if it has none in this epoch."""
        return self.batches[-1].last_sequence if self.batches else _NONE

    def is_in_transaction(self, epoch: int) -> bool:
        """Return whether a transaction of this epoch has records in the log, and no marker yet."""
        return self.transaction_start is not None and self.epoch == epoch

    def begin_epoch(self, epoch: int) -> None:
        """Take over an epoch. The batches of an older one are forgotten."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


@dataclass
class PartitionLog:
    """A log. Offsets from `start_offset` on may be read, those below `high_watermark` by consumers."""

    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    held_high_watermark: int | None = None
    """Set: what is written from now on is not replicated, and no consumer sees it."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """Each leader epoch that has written, and its first offset."""
    producers: dict[int, Producer] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)

    # ----- offsets

    @property
    def high_watermark(self) -> int:
        """Return the offset before which everything is replicated."""
        return self.end_offset if self.held_high_watermark is None else self.held_high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Return the offset before which every transaction is ended and its markers are replicated."""
        starts = [
            each.transaction_start for each in self.producers.values() if each.transaction_start is not None
        ]
        return min([*starts, self.high_watermark])

    def readable_end(self, *, read_committed: bool) -> int:
        """Return the offset before which a consumer of this isolation level may read."""
        return self.last_stable_offset if read_committed else self.high_watermark

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all batches."""
        return sum(len(batch.data) for batch in self.batches)

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch of an offset; -1 if the log has none."""
        return max((epoch for epoch, start in self.epochs if start <= offset), default=_NONE)

    def end_of_epoch(self, wanted: int, current: int) -> tuple[int, int]:
        """Return the newest epoch that is not newer than the wanted one, and its end; (-1, -1) if unknown."""
        if wanted == current:
            return current, self.end_offset
        older = [epoch for epoch, _ in self.epochs if epoch <= wanted]
        later = [start for epoch, start in self.epochs if epoch > wanted]
        if wanted > current or not later:
            return (_NONE, _NONE)
        # Kafka answers with the wanted epoch and the log's start if its first entry is already newer.
        return (max(older), later[0]) if older else (wanted, self.start_offset)

    # ----- reading

    def read(self, offset: int, end: int, max_bytes: int, *, takes_first: bool) -> Piece:
        """Return whole batches from the one that holds the offset on.

        Args:
            offset: the first one that is wanted.
            end: batches from here on are left out.
            max_bytes: how much at most; only whole batches are returned.
            takes_first: return the first batch even if it is larger (KIP-74).
        """
        found: list[Batch] = []
        size = 0
        for batch in self._from(offset):
            is_too_large = size + len(batch.data) > max_bytes and not (takes_first and not found)
            if batch.base_offset >= end or is_too_large:
                break
            found.append(batch)
            size += len(batch.data)
        data = b"".join(batch.data for batch in found)
        return Piece(data, found[-1].last_offset + 1 if found else offset)

    def _from(self, offset: int) -> list[Batch]:
        return self.batches[bisect_left(self.batches, offset, key=lambda batch: batch.last_offset) :]

    def aborted_between(self, offset: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions of which a part is in these offsets."""
        return [each for each in self.aborted if each.first_offset < end and each.marker_offset >= offset]

    def first_at_or_after(self, timestamp_ms: int, end: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record that is not older; None if there is none."""
        for batch in self.batches:
            if batch.base_offset < end and batch.max_timestamp_ms >= timestamp_ms and not batch.is_control:
                for offset, at_ms in _times(batch):
                    if at_ms >= timestamp_ms and self.start_offset <= offset < end:
                        return at_ms, offset
        return None

    def newest(self, end: int) -> tuple[int, int] | None:
        """Return timestamp and offset of the first record with the highest timestamp, if any."""
        times = [batch.max_timestamp_ms for batch in self.batches if batch.base_offset < end]
        return self.first_at_or_after(max(times), end) if times else None

    # ----- writing

    def append(self, batch: Batch, *, leader_epoch: int, append_time_ms: int | None = None) -> AppendResult:
        """Write a batch of a client, unless its producer may not write it now."""
        if batch.producer_id != _NONE:
            if (earlier := self._duplicate_of(batch)) is not None:
                return AppendResult(codes.NO_ERROR, earlier.base_offset)
            if code := self._refusal(batch):
                return AppendResult(code)
        appended = batch.at(self.end_offset, leader_epoch, append_time_ms)
        self._take(appended)
        if appended.producer_id != _NONE:
            producer = self.producers.setdefault(appended.producer_id, Producer(appended.producer_epoch))
            producer.begin_epoch(appended.producer_epoch)
            producer.batches.append(appended)
            producer.last_timestamp_ms = appended.max_timestamp_ms
            if appended.is_transactional and producer.transaction_start is None:
                producer.transaction_start = appended.base_offset
        stamp = _NONE if append_time_ms is None else append_time_ms
        return AppendResult(codes.NO_ERROR, appended.base_offset, stamp)

    def _take(self, appended: Batch) -> None:
        if appended.leader_epoch > (self.epochs[-1][0] if self.epochs else _NONE):
            self.epochs.append((appended.leader_epoch, appended.base_offset))
        self.batches.append(appended)
        self.end_offset = appended.last_offset + 1

    def _duplicate_of(self, batch: Batch) -> Batch | None:
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        wanted = (batch.base_sequence, batch.last_sequence)
        return next((it for it in producer.batches if (it.base_sequence, it.last_sequence) == wanted), None)

    def _refusal(self, batch: Batch) -> int:
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            return codes.NO_ERROR
        if batch.producer_epoch < producer.epoch:
            return codes.INVALID_PRODUCER_EPOCH
        if producer.transaction_start is not None and not batch.is_transactional:
            return codes.INVALID_TXN_STATE
        if batch.producer_epoch > producer.epoch:
            return codes.OUT_OF_ORDER_SEQUENCE_NUMBER if batch.base_sequence != 0 else codes.NO_ERROR
        expected = sequence_after(producer.last_sequence, 1)
        return codes.NO_ERROR if batch.base_sequence == expected else codes.OUT_OF_ORDER_SEQUENCE_NUMBER

    def end_transaction(
        self, producer_id: int, producer_epoch: int, *, is_commit: bool, leader_epoch: int, now_ms: int
    ) -> None:
        """Write the marker that ends a producer's transaction."""
        plain = marker(producer_id, producer_epoch, is_commit=is_commit, now_ms=now_ms, coordinator_epoch=0)
        appended = plain.at(self.end_offset, leader_epoch)
        self._take(appended)
        producer = self.producers.setdefault(producer_id, Producer(producer_epoch))
        producer.begin_epoch(producer_epoch)
        producer.coordinator_epoch = 0
        producer.last_timestamp_ms = now_ms
        if producer.transaction_start is not None and not is_commit:
            self.aborted.append(
                AbortedTransaction(producer_id, producer.transaction_start, appended.base_offset)
            )
        producer.transaction_start = None

    # ----- what a test or an administrator does

    def forget_producers(self, older_than_ms: int) -> None:
        """Forget producers whose last record is older, as `producer.id.expiration.ms` does."""
        for producer_id, producer in list(self.producers.items()):
            if producer.transaction_start is None and producer.last_timestamp_ms < older_than_ms:
                del self.producers[producer_id]

    def restart(self, oldest_ms: int) -> None:
        """Restart the leader: of each producer it knows only the last batch, as its snapshot does.

        Args:
            oldest_ms: producers whose last record is older are forgotten.
        """
        self.forget_producers(oldest_ms)
        for producer in self.producers.values():
            while len(producer.batches) > 1:
                producer.batches.popleft()

    def leave_gap(self, count: int) -> None:
        """Skip offsets, as compaction leaves them."""
        self.end_offset += count

    def delete_before(self, offset: int) -> None:
        """Delete the records below an offset, as retention does."""
        self.start_offset = max(self.start_offset, offset)
        self.batches = [batch for batch in self.batches if batch.last_offset >= self.start_offset]
        self.aborted = [each for each in self.aborted if each.marker_offset >= self.start_offset]

    def truncate(self, offset: int) -> None:
        """Lose the records from an offset on, as an unclean election does."""
        kept = [batch for batch in self.batches if batch.last_offset < offset]
        self.batches, self.end_offset, self.held_high_watermark = [], self.start_offset, None
        self.epochs.clear()
        self.producers.clear()
        aborted, self.aborted = self.aborted, []
        for batch in kept:
            self._recover(batch)
        self.aborted = [each for each in aborted if each.marker_offset < self.end_offset]

    def _recover(self, batch: Batch) -> None:
        """Read a batch again, as a broker does that has lost its snapshots."""
        self._take(batch)
        if batch.producer_id == _NONE:
            return
        producer = self.producers.setdefault(batch.producer_id, Producer(batch.producer_epoch))
        producer.begin_epoch(batch.producer_epoch)
        producer.last_timestamp_ms = batch.max_timestamp_ms
        if batch.is_control:
            producer.transaction_start = None
            return
        producer.batches.append(batch)
        if batch.is_transactional and producer.transaction_start is None:
            producer.transaction_start = batch.base_offset


def _times(batch: Batch) -> list[tuple[int, int]]:
    """Return offset and timestamp of each record."""
    decoder = RecordBatchDecoder(
        "", 0, starting_offset=batch.base_offset, stopping_offset=batch.last_offset + 1,
        columns=["offset", "timestamp"],
    )  # fmt: skip
    decoded = [*decoder.decode(batch.data), decoder.flush()]
    return [
        (offset, time_us // 1000)
        for rows in decoded
        if rows is not None
        for offset, time_us in zip(
            rows.column("offset").to_pylist(), rows.column("timestamp").cast("int64").to_pylist(), strict=True
        )
    ]
