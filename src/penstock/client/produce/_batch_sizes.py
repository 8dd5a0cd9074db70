"""Estimate how many bytes of rows fill a record batch, and divide a batch whose estimate was wrong.

Runs on the executor. Pure. `batch.size` counts compressed bytes, as with Java's client. The compressed size
is known only afterwards, so it is estimated from the topic's earlier batches. Invariant: a batch that was
filled by an estimate is never sent larger than `batch.size`. If its rows compress worse than expected, they
are divided into batches of that size before compression; nothing else changes. So a broker that takes batches
of `batch.size` refuses none because of an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.client.settings import ProduceSettings
from penstock.codec import RecordBatchBuilder, RecordBatchDecoder, RecordColumns

_MARGIN = 1.1
"""The estimate assumes this much worse compression, so that slightly different rows need no division."""


class BatchSizes:
    """How many bytes the next batch of a topic gathers before compression.

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


def divided(data: bytes, record_count: int, builder: RecordBatchBuilder) -> Iterator[RecordBatchBuilder]:
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


def _all(decoder: RecordBatchDecoder, data: bytes) -> Iterator[pa.RecordBatch]:
    yield from decoder.decode(data)
    if (rest := decoder.flush()) is not None:
        yield rest
