"""The content of a transaction: record batches that are being filled, for the target and for dead letters.

Runs on the executor, on the thread of the task. Invariant: records that were read from one topic partition,
and go to one partition of a topic, stay in their order. Batches are built when the transaction is closed,
because with protocol V2 the producer epoch is known only then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.produce.batches import ProducerBatch
from penstock.client.produce.idempotence import SequenceNumbers
from penstock.client.settings import ProduceSettings
from penstock.codec import RecordBatchBuilder, RecordColumns, group_rows, murmur2_partitions
from penstock.errors import RowError
from penstock.options.config import DeliveryGuarantee
from penstock.relay.messages import Totals
from penstock.types import TopicPartition

RECORD_COLUMNS = ("key", "value", "headers", "timestamp")
BATCH_BYTES = 256 << 10
"""Of a record batch before compression, if the limit of the topic is unknown. A transaction lasts
milliseconds, so a batch does not grow while it waits."""


class Writes:
    """What the settings of a query and the plan of a task say of the topics that are written."""

    target: str
    dead_letter_topic: str | None
    guarantee: DeliveryGuarantee

    @property
    def is_transactional(self) -> bool:
        """Return whether tasks write in transactions, which hold the offsets of what they have read."""
        return self.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @property
    def written_topics(self) -> tuple[str, ...]:
        """Return the target, and the topic of dead letters if there is one."""
        return (self.target,) if self.dead_letter_topic is None else (self.target, self.dead_letter_topic)


class BadCounts(NamedTuple):
    """How many records could not be decoded, by what happened to them; see `Totals`."""

    skipped: int = 0
    dead_letters: int = 0
    ignored: int = 0


class RecordMaker(Protocol):
    """Makes the records to write from those that were read. One for each task."""

    @property
    def columns(self) -> Sequence[str]:
        """Return the columns of KafkaRecords that `records` needs."""

    def records(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Return records with some of RECORD_COLUMNS, and perhaps a column `partition`, in their order."""

    def dead_letters(self) -> Iterable[pa.RecordBatch]:
        """Return what the last call of `records` could not decode, with RECORD_COLUMNS."""

    def bad_records(self) -> BadCounts:
        """Return how many records could not be decoded since this maker began."""


class OpensRecordMaker(Protocol):
    """Travels to the executor, and makes a `RecordMaker` there."""

    def open(self) -> RecordMaker:
        """Return the maker of one task."""


