"""Exactly-once writes: connect Spark's calls to the protocol of `sink/exactly_once`.

Two instances serve each batch. The first is made on the driver and pickled for the tasks. Its first pickling
begins the batch: `recover()` runs then, once, because Spark pickles only this instance, before any task
starts. The second instance gets `commit` or `abort`. They share nothing; the tasks' messages carry what the
second needs. Guarantee: exactly-once, see docs/exactly-once.md.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark import __version__ as version_of_spark
from pyspark.sql.types import StructType

from penstock import __version__ as version_of_penstock
from penstock.client.settings import connection_settings
from penstock.errors import ExactlyOnceError, PenstockError
from penstock.options.config import SinkConfig
from penstock.options.properties import property_value
from penstock.sink.exactly_once.committable import TaskReport
from penstock.sink.exactly_once.decision import BATCH_WRITE_PREFIX, NAMED_WRITE_PREFIX
from penstock.sink.exactly_once.mandate import Mandate
from penstock.sink.exactly_once.task_writer import TaskAttempt, write_in_transaction
from penstock.sink.writer import CLIENT_ID
from penstock.spark._sink_reports import SinkReporter, now_ms
from penstock.spark._task_context import query_and_batch_of_task
from penstock.spark._write_task import (
    TaskMessage,
    check_keys,
    check_rows_fit,
    records_of,
    refuse_overwrite,
)
from penstock.spark.process.begin import begin_task
from penstock.spark.process.short_errors import short_errors
from penstock.spark.versions import ArrowWriter, StreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:  # the driver's half, and a task without a table loads nothing of tables
    from penstock.sink.exactly_once.driver_side import DriverSide, ExactlyOnceSettings
    from penstock.sink.exactly_once.receipt import Facts
    from penstock.spark._key_sketch import KeySketch
    from penstock.spark._tables import TableSink
    from penstock.types import OffsetRange


@dataclass
class ExactlyOnceMessage(TaskMessage):
    """The report of one task: what it wrote, and in which transaction."""

    report: TaskReport
    keys: KeySketch | None = None


class _ExactlyOnce:
    """The common part of stream and batch writers. Pickles with the mandate of its batch."""

    def __init__(self, config: SinkConfig, schema: StructType, table: TableSink | None = None) -> None:
        check_rows_fit(schema, config, table)
        self._config = config
        self._table = table
        self._mandate: Mandate | None = None
        _ = self._settings.names  # raises for an invalid prefix, before a task starts

    @property
    def _write_query_id(self) -> str | None:
        """Return the query id of a batch write; None for a stream: only its tasks know it."""
        return None

    @short_errors
    def __getstate__(self) -> dict[str, Any]:
        if self._mandate is None:
            with errors_as_themselves():
                side = self._driver_side
                self._mandate = side.recover(self._write_query_id, _stream_id(self._config))
            SinkReporter(self._config).begun(side.unfinished_count())
        # Without the settings, because each task would load modules that only the driver needs.
        return {name: value for name, value in self.__dict__.items() if name != "_settings"}

    @cached_property
    def _settings(self) -> ExactlyOnceSettings:
        from penstock.sink.exactly_once.driver_side import ExactlyOnceSettings  # noqa: PLC0415 - tasks never decide

        return ExactlyOnceSettings(
            connection=connection_settings(self._config.properties, client_id=CLIENT_ID),
            prefix=self._config.transactional_id_prefix or "",
            log_topic=self._config.commit_log_topic,
            transaction_timeout_ms=property_value(self._config.properties, "transaction.timeout.ms"),
            fails_on_new_query=self._config.fails_on_new_query,
        )

    @property
    def _driver_side(self) -> DriverSide:
        from penstock.sink.exactly_once.driver_side import driver_side  # noqa: PLC0415 - tasks never decide

        return driver_side(self._settings)

    def _commit(
        self, messages: Sequence[WriterCommitMessage | None], siblings: Collection[str] = frozenset()
    ) -> None:
        begin_task()
        reports, side, reporter = _reports(messages), self._driver_side, SinkReporter(self._config)
        reporter.prepared(reports)
        check_keys(messages, is_written=False)
        begun_ms = now_ms()
        side.commit(reports, siblings, _facts(self._config, reports))
        reporter.committed(reports, now_ms() - begun_ms, side.unfinished_count())

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        SinkReporter(self._config).failed()
        self._driver_side.abort(_reports(messages))

    def _write(self, query_id: str, batch_id: int, batches: Iterator[pa.RecordBatch]) -> ExactlyOnceMessage:
        begin_task()
        context = TaskContext.get()
        if context is None or self._mandate is None:
            raise ExactlyOnceError(
                "The exactly-once sink was called outside of a Spark task. Nothing was written. Write with "
                "df.write or writeStream."
            )
        task = TaskAttempt(query_id, batch_id, context.partitionId(), context.attemptNumber())
        records, keys = records_of(batches, self._table)
        return ExactlyOnceMessage(write_in_transaction(self._config, self._mandate, task, records), keys)


class ExactlyOnceStreamWriter(_ExactlyOnce, StreamArrowWriter):
    """Writes each micro-batch once, even after failures and replays."""

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> ExactlyOnceMessage:
        """Write the rows of one task into a transaction, which `commit` ends."""
        query_and_batch = query_and_batch_of_task()
        if query_and_batch is None:
            raise ExactlyOnceError(
                "Spark did not tell this task its query and batch, which exactly-once needs to recognise a "
                "repeated batch. This task wrote nothing."
            )
        return self._write(*query_and_batch, iterator)

    @short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Decide that the batch is written, and finish its transactions."""
        self._commit(messages)

    @short_errors
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # Spark's name
        """Abort what is not decided. Spark also calls this when `commit` raised after its decision."""
        self._abort(messages)


