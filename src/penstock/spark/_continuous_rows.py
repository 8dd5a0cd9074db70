"""Give the records of a continuous query to the user's function, and make records of what it returns.

Made on the driver; `open` and what it returns run on executors. Invariant: the function gets the columns of a
read, and what it returns has the columns of a write, or is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.errors import OptionError, RowError
from penstock.options.config import SinkConfig
from penstock.options.continuous import ContinuousConfig
from penstock.relay.records import BadCounts
from penstock.sink.rows import check_write_schema
from penstock.spark._tables import TableSink, TableSource, missing_schema, table_sink, table_source
from penstock.spark.schema import RowSchema, source_schema
from penstock.table import TableEncoder
from penstock.table.given_rows import UnfitRowError, fitted
from penstock.table.read import RecordsToRows

BatchFunction = Callable[[pa.RecordBatch], "pa.RecordBatch | list[pa.RecordBatch]"]
_OUTCOMES = ("skipped", "deadLetters", "ignored")
_NOTHING = "Nothing that was read with it is committed."


@dataclass(frozen=True)
class QueryRecords:
    """Makes records with a function. Travels to the executors.

    Attributes:
        function: of the user. None: the rows stay as they are.
        include_headers: whether rows of keys and values as bytes have the column `headers`.
        source: of the rows. None: they are keys and values as bytes.
        sink: of the write.
        table: of what the function returns. None: it returns keys and values as bytes.
    """

    function: BatchFunction | None
    include_headers: bool
    source: TableSource | None
    sink: SinkConfig
    table: TableSink | None

    def open(self) -> FunctionRecords:
        """Return the maker of one task."""
        if self.source is not None:
            letters: list[pa.RecordBatch] = []
            return FunctionRecords(self.source.open_endless(letters.append), letters, self)
        columns = source_schema(include_headers=self.include_headers)
        return FunctionRecords(RowSchema(columns), [], self)


def records_of_query(
    config: ContinuousConfig,
    function: BatchFunction | None,
    schema: StructType | None,
    output_schema: StructType | None,
) -> QueryRecords | None:
    """Return what makes the records of a query. None: records are copied as they are.

    Args:
        config: of the query.
        function: of the user.
        schema: the columns of the source, if it has a format.
        output_schema: the columns of the sink, if it has a format; None for those of the source.

    Raises:
        SchemaError: columns are missing, or do not fit a format.
        OptionError: columns are given without a format, or a format has no such option.
    """
    source, sink = config.source_table, config.sink_table
    _check_has_format("schema", schema, source is not None)
    _check_has_format("output_schema", output_schema, sink is not None)
    if source is None and sink is None and function is None:
        return None
    if source is not None and schema is None:
        raise missing_schema()
    columns = output_schema or schema
    if sink is not None and columns is None:
        raise missing_schema()
    return QueryRecords(
        function,
        config.source.include_headers,
        None if source is None or schema is None else table_source(schema, source),
        config.sink,
        None if sink is None or columns is None else table_sink(columns, sink, config.target),
    )


def _check_has_format(name: str, schema: StructType | None, has_format: bool) -> None:
    if schema is not None and not has_format:
        side = "source" if name == "schema" else "sink"
        raise OptionError(
            f"`{name}` names the columns of a format, and the {side} has none. Nothing was read or written. "
            f"Set the option 'format' of the {side}, or leave `{name}` out.",
            option=name,
        )


class FunctionRecords:
    """Makes the records of one task."""

    def __init__(self, rows: RecordsToRows, letters: list[pa.RecordBatch], query: QueryRecords) -> None:
        self._rows = rows
        self._letters = letters
        """The dead letters of `rows` since they were asked for."""
        self._function = query.function
        self._sink = query.sink
        table = query.table
        self._encoder = None if table is None else TableEncoder(table.table, table.topic)
        self._schema = None if table is None else table.table.schema
        self._checked: pa.Schema | None = None

    @property
    def columns(self) -> Sequence[str]:
        """Return the columns of KafkaRecords that are read."""
        return self._rows.columns

    def records(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Return records made of what the function returns for a batch.

        Raises:
            DecodeError: a record cannot be decoded and the policy is `fail`, or too many records are bad.
            RowError: what the function returns cannot be written.
        """
        rows = self._rows.rows(batch)
        made = rows if self._function is None else self._function(rows)
        return [self._record_batch(each) for each in (made if isinstance(made, list) else [made])]

    def dead_letters(self) -> Iterable[pa.RecordBatch]:
        """Return what the last call of `records` could not decode."""
        found = self._letters.copy()
        self._letters.clear()
        return found

    def bad_records(self) -> BadCounts:
        """Return how many records could not be decoded."""
        found = self._rows.outcomes()
        return BadCounts(*(found.get(f"decodeErrors.{name}", 0) for name in _OUTCOMES))

    def _record_batch(self, made: Any) -> pa.RecordBatch:
        if not isinstance(made, pa.RecordBatch):
            raise RowError(
                "Expected a pyarrow.RecordBatch, or a list of them, from the function of the continuous "
                f"query, got {type(made).__name__}. {_NOTHING} Return a batch without rows to write nothing."
            )
        if self._encoder is not None:
            return self._encoder.encode(self._fitted(made, self._schema))
        if made.schema != self._checked:
            check_write_schema(made.schema, self._sink)
            self._checked = made.schema
        return made

    def _fitted(self, made: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        try:
            return fitted(made, schema, "the function")
        except UnfitRowError as error:
            raise RowError(
                f"What the function of the continuous query returned does not fit its columns: {error}. "
                f"{_NOTHING} Correct the function, or `output_schema`."
            ) from None
