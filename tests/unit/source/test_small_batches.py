"""Small Arrow batches are merged: the same rows in the same order, and large ones are left alone."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.codec.schema import KAFKA_RECORDS
from penstock.source.split_reader import LARGE_BYTES, LARGE_ROWS, merge_small

ROWS = st.integers(1, 300) | st.integers(LARGE_ROWS - 2, LARGE_ROWS + 2)
SCHEMA = pa.schema([KAFKA_RECORDS.field(name) for name in ("value", "offset", "headers")])


def batch_of(first: int, rows: int, value: bytes = b"v") -> pa.RecordBatch:
    offsets = range(first, first + rows)
    headers = [[{"key": "k", "value": b"%d" % offset}] if offset % 3 else None for offset in offsets]
    return pa.record_batch([[value] * rows, list(offsets), headers], schema=SCHEMA)


@given(st.lists(ROWS, max_size=12))
def test_the_rows_stay_and_few_batches_are_small(row_counts: list[int]) -> None:
    batches, first = [], 0
    for rows in row_counts:
        batches.append(batch_of(first, rows))
        first += rows
    merged = list(merge_small(iter(batches)))
    assert pa.Table.from_batches(merged, SCHEMA).equals(pa.Table.from_batches(batches, SCHEMA))
    assert all(batch.schema.equals(SCHEMA, check_metadata=True) for batch in merged)
    assert all(batch.num_rows < 2 * LARGE_ROWS for batch in merged)
    large = [batch for batch in batches if batch.num_rows >= LARGE_ROWS]
    assert all(any(batch is each for each in merged) for batch in large), "a large batch is not copied"
    small = [batch for batch in merged if batch.num_rows < LARGE_ROWS]
    assert len(small) <= len(large) + 1


def test_a_few_rows_of_many_bytes_do_not_wait() -> None:
    source = iter([batch_of(number, 1, b"x" * (LARGE_BYTES // 4)) for number in range(8)])
    merged = merge_small(source)
    assert next(merged).num_rows == 4
    assert len(list(source)) == 4, "no more was taken than is merged"


def test_one_batch_is_handed_on_as_it_is() -> None:
    batch = batch_of(0, 5)
    [merged] = merge_small([batch])
    assert merged is batch
