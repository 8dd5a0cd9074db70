"""Streaming reads.

Everything but `read` runs on the driver, in one process for the life of a running query; `read` runs on the
executors, on an unpickled copy of another instance. Invariants: pickles as configuration only; nothing is
opened before it is needed; unchanged offsets are returned as the same text, because Spark compares texts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.client.settings import source_connection_settings
from penstock.options.config import SourceConfig
from penstock.source.checkpoint_offset import Positions, SourceOffset, positions_to_json
from penstock.source.metrics import Phase, SourceMetrics
from penstock.spark.process.begin import stop_in_order_on_sigterm
from penstock.spark.process.short_errors import short_errors
from penstock.spark.schema import check_read_schema
from penstock.spark.splits import SplitPartition, read_rows
from penstock.spark.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:  # the driver's half, and a task without a table loads nothing of tables
    from penstock.client.net.connection import KafkaConnections
    from penstock.observe.serve.start import SourceExposure
    from penstock.source.alignment import RecordClock
    from penstock.source.enumerator import SplitEnumerator
    from penstock.source.kafka_lookup import KafkaOffsetLookup
    from penstock.source.offset_committer import OffsetCommitter
    from penstock.source.one_reader import OneReader
    from penstock.source.rights import ReadRights
    from penstock.spark._tables import TableSource
    from penstock.spark.exchange import ReadPacking

_log = logging.getLogger(__name__)


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a query and reads their splits.

    Attributes:
        packing: makes packages of the rows; None for rows.
    """

    packing: ReadPacking | None = None

    def __init__(self, config: SourceConfig, schema: StructType, table: TableSource | None = None) -> None:
        if table is None:
            check_read_schema(schema)
        self._config = config
        self._schema = schema
        self._table = table
        self._connections: KafkaConnections | None = None
        self._opened: SplitEnumerator | None = None
        self._committer: OffsetCommitter | None = None
        self._metrics: SourceMetrics | None = None
        self._rights: ReadRights | None = None
        self._exposure: SourceExposure | None = None
        self._one_reader: OneReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        on_the_driver = ("_connections", "_opened", "_committer", "_metrics", "_rights", "_exposure")
        return {**self.__dict__, **dict.fromkeys((*on_the_driver, "_one_reader"))}

    @short_errors
    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a new query. Spark asks again after a crash in the first batch."""
        enumerator = self._enumerator
        if self._one_reader is not None:
            self._one_reader.before_start()
        initial = enumerator.initial_offset()
        self._check_rights(initial.positions)
        return initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit if the options set any; one limit stands for all of them."""
        config = self._config
        if config.max_records_per_batch is not None:
            return ReadMaxRows(config.max_records_per_batch)
        if config.max_bytes_per_batch is not None:
            return ReadMaxBytes(config.max_bytes_per_batch)
        least = config.min_records_per_batch
        return ReadAllAvailable() if least is None else ReadMinRows(least)

    @short_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next batch. Use `limit`, not the options: a trigger may lift the limit."""
        offset = SourceOffset.from_json(start)
        enumerator = self._enumerator
        with self._phase(Phase.LATEST_OFFSET):
            end = self._end(enumerator, offset, limit)
        return start if end is offset else end.to_json()

    def _check_group(self, positions: Positions) -> None:
        """Check once for each run that no continuous query reads from these positions on, or has read on."""
        if self._one_reader is not None:
            self._one_reader.check(positions)

    def _check_before_planning(self, offset: SourceOffset) -> None:
        self._check_group(offset.positions)

    def _end(self, enumerator: SplitEnumerator, offset: SourceOffset, limit: ReadLimit) -> SourceOffset:
        self._check_rights(offset.positions)
        self._check_before_planning(offset)
        self._commit_to_group(offset)
        max_records = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        is_lifted = isinstance(limit, ReadAllAvailable)
        max_bytes = None if is_lifted else self._config.max_bytes_per_batch
        end = enumerator.latest_offset(offset, max_records, max_bytes, may_wait=not is_lifted)
        if self._metrics is not None:
            latest = enumerator.latest_known() or {}
            self._metrics.planned(
                offset.positions,
                latest,
                is_idle=end.positions == offset.positions,
                ignored_times=enumerator.ignored_times,
            )
        return end

    def _commit_to_group(self, offset: SourceOffset) -> None:
        """Commit the position of a batch that is in Spark's commit log, beside the query."""
        if self._one_reader is not None and not self._one_reader.is_done:
            return
        in_checkpoint = self._enumerator.in_checkpoint(offset)
        if self._committer is not None and in_checkpoint is not None:
            self._committer.submit(in_checkpoint)

    def _phase(self, name: str) -> AbstractContextManager[None]:
        """Note how long a call of Spark takes. `_enumerator` must have been used."""
        return nullcontext() if self._metrics is None else self._metrics.phase(name)

    @short_errors
    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the topic partitions and ends that this run reads."""
        self._enumerator.freeze()

    @short_errors
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the logs as of the last planning, for progress reports."""
        latest = self._enumerator.latest_known()
        return None if latest is None else positions_to_json(latest)

    @short_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the splits of a batch; the same offsets give the same splits."""
        begin, offset = SourceOffset.from_json(start), SourceOffset.from_json(end)
        enumerator = self._enumerator
        if start != end:  # Spark repeats a batch without asking for its end
            self._check_group(_begin_of_range(begin, offset))
        with self._phase(Phase.PARTITIONS):
            splits = enumerator.plan(begin, offset)
            self._check_rights(offset.positions)
        report_to = None if self._exposure is None else self._exposure.task_address
        return [SplitPartition(split, report_to) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_rows(self._config, self._schema, partition, self._table, self.packing)

    @short_errors
    def stop(self) -> None:
        """Commit the offsets of Spark's checkpoint, and close the connections of planning."""
        self._opened = None
        if self._exposure is not None:
            self._exposure.close()
            self._exposure = None
        if self._committer is not None:
            self._committer.close()
            self._committer = None
        if self._connections is not None:
            self._connections.close()
            self._connections = None

    def _check_rights(self, positions: Positions) -> None:
        if self._rights is not None:
            self._rights.check(positions)

    @property
    def _enumerator(self) -> SplitEnumerator:
        if self._opened is None:
            # Imported here because executors, which load this module, plan nothing.
            from penstock.client.net.connection import KafkaConnections  # noqa: PLC0415
            from penstock.source.alignment import Alignment  # noqa: PLC0415
            from penstock.source.enumerator import SplitEnumerator  # noqa: PLC0415
            from penstock.source.kafka_lookup import KafkaOffsetLookup  # noqa: PLC0415
            from penstock.source.one_reader import OneReader  # noqa: PLC0415
            from penstock.source.rights import ReadRights  # noqa: PLC0415

            stop_in_order_on_sigterm()
            if self._table is not None:
                self._table.check_dead_letter_topic()
            # Connections of its own, not the shared ones, because this reader decides when they close.
            self._connections = KafkaConnections(source_connection_settings(self._config))
            lookup = KafkaOffsetLookup(self._connections)
            alignment = Alignment.of(self._config, self._clock(self._connections))
            self._metrics = SourceMetrics()
            self._exposure = _exposure(self._config, self._connections, self._metrics)
            self._opened = SplitEnumerator(self._config, lookup, alignment=alignment)
            self._rights = ReadRights(
                self._connections, self._config.group_id if self._config.commits_offsets else None
            )
            self._one_reader = OneReader(self._config, self._connections)
            self._committer = _committer(self._config, lookup, self._metrics, self._one_reader)
        return self._opened

    def _clock(self, connections: KafkaConnections) -> RecordClock:
        """Return the source of event times: timestamps of records, or a column of decoded rows."""
        from penstock.source.kafka_event_times import KafkaRecordClock  # noqa: PLC0415 - the driver's

        column = None if self._table is None else self._table.row_time_column
        if self._table is None or column is None or self._config.max_drift_ms is None:
            return KafkaRecordClock(connections, self._config)
        from penstock.source.kafka_event_times import KafkaRowClock  # noqa: PLC0415 - the driver's

        return KafkaRowClock(connections, self._config, self._table.decoder(), column)


