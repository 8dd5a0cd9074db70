"""Read one split: the records of its planned ranges, as KafkaRecords.

Runs on the executor, in a worker process that also runs other tasks. Invariants: no record outside of the
planned ranges is yielded; the records of a topic partition keep their order; memory is bounded by the fetch
size and the size of one batch, however long the ranges are; a range ends when the position reaches its end,
or with an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections, connections_for
from penstock.client.settings import FetchSettings, fetch_settings
from penstock.errors import OffsetOutOfRangeError, TopicPartitionsRemovedError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source._small_batches import merge_small
from penstock.source.connections import source_connection_settings
from penstock.source.metrics import SPLIT_METRICS
from penstock.source.splits import Split, SplitRange
from penstock.types import OffsetRange, TopicPartition

MAX_ROWS = 32_768
MAX_BYTES = 8 << 20


def read_split(config: SourceConfig, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, with these columns of KafkaRecords.

    Raises:
        DataLossError: records of a range are gone, unless the options say to continue.
        ClientError: a range could not be read in time.
    """
    connections = connections_for(source_connection_settings(config))
    batches = (records for _, records in _read_ranges(connections, config, split.ranges, columns))
    for records in merge_small(batches) if len(split.ranges) > 1 else batches:
        SPLIT_METRICS.emitted(records)
        yield records


def _read_ranges(
    connections: KafkaConnections,
    config: SourceConfig,
    ranges: Sequence[SplitRange],
    columns: Sequence[str],
) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Yield the records of the ranges with their topic partition, in the order of each topic partition.

    One range after the other. The order among topic partitions is not a promise.
    """
    settings = fetch_settings(config.properties)
    for one in ranges:
        for records in _read_range(connections, config, settings, one, columns):
            yield one.offset_range.topic_partition, records


def _read_range(
    connections: KafkaConnections,
    config: SourceConfig,
    settings: FetchSettings,
    one: SplitRange,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one range; report what of it is gone."""
    losses = LossPolicy.of(config)
    rest: OffsetRange | None = one.offset_range
    while rest is not None:
        try:
            yield from fetch_range(
                connections,
                rest,
                settings,
                columns=columns,
                read_committed=config.isolation_level is IsolationLevel.READ_COMMITTED,
                max_rows=MAX_ROWS,
                max_bytes=MAX_BYTES,
                topic_id=one.topic_id,
            )
        except OffsetOutOfRangeError as error:  # noqa: PERF203  # once for each loss
            losses.report(error)
            rest = _still_there(rest, error)
        except TopicPartitionsRemovedError as error:
            losses.report(error)
            rest = None
        except UnknownTopicOrPartitionError:
            if config.fail_on_removed_partition is not False:
                raise  # with failOnDataLoss=false only planning drops a topic partition, after a second look
            losses.report(data_loss.removed([rest.topic_partition]))
            rest = None
        else:
            rest = None


def _still_there(offset_range: OffsetRange, error: OffsetOutOfRangeError) -> OffsetRange | None:
    """Return the part of a range that Kafka still has after the position of `error`; None if it has none."""
    position, log_start = error.facts["offset"], error.facts["log_start_offset"]
    if position >= log_start:
        return None  # the log ends before the range does
    if log_start >= offset_range.stopping_offset:
        return None
    return OffsetRange(offset_range.topic_partition, log_start, offset_range.stopping_offset)
