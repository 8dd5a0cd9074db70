"""Rows of a state that belong to no key of the user: rows that wait for a time, and clocks.

Runs on executors, and where a state is copied. Invariants: no key of a user has these hashes, because the
hash of one byte or more is not so low. A row that waits has the columns of its key, so it belongs to
the partition of its key. The clocks are the same in all partitions.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.state.columns import PART_LOW, Hashes, Mask, keys_of, one_array

WAITING, CLOCKS = 0, 1
RESERVED = Hashes(np.zeros(2, np.uint64), np.array([WAITING, CLOCKS], np.uint64))
"""The keys of rows that wait and of clocks."""
NUMBER = "#number"
"""A column of some operators. The part of a row that waits is its number, which no other one has."""


def reserved(key: int, count: int) -> Hashes:
    """Return the key WAITING or CLOCKS for so many rows."""
    return Hashes(np.zeros(count, np.uint64), np.full(count, key, np.uint64))


def has_key(rows: pa.Table, key: int) -> Mask:
    """Return which rows of a state have the key WAITING or CLOCKS."""
    keys = keys_of(rows)
    found: Mask = (keys.high == 0) & (keys.low == key)
    return found


def numbered_again(rows: pa.Table, partition: int, partition_count: int) -> pa.Table:
    """Return rows that wait with numbers that no row of another partition gets. Their order stays."""
    if NUMBER not in rows.column_names:
        return rows
    waits = has_key(rows, WAITING)
    numbers = one_array(rows.column(NUMBER)).to_numpy(zero_copy_only=False)[waits].astype(np.int64)
    numbers = numbers * partition_count + partition
    for name, new in ((NUMBER, numbers), (PART_LOW, numbers.astype(np.uint64))):
        at = rows.schema.get_field_index(name)
        column = pc.replace_with_mask(one_array(rows.column(name)), pa.array(waits), pa.array(new))
        rows = rows.set_column(at, rows.schema.field(at), column)
    return rows
