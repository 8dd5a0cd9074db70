"""Read one split: the records of a planned range, as KafkaRecords.

Runs on the executor, in a worker process that also runs other tasks. Invariants: no record outside of the
planned range is yielded; memory is bounded by the fetch size and the size of one batch, however long the
range is; a range ends when the position reaches its end, or with an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import connections_for
from penstock.client.settings import fetch_settings
from penstock.errors import OffsetOutOfRangeError, TopicPartitionsRemovedError, UnknownTopicOrPartitionError
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source import _data_loss as data_loss
from penstock.source._data_loss import LossPolicy
from penstock.source.connections import source_connection_settings
from penstock.source.metrics import SPLIT_METRICS
from penstock.source.splits import Split
from penstock.types import OffsetRange

MAX_ROWS = 32_768
MAX_BYTES = 8 << 20


def read_split(config: SourceConfig, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split, with these columns of KafkaRecords.

    Raises:
        DataLossError: records of the range are gone, unless the options say to continue.
        ClientError: the range could not be read in time.
    """
    connections = connections_for(source_connection_settings(config))
    losses = LossPolicy.of(config)
    rest: OffsetRange | None = split.offset_range
    while rest is not None:
        try:
            for records in fetch_range(
                connections,
                rest,
                fetch_settings(config.properties),
                columns=columns,
                read_committed=config.isolation_level is IsolationLevel.READ_COMMITTED,
                max_rows=MAX_ROWS,
                max_bytes=MAX_BYTES,
                topic_id=split.topic_id,
            ):
                SPLIT_METRICS.emitted(records)
                yield records
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