@dataclass(frozen=True)
class EachBatch:
    """Makes records with a function of a batch of RECORD_COLUMNS."""

    function: Callable[[pa.RecordBatch], pa.RecordBatch]
    columns: Sequence[str] = RECORD_COLUMNS

    def open(self) -> RecordMaker:
        """Return this."""
        return self

    def records(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Return what the function makes of the batch."""
        return [self.function(batch)]

    def dead_letters(self) -> Iterable[pa.RecordBatch]:
        """Return none."""
        return ()

    def bad_records(self) -> BadCounts:
        """Return none."""
        return BadCounts()


class TargetRecords:
    """Records for the target, in the partition that they name, that of their key, or that of their source.

    Args:
        target: the topic.
        partition_counts: of the topics that are written.
        settings: sizes and compression of batches.
        maker: None: the records stay as they are.
        dead_letter_topic: where dead letters go; None: the maker has none.
        is_transactional: whether the batches are those of a transaction.
        batch_bytes: the size of a full batch before compression; None: unless `batch.size` is larger,
            BATCH_BYTES.
    """

    def __init__(
        self,
        target: str,
        partition_counts: Mapping[str, int],
        settings: ProduceSettings,
        maker: RecordMaker | None = None,
        dead_letter_topic: str | None = None,
        *,
        is_transactional: bool = True,
        batch_bytes: int | None = None,
    ) -> None:
        self.size_bytes = 0
        self._records_in = self._records_out = self._bytes_in = self._bytes_out = 0
        self._target = target
        self._partition_counts = partition_counts
        self._settings = settings
        self._maker = maker
        self._dead_letter_topic = dead_letter_topic
        self._is_transactional = is_transactional
        self._batch_bytes = batch_bytes or max(BATCH_BYTES, settings.batch_size_bytes)
        self._builders: dict[TopicPartition, list[RecordBatchBuilder]] = {}
        self._bad_before = self._bad = BadCounts() if maker is None else maker.bad_records()

    @property
    def counts(self) -> Totals:
        """Return what this transaction holds. What it writes is counted without dead letters."""
        bad = (now - before for now, before in zip(self._bad, self._bad_before, strict=True))
        return Totals(self._records_in, self._records_out, 1, self._bytes_in, self._bytes_out, *bad)

    def add(self, topic_partition: TopicPartition, rows: object) -> int:
        """Add records.

        Args:
            topic_partition: they were read from.
            rows: a function that decodes them to Arrow batches with the columns that the maker needs. It is
                called once.

        Returns:
            How many milliseconds it took, which is mostly the time of the maker.
        """
        began_s = time.monotonic()
        assert callable(rows)  # noqa: S101  # for mypy
        for batch in rows():
            self._records_in += batch.num_rows
            self._bytes_in += batch.get_total_buffer_size()  # `nbytes` takes 15 us
            for made in [batch] if self._maker is None else self._maker.records(batch):
                self._records_out += made.num_rows
                self._add(self._target, topic_partition, made)
            if self._maker is not None and self._dead_letter_topic is not None:
                for letters in self._maker.dead_letters():
                    self._add(self._dead_letter_topic, topic_partition, letters)
        if self._maker is not None:
            self._bad = self._maker.bad_records()
        return int((time.monotonic() - began_s) * 1000)

    def _add(self, topic: str, read_from: TopicPartition, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        columns = RecordColumns(batch.select([each for each in RECORD_COLUMNS if each in batch.schema.names]))
        now_ms = time.time_ns() // 1_000_000
        count = self._partition_counts[topic]
        partitions = self._partitions(topic, read_from, batch)
        for partition, rows in enumerate(group_rows(partitions, count)):
            first = 0
            while first < len(rows):
                first = self._append(TopicPartition(topic, partition), columns, rows, first, now_ms)

    def _partitions(self, topic: str, read_from: TopicPartition, batch: pa.RecordBatch) -> pa.Int32Array:
        count = self._partition_counts[topic]
        own = pa.scalar(read_from.partition % count, pa.int32())
        names = batch.schema.names
        if "key" in names and not pa.types.is_null(batch.schema.field("key").type):
            by_key = murmur2_partitions(batch.column("key"), count)
            chosen = pc.if_else(pc.less(by_key, 0), own, by_key)
        else:
            chosen = pa.repeat(own, batch.num_rows)
        if "partition" not in names:
            return chosen
        self._check_exist(topic, batch.column("partition"))
        return pc.coalesce(batch.column("partition"), chosen)

    def _check_exist(self, topic: str, partitions: pa.Int32Array) -> None:
        count = self._partition_counts[topic]
        bounds = pc.min_max(partitions)
        for found in (bounds["min"].as_py(), bounds["max"].as_py()):
            if found is not None and not 0 <= found < count:
                raise RowError(
                    f"Expected a partition of topic {topic!r} (0 to {count - 1}), got a row with partition "
                    f"{found}. Nothing that was read with it is committed. Drop the column partition (rows "
                    "that were read from Kafka have it) to let the key decide, or add partitions to the "
                    "topic.",
                    topic=topic,
                    partition=found,
                    partition_count=count,
                )

    def _append(
        self,
        topic_partition: TopicPartition,
        columns: RecordColumns,
        rows: pa.Int32Array,
        first: int,
        now_ms: int,
    ) -> int:
        builders = self._builders.setdefault(topic_partition, [])
        if not builders:
            builders.append(self._new_builder(topic_partition))
        builder = builders[-1]
        before_bytes = builder.size_bytes
        try:
            end = builder.append(columns, rows, first, default_timestamp_ms=now_ms)
        finally:
            self.size_bytes += builder.size_bytes - before_bytes
        if end < len(rows):
            builders.append(self._new_builder(topic_partition))
        return end

    def _new_builder(self, topic_partition: TopicPartition) -> RecordBatchBuilder:
        settings = self._settings
        return RecordBatchBuilder(
            *topic_partition,
            compression_type=settings.compression_type,
            compression_level=settings.compression_level,
            batch_size_bytes=min(settings.max_request_size_bytes, self._batch_bytes),
            max_record_bytes=settings.max_request_size_bytes,
            is_transactional=self._is_transactional,
        )

    def build(self, sequences: SequenceNumbers, now_ms: int) -> Iterable[ProducerBatch]:
        """Yield the batches of each topic partition in order."""
        for topic_partition in sorted(self._builders):
            yield from self._built(topic_partition, sequences, now_ms)
        self._builders = {}

    def _built(
        self, topic_partition: TopicPartition, sequences: SequenceNumbers, now_ms: int
    ) -> Iterator[ProducerBatch]:
        identity = sequences.identity
        for builder in self._builders[topic_partition]:
            if record_count := builder.record_count:
                sequence = sequences.take(topic_partition, record_count)
                data = builder.hand_over(
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    base_sequence=sequence,
                )
                if topic_partition.topic == self._target:
                    self._bytes_out += len(data)
                yield ProducerBatch(topic_partition, data, record_count, sequence, now_ms)
