"""Write the rows of one task to Kafka, and wait until they are acknowledged.

Runs on the executor, inside Spark's Python worker. Guarantee: when `write_rows` returns, every row of the
task is in Kafka, unless the user has turned this off (`sink.on-delivery-failure` = `log`,
`sink.flush-on-checkpoint` = `false`). When it raises, the task fails, and any of its rows may have been
written (at-least-once). A task without rows opens no producer and no connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.cluster.metadata import NO_LEADER, TopicMetadata
from penstock.client.produce.figures import ProduceFigures
from penstock.client.produce.pool import borrowed_producer
from penstock.client.produce.producer import Producer
from penstock.client.settings import connection_settings, produce_settings
from penstock.codec import RecordColumns, group_rows
from penstock.errors import ProduceError, UnsupportedOptionError
from penstock.options.config import DeliveryGuarantee, SinkConfig
from penstock.sink._partitioner import (
    ANY_PARTITION,
    StickyPartitions,
    chosen_partitioner,
    first_missing_partition,
    missing_partition_error,
    partitions_of_rows,
)
from penstock.sink.rows import TopicRows, check_write_schema, column_of, topics_of_rows
from penstock.types import TopicPartition

CLIENT_ID = "penstock-sink"

_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")


def write_rows(
    config: SinkConfig,
    batches: Iterable[pa.RecordBatch],
    *,
    spark_partition_id: int = 0,
    batch_id: int = 0,
    on_figures: Callable[[ProduceFigures], object] | None = None,
) -> int:
    """Write all rows of a task, and return their number when every row is acknowledged.

    Args:
        config: of the sink.
        batches: rows of the DataFrame, with the columns that `check_write_schema` allows.
        spark_partition_id: of the task, for partitioners that ask.
        batch_id: of the micro-batch, for partitioners that ask.
        on_figures: gets the figures of the task when its rows are acknowledged, or sent if the user has
            turned waiting off.

    Raises:
        RowError: a row cannot become a record.
        RecordTooLargeError: a record fits in no request.
        UnknownTopicOrPartitionError: a topic does not exist.
        ProduceError: Kafka refused a batch or did not acknowledge it in time.
    """
    if config.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        raise UnsupportedOptionError(
            "Expected sink.delivery-guarantee none or at-least-once, got exactly-once. Nothing was written. "
            "An exactly-once write needs a transaction that the driver commits: see `write_in_transaction`.",
            option="sink.delivery-guarantee",
        )
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return 0
    check_write_schema(first.schema, config)
    connection = connection_settings(config.properties, client_id=CLIENT_ID)
    is_flushed = config.flushes_on_checkpoint
    produce = produce_settings(
        config.properties,
        config.delivery_guarantee,
        logs_failures=config.logs_failures,
        is_flushed=is_flushed,
    )
    with borrowed_producer(connection, produce) as producer:
        # The producer may have served other tasks before: what it has counted so far is theirs.
        before, figures_before = _done_count(producer), producer.figures
        rows = RowWriter(producer, config, spark_partition_id=spark_partition_id, batch_id=batch_id)
        row_count = rows.write(with_first(first, filled))
        if is_flushed:
            producer.flush()
        else:
            producer.send_all()
        if on_figures is not None:
            on_figures(producer.figures - figures_before)
        # Without a flush the last rows are still on the way, so there is nothing to compare yet.
        if not is_flushed:
            return row_count
        written = _done_count(producer) - before
    if written != row_count:
        raise ProduceError(
            f"Expected {row_count} acknowledged records, one for each row, got {written}. The task fails "
            "and writes all its rows again when Spark retries it. Please report this bug of penstock.",
            row_count=row_count,
            record_count=written,
        )
    return written


def _done_count(producer: Producer) -> int:
    return producer.acknowledged_record_count + producer.given_up_record_count


def with_first(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put back the batch that was taken to find out whether there is one."""
    yield first
    yield from rest


