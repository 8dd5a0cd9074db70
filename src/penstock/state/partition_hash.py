"""The partition of the state that a row belongs to, as Spark's SQL computes it.

Runs on executors. Invariant: the numbers are those of `partition_expression` (`penstock.spark`), by which
states are divided: `pmod(hash(keys), count)` of Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from penstock.state._hash import mix_as_spark

_SEED = np.uint32(42)
"""Spark's."""


def has_partitions(kind: pa.DataType) -> bool:
    """Return whether this module knows Spark's hash of a type. Decimals, NaN and -0.0 have other rules."""
    tests = (kinds.is_boolean, kinds.is_signed_integer, kinds.is_date32, kinds.is_timestamp)
    return kinds.is_string(kind) or kinds.is_binary(kind) or any(each(kind) for each in tests)


def partitions_of(rows: pa.RecordBatch, keys: Sequence[str], count: int) -> npt.NDArray[np.int32]:
    """Return the partition of each row.

    Args:
        rows: the rows.
        keys: the columns of the key, in their order. `has_partitions` is true for their types.
        count: of the partitions.
    """
    hashes = np.full(rows.num_rows, _SEED, np.uint32)
    for key in keys:
        mix_as_spark(_plain(rows.column(key)), hashes)
    numbers: npt.NDArray[np.int32] = np.mod(hashes.view(np.int32), np.int32(count))
    return numbers


def _plain(array: pa.Array) -> pa.Array:
    """Return an array in a type that the compiled hash reads."""
    if kinds.is_boolean(array.type):
        return array.cast(pa.int8())
    if kinds.is_string(array.type):
        return array.cast(pa.binary())
    if kinds.is_timestamp(array.type):
        return array.cast(pa.timestamp("us", array.type.tz))
    return array
