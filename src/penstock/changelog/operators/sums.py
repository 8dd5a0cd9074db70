"""Sums of groups in which rows also leave: exact for integers and decimals, repeatable for floats.

Runs on executors. Invariant: a sum that does not fit into its type is an error and never another number; the
order in which a shuffle delivered the rows does not change a single bit. NaN and infinities are counted and
not added, because they could not leave a sum again.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.errors import RowError, SchemaError
from penstock.state.columns import Integers, Mask

_WIDE = decimal.Context(prec=80)
_LOW_HALF = 0xFFFFFFFF

SPECIALS = ("#nan ", "#infinity ", "#-infinity ")
"""Before the name of a column: how many of its values in a group are this."""


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column of type `kind` is summed.

    Raises:
        SchemaError: the column is not a number.
    """
    if kinds.is_signed_integer(kind):
        return pa.int64()
    if kinds.is_floating(kind):
        return pa.float64()
    if kinds.is_decimal128(kind):
        return pa.decimal128(38, kind.scale)
    raise SchemaError(f"Expected a number for sum and avg, got {kind}.")


def specials_in(values: pa.Array) -> dict[str, Mask]:
    """Return which of the values are NaN, infinity and minus infinity, by SPECIALS."""
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    found = (np.isnan(numbers), numbers == np.inf, numbers == -np.inf)
    return dict(zip(SPECIALS, found, strict=True))


def with_specials(sums: pa.ChunkedArray | pa.Array, counts: list[pa.ChunkedArray | pa.Array]) -> pa.Array:
    """Return sums of groups with the values that were counted, in the order of SPECIALS."""
    nan, infinity, minus_infinity = (each.to_numpy() > 0 for each in counts)
    found = sums.to_numpy().copy()
    found[infinity] = np.inf
    found[minus_infinity] = -np.inf
    found[nan | (infinity & minus_infinity)] = np.nan
    return pa.array(found)


def sums_of(values: pa.Array, groups: Integers, count: int) -> pa.Array:
    """Return the sum of each of `count` groups; null for a group without values.

    Args:
        values: without nulls.
        groups: the number of the group of each value.
        count: of groups.

    Raises:
        RowError: a sum does not fit into its type.
    """
    kind = sum_type(values.type)
    zeros = pa.array([pa.scalar(0, kind).as_py()] * count, kind)
    sums = add_groups(zeros, values, np.ones(len(values), np.int64), groups)
    if kinds.is_floating(kind):
        special = [np.bincount(groups[each], minlength=count) for each in specials_in(values).values()]
        sums = with_specials(sums, [pa.array(each) for each in special])
    return pc.if_else(pa.array(np.bincount(groups, minlength=count) > 0), sums, None)


def add_groups(old: pa.Array, values: pa.Array, signs: Integers, groups: Integers) -> pa.Array:
    """Return `old` plus the sum of each group's values.

    Args:
        old: the sum of each group, in the type of `sum_type`.
        values: of the rows. Null counts as nothing, and so do NaN and infinities.
        signs: 1 for a row that comes, -1 for one that goes.
        groups: the number of the group of each row.

    Raises:
        RowError: a sum does not fit into its type.
    """
    is_valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    if kinds.is_floating(values.type):
        is_valid &= ~np.logical_or.reduce([*specials_in(values).values()])
    values, signs, groups = values.filter(pa.array(is_valid)), signs[is_valid], groups[is_valid]
    if not len(values):
        return old
    if kinds.is_decimal(old.type):
        return _add_decimals(old, values, signs, groups)
    numbers = values.cast(old.type).to_numpy(zero_copy_only=False)
    if kinds.is_floating(old.type):
        return _add_floats(old, numbers, signs, groups)
    order = np.argsort(groups, kind="stable")
    starts = _starts(groups[order])
    delta = _exact(numbers[order], signs[order], starts)
    sums = old.to_numpy(zero_copy_only=False).copy()
    indices = groups[order][starts]
    before = sums[indices]
    with np.errstate(over="ignore"):
        sums[indices] = before + delta
    if np.any(((before ^ sums[indices]) & (delta ^ sums[indices])) < 0):
        raise overflow(old.type)
    return pa.array(sums)


def _exact(numbers: Integers, signs: Integers, starts: Integers) -> Integers:
    """Return the sums of groups, added in two halves so that no overflow is missed."""
    high = np.add.reduceat((numbers >> 32) * signs, starts)
    low = np.add.reduceat((numbers & _LOW_HALF) * signs, starts)
    high += low >> 32
    if np.any((high >= 2**31) | (high < -(2**31))):
        raise overflow(pa.int64())
    sums: Integers = (high << 32) | (low & _LOW_HALF)
    return sums


def _add_floats(old: pa.Array, numbers: npt.NDArray[Any], signs: Integers, groups: Integers) -> pa.Array:
    signed = numbers * signs
    order = np.lexsort((signed, groups))
    starts = _starts(groups[order])
    sums = old.to_numpy(zero_copy_only=False).copy()
    with np.errstate(over="ignore"):
        sums[groups[order][starts]] += np.add.reduceat(signed[order], starts)
    if not np.isfinite(sums).all():
        raise overflow(old.type)
    return pa.array(sums)


def _add_decimals(old: pa.Array, values: pa.Array, signs: Integers, groups: Integers) -> pa.Array:
    """Add with Python's integers: Arrow's sums of decimals wrap around."""
    sums = _unscaled(old)
    for group, sign, number in zip(groups.tolist(), signs.tolist(), _unscaled(values), strict=True):
        sums[group] += sign * number
    try:
        scaled = [_WIDE.scaleb(decimal.Decimal(number), -old.type.scale) for number in sums]
        return pa.array(scaled, old.type)
    except (pa.ArrowInvalid, decimal.InvalidOperation) as error:
        raise overflow(old.type) from error


def _unscaled(array: pa.Array) -> list[int]:
    return [int(_WIDE.scaleb(number, array.type.scale)) for number in array.to_pylist()]


def _starts(ascending: Integers) -> Integers:
    return np.concatenate([[0], np.flatnonzero(np.diff(ascending)) + 1])


def overflow(kind: pa.DataType) -> RowError:
    """Return the error of a sum that does not fit."""
    return RowError(
        f"A sum does not fit into {kind}. Nothing of this batch was written. Cast the column to a wider "
        "type, such as DECIMAL(38, 0) or DOUBLE."
    )
