"""Convert the values of Debezium's semantic types, by whole columns.

Runs on executors; pure. Invariant: a value that cannot be converted without a loss is reported, and its place
in the column is null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.decimals import exact_cast


@dataclass(frozen=True)
class Converted:
    """A converted column.

    Attributes:
        column: the values.
        bad: whether a value could not be converted. None: all could.
        reason: why, for all of them.
    """

    column: pa.Array
    bad: pa.Array | None = None
    reason: str = ""


Convert = Callable[[pa.Array], Converted]

_EPOCH = date(1970, 1, 1)
_DAY_MIN, _DAY_MAX = (date(1, 1, 1) - _EPOCH).days, (date(9999, 12, 31) - _EPOCH).days
_US_A_DAY = 86_400_000_000
_US_MIN, _US_MAX = _DAY_MIN * _US_A_DAY, (_DAY_MAX + 1) * _US_A_DAY - 1
_YEARS = "it is not in the years 1 to 9999"
_DECIMAL_BYTES = 16
_EXACT = Context(prec=200_000)
"""Enough for each number of PostgreSQL: 131,072 digits before the point and 16,383 after it."""


def _within(column: pa.Array, least: int, most: int, reason: str) -> Converted:
    """Return the integers, with those out of a range as bad."""
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or (low >= least and high <= most):
        return Converted(column)
    bad = pc.fill_null(pc.or_(pc.less(column, least), pc.greater(column, most)), False)
    return Converted(pc.if_else(bad, pa.scalar(None, column.type), column), bad, reason)


def dates(column: pa.Array) -> Converted:
    """Convert days since 1970."""
    found = _within(column, _DAY_MIN, _DAY_MAX, _YEARS)
    return Converted(found.column.cast(pa.int32()).cast(pa.date32()), found.bad, found.reason)


def timestamps(factor: int, zone: str | None) -> Convert:
    """Return how a time since 1970 is converted; `factor` microseconds are its unit."""

    def convert(column: pa.Array) -> Converted:
        found = _within(column, -(-_US_MIN // factor), _US_MAX // factor, _YEARS)
        times = pc.multiply(found.column, pa.scalar(factor, pa.int64())).cast(pa.timestamp("us", zone))
        return Converted(times, found.bad, found.reason)

    return convert


def nano_timestamps(column: pa.Array) -> Converted:
    """Convert nanoseconds since 1970 to text, because columns have microseconds."""
    return Converted(column.cast(pa.timestamp("ns")).cast(pa.string()))


def times_of(factor: int) -> Convert:
    """Return how a time of the day becomes text; `factor` microseconds are its unit.

    MySQL's TIME may be negative, or longer than a day, and PostgreSQL has 24:00:00. So it is text.
    """

    def convert(column: pa.Array) -> Converted:
        micros = pc.multiply(column.cast(pa.int64()), pa.scalar(factor, pa.int64()))
        found = _within(micros, 0, _US_A_DAY - 1, "")
        texts = found.column.cast(pa.time64("us")).cast(pa.string())
        if found.bad is None:
            return Converted(texts)
        outside = [None if one is None else _time_text(one) for one in micros.to_pylist()]
        return Converted(pc.if_else(found.bad, pa.array(outside, pa.string()), texts))

    return convert


def nano_times(column: pa.Array) -> Converted:
    """Convert nanoseconds since midnight to text."""
    found = _within(column, 0, _US_A_DAY * 1_000 - 1, "it is not a time of a day")
    return Converted(found.column.cast(pa.time64("ns")).cast(pa.string()), found.bad, found.reason)


def _time_text(micros: int) -> str:
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{'-' if micros < 0 else ''}{hour:02}:{minute:02}:{second:02}.{fraction:06}"


def zoned_timestamps(column: pa.Array) -> Converted:
    """Convert texts in ISO 8601 with a zone."""
    kind = pa.timestamp("us", "UTC")
    try:
        times = column.cast(kind)
    except pa.ArrowInvalid:
        times = pa.array([_instant(text) for text in column], kind)
    bad = pc.and_(column.is_valid(), times.is_null())
    found = _within(times.cast(pa.int64()), _US_MIN, _US_MAX, _YEARS)
    if found.bad is not None:
        bad = pc.or_(bad, found.bad)
    if not pc.any(bad).as_py():
        return Converted(times)
    reason = "it is not a time with a zone in the years 1 to 9999, with at most 6 digits of a second"
    return Converted(found.column.cast(kind), bad, reason)


def _instant(text: pa.Scalar) -> pa.Scalar | None:
    """Return a time; None if it has digits behind its microseconds, or is not a time."""
    if not text.is_valid:
        return None
    head, point, rest = text.as_py().partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    shorter = head + point + rest[:digits].rstrip("0").ljust(1, "0") + rest[digits:] if point else head
    try:
        return pa.scalar(shorter).cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        return None


def decimals(precision: int, scale: int) -> Convert:
    """Return how unscaled numbers (two's complement, the highest byte first) become decimals."""
    # Numbers with so few bytes never have more digits.
    short = max(size for size in range(_DECIMAL_BYTES) if not size or 2 ** (8 * size - 1) <= 10**precision)

    def convert(column: pa.Array) -> Converted:
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        long = np.flatnonzero(lengths > short)
        too_large = [
            int(place)
            for place, one in zip(long, column.take(pa.array(long)).to_pylist(), strict=True)
            if abs(int.from_bytes(one, "big", signed=True)) >= 10**precision
        ]
        numbers = column
        if too_large:
            mask = np.zeros(len(column), bool)
            mask[too_large] = True
            numbers = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
        bad = pa.array(mask) if too_large else None
        return Converted(_unscaled(numbers, precision, scale), bad, f"it has more than {precision} digits")

    return convert


def _unscaled(column: pa.Array, precision: int, scale: int) -> pa.Array:
    """Return numbers as decimals, which they fit into. Bytes before the 16 lowest only repeat the sign."""
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    filled: np.ndarray[Any, np.dtype[np.uint8]] = np.zeros((len(column), _DECIMAL_BYTES), np.uint8)
    for length in np.unique(lengths[lengths > 0]).tolist():
        rows = np.flatnonzero(lengths == length)
        joined = b"".join(column.take(pa.array(rows)).to_pylist())
        given = np.frombuffer(joined, np.uint8).reshape(-1, length)[:, -_DECIMAL_BYTES:]
        negative = given[:, :1] > 127  # the highest bit is the sign
        filled[rows] = np.where(negative, np.uint8(255), np.uint8(0))
        filled[rows, : given.shape[1]] = given[:, ::-1]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    validity = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    kind = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(kind, len(column), [validity, pa.py_buffer(filled.tobytes())])


def long_decimals(scale: int) -> Convert:
    """Return how unscaled numbers with more digits than a decimal has become text."""

    def convert(column: pa.Array) -> Converted:
        return Converted(pa.array([_decimal_text(one, scale) for one in column.to_pylist()], pa.string()))

    return convert


def variable_scale_decimals(column: pa.Array) -> Converted:
    """Convert numbers that have a scale of their own to text."""
    scales = pc.struct_field(column, "scale").to_pylist()
    unscaled = pc.struct_field(column, "value").to_pylist()
    texts = [
        None if scale is None else _decimal_text(one, scale)
        for scale, one in zip(scales, unscaled, strict=True)
    ]
    found = pa.array(texts, pa.string())
    bad = pc.and_(column.is_valid(), found.is_null())
    if not pc.any(bad).as_py():
        return Converted(found)
    return Converted(found, bad, "it has no scale or no value")


def _decimal_text(unscaled: bytes | None, scale: int) -> str | None:
    if unscaled is None:
        return None
    number = Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)
    return f"{number:f}"


