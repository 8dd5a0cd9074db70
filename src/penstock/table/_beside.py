"""The rows of keys beside those of values, and the check that all rows are inserts.

Runs on executors. A module of its own, because the processes that plan a read make a decoder and decode
nothing: they need not import pyarrow.compute, which takes longer than the rest of a decoder. Invariant: each
row has the key of its record, or null if the record has none.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.formats import INSERT, ROW_KIND, DecodedRows, metadata_column
from penstock.table._fields import Table
from penstock.types import ROW_KIND as ROW_KIND_COLUMN

_ROW_KINDS = metadata_column(ROW_KIND)


def check_inserts(table: Table, records: pa.RecordBatch, value: DecodedRows) -> None:
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


def missing_keys(without_key: pa.Int32Array, value: DecodedRows) -> list[int]:
    """Return the records without a key that give a row."""
    missing: list[int] = without_key.filter(pc.is_in(without_key, value_set=value.indices())).to_pylist()
    return missing


def joined(
    without_key: pa.Int32Array, value: DecodedRows, key: DecodedRows
) -> tuple[DecodedRows, pa.RecordBatch, int]:
    """Put the key's rows beside the value's. The number is how many records found no key."""
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


def records_without_key(records: pa.RecordBatch, key: DecodedRows) -> pa.Int32Array:
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
    found_rows = DecodedRows(
        rows, len(taken), value.indices().take(taken), value.failures, value.ignored_count
    )
    return found_rows, key.rows.take(pa.array(key_rows, pa.int32())), len(lost)