class ExactlyOnceWriter(_ExactlyOnce, ArrowWriter):
    """Writes a DataFrame as one decision: all of it is seen by read_committed readers, or nothing."""

    def __init__(
        self, config: SinkConfig, schema: StructType, table: TableSink | None = None, *, overwrite: bool
    ) -> None:
        refuse_overwrite(overwrite)
        super().__init__(config, schema, table)
        self._query_id = config.query_id or _query_id_of_batch_write(config)
        self._batch_id = config.batch_id or 0

    @property
    def _write_query_id(self) -> str:
        return self._query_id

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> ExactlyOnceMessage:
        """Write the rows of one task into a transaction, which `commit` ends."""
        return self._write(self._query_id, self._batch_id, iterator)

    @short_errors
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Decide that the rows are written, and finish the transactions."""
        self._commit(messages, self._config.sibling_prefixes)

    @short_errors
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort what is not decided."""
        self._abort(messages)

    @short_errors
    def abandon(self) -> None:
        """Abort what is not decided, without messages of the tasks. A newer driver keeps the prefix."""
        if self._mandate is None:  # no task has begun
            return
        SinkReporter(self._config).failed()
        # All reports name the session of the mandate, also that of a task without rows.
        self._driver_side.abort([TaskReport(self._query_id, self._batch_id, 0, self._mandate.session)])


def _query_id_of_batch_write(config: SinkConfig) -> str:
    """Says whether it can be repeated: the decision about one that cannot is forgotten when finished."""
    if config.write_id is not None:
        return f"{NAMED_WRITE_PREFIX}{config.write_id}"
    return f"{BATCH_WRITE_PREFIX}{uuid.uuid4()}"


def _stream_id(config: SinkConfig) -> str | None:
    """Return the id of a stream, if its checkpoint is on this machine."""
    from penstock.spark.ranges_read import query_id_of  # noqa: PLC0415 - tasks never decide

    return None if config.checkpoint_location is None else query_id_of(config.checkpoint_location)


def _facts(config: SinkConfig, reports: Sequence[TaskReport]) -> Facts:
    """Return what the receipt of a batch says beside its writes: versions, and what the batch read."""
    from penstock.sink.exactly_once.receipt import Facts  # noqa: PLC0415 - tasks never decide
    from penstock.spark.ranges_read import ranges_between, ranges_read  # noqa: PLC0415 - tasks never decide

    location = config.checkpoint_location
    if not reports or location is None:
        return Facts(version_of_penstock, version_of_spark)
    batch = reports[0].query_id, reports[0].batch_id
    read = ranges_read(location, *batch)
    if read is None:
        return Facts(version_of_penstock, version_of_spark)

    def read_since(after: int) -> tuple[OffsetRange, ...] | None:
        return ranges_between(location, batch[0], after, batch[1])

    return Facts(version_of_penstock, version_of_spark, *read, read_since)


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    return [message.report for message in messages if isinstance(message, ExactlyOnceMessage)]


@contextmanager
def errors_as_themselves() -> Iterator[None]:
    """Raise errors of penstock so that Spark's serializer lets them through.

    It turns every error into `PicklingError: Could not serialize object`, which hides the cause. Only errors
    of the module pickle pass unchanged.
    """
    try:
        yield
    except PenstockError as error:
        raise _let_through(error) from error.__cause__


def _let_through(error: PenstockError) -> PenstockError:
    kind = type(error)

    def reduce(_: PenstockError) -> tuple[Any, ...]:
        return error.__reduce__()  # pickle finds the error's own class, because the name is the same

    looks = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__reduce__": reduce}
    passed: type[PenstockError] = type(kind.__name__, (kind, pickle.PickleError), looks)
    return passed(error.message, **error.facts)
