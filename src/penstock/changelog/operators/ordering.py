"""Sort rows by their keys and by the columns that say which row of a key is newer.

Runs on executors. Invariant: the order depends only on the values of rows, never on the order in which a
shuffle delivered them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.state.columns import Hashes, Integers, Mask, Words, one_array, order_of

_DIGITS_OF_INT64 = 18


def groups_of(keys: Hashes) -> tuple[Integers, Hashes]:
    """Return the number of each row's group, and the hashes of the groups. The groups ascend by hash."""
    order = keys.order()
    ascending = keys.take(order)
    starts = ascending.starts()
    groups = np.empty(len(keys), np.int64)
    groups[order] = np.cumsum(starts) - 1
    return groups, ascending.take(starts)


def groups_of_kept(kept: Hashes, groups: Hashes) -> Integers:
    """Return the number of the group of each row that was kept.

    Args:
        kept: ascend, and are among `groups`.
        groups: ascend, each once.
    """
    found = np.searchsorted(groups.high, kept.high)
    if np.array_equal(groups.low[found], kept.low):
        return found
    numbers, _ = groups_of(Hashes.joined(groups, kept))  # two keys share one half
    return numbers[len(groups) :]


def ranks(table: pa.Table, columns: Sequence[str]) -> list[npt.NDArray[Any]]:
    return [rank(one_array(table.column(name))) for name in columns]


def rank(array: pa.Array) -> npt.NDArray[Any]:
    """Return a NumPy array that has the order of the values. Nulls are not allowed.

    The numbers are equal if and only if the values are: NaN equals NaN and comes last, -0.0 equals 0.0.
    """
    kind = array.type
    if kinds.is_floating(kind):
        return _rank_floats(array)
    if kinds.is_timestamp(kind) or kinds.is_time64(kind) or kinds.is_date64(kind):
        array = array.cast(pa.int64())
    elif kinds.is_date32(kind) or kinds.is_time32(kind):
        array = array.cast(pa.int32())
    elif kinds.is_decimal128(kind) and kind.precision <= _DIGITS_OF_INT64:
        return _low_halves(array)
    elif not kinds.is_integer(kind):
        array = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _low_halves(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return decimals of 128 bits as integers. The numbers are small, so their high halves say nothing."""
    halves: npt.NDArray[np.int64] = np.frombuffer(array.buffers()[1], np.int64)
    return halves[2 * array.offset : 2 * (array.offset + len(array)) : 2]


def ranks_with_nulls(table: pa.Table, columns: Sequence[str]) -> list[npt.NDArray[Any]]:
    """Return `rank` of each of the columns, for which null is the lowest value."""
    return [_rank_with_nulls(one_array(table.column(name))) for name in columns]


def _rank_with_nulls(array: pa.Array) -> npt.NDArray[Any]:
    if not array.null_count:
        return rank(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    dense = np.zeros(len(array), np.int64)
    dense[valid] = 1 + np.unique(rank(array.drop_null()), return_inverse=True)[1]
    return dense


def descending(ranked: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return integers with the opposite order of `ranked`, which are integers."""
    return ~ranked


def _rank_floats(array: pa.Array) -> npt.NDArray[np.int64]:
    numbers = array.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # turns -0.0 into 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)
    ranked: npt.NDArray[np.int64] = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return ranked


def sort(groups: Integers, ranked: Sequence[npt.NDArray[Any]], *ties: npt.NDArray[Any]) -> Integers:
    """Return the order by group, then by the ranked columns in turn, then by `ties` in turn.

    Rows that are equal in all of them stay in their order.
    """
    order: Integers | None = None
    for values in reversed(_packed((groups, *ranked, *ties))):
        order = order_of(values) if order is None else order[order_of(values[order])]
    return np.arange(0) if order is None else order


def _packed(columns: Sequence[npt.NDArray[Any]]) -> list[Words]:
    """Return as few numbers for each row as can be, which have the order of all columns together.

    Args:
        columns: the first one counts most.
    """
    found: list[Words] = []
    left = 0
    for values in columns if len(columns[0]) else ():
        wide = values.astype(np.uint64 if values.dtype == np.uint64 else np.int64)
        least = wide.min()
        width = (int(wide.max()) - int(least)).bit_length()
        narrow = (wide - least).astype(np.uint64)
        if found and width <= left:
            found[-1] = (found[-1] << np.uint64(width)) | narrow
            left -= width
        else:
            found.append(narrow)
            left = 64 - width
    return found


def same_as_before(ascending: Sequence[npt.NDArray[Any]]) -> Mask:
    """Return for each row whether all these sorted arrays equal those of the row before it."""
    same = np.ones(len(ascending[0]), bool)
    same[:1] = False
    for values in ascending:
        same[1:] &= values[1:] == values[:-1]
    return same
