"""KafkaRecords to the rows of an upsert table (`upsert-kafka`): rows +U, and -D for records without a value.

Runs on executors. The driver makes a decoder once, to find mistakes in the schema. Invariants: the primary
key of every row is the key of its record and holds no null; a record whose key and value disagree is a
failure, because a later delete would not find its row.

The row kinds are those of Flink's source: an upsert is +U without its old row, and the row of a delete has
only its primary key. `penstock.changelog.normalize` makes a correct changelog of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.codec.schema import KAFKA_RECORDS
from penstock.errors import SchemaError
from penstock.formats import DecodedRows, Format
from penstock.formats.base import DELETE, ROW_KIND, UPDATE_AFTER, excerpt, positions
from penstock.options.table_spec import FieldsInclude, OnDecodeError
from penstock.table._decode import RecordFailure, TableRows
from penstock.table._fields import Table, check_readable
from penstock.table._metadata_columns import READABLE
from penstock.types import ROW_KIND as ROW_KIND_COLUMN


@dataclass(frozen=True)
class _Rows:
    """The rows that leave, in the order of their records. All numbers are int32.

    `records` has the record of each row, `keys` its row in the decoded keys, and `values` its row in the
    decoded values; null for a delete.
    """

    records: pa.Array
    keys: pa.Array
    values: pa.Array


class UpsertDecoder:
    """Decodes KafkaRecords to the rows of one upsert table."""

    def __init__(self, table: Table) -> None:
        """Prepare.

        Raises:
            SchemaError: a format or a metadata key cannot give a column, no column has the row kind, or a
                column cannot hold the null of a deleted row.
        """
        check_readable(table)
        _check_columns(table)
        self._table = table
        key_format = table.key_format
        assert key_format is not None  # noqa: S101 - the options of an upsert table need one
        self._key = key_format.decoder(table.key_schema)
        self._value = table.value_format.decoder(table.value_schema)

    @property
    def record_columns(self) -> tuple[str, ...]:
        needed = {"key", "value", "topic", "partition", "offset"}
        if self._table.bad_records.policy is OnDecodeError.DEAD_LETTER:
            needed |= {"headers", "timestamp"}
        for key in self._table.metadata.values():
            if key in READABLE:
                needed.update(READABLE[key].record_columns)
        return tuple(name for name in KAFKA_RECORDS.names if name in needed)

    def decode(self, records: pa.RecordBatch) -> TableRows:
        keys, values = records.column("key"), records.column("value")
        deleted, upserted = _split(values)
        key = self._key.decode(keys)
        value = _without_nulls(self._value.decode(values.take(upserted)), upserted)
        failures = _Failures(keys, values)
        failures.add_decoded("key", key)
        failures.add_decoded("value", value)
        self._check_keys(key, failures)
        failures.add("value", _empty(values, value, failures), "the value is empty, but not null")
        if not _ignores_errors(self._table.key_format):
            failures.add_without_row("key", key, positions(records.num_rows))
        if not _ignores_errors(self._table.value_format):
            failures.add_without_row("value", value, upserted)
        rows = _joined(key, value, deleted)
        if self._table.fields_include is FieldsInclude.ALL:
            self._check_values(key, value, rows, failures)
        rows = _good(rows, failures)
        arrays = [self._column(field, records, key, value, rows) for field in self._table.schema]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._table.schema)
        found = failures.all()
        dropped = records.num_rows - len(pc.unique(rows.records)) - len(found)
        return TableRows(batch, batch.num_rows, rows.records, found, dropped)

    def _check_keys(self, key: DecodedRows, failures: _Failures) -> None:
        """Note the records whose key does not name one row."""
        indices = key.indices()
        for name, column in zip(self._table.key_schema.names, key.rows.columns, strict=True):
            missing = indices.filter(column.is_null())
            failures.add("key", missing, f"the column '{name}' of the primary key is null")
        counts = pc.value_counts(indices)
        several = counts.field(0).filter(pc.greater(counts.field(1), 1))
        failures.add("key", several, "expected one row in the key, got several")
        failures.add_empty_keys(key)

    def _check_values(self, key: DecodedRows, value: DecodedRows, rows: _Rows, failures: _Failures) -> None:
        """Note the records whose value holds another primary key than their key."""
        has_value = rows.values.is_valid()
        records, at_key, at_value = (one.filter(has_value) for one in (rows.records, rows.keys, rows.values))
        for name, bare in zip(self._table.key_names, self._table.key_schema.names, strict=True):
            differs = _differs(key.rows.column(bare).take(at_key), value.rows.column(name).take(at_value))
            failures.add(
                "value",
                records.filter(differs),
                f"the column '{name}' of the primary key is not the same in key and value. If only the key "
                "holds it, set 'value.fields-include' = 'EXCEPT_KEY'",
            )

    def _column(
        self, field: pa.Field, records: pa.RecordBatch, key: DecodedRows, value: DecodedRows, rows: _Rows
    ) -> pa.Array:
        table, name = self._table, field.name
        if name in table.metadata:
            metadata = table.metadata[name]
            if metadata == ROW_KIND:
                column = pc.if_else(rows.values.is_null(), DELETE, UPDATE_AFTER)
            else:
                column = READABLE[metadata].read(records).take(rows.records)
        elif name in table.key_names:
            column = key.rows.column(table.key_names.index(name)).take(rows.keys)
        else:
            column = value.rows.column(name).take(rows.values)
        return column if column.type.equals(field.type) else column.cast(field.type)


class _Failures:
    """The failures of some records: the first one of each."""

    def __init__(self, keys: pa.Array, values: pa.Array) -> None:
        self._parts = {"key": keys, "value": values}
        self._found: dict[int, RecordFailure] = {}

    def add_decoded(self, part: str, decoded: DecodedRows) -> None:
        for one in decoded.failures:
            failure = RecordFailure(one.value_index, part, one.reason, one.excerpt)
            self._found.setdefault(one.value_index, failure)

    def add(self, part: str, records: pa.Array, reason: str) -> None:
        for record in records.to_pylist():
            text = excerpt(self._parts[part][record].as_py() or b"")
            self._found.setdefault(record, RecordFailure(record, part, reason, text))

    def add_empty_keys(self, key: DecodedRows) -> None:
        """Note the records whose key is null or empty and gave no row."""
        lengths = pc.fill_null(pc.binary_length(self._parts["key"]), 0)
        empty = pc.indices_nonzero(pc.equal(lengths, 0)).cast(pa.int32())
        without_row = empty.filter(pc.invert(pc.is_in(empty, value_set=key.indices())))
        self.add("key", without_row, "the key is null or empty, but it is the primary key of the row")

    def add_without_row(self, part: str, decoded: DecodedRows, records: pa.Array) -> None:
        """Note which of these records gave no row: a comment, `[]` and the like."""
        if decoded.ignored_count:
            return
        settled = pa.concat_arrays([decoded.indices(), self.records()])
        lost = records.filter(pc.invert(pc.is_in(records, value_set=settled)))
        self.add(part, lost, f"the {part} is not empty, but it holds no row")

    def records(self) -> pa.Array:
        return pa.array(list(self._found), pa.int32())

    def all(self) -> Sequence[RecordFailure]:
        return [self._found[record] for record in sorted(self._found)]


def _ignores_errors(used: Format | None) -> bool:
    """Return whether a format drops what it cannot read."""
    return bool(getattr(used, "ignore_parse_errors", False))


def _check_columns(table: Table) -> None:
    if table.row_kind is None:
        raise SchemaError(
            "A read with 'connector' = 'upsert-kafka' gives updates and deletes, and the schema has no "
            f"column for the row kind. Nothing was read. Add the column {ROW_KIND_COLUMN} STRING to the "
            f"schema, or another STRING column and the option 'metadata.columns' = '<column> = {ROW_KIND}'.",
            column=ROW_KIND_COLUMN,
        )
    for field in table.schema:
        if not field.nullable and field.name not in (*table.key_names, *table.metadata):
            raise SchemaError(
                f"Column '{field.name}' is declared NOT NULL, but the row of a delete (-D) has null in all "
                "columns that are not in the primary key. Declare it nullable.",
                column=field.name,
            )


def _split(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    is_null = values.is_null()
    deleted, upserted = pc.indices_nonzero(is_null), pc.indices_nonzero(pc.invert(is_null))
    return deleted.cast(pa.int32()), upserted.cast(pa.int32())


def _without_nulls(value: DecodedRows, records: pa.Array) -> DecodedRows:
    """Return rows and failures with the numbers of their records, and not of the values that were decoded."""
    failures = [
        type(one)(records[one.value_index].as_py(), one.reason, one.excerpt) for one in value.failures
    ]
    return DecodedRows(
        value.rows, value.row_count, records.take(value.indices()), failures, value.ignored_count
    )


def _empty(values: pa.Array, value: DecodedRows, failures: _Failures) -> pa.Array:
    empty = pc.indices_nonzero(pc.equal(pc.fill_null(pc.binary_length(values), 1), 0)).cast(pa.int32())
    settled = pa.concat_arrays([value.indices(), failures.records()])
    return empty.filter(pc.invert(pc.is_in(empty, value_set=settled)))


def _joined(key: DecodedRows, value: DecodedRows, deleted: pa.Array) -> _Rows:
    """Put each value beside the key of its record, and the deletes among them."""
    records = pa.concat_arrays([value.indices(), deleted])
    values = pa.concat_arrays([positions(value.row_count), pa.nulls(len(deleted), pa.int32())])
    order = pc.array_sort_indices(records)
    records, values = records.take(order), values.take(order)
    keys = pc.index_in(records, value_set=key.indices())
    has_key = keys.is_valid()
    return _Rows(records.filter(has_key), keys.filter(has_key), values.filter(has_key))


def _good(rows: _Rows, failures: _Failures) -> _Rows:
    bad = failures.records()
    if not len(bad):
        return rows
    keeps = pc.invert(pc.is_in(rows.records, value_set=bad))
    return _Rows(rows.records.filter(keeps), rows.keys.filter(keeps), rows.values.filter(keeps))


def _differs(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return where two columns differ. NaN equals NaN; null differs from everything."""
    same = pc.fill_null(pc.equal(left, right), False)
    if pt.is_floating(left.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return pc.invert(same)
