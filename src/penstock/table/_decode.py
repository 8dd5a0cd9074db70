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
import pyarrow.compute as pc

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import SchemaError
from penstock.formats import (
    INSERT,
    ROW_KIND,
    DecodedRows,
    LeftOut,
    RowFailure,
    is_changelog,
    metadata_column,
)
from penstock.options.table_spec import FieldsInclude, OnDecodeError
from penstock.table._fields import Table, check_readable
from penstock.table._metadata_columns import READABLE, VALUE_PREFIX
from penstock.types import ROW_KIND as ROW_KIND_COLUMN


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
            _check_inserts(self._table, records, value)
        failures = _failures("value", value.failures)
        key, without_key = None, pa.array([], pa.int32())
        if self._key is not None:
            key = self._key.decode(records.column("key"))
            failures = _merge(failures, _failures("key", key.failures))
            without_key = _records_without_key(records, key)
            if not self._may_lack_key:
                failures = _merge(failures, _missing_keys(without_key, value))
                without_key = without_key.slice(0, 0)
        has_rows = set(value.indices().to_pylist()) if failures and key is not None else set()
        lost_to_failures = len(has_rows & {one.record_index for one in failures})
        value, key_rows, lost_count = _joined(without_key, value, key)
        arrays = [self._column(name, records, value, key_rows) for name in self._schema.names]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        # A record that the join lost is a failure, or the key's format dropped it.
        dropped = value.ignored_count + lost_count - lost_to_failures
        return TableRows(rows, value.row_count, value.value_indices, failures, dropped, left_out)

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


_ROW_KINDS = metadata_column(ROW_KIND)


def _check_inserts(table: Table, records: pa.RecordBatch, value: DecodedRows) -> None:
    """Raise SchemaError for the first row that is not an insert."""
    changes = pc.indices_nonzero(pc.not_equal(value.rows.column(_ROW_KINDS), INSERT))
    if not len(changes):
        return
    row = changes[0].as_py()
    record = value.indices()[row].as_py()
    topic, partition, offset = (records.column(name)[record].as_py() for name in _RECORD_OFFSET)
    raise SchemaError(
        f"The read has no column for the row kind, and a row of {topic}, partition {partition}, offset "
        f"{offset} is {value.rows.column(_ROW_KINDS)[row].as_py()}: format '{table.value_format.name}' gives "
        "updates and deletes too. Nothing was lost: the query stops before this record. Add the column "
        f"{ROW_KIND_COLUMN} STRING to the schema, or another STRING column and the option "
        f"'metadata.columns' = '<column> = {ROW_KIND}'.",
        topic=topic,
        partition=partition,
        offset=offset,
    )


_RECORD_OFFSET = ("topic", "partition", "offset")


def _missing_keys(without_key: pa.Int32Array, value: DecodedRows) -> list[RecordFailure]:
    """Return a failure for each record without a key, because the key's columns are declared NOT NULL."""
    missing = without_key.filter(pc.is_in(without_key, value_set=value.indices()))
    reason = "the key is null or empty, and its columns are declared NOT NULL"
    return [RecordFailure(record, "key", reason, "") for record in missing.to_pylist()]


def _joined(
    without_key: pa.Int32Array, value: DecodedRows, key: DecodedRows | None
) -> tuple[DecodedRows, pa.RecordBatch | None, int]:
    """Put the key's rows beside the value's. The number is how many records found no key."""
    if key is None:
        return value, None, 0
    if key.value_indices is None and value.value_indices is None:
        return value, key.rows, 0
    if len(pc.unique(key.indices())) < key.row_count:
        return _multiplied(without_key, value, key)
    positions = pc.index_in(value.indices(), value_set=key.indices())
    return _beside(without_key, value, key, positions)


def _beside(
    without_key: pa.Array, value: DecodedRows, key: DecodedRows, positions: pa.Array
) -> tuple[DecodedRows, pa.RecordBatch, int]:
    """Take for each row of the value the key's row at `positions`; null is a missing or lost key."""
    has_key = positions.is_valid()
    is_null_key = pc.is_in(value.indices(), value_set=without_key)
    keeps = pc.or_(has_key, is_null_key)
    kept = _filtered(value, keeps)
    lost = len(pc.unique(value.indices().filter(pc.invert(keeps))))
    return kept, key.rows.take(positions.filter(keeps)), lost


def _records_without_key(records: pa.RecordBatch, key: DecodedRows) -> pa.Int32Array:
    """Return the records whose key is null or empty, and gave neither a row nor a failure."""
    lengths = pc.fill_null(pc.binary_length(records.column("key")), 0)
    empty = pc.indices_nonzero(pc.equal(lengths, 0)).cast(pa.int32())
    if not len(empty):
        return empty
    failed = pa.array([one.value_index for one in key.failures], pa.int32())
    is_settled = pc.or_(pc.is_in(empty, value_set=key.indices()), pc.is_in(empty, value_set=failed))
    return empty.filter(pc.invert(is_settled))


def _filtered(value: DecodedRows, keeps: pa.Array) -> DecodedRows:
    if pc.all(keeps).as_py() is not False:
        return value
    indices = value.indices().filter(keeps)
    rows = value.rows.filter(keeps) if value.rows.num_columns else value.rows
    return DecodedRows(rows, len(indices), indices, value.failures, value.ignored_count)


def _multiplied(
    without_key: pa.Array, value: DecodedRows, key: DecodedRows
) -> tuple[DecodedRows, pa.RecordBatch, int]:
    """Combine every row of a key with every row of its value, as Flink does. Rare, so it goes row by row."""
    rows_of_key: dict[int, list[int | None]] = {}
    for row, record in enumerate(key.indices().to_pylist()):
        rows_of_key.setdefault(record, []).append(row)
    for record in without_key.to_pylist():
        rows_of_key.setdefault(record, [None])
    value_rows, key_rows = [], []
    lost = set()
    for row, record in enumerate(value.indices().to_pylist()):
        found = rows_of_key.get(record, [])
        value_rows.extend([row] * len(found))
        key_rows.extend(found)
        if not found:
            lost.add(record)
    taken = pa.array(value_rows, pa.int32())
    rows = value.rows.take(taken) if value.rows.num_columns else value.rows
    joined = DecodedRows(rows, len(taken), value.indices().take(taken), value.failures, value.ignored_count)
    return joined, key.rows.take(pa.array(key_rows, pa.int32())), len(lost)


def _failures(part: str, failures: Sequence[RowFailure]) -> list[RecordFailure]:
    return [RecordFailure(one.value_index, part, one.reason, one.excerpt) for one in failures]


def _merge(value: list[RecordFailure], key: list[RecordFailure]) -> list[RecordFailure]:
    """Return one failure for each record, ascending. The key's failure counts where both are bad."""
    by_record = {one.record_index: one for one in (*value, *key)}
    return [by_record[index] for index in sorted(by_record)]
