"""Tables: how the options and a Spark schema become typed reads and writes.

`table_source` and `table_sink` run on the driver and find what does not fit; what they return pickles and
does its work on the executors. Invariants: rows that leave have exactly the Arrow schema that PySpark
derives from the Spark schema; a bad record has been dealt with (dead letters: acknowledged by Kafka) before
the rows around it leave, so before its task can end.

A column is metadata where the option `metadata.columns` says so or, without that option, where its field in
the Spark schema bears the mark `{"penstock.metadata": "<metadata key>"}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.errors import OptionError, SchemaError
from penstock.options.config import SinkConfig, SourceConfig
from penstock.options.table import DEAD_LETTER_TOPIC
from penstock.spark.table_schema import marked_metadata, table_schema
from penstock.table import (
    BadRecords,
    DeserializerOptions,
    Table,
    TableDecoder,
    TableEncoder,
    TableOptions,
    has_table_options,
    make_table,
    parse_deserializer_options,
    parse_table_options,
)
from penstock.table.read import TableRowMaker


class TableSource(ABC):
    """A typed read. Small: it travels with the reader to every task."""

    dead_letters: SinkConfig | None

    def check_dead_letter_topic(self) -> None:
        """Look for the topic of dead letters, once a process, before any task has one to write.

        Raises:
            UnknownTopicOrPartitionError: it does not exist.
            AuthorizationError: it may not be described.
        """
        if self.dead_letters is not None:
            # Here and not above: tasks check nothing.
            from penstock.spark.target_topics import check_target_topic  # noqa: PLC0415

            check_target_topic(self.dead_letters, DEAD_LETTER_TOPIC.key)

    def _deliver(self, dead_letters: pa.RecordBatch) -> None:
        """Write dead letters; returns when Kafka has acknowledged them."""
        if self.dead_letters is not None:
            # Here and not above: a read without dead letters loads no producer.
            from penstock.sink.writer import write_rows  # noqa: PLC0415

            write_rows(self.dead_letters, [dead_letters])

    @abstractmethod
    def open(self) -> TableRowMaker:
        """Make what decodes the records of one task."""


@dataclass(frozen=True)
class FormatSource(TableSource):
    """A read whose rows formats make."""

    table: Table
    dead_letters: SinkConfig | None

    def open(self) -> TableRowMaker:
        """Make what decodes the records of one task."""
        options = self.table.options
        policy = BadRecords(options.on_decode_error, options.dead_letter_topic, options.max_bad_share)
        return TableRowMaker(TableDecoder(self.table), policy, self._deliver)


@dataclass(frozen=True)
class PythonSource(TableSource):
    """A read whose rows a deserializer of the user makes."""

    schema: pa.Schema
    options: DeserializerOptions
    dead_letters: SinkConfig | None

    def open(self) -> TableRowMaker:
        """Load the deserializer for one task.

        Raises:
            OptionError: it cannot be loaded here.
        """
        # Here and not above: other reads have nothing to do with it.
        from penstock.table.python_rows import PythonDecoder  # noqa: PLC0415

        options = self.options
        policy = BadRecords(options.on_decode_error, options.dead_letter_topic, options.max_bad_share)
        return TableRowMaker(PythonDecoder(options.text, self.schema), policy, self._deliver)


@dataclass(frozen=True)
class TableSink:
    """A typed write. Small: it travels with the writer to every task."""

    table: Table
    topic: str | None

    def records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode the rows of one task; what comes out is what `write_rows` takes.

        Raises:
            RowError: a row has no representation in its format.
        """
        encoder = TableEncoder(self.table, self.topic)
        for batch in batches:
            if batch.num_rows:
                yield encoder.encode(_as_declared(batch, self.table.schema))


def _as_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Undo what the session's settings do to Arrow types: its time zone, and large strings."""
    if batch.schema.equals(schema):
        return batch
    columns = [batch.column(i).cast(field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def table_source(schema: StructType, options: Mapping[str, str], config: SourceConfig) -> TableSource | None:
    """Return the table that a read declares; None for keys and values as bytes.

    Raises:
        OptionError: options contradict each other or the columns.
        SchemaError: a column cannot be read.
    """
    if not has_table_options(options):
        return None
    if config.include_headers:
        raise OptionError(
            "Headers of a read with a format are metadata: declare a column with metadata 'headers' or "
            "'header-list', and leave the option for the column 'headers' out.",
            option="scan.include-headers",
        )
    python = parse_deserializer_options(options)
    if python is not None:
        letters = _dead_letters(options, python.dead_letter_topic, config)
        return PythonSource(to_arrow_schema(schema, timezone="UTC"), python, letters)
    table = _table_of(schema, parse_table_options(options))
    TableDecoder(table)
    return FormatSource(table, _dead_letters(options, table.options.dead_letter_topic, config))


def _dead_letters(options: Mapping[str, str], topic: str | None, config: SourceConfig) -> SinkConfig | None:
    if topic is None:
        return None
    # Here and not above: it loads the parsers of options, and tasks parse none.
    from penstock.options.dead_letters import dead_letter_sink  # noqa: PLC0415

    return dead_letter_sink(options, topic, config.subscription)


def table_sink(schema: StructType, options: Mapping[str, str], config: SinkConfig) -> TableSink | None:
    """Return the table that a write declares; None for keys and values as bytes.

    Raises:
        OptionError: options contradict each other or the columns.
        SchemaError: a column cannot be written.
    """
    if not has_table_options(options):
        return None
    table = _table_of(schema, parse_table_options(options))
    TableEncoder(table, config.topic)
    return TableSink(table, config.topic)


def refuse_missing_schema(options: Mapping[str, str]) -> None:
    """Refuse a read with a format for which the user gave no schema.

    Raises:
        SchemaError: there are options of tables.
    """
    if has_table_options(options):
        raise SchemaError(
            "A read with a format has the columns that you declare, and none are declared. Give them with "
            '.schema("id BIGINT, name STRING"), or leave the format out to read keys and values as bytes.'
        )


def _table_of(schema: StructType, options: TableOptions) -> Table:
    arrow_schema = table_schema(schema)
    if options.metadata_columns is None:
        options = replace(options, metadata_columns=marked_metadata(schema))
    return make_table(arrow_schema, options)