def lists(convert: Convert, kind: pa.ListType | None = None) -> Convert:
    """Return how lists are converted whose items are. `kind` is the type to make, if items have a name."""

    def converted(column: pa.Array) -> Converted:
        parents = pc.list_parent_indices(column)
        items = convert(column.flatten())
        offsets = pa.array(_offsets(column), pa.int32())
        made = pa.ListArray.from_arrays(offsets, items.column, type=kind, mask=column.is_null())
        return Converted(made, _of_parents(items.bad, parents, len(column)), items.reason)

    return converted


def maps(convert: Convert, kind: pa.MapType) -> Convert:
    """Return how maps are converted whose items are. `kind` is the type to make; the keys stay."""

    def converted(column: pa.Array) -> Converted:
        pair = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
        pairs = column.cast(pa.list_(pair))
        keys, values = pairs.flatten().flatten()
        items = convert(values)
        offsets = pa.array(_offsets(pairs), pa.int32(), mask=np.append(_nulls(column), False))
        made = pa.MapArray.from_arrays(offsets, keys, items.column, type=kind)
        return Converted(
            made, _of_parents(items.bad, pc.list_parent_indices(pairs), len(column)), items.reason
        )

    return converted


def _nulls(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    found: np.ndarray[Any, np.dtype[np.bool_]] = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _offsets(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return where the items of each list begin among those of all lists."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _of_parents(bad: pa.Array | None, parents: pa.Array, count: int) -> pa.Array | None:
    if bad is None:
        return None
    mask = np.zeros(count, bool)
    mask[parents.filter(bad).to_numpy(zero_copy_only=False)] = True
    return pa.array(mask)


def structs(kind: pa.StructType, converts: Sequence[Convert]) -> Convert:
    """Return how structs are converted whose fields are."""

    def converted(column: pa.Array) -> Converted:
        found = [one(child) for one, child in zip(converts, column.flatten(), strict=True)]
        bad: pa.Array | None = None
        for one in found:
            if one.bad is not None:
                bad = one.bad if bad is None else pc.or_(bad, one.bad)
        fields = [kind.field(index) for index in range(kind.num_fields)]
        made = pa.StructArray.from_arrays([one.column for one in found], fields=fields, mask=column.is_null())
        return Converted(made, bad, next((one.reason for one in found if one.bad is not None), ""))

    return converted


def cast(column: pa.Array, wanted: pa.DataType) -> Converted:
    """Return values in the type of the table's column; those that do not fit are bad."""
    if column.type == wanted:
        return Converted(column)
    reason = f"it does not fit into {wanted}, the type of the column"
    try:
        found = exact_cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        found = pa.array([_fitting(column.slice(at, 1), wanted) for at in range(len(column))], wanted)
    bad = pc.and_(column.is_valid(), found.is_null())
    if pa.types.is_floating(wanted) and pa.types.is_floating(column.type):
        back = found.cast(column.type)
        differs = pc.and_(pc.not_equal(back, column), pc.invert(pc.is_nan(column)))
        bad = pc.or_(bad, pc.fill_null(differs, False))
        found = pc.if_else(bad, pa.scalar(None, wanted), found)
    return Converted(found, bad, reason) if pc.any(bad).as_py() else Converted(found)


def _fitting(one: pa.Array, wanted: pa.DataType) -> pa.Scalar | None:
    try:
        return exact_cast(one, wanted)[0] if one[0].is_valid else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
