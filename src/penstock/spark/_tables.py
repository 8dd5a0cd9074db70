"""Make typed reads and writes from a table's specification and a Spark schema.

`table_source` and `table_sink` run on the driver and raise errors about options and columns; their results
pickle and work on the executors. Invariants: rows leave with exactly the Arrow schema that PySpark derives
from the Spark schema; a bad record is handled (dead letters: acknowledged by Kafka) before the rows around it
leave, so before its task can end.

A column is metadata if the option `metadata.columns` names it or, without that option, if its field in the
Spark schema has the mark `{"penstock.metadata": "<metadata key>"}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    TimestampType,
    UserDefinedType,
)

from penstock.errors import SchemaError
from penstock.options.row_filter import RowFilter
from penstock.options.table import DEAD_LETTER_TOPIC, EVENT_TIME_COLUMN
from penstock.options.table_spec import BadRecordsSpec, DeserializerSpec, EventTimeSpec, TableSpec
from penstock.spark._task_context import is_new_in_run
from penstock.spark.versions import to_arrow_schema
from penstock.table import BadRecords, Table, TableDecoder, TableEncoder, make_table
from penstock.table.read import RecordDecoder, TableRowMaker

METADATA_MARK = "penstock.metadata"

_PACKED = frozenset({"variant", "geometry", "geography"})


class TableSource(ABC):
    """A typed read. Small, because it travels with the reader to every task."""

    @property
    @abstractmethod
    def bad_records(self) -> BadRecordsSpec:
        """Return the policy for records that cannot be decoded."""

    def check_dead_letter_topic(self) -> None:
        """Check once a process that the topic of dead letters exists, before any task writes one.

        Raises:
            UnknownTopicOrPartitionError: it does not exist.
            AuthorizationError: it may not be described.
        """
        dead_letters = self.bad_records.dead_letters
        if dead_letters is not None:
            # Imported here because tasks check nothing.
            from penstock.spark._target_topics import check_target_topic  # noqa: PLC0415

            check_target_topic(dead_letters, DEAD_LETTER_TOPIC.key)

    def _deliver(self, dead_letters: pa.RecordBatch) -> None:
        """Write dead letters; return when Kafka has acknowledged them."""
        if self.bad_records.dead_letters is not None:
            # Imported here so that a read without dead letters loads no producer.
            from penstock.sink.writer import write_rows  # noqa: PLC0415

            write_rows(self.bad_records.dead_letters, [dead_letters])

    @property
    def row_time_column(self) -> str | None:
        """Return the column by which topic partitions are aligned; None: by the timestamps of records."""
        return None

    @property
    def row_filter(self) -> RowFilter:
        """Return the conditions of the rows that are wanted. `decoder`, which aligns, gives all rows."""
        return ()

    @abstractmethod
    def decoder(self) -> RecordDecoder:
        """Return a decoder of records, for one task or for the driver.

        Raises:
            OptionError: an object of the user cannot be loaded here.
        """

    def open(self) -> TableRowMaker:
        """Return the maker of rows for the records of one task; see `decoder`."""
        spec = self.bad_records
        policy = BadRecords(spec.policy, spec.dead_letter_topic, spec.max_share)
        return TableRowMaker(self.decoder(), policy, self._deliver, is_new_in_run, self._wanted())

    def open_endless(self, deliver: Callable[[pa.RecordBatch], object]) -> TableRowMaker:
        """Return the maker of rows for a task that does not end by itself. `deliver` takes dead letters."""
        spec = self.bad_records
        policy = BadRecords(spec.policy, spec.dead_letter_topic, spec.max_share, is_endless=True)
        return TableRowMaker(self.decoder(), policy, deliver, is_new_in_run, self._wanted())

    def _wanted(self) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
        if not self.row_filter:
            return None
        # Imported here because other reads do not need it.
        from penstock.table.row_filter import WantedRows  # noqa: PLC0415

        return WantedRows(self.row_filter).of


@dataclass(frozen=True)
class FormatSource(TableSource):
    """A read whose rows are made by formats."""

    table: Table
    row_time_column: str | None = None
    row_filter: RowFilter = ()

    @property
    def bad_records(self) -> BadRecordsSpec:
        return self.table.bad_records

    def decoder(self) -> RecordDecoder:
        if self.table.upsert is None:
            return TableDecoder(self.table)
        # Imported here because other reads do not need it.
        from penstock.table.upsert_decode import UpsertDecoder  # noqa: PLC0415

        return UpsertDecoder(self.table)


@dataclass(frozen=True)
class PythonSource(TableSource):
    """A read whose rows are made by a deserializer of the user."""

    schema: pa.Schema
    spec: DeserializerSpec
    row_time_column: str | None = None

    @property
    def bad_records(self) -> BadRecordsSpec:
        return self.spec.bad_records

    def decoder(self) -> RecordDecoder:
        # Imported here because other reads do not need it.
        from penstock.table.python_rows import PythonDecoder  # noqa: PLC0415

        return PythonDecoder(self.spec.text, self.schema)


@dataclass(frozen=True)
class EventTimeSource(TableSource):
    """A read with a column that a timestamp assigner fills; `inner` makes the other columns."""

    inner: TableSource
    spec: EventTimeSpec
    schema: pa.Schema

    @property
    def bad_records(self) -> BadRecordsSpec:
        return self.inner.bad_records

    @property
    def row_filter(self) -> RowFilter:
        return self.inner.row_filter

    @property
    def row_time_column(self) -> str | None:
        return self.spec.column if self.spec.is_of_rows else None

    def decoder(self) -> RecordDecoder:
        # Imported here because other reads do not need it.
        from penstock.table.event_time import EventTimeDecoder  # noqa: PLC0415

        return EventTimeDecoder(self.inner.decoder(), self.spec, self.schema)


@dataclass(frozen=True)
class TableSink:
    """A typed write. Small, because it travels with the writer to every task."""

    table: Table
    topic: str | None

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode the rows of one task for `write_rows`.

        Raises:
            RowError: a row has no representation in its format.
        """
        rows = (_as_declared(batch, self.table.schema) for batch in batches if batch.num_rows)
        if self.table.upsert is None:
            yield from map(TableEncoder(self.table, self.topic).encode, rows)
            return
        # Imported here because other writes do not need it.
        from penstock.table.upsert_encode import UpsertEncoder  # noqa: PLC0415

        yield from UpsertEncoder(self.table, self.topic).records(rows)

    @property
    def has_keys_in_order(self) -> bool:
        """Return whether all rows of a key have to be in one task, because their order counts."""
        return self.table.upsert is not None