class RowWriter:
    """Hands the rows of one task to a producer, each to its topic partition.

    Args:
        producer: takes the rows.
        config: of the sink.
        spark_partition_id: of the task, for partitioners that ask.
        batch_id: of the micro-batch, for partitioners that ask.
    """

    def __init__(
        self, producer: Producer, config: SinkConfig, *, spark_partition_id: int = 0, batch_id: int = 0
    ) -> None:
        self._producer = producer
        self._config = config
        self._partitioner = chosen_partitioner(config.partitioner, spark_partition_id, batch_id)
        self._sticky = StickyPartitions()
        self._row_count = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Give all rows to the producer, and return their number. Nothing is flushed."""
        for batch in batches:
            self._write_batch(batch)
            self._row_count += batch.num_rows
            self._producer.offer()
        return self._row_count

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        names = [name for name in _RECORD_COLUMNS if name in batch.schema.names]
        columns = RecordColumns(batch.select(names))
        now_ms = time.time_ns() // 1_000_000
        for topic_rows in topics_of_rows(batch, self._config, self._row_count):
            self._write_topic(batch, columns, topic_rows, now_ms)

    def _write_topic(
        self, batch: pa.RecordBatch, columns: RecordColumns, topic_rows: TopicRows, now_ms: int
    ) -> None:
        topic, rows = topic_rows.topic, topic_rows.rows
        if self._partitioner is not None:
            metadata = self._producer.topic(topic)
            of_topic = batch if rows is None else batch.take(rows)
            partitions = self._partitioner.partitions_of(of_topic, topic, sorted(metadata.partitions))
            self._append_to(topic, partitions, len(metadata.partitions), columns, rows, now_ms)
            return
        row_count = batch.num_rows if rows is None else len(rows)
        explicit = column_of(batch, "partition", rows)
        metadata = self._metadata(topic, explicit)
        partition_count = len(metadata.partitions)
        partitions = partitions_of_rows(row_count, explicit, column_of(batch, "key", rows), partition_count)
        # Rows without key and partition may go anywhere: all together if no row is bound to a partition.
        bounds = pc.min_max(partitions)
        if bounds["max"].as_py() == ANY_PARTITION:
            everything = _all_rows(row_count) if rows is None else rows
            self._append_anywhere(metadata, columns, everything, now_ms)
            return
        if bounds["min"].as_py() == ANY_PARTITION:
            partitions = self._with_one_partition(metadata, partitions)
        self._append_to(topic, partitions, partition_count, columns, rows, now_ms)

    def _append_to(
        self,
        topic: str,
        partitions: pa.Int32Array,
        partition_count: int,
        columns: RecordColumns,
        rows: pa.Int32Array | None,
        now_ms: int,
    ) -> None:
        for partition, group in enumerate(group_rows(partitions, partition_count)):
            if len(group):
                chosen = group if rows is None else rows.take(group)
                self._append(TopicPartition(topic, partition), columns, chosen, now_ms)

    def _with_one_partition(self, metadata: TopicMetadata, partitions: pa.Int32Array) -> pa.Int32Array:
        """Give one partition to all rows that may go to any, so that they keep their order."""
        chosen = self._sticky.current(metadata.topic, _available(metadata))
        self._sticky.move_on(metadata.topic)
        is_any = pc.equal(partitions, pa.scalar(ANY_PARTITION, pa.int32()))
        return pc.if_else(is_any, pa.scalar(chosen, pa.int32()), partitions)

    def _metadata(self, topic: str, explicit: pa.Int32Array | None) -> TopicMetadata:
        """Return the topic, with all partitions that its rows name."""
        metadata = self._producer.topic(topic)
        if first_missing_partition(explicit, len(metadata.partitions)) is not None:
            metadata = self._producer.refresh_topic(topic)
            row = first_missing_partition(explicit, len(metadata.partitions))
            if explicit is not None and row is not None:
                raise missing_partition_error(topic, explicit[row].as_py(), len(metadata.partitions))
        return metadata

    def _append(
        self, topic_partition: TopicPartition, columns: RecordColumns, rows: pa.Int32Array, now_ms: int
    ) -> None:
        first = 0
        while first < len(rows):
            first = self._producer.append(topic_partition, columns, rows, first, default_timestamp_ms=now_ms)

    def _append_anywhere(
        self, metadata: TopicMetadata, columns: RecordColumns, rows: pa.Int32Array, now_ms: int
    ) -> None:
        topic = metadata.topic
        candidates = _available(metadata)
        if not self._producer.has_open_batch(self._sticky_topic_partition(topic, candidates)):
            self._sticky.move_on(topic)
        first = 0
        while first < len(rows):
            topic_partition = self._sticky_topic_partition(topic, candidates)
            first = self._producer.append(topic_partition, columns, rows, first, default_timestamp_ms=now_ms)
            if first < len(rows):
                self._sticky.move_on(topic)

    def _sticky_topic_partition(self, topic: str, candidates: list[int]) -> TopicPartition:
        return TopicPartition(topic, self._sticky.current(topic, candidates))


def _available(metadata: TopicMetadata) -> list[int]:
    """Return the partitions that have a leader; all if none has one, for one may come back in time."""
    led = [partition for partition, found in metadata.partitions.items() if found.leader_id != NO_LEADER]
    return sorted(led or metadata.partitions)


def _all_rows(row_count: int) -> pa.Int32Array:
    return group_rows(pa.repeat(pa.scalar(0, pa.int32()), row_count), 1)[0]
