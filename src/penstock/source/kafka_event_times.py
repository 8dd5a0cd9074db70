"""Answer the questions of alignment from a real cluster, by Kafka's timestamps or from decoded rows.

Runs on the driver. Invariants: offsets by time take one request to each broker, whatever the number of topic
partitions; records take one small request for each topic partition, some at the same time; every call ends
within its time-outs.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pyarrow as pa

from penstock.client.cluster import log_offsets
from penstock.client.cluster.results import Results
from penstock.client.fetch.fetcher import fetch_range
from penstock.client.net.connection import KafkaConnections
from penstock.client.settings import FetchSettings, fetch_settings
from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import OffsetOutOfRangeError, PenstockError
from penstock.options.config import IsolationLevel, SourceConfig
from penstock.source.alignment import SCANNED_RECORDS, RecordTimes
from penstock.source.kafka_lookup import STRAGGLERS_TIMEOUT_MS
from penstock.table.read import RecordDecoder
from penstock.types import OffsetRange, Time, TopicPartition

_THREADS = 16
_COLUMNS = ("offset", "timestamp")


class KafkaRecordClock:
    """`RecordClock` over the connections to one cluster. The caller closes them."""

    def __init__(self, connections: KafkaConnections, config: SourceConfig) -> None:
        self._connections = connections
        self._isolation_level = config.isolation_level
        settings = fetch_settings(config.properties)
        timeout_ms = min(settings.default_api_timeout_ms, STRAGGLERS_TIMEOUT_MS)
        self._settings: FetchSettings = replace(settings, default_api_timeout_ms=timeout_ms)

    def first_offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Results[TopicPartition, int]:
        wanted = {tp: Time(time_ms) for tp, time_ms in times_ms.items()}
        answers = log_offsets.list_offsets_each(
            self._connections, wanted, self._isolation_level, timeout_ms=STRAGGLERS_TIMEOUT_MS
        )
        found = {tp: offset for tp, offset in answers.values.items() if offset != log_offsets.NO_OFFSET}
        return Results(found, answers.errors)

    def read_times(
        self, ranges: Collection[OffsetRange], max_records: int
    ) -> Results[TopicPartition, RecordTimes]:
        times: dict[TopicPartition, RecordTimes] = {}
        errors: dict[TopicPartition, PenstockError] = {}
        with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="penstock-event-time") as threads:
            results = threads.map(partial(self._read_or_error, max_records=max_records), ranges)
            for offset_range, result in zip(ranges, results, strict=True):
                if isinstance(result, RecordTimes):
                    times[offset_range.topic_partition] = result
                else:
                    errors[offset_range.topic_partition] = result
        return Results(times, errors)

    def _read_or_error(self, offset_range: OffsetRange, max_records: int) -> RecordTimes | PenstockError:
        try:
            return self._read(offset_range, max_records)
        except OffsetOutOfRangeError as error:
            log_start: int = error.facts["log_start_offset"]
            if not offset_range.starting_offset < log_start < offset_range.stopping_offset:
                # No record of the range is left. Planning the range finds that too, and reports the loss.
                return RecordTimes((), (), offset_range.stopping_offset)
            rest = OffsetRange(offset_range.topic_partition, log_start, offset_range.stopping_offset)
            return self._read_or_error(rest, max_records)
        except PenstockError as error:
            return error

    def _read(self, offset_range: OffsetRange, max_records: int) -> RecordTimes:
        offsets: list[int] = []
        times_ms: list[int] = []
        batches = fetch_range(
            self._connections,
            offset_range,
            self._settings,
            columns=_COLUMNS,
            read_committed=self._isolation_level is IsolationLevel.READ_COMMITTED,
            max_rows=max_records,
        )
        for batch in batches:
            offsets += batch.column("offset").to_pylist()
            times_ms += (
                batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64()).to_pylist()
            )
            if len(offsets) >= max_records:
                kept = slice(max_records)
                return RecordTimes(tuple(offsets[kept]), tuple(times_ms[kept]), offsets[max_records - 1] + 1)
        return RecordTimes(tuple(offsets), tuple(times_ms), offset_range.stopping_offset)


_ROWS_MIN = 100
"""Rows that are decoded together at least, also if only the next time is wanted."""


class KafkaRowClock(KafkaRecordClock):
    """`RecordClock` by a column of the decoded rows."""

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
        from penstock.table.event_time import latest_times  # noqa: PLC0415 - other planners need it not

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