def _as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Undo the session's changes to Arrow types: its time zone, and large strings."""
    if batch.schema.equals(schema):
        return batch
    columns = [batch.column(i).cast(field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def table_source(schema: StructType, spec: TableSpec | DeserializerSpec) -> TableSource:
    """Return the table that a read declares.

    Raises:
        OptionError: options contradict the columns, or a format has no such option.
        SchemaError: a column cannot be read.
    """
    event_time = spec.event_time
    if event_time is None:
        return _source(schema, spec, None)
    _check_time_column(schema, event_time.column)
    if event_time.assigner is None:
        return _source(schema, spec, event_time.column)
    others = StructType([field for field in schema if field.name != event_time.column])
    whole = to_arrow_schema(schema)
    return EventTimeSource(_source(others, spec, None), event_time, whole)


def _source(schema: StructType, spec: TableSpec | DeserializerSpec, time_column: str | None) -> TableSource:
    if isinstance(spec, DeserializerSpec):
        return PythonSource(to_arrow_schema(schema), spec, time_column)
    found = FormatSource(_table_of(schema, spec), time_column, spec.row_filter)
    found.decoder()
    if spec.row_filter:
        from penstock.table.row_filter import check_conditions  # noqa: PLC0415 - other reads do not need it

        check_conditions(found.table, spec.row_filter)
    return found


def _check_time_column(schema: StructType, name: str) -> None:
    found = next((field for field in schema if field.name == name), None)
    if found is None or not isinstance(found.dataType, TimestampType):
        kind = "is not declared" if found is None else f"is {found.dataType.simpleString()}"
        raise SchemaError(
            f"Column '{name}' of '{EVENT_TIME_COLUMN.key}' {kind}. Declare it as TIMESTAMP.", column=name
        )


def table_sink(schema: StructType, spec: TableSpec, topic: str | None) -> TableSink:
    """Return the table that a write declares; `topic` is the sink's one topic.

    Raises:
        OptionError: options contradict the columns, or a format has no such option.
        SchemaError: a column cannot be written.
    """
    table = _table_of(schema, spec)
    TableEncoder(table, topic)
    return TableSink(table, topic)


def missing_schema() -> SchemaError:
    """Make the error for a read of a table for which the user gave no schema."""
    return SchemaError(
        "A read with a format needs declared columns, and none are declared. Declare them, e.g. with "
        '.schema("id BIGINT, name STRING"), or leave the format out to read keys and values as bytes.'
    )


def _table_of(schema: StructType, spec: TableSpec) -> Table:
    arrow_schema = table_schema(schema)
    if spec.metadata_columns is None:
        spec = replace(spec, metadata_columns=marked_metadata(schema))
    return make_table(arrow_schema, spec)


def table_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a table, exactly as PySpark derives it.

    A type whose Arrow form is only Spark's own packing (a variant, a geometry) is refused, because a format
    would read or write the packing instead of the value.

    Raises:
        SchemaError: no columns, or a type that no format can hold.
    """
    if not schema.fields:
        raise SchemaError("The table has no columns. Declare at least one.")
    for field in schema:
        if _is_packed(field.dataType):
            raise _unsupported(field)
        try:
            to_arrow_schema(StructType([field]))
        except PySparkTypeError as error:
            raise _unsupported(field) from error
    return to_arrow_schema(schema)


def marked_metadata(schema: StructType) -> tuple[tuple[str, str], ...]:
    """Return the columns that are marked as metadata, with their metadata keys.

    Raises:
        SchemaError: a mark is not text.
    """
    marks = [(field.name, field.metadata.get(METADATA_MARK)) for field in schema if field.metadata]
    for column, key in marks:
        if key is not None and not isinstance(key, str):
            raise SchemaError(
                f"Expected text in the mark '{METADATA_MARK}' of column '{column}', got {key!r}. Use a "
                "metadata key such as 'offset' or 'timestamp'.",
                column=column,
            )
    return tuple((column, key) for column, key in marks if key is not None)


def _is_packed(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _is_packed(kind.elementType)
    if isinstance(kind, MapType):
        return _is_packed(kind.keyType) or _is_packed(kind.valueType)
    if isinstance(kind, StructType):
        return any(_is_packed(field.dataType) for field in kind)
    # By name, because not every version of PySpark has the class of a geometry.
    return isinstance(kind, UserDefinedType) or kind.typeName().lower() in _PACKED


def _unsupported(field: StructField) -> SchemaError:
    return SchemaError(
        f"Column '{field.name}' has type {field.dataType.simpleString()}, which no format can hold. Declare "
        "or cast it as another type, e.g. a string.",
        column=field.name,
        type=field.dataType.simpleString(),
    )
