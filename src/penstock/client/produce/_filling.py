"""Record batches that are still being filled, one for each topic partition.

Runs on the executor, on the writing thread and (for batches that lingered long enough) the sender thread,
never both at once: the producer holds a lock. Invariant: batches are numbered in the order in which they
are closed, and that is the order in which they are handed on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.idempotence import NO_SEQUENCE, SequenceNumbers, advance_sequence
from penstock.client.settings import ProduceSettings
from penstock.codec import RecordBatchBuilder, RecordBatchDecoder, RecordColumns
from penstock.errors import ProduceError
from penstock.types import TopicPartition

FORGETTABLE_AGE_MS = 3_600_000
"""Brokers forget a producer by the age of its record timestamps, by default after a day. This limit is much
lower, because a broker may be configured with a lower one."""


class FillingBatches:
    """Open batches; closing one numbers it and hands it on."""

    def __init__(
        self,
        settings: ProduceSettings,
        sequences: SequenceNumbers,
        hand_on: Callable[[ProducerBatch], None],
        now_ms: Callable[[], int],
        *,
        is_transactional: bool = False,
    ) -> None:
        self.size_bytes = 0
        self.closed_plain_bytes = 0
        self._settings = settings
        self._sequences = sequences
        self._hand_on = hand_on
        self._now_ms = now_ms
        self._is_transactional = is_transactional
        self._sizes = BatchSizes(settings)
        self._builders: dict[TopicPartition, RecordBatchBuilder] = {}
        self._opened_at_ms: dict[TopicPartition, int] = {}

    def is_open(self, topic_partition: TopicPartition) -> bool:
        """Return whether a batch with at least one record is open."""
        return topic_partition in self._opened_at_ms

    def append(
        self,
        topic_partition: TopicPartition,
        columns: RecordColumns,
        rows: pa.Int32Array,
        first: int,
        default_timestamp_ms: int,
    ) -> int:
        """Append `rows[first:]` until the batch is full, and close it then.

        Returns:
            The index of the first row that was not appended.
        """
        builder = self._builders.get(topic_partition)
        if builder is None:
            builder = self._new_builder(topic_partition, self._sizes.limit_bytes(topic_partition.topic))
            self._builders[topic_partition] = builder
        before_bytes = builder.size_bytes
        try:
            end = builder.append(columns, rows, first, default_timestamp_ms=default_timestamp_ms)
        finally:
            self.size_bytes += builder.size_bytes - before_bytes
            if builder.record_count and topic_partition not in self._opened_at_ms:
                self._opened_at_ms[topic_partition] = self._now_ms()
        if end < len(rows):
            self.close(topic_partition)
        return end

    def close(self, topic_partition: TopicPartition) -> None:
        """Close the open batch of a topic partition, number it and hand it on."""
        # Not kept: a builder for each topic partition would hold far more memory than `size_bytes`.
        builder = self._builders.pop(topic_partition)
        record_count, plain_bytes = builder.record_count, builder.size_bytes
        self.size_bytes -= plain_bytes
        self.closed_plain_bytes += plain_bytes
        del self._opened_at_ms[topic_partition]
        base_sequence = self._sequences.take(topic_partition, record_count)
        batch = self._built(topic_partition, builder, base_sequence)
        self._sizes.learn(topic_partition.topic, plain_bytes, len(batch.data))
        if record_count > 1 and self._sizes.are_too_large(plain_bytes, len(batch.data)):
            self._divide(batch)
        else:
            self._hand_on(batch)

    def _built(
        self, topic_partition: TopicPartition, builder: RecordBatchBuilder, base_sequence: int
    ) -> ProducerBatch:
        identity, record_count = self._sequences.identity, builder.record_count
        max_timestamp_ms = builder.max_timestamp_ms
        data = builder.hand_over(
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            base_sequence=base_sequence,
        )
        batch = ProducerBatch(topic_partition, data, record_count, base_sequence, self._now_ms())
        batch.is_forgettable = time.time() * 1000 - max_timestamp_ms > FORGETTABLE_AGE_MS
        return batch

    def _divide(self, batch: ProducerBatch) -> None:
        """Divide a batch into several, which share its sequence numbers, and hand them on."""
        sequence, pieces = batch.base_sequence, []
        empty = self._new_builder(batch.topic_partition, self._settings.batch_size_bytes)
        for builder in divided(batch.data, batch.record_count, empty):
            piece = self._built(batch.topic_partition, builder, sequence)
            if sequence != NO_SEQUENCE:
                sequence = advance_sequence(sequence, piece.record_count)
            pieces.append(piece)
        record_count = sum(piece.record_count for piece in pieces)
        if record_count != batch.record_count:
            topic, partition = batch.topic_partition
            raise ProduceError(
                f"A batch of {batch.record_count} records for {topic}-{partition} was divided into batches "
                f"that hold {record_count} records. This is a defect of penstock; please report it. None of "
                "them was written; the task fails, and writes all its rows again when Spark retries it.",
                topic=topic,
                partition=partition,
            )
        for piece in pieces:
            self._hand_on(piece)

    def close_all(self) -> None:
        for topic_partition in list(self._opened_at_ms):
            self.close(topic_partition)

    def due_ms(self) -> list[tuple[TopicPartition, int]]:
        """Return the open batches and when each has waited long enough for more rows."""
        linger_ms = self._settings.linger_ms
        return [(tp, opened_at_ms + linger_ms) for tp, opened_at_ms in self._opened_at_ms.items()]

    def _new_builder(self, topic_partition: TopicPartition, batch_size_bytes: int) -> RecordBatchBuilder:
        topic, partition = topic_partition
        return RecordBatchBuilder(
            topic,
            partition,
            compression_type=self._settings.compression_type,
            compression_level=self._settings.compression_level,
            batch_size_bytes=batch_size_bytes,
            max_record_bytes=self._settings.max_request_size_bytes,
            is_transactional=self._is_transactional,
        )


_MARGIN = 1.1
"""The estimate assumes this much worse compression, so that slightly different rows need no division."""


class BatchSizes:
    """How many bytes the next batch of a topic gathers before compression.

    `batch.size` counts compressed bytes, as with Java's client. The compressed size is known only afterwards,
    so it is estimated from the topic's earlier batches. If rows compress worse than expected, they are
    divided (`divided`) before they are sent. So a broker that takes batches of `batch.size` refuses none
    because of an estimate.

    Args:
        settings: `batch.size`, and `max.request.size`, which a batch never passes before compression either,
            so that a wrong estimate costs little.
    """

    def __init__(self, settings: ProduceSettings) -> None:
        self._batch_size_bytes = settings.batch_size_bytes
        self._most_bytes = max(settings.batch_size_bytes, settings.max_request_size_bytes)
        self._is_compressed = settings.compression_type != "none"
        self._ratios: dict[str, float] = {}

    def limit_bytes(self, topic: str) -> int:
        """Return how many bytes before compression fill a batch of this topic."""
        ratio = self._ratios.get(topic)
        if ratio is None:
            return self._batch_size_bytes
        expected_bytes = int(self._batch_size_bytes / (ratio * _MARGIN))
        return min(self._most_bytes, max(self._batch_size_bytes, expected_bytes))

    def learn(self, topic: str, plain_bytes: int, sent_bytes: int) -> None:
        """Learn from a batch's sizes: a worse ratio counts at once, a better one by half."""
        # Small batches, from the end of a task, compress worse and tell nothing about full ones.
        if self._is_compressed and 2 * plain_bytes >= self._batch_size_bytes:
            ratio = sent_bytes / plain_bytes
            self._ratios[topic] = max(ratio, (self._ratios.get(topic, 1.0) + ratio) / 2)

    def are_too_large(self, plain_bytes: int, sent_bytes: int) -> bool:
        """Return whether the records of a batch must be divided, now that its size is known."""
        return min(plain_bytes, sent_bytes) > self._batch_size_bytes


def divided(
    data: bytes | memoryview, record_count: int, builder: RecordBatchBuilder
) -> Iterator[RecordBatchBuilder]:
    """Yield the builder each time it is filled with the next records of a batch, in their order.

    Args:
        data: a record batch that we made.
        record_count: how many records it holds.
        builder: an empty one for the same topic partition; it has to be built before the next step.
    """
    decoder = RecordBatchDecoder(
        builder.topic,
        builder.partition,
        starting_offset=0,
        stopping_offset=record_count,
        columns=("key", "value", "timestamp", "headers"),
        raw_headers=True,
    )
    for records in _all(decoder, data):
        columns, rows, first = RecordColumns(records), pa.array(range(records.num_rows), pa.int32()), 0
        while (first := builder.append(columns, rows, first, default_timestamp_ms=-1)) < records.num_rows:
            yield builder
    yield builder


def _all(decoder: RecordBatchDecoder, data: bytes | memoryview) -> Iterator[pa.RecordBatch]:
    yield from decoder.decode(data)
    if (rest := decoder.flush()) is not None:
        yield rest