def import_planning_meanwhile() -> None:
    """Import what `_enumerator` needs in a thread, while Spark prepares the query and this process waits."""
    threading.Thread(target=_import_planning, name="penstock-imports", daemon=True).start()


def _import_planning() -> None:
    with suppress(Exception):  # `_enumerator` imports again, and raises
        for name in _PLANNING:
            import_module(name)


_PLANNING = (
    "penstock.client.net.connection",
    "penstock.source.kafka_event_times",
    "penstock.source.enumerator",
    "penstock.source.one_reader",
    "penstock.source.rights",
)


def _begin_of_range(start: SourceOffset, end: SourceOffset) -> Positions:
    """Return where a range begins, in all topic partitions of which its offsets say it."""
    whole_start = end.markers.whole_start
    return {**start.positions, **end.markers.partial_start} if whole_start is None else whole_start


def _exposure(
    config: SourceConfig, connections: KafkaConnections, metrics: SourceMetrics
) -> SourceExposure | None:
    if config.metrics is None:
        return None
    from penstock.observe.serve.start import SourceExposure  # noqa: PLC0415 - only with metrics

    return SourceExposure(config, connections, metrics)


def _committer(
    config: SourceConfig, lookup: KafkaOffsetLookup, metrics: SourceMetrics, one_reader: OneReader
) -> OffsetCommitter | None:
    group_id = config.group_id
    if group_id is None or not config.commits_offsets:
        return None
    from penstock.source.offset_committer import OffsetCommitter  # noqa: PLC0415 - the driver's, too

    commit = one_reader.watching(partial(lookup.commit_offsets, group_id))
    return OffsetCommitter(commit, metrics, group_id=group_id)
