"""Find out when the first unread record of each of many topic partitions was written.

Runs on the driver or in a command. Invariants: one Fetch to each broker asks for as many topic partitions as
one response can probably hold; the call ends with its time-out, and what was found until then counts.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.client.fetch.ranges import RangeFetches
from penstock.client.fetch.requests import Records
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings
from penstock.codec import RecordBatchDecoder
from penstock.errors import CorruptBatchError
from penstock.types import OffsetRange, TopicPartition

_LOG_APPEND_TIME = 1


@dataclass(frozen=True, slots=True)
class RecordTime:
    """The timestamp of a record.

    Attributes:
        time_ms: since 1970.
        is_of_broker: whether the broker has set it (`message.timestamp.type` = `LogAppendTime`).
    """

    time_ms: int
    is_of_broker: bool


def first_record_times(
    connections: KafkaConnections,
    ranges: Collection[OffsetRange],
    settings: FetchSettings,
    *,
    timeout_ms: int,
) -> dict[TopicPartition, RecordTime]:
    """Return the time of the first record in each range, committed or not. Raises nothing.

    A range is left out if it has no record in its first response, or if it cannot be read in time.

    Args:
        connections: to the cluster.
        ranges: of different topic partitions, none of them empty.
        settings: sizes.
        timeout_ms: for all ranges together.
    """
    settings = replace(settings, default_api_timeout_ms=timeout_ms)
    fetches = RangeFetches(connections, settings, read_committed=False)
    for each in ranges:
        # One response for each is enough: it also has what follows a gap.
        fetches.add(replace(each, stopping_offset=each.starting_offset + 1))
    wanted = {each.topic_partition: each for each in ranges}
    found: dict[TopicPartition, RecordTime] = {}
    ends_at_s = time.monotonic() + timeout_ms / 1000
    while fetches and time.monotonic() < ends_at_s:
        for source, event in fetches.receive():
            if isinstance(event, Records):
                first_time = _first_time(event, wanted[source.topic_partition])
                if first_time is not None:
                    found[source.topic_partition] = first_time
    return found


def _first_time(records: Records, offset_range: OffsetRange) -> RecordTime | None:
    decoder = RecordBatchDecoder(
        *offset_range.topic_partition,
        starting_offset=offset_range.starting_offset,
        stopping_offset=offset_range.stopping_offset,
        columns=("timestamp", "timestamp_type"),
        max_rows=1,
    )
    try:
        rows = next(decoder.decode(records.data), None) or decoder.flush()
    except CorruptBatchError:  # the query that reads the record gets the error
        return None
    if rows is None:
        return None
    times = rows.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
    time_ms = times[0].as_py()
    if time_ms is None:
        return None
    return RecordTime(time_ms, rows.column("timestamp_type")[0].as_py() == _LOG_APPEND_TIME)
