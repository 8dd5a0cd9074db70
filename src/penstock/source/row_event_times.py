"""Answer the questions of alignment from decoded rows, if the event time is in the rows.

Runs on the driver. Invariants: Kafka has no index by these times, so records are looked at, at most
`SCANNED_RECORDS` of each topic partition in one question. A record without a row, or whose row has no event
time, is passed over.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from penstock.client.cluster.results import Results
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections
from penstock.codec.schema import KAFKA_RECORDS
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source.alignment import SCANNED_RECORDS, RecordTimes
from penstock.source.kafka_event_times import KafkaRecordClock
from penstock.table.event_time import latest_times
from penstock.table.read import RecordDecoder
from penstock.types import OffsetRange, TopicPartition

_ROWS_MIN = 100
"""Rows that are decoded together at least, also if only the next time is wanted."""


class KafkaRowClock(KafkaRecordClock):
    """`RecordClock` by a column of the decoded rows.

    Args:
        connections: to the cluster; the caller closes them.
        config: of the source.
        decoder: makes the rows.
        column: of the event time.
    """

    def __init__(
        self, connections: KafkaConnections, config: SourceConfig, decoder: RecordDecoder, column: str
    ) -> None:
        super().__init__(connections, config)
        self._decoder = decoder
        self._column = column
        needed = {*decoder.record_columns, "offset"}
        self._columns = tuple(name for name in KAFKA_RECORDS.names if name in needed)
        self._decoding = threading.Lock()
        """Code of the user is not called by two threads at the same time."""

    def first_offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        """Return 0 for each: any record may be as new, so alignment has to look at the records."""
        return Results(dict.fromkeys(times_ms, 0), {})

    def _read(self, offset_range: OffsetRange, max_records: int) -> RecordTimes:
        offsets: list[int] = []
        times_ms: list[int] = []
        looked_at = 0
        batches = fetch_range(
            self._connections,
            offset_range,
            self._settings,
            columns=self._columns,
            read_committed=self._isolation_level is IsolationLevel.READ_COMMITTED,
            max_rows=max(_ROWS_MIN, min(max_records, SCANNED_RECORDS)),
        )
        for batch in batches:
            with self._decoding:
                found = latest_times(self._decoder, batch, self._column)
            for offset, time_ms in found:
                offsets.append(offset)
                times_ms.append(time_ms)
                if len(offsets) >= max_records:
                    return RecordTimes(tuple(offsets), tuple(times_ms), offset + 1)
            looked_at += batch.num_rows
            if looked_at >= SCANNED_RECORDS:
                return RecordTimes(tuple(offsets), tuple(times_ms), batch.column("offset")[-1].as_py() + 1)
        return RecordTimes(tuple(offsets), tuple(times_ms), offset_range.stopping_offset)
