"""The rows of a table to the columns that a sink writes: topic, key, value, headers, timestamp.

Runs on executors. The driver makes an encoder once, to find mistakes in the schema. Invariant: there is a
record for every row, in the order of the rows. Without `key.format` keys are null. Without a `timestamp`
column the producer's clock gives the timestamp.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.formats import ROW_KIND, metadata_column
from penstock.table._fields import Table, check_writable
from penstock.table._metadata_columns import WRITABLE


class TableEncoder:
    """Encodes the rows of one table."""

    def __init__(self, table: Table, topic: str | None) -> None:
        """Prepare.

        Args:
            table: The table; its schema has the columns of the rows.
            topic: The sink's one topic; None when a column names the topic of each row.

        Raises:
            SchemaError: a column cannot be written, or no column names the topic.
        """
        check_writable(table, topic)
        if topic is None and "topic" not in table.metadata.values():
            raise SchemaError(
                "Neither option 'topic' nor a metadata column 'topic' names the topic of the rows. Set one.",
                metadata="topic",
            )
        self._table = table
        self._value = table.value_format.encoder(table.value_schema)
        self._key = None
        if table.key_format is not None:
            self._key = table.key_format.encoder(table.key_schema)

    def encode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Encode rows that have the table's columns, in any order.

        Returns:
            Columns key and value, and the columns topic, headers and timestamp where the table has them.

        Raises:
            RowError: a row cannot be written in its format.
        """
        table = self._table
        columns = {"key": self._keys(rows), "value": self._values(rows)}
        for column, key in table.metadata.items():
            if key == ROW_KIND:
                continue
            writable = WRITABLE[key]
            given = column_of(rows, column)
            columns[writable.sink_column] = writable.write(given).cast(self._sink_type(writable.sink_column))
        return pa.RecordBatch.from_pydict(columns)

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        if self._key is None:
            return pa.nulls(rows.num_rows, pa.binary())
        key_rows = rows.select(list(self._table.key_names))
        return self._key.encode(key_rows.rename_columns(self._table.key_schema.names))

    def _values(self, rows: pa.RecordBatch) -> pa.Array:
        value_rows = rows.select(self._table.value_schema.names)
        if self._table.row_kind is not None:
            kinds = column_of(rows, self._table.row_kind)
            value_rows = value_rows.append_column(metadata_column(ROW_KIND), kinds)
        return self._value.encode(value_rows)

    @staticmethod
    def _sink_type(sink_column: str) -> pa.DataType:
        return next(
            one.type for key, one in WRITABLE.items() if one.sink_column == sink_column and key != "headers"
        )


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array:
    return rows.column(rows.schema.get_field_index(name))
