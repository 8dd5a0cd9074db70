"""The content of a transaction: record batches that are being filled, for the partitions of one topic.

Runs on the executor, on the thread of the task. Invariant: records that were read from one topic partition,
and go to one partition of the target, stay in their order. Batches are built when the transaction is closed,
because with protocol V2 the producer epoch is known only then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.idempotence import SequenceNumbers
from penstock.client.settings import ProduceSettings
from penstock.codec import RecordBatchBuilder, RecordColumns, group_rows, murmur2_partitions
from penstock.types import TopicPartition

RECORD_COLUMNS = ("key", "value", "headers", "timestamp")
_BATCH_BYTES = 256 << 10
"""Before compression. A transaction lasts milliseconds, so a batch does not grow while it waits."""

RecordsFunction = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Makes the records to write from those that were read. Both have some of RECORD_COLUMNS."""


class TargetRecords:
    """Records for the target, in the partition of their key, or else in that of their source's number.

    Args:
        target: the topic.
        partition_count: of the target.
        settings: sizes and compression of batches.
        function: None: the records stay as they are.
    """

    def __init__(
        self,
        target: str,
        partition_count: int,
        settings: ProduceSettings,
        function: RecordsFunction | None = None,
    ) -> None:
        self.size_bytes = 0
        self._target = target
        self._partition_count = partition_count
        self._settings = settings
        self._function = function
        self._builders: dict[int, list[RecordBatchBuilder]] = {}

    def add(self, topic_partition: TopicPartition, rows: object) -> None:
        """Add batches of records, as a list of Arrow batches with some of RECORD_COLUMNS."""
        assert isinstance(rows, list)  # noqa: S101  # for mypy
        for batch in rows:
            made = batch if self._function is None else self._function(batch)
            if made.num_rows:
                self._add(topic_partition, made)

    def _add(self, topic_partition: TopicPartition, batch: pa.RecordBatch) -> None:
        columns = RecordColumns(batch.select([each for each in RECORD_COLUMNS if each in batch.schema.names]))
        now_ms = time.time_ns() // 1_000_000
        partitions = self._partitions(topic_partition, batch)
        for partition, rows in enumerate(group_rows(partitions, self._partition_count)):
            first = 0
            while first < len(rows):
                first = self._append(partition, columns, rows, first, now_ms)

    def _partitions(self, topic_partition: TopicPartition, batch: pa.RecordBatch) -> pa.Int32Array:
        own = pa.scalar(topic_partition.partition % self._partition_count, pa.int32())
        if "key" not in batch.schema.names or pa.types.is_null(batch.schema.field("key").type):
            return pa.repeat(own, batch.num_rows)
        by_key = murmur2_partitions(batch.column("key"), self._partition_count)
        return pc.if_else(pc.less(by_key, 0), own, by_key)

    def _append(
        self, partition: int, columns: RecordColumns, rows: pa.Int32Array, first: int, now_ms: int
    ) -> int:
        builders = self._builders.setdefault(partition, [])
        if not builders:
            builders.append(self._new_builder(partition))
        builder = builders[-1]
        before_bytes = builder.size_bytes
        try:
            end = builder.append(columns, rows, first, default_timestamp_ms=now_ms)
        finally:
            self.size_bytes += builder.size_bytes - before_bytes
        if end < len(rows):
            builders.append(self._new_builder(partition))
        return end

    def _new_builder(self, partition: int) -> RecordBatchBuilder:
        settings = self._settings
        return RecordBatchBuilder(
            self._target,
            partition,
            compression_type=settings.compression_type,
            compression_level=settings.compression_level,
            batch_size_bytes=min(
                settings.max_request_size_bytes, max(_BATCH_BYTES, settings.batch_size_bytes)
            ),
            max_record_bytes=settings.max_request_size_bytes,
            is_transactional=True,
        )

    def build(self, sequences: SequenceNumbers, now_ms: int) -> Iterable[ProducerBatch]:
        """Yield the batches of each partition in order."""
        for partition in sorted(self._builders):
            yield from self._built(TopicPartition(self._target, partition), sequences, now_ms)
        self._builders = {}

    def _built(
        self, topic_partition: TopicPartition, sequences: SequenceNumbers, now_ms: int
    ) -> Iterator[ProducerBatch]:
        identity = sequences.identity
        for builder in self._builders[topic_partition.partition]:
            if record_count := builder.record_count:
                sequence = sequences.take(topic_partition, record_count)
                data = builder.build(
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    base_sequence=sequence,
                )
                yield ProducerBatch(topic_partition, data, record_count, sequence, now_ms)
