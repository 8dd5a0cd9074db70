"""KafkaRecords to the rows of a table: key, value and metadata brought together.

Runs on executors. The driver makes a decoder once, to find mistakes in the schema. Invariant: every row comes
from one record, in the order of the records. A record whose key or value cannot be decoded gives no row and
one failure.

Flink silently drops a record whose key is null. Here the record stays, with null in the key's columns. A null
value (tombstone) gives no row in formats that need a value, and a row with null in `raw`, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.codec.schema import KAFKA_RECORDS
from penstock.formats import (
    ROW_KIND,
    DecodedRows,
    Decoder,
    LeftOut,
    RowFailure,
    is_changelog,
    metadata_column,
)
from penstock.options.table_spec import FieldsInclude, OnDecodeError
from penstock.table._fields import Table, check_readable
from penstock.table._metadata_columns import READABLE, VALUE_PREFIX

_ROW_KINDS = metadata_column(ROW_KIND)
_NO_KEY = "the key is null or empty, and its columns are declared NOT NULL"


@dataclass(frozen=True)
class RecordFailure:
    """A record that could not be decoded; `part` is "key" or "value"."""

    record_index: int
    part: str
    reason: str
    excerpt: str


@dataclass(frozen=True)
class TableRows:
    """The rows of some records.

    `record_indices` has the record of each row, ascending. None means that row i comes from record i.
    `dropped_count` counts the records that `ignore-parse-errors` of a format dropped. `left_out` has
    fields of a record that are not in the table.
    """

    rows: pa.RecordBatch
    row_count: int
    record_indices: pa.Int32Array | None
    failures: Sequence[RecordFailure]
    dropped_count: int
    left_out: LeftOut | None = None


class TableDecoder:
    """Decodes KafkaRecords to the rows of one table."""

    def __init__(self, table: Table, columns: Sequence[str] | None = None) -> None:
        """Prepare for the columns that are wanted.

        Args:
            table: The table.
            columns: Columns of the table, in the order of the output; None means all. Other columns are not
                decoded.

        Raises:
            SchemaError: a format or a metadata key cannot give a column.
        """
        check_readable(table)
        self._table = table
        names = table.schema.names if columns is None else columns
        self._schema = pa.schema([table.schema.field(name) for name in names])
        self._origins = {name: self._origin(name) for name in self._schema.names}
        self._refuses_changes = is_changelog(table.value_format) and table.row_kind is None
        kinds = [_ROW_KINDS] if self._refuses_changes else []
        self._value = table.value_format.decoder(table.value_schema, [*self._wanted("value"), *kinds])
        self._key = None
        wanted = self._wanted("key")
        if wanted:
            assert table.key_format is not None  # noqa: S101 - key columns come from a key format only
            self._key = table.key_format.decoder(table.key_schema, wanted)
        self._may_lack_key = all(table.key_schema.field(name).nullable for name in wanted)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def record_columns(self) -> tuple[str, ...]:
        needed = {"value", "topic", "partition", "offset"}
        if self._table.bad_records.policy is OnDecodeError.DEAD_LETTER:
            needed |= {"key", "headers", "timestamp"}
        if self._key is not None:
            needed.add("key")
        for origin, key in self._origins.values():
            if origin == "metadata":
                needed.update(READABLE[key].record_columns)
        return tuple(name for name in KAFKA_RECORDS.names if name in needed)

    def decode(self, records: pa.RecordBatch) -> TableRows:
        """Decode records that have at least `record_columns`.

        Raises:
            SchemaError: a row is an update or a delete, and the table has no column for the row kind.
        """
        value = self._value.decode(records.column("value"))
        left_out = self._left_out(value.left_out)
        if self._refuses_changes:
            from penstock.table._beside import check_inserts  # noqa: PLC0415 - slow to import

            check_inserts(self._table, records, value)
        failures = _failures("value", value.failures)
        key_rows, dropped = None, value.ignored_count
        if self._key is not None:
            value, key_rows, failures, more = self._with_keys(self._key, records, value, failures)
            dropped += more
        arrays = [self._column(name, records, value, key_rows) for name in self._schema.names]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        return TableRows(rows, value.row_count, value.value_indices, failures, dropped, left_out)

    def _with_keys(
        self, decoder: Decoder, records: pa.RecordBatch, value: DecodedRows, failures: list[RecordFailure]
    ) -> tuple[DecodedRows, pa.RecordBatch, list[RecordFailure], int]:
        """Return the rows that stay, their keys, all failures, and how many records more gave no row."""
        from penstock.table import _beside  # noqa: PLC0415 - see above

        key = decoder.decode(records.column("key"))
        failures = _merge(failures, _failures("key", key.failures))
        without_key = _beside.records_without_key(records, key)
        if not self._may_lack_key:
            lacking = _beside.missing_keys(without_key, value)
            failures = _merge(failures, [RecordFailure(each, "key", _NO_KEY, "") for each in lacking])
            without_key = without_key.slice(0, 0)
        has_rows = set(value.indices().to_pylist()) if failures else set()
        lost_to_failures = len(has_rows & {one.record_index for one in failures})
        value, key_rows, lost_count = _beside.joined(without_key, value, key)
        return value, key_rows, failures, lost_count - lost_to_failures

    def _left_out(self, found: LeftOut | None) -> LeftOut | None:
        """Return the fields without those that the table takes from the key."""
        taken = {*self._table.schema.names, *self._table.key_schema.names}  # the key's without their prefix
        names = frozenset() if found is None else found.names - taken
        return LeftOut(found.value_index, names) if found is not None and names else None

    def _origin(self, name: str) -> tuple[str, str]:
        """Return where a column comes from (key, value or metadata), and its name there."""
        table = self._table
        if name in table.metadata:
            key = table.metadata[name]
            if key in READABLE:
                return "metadata", key
            return "value", metadata_column(key.removeprefix(VALUE_PREFIX))
        if name in table.key_names and table.fields_include is FieldsInclude.EXCEPT_KEY:
            return "key", table.key_schema.names[table.key_names.index(name)]
        # With ALL, key and value both have the column. The value's counts, so the key is not read.
        return "value", name

    def _wanted(self, wanted: str) -> list[str]:
        return list(dict.fromkeys(name for origin, name in self._origins.values() if origin == wanted))

    def _column(
        self, name: str, records: pa.RecordBatch, value: DecodedRows, key_rows: pa.RecordBatch | None
    ) -> pa.Array:
        origin, key = self._origins[name]
        if origin == "metadata":
            column = READABLE[key].read(records)
            if value.value_indices is not None:
                column = column.take(value.value_indices)
        elif origin == "key" and key_rows is not None:
            column = key_rows.column(key)
        else:
            column = value.rows.column(key)
        wanted = self._schema.field(name).type
        return column if column.type.equals(wanted) else column.cast(wanted)


def _failures(part: str, failures: Sequence[RowFailure]) -> list[RecordFailure]:
    return [RecordFailure(one.value_index, part, one.reason, one.excerpt) for one in failures]


def _merge(value: list[RecordFailure], key: list[RecordFailure]) -> list[RecordFailure]:
    """Return one failure for each record, ascending. The key's failure counts where both are bad."""
    by_record = {one.record_index: one for one in (*value, *key)}
    return [by_record[index] for index in sorted(by_record)]
