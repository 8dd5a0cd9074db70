"""Checks of values that Arrow would convert into something else without an error.

Runs on executors. Invariant: a value that passes these checks and Arrow is stored unchanged. Arrow alone cuts
off fractions, nanoseconds and unknown fields. It takes numbers for times and text for lists. It accepts nulls
in columns that are declared NOT NULL, where Spark then reads random values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from penstock.formats.decimals import has_digits_beyond

Check: TypeAlias = Callable[[Any], None]
"""Raises TypeError or ValueError for a value that its column cannot hold unchanged."""

FLOAT_MAX = 3.4028234663852886e38


def check_of(kind: pa.DataType) -> Check | None:
    """Return the check for values of a type; None where Arrow's own check is enough."""
    if pt.is_list(kind):
        return _check_of_list(check_of(kind.value_type))
    if pt.is_map(kind):
        entry = _check_of_fields(dict(enumerate((check_of(kind.key_type), check_of(kind.item_type)))))
        entries = _check_of_items(entry)
        return lambda value: entries(value.items() if isinstance(value, Mapping) else value)
    if pt.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return _check_of_struct({field.name: check_of(field.type) for field in fields})
    return _check_of_scalar(kind)


def _check_of_scalar(kind: pa.DataType) -> Check | None:
    if pt.is_integer(kind):
        return _check_integer
    if pt.is_floating(kind):
        return _check_float if pt.is_float32(kind) else _check_double
    if pt.is_timestamp(kind):
        return _check_ntz if kind.tz is None else _check_timestamp
    if pt.is_decimal(kind):
        return _check_of_decimal(kind.scale)
    types: list[tuple[Callable[[pa.DataType], bool], type, str]] = [
        (pt.is_date, date, "date"),
        (pt.is_time, time, "time"),
        (pt.is_duration, timedelta, "timedelta"),
    ]
    return next((_check_of_type(python, name) for fits, python, name in types if fits(kind)), None)


def _check_integer(value: Any) -> None:
    if value is not None and not hasattr(value, "__index__"):
        raise TypeError(f"expected an integer, got {type(value).__name__}")


def _check_double(value: Any) -> None:
    if isinstance(value, bool):
        raise TypeError("expected a number, got bool")


def _check_float(value: Any) -> None:
    _check_double(value)
    if isinstance(value, float) and abs(value) > FLOAT_MAX and not math.isinf(value):
        raise ValueError(f"{value} is too large")


def _check_of_decimal(scale: int) -> Check:
    def check(value: Any) -> None:
        # Arrow refuses most of these, but it takes 1E-32 for 0.
        if isinstance(value, Decimal) and has_digits_beyond(value, scale):
            raise ValueError(f"expected at most {scale} digits behind the point, got {value}")

    return check


def _check_timestamp(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, datetime):
        raise TypeError(f"expected a datetime, got {type(value).__name__}")
    _check_whole(value, "nanosecond")


def _check_ntz(value: Any) -> None:
    _check_timestamp(value)
    if value is not None and value.tzinfo is not None:
        raise TypeError("expected a datetime without zone for TIMESTAMP_NTZ, got one with zone")


def _check_of_type(wanted: type, name: str) -> Check:
    def check(value: Any) -> None:
        if value is not None and (not isinstance(value, wanted) or isinstance(value, datetime)):
            raise TypeError(f"expected a {name}, got {type(value).__name__}")
        if isinstance(value, time) and value.tzinfo is not None:
            raise TypeError("expected a time without zone for TIME, got one with zone")
        _check_whole(value, "nanoseconds")

    return check


def _check_whole(value: Any, attribute: str) -> None:
    """Refuse times of pandas with nanoseconds, which Spark cannot hold. Those of NaT are not a number."""
    if getattr(value, attribute, 0) > 0:
        raise ValueError(f"expected at most microseconds, got {value}, which has nanoseconds")


def _check_of_items(check: Check | None) -> Check:
    def check_all(values: Any) -> None:
        if check is not None and values is not None:
            for value in values:
                check(value)

    return check_all


def _check_of_list(check: Check | None) -> Check:
    check_items = _check_of_items(check)

    def check_all(values: Any) -> None:
        # Arrow would take these for lists, of letters and of numbers.
        if isinstance(values, (str, bytes, bytearray)):
            raise TypeError(f"expected a list, got {type(values).__name__}")
        check_items(values)

    return check_all


def _check_of_struct(checks: Mapping[str, Check | None]) -> Check:
    check_fields = _check_of_fields(checks)

    def check_all(row: Any) -> None:
        unknown = row.keys() - checks.keys() if isinstance(row, Mapping) else ()
        if unknown:
            raise TypeError(f"got fields that are not declared: {', '.join(sorted(map(str, unknown)))}")
        # Arrow takes the fields of a PySpark Row by position.
        of_row = getattr(row, "__fields__", None)
        if isinstance(row, tuple) and of_row is not None and list(of_row) != list(checks):
            raise TypeError(f"expected a Row of the fields {', '.join(checks)}, got {', '.join(of_row)}")
        check_fields(row)

    return check_all


def _check_of_fields(checks: Mapping[Any, Check | None]) -> Check:
    def check_all(row: Any) -> None:
        if row is None:
            return
        for at, (name, check) in enumerate(checks.items()):
            if check is not None:
                check(row.get(name) if isinstance(row, Mapping) else row[at])

    return check_all


def check_cast(given: pa.DataType, wanted: pa.DataType) -> None:
    """Raise TypeError for casts of Arrow that change a value.

    Raises:
        TypeError: the cast is e.g. from a number to a time, or from a time with zone to a time without.
    """
    if given.equals(wanted) or pt.is_null(given):
        return
    if pt.is_struct(given) and pt.is_struct(wanted):
        inner = {given.field(i).name: given.field(i).type for i in range(given.num_fields)}
        declared = {wanted.field(i).name: wanted.field(i).type for i in range(wanted.num_fields)}
        # Arrow would leave out a field that is not declared, without an error.
        if inner.keys() - declared.keys():
            raise TypeError(f"the deserializer gave {given}")
        for name, kind in inner.items():
            check_cast(kind, declared[name])
    elif pt.is_nested(given) and given.num_fields == wanted.num_fields:
        for i in range(given.num_fields):
            check_cast(given.field(i).type, wanted.field(i).type)
    elif _is_another(given, wanted):
        raise TypeError(f"the deserializer gave {given}")


def _is_another(given: pa.DataType, wanted: pa.DataType) -> bool:
    if pt.is_timestamp(given) and pt.is_timestamp(wanted):
        return given.tz is not None and wanted.tz is None
    families = (pt.is_timestamp, pt.is_date, pt.is_time, pt.is_duration)
    return any(is_one(given) != is_one(wanted) for is_one in families)


def path_of_null(made: pa.Array, field: pa.Field, path: str) -> str | None:
    """Return the path of a null that its field does not allow, if any. Values under a null are skipped."""
    if not field.nullable and made.null_count:
        return path
    kind = field.type
    inner: list[tuple[pa.Array, pa.Field]] = []
    if pt.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        inner = [(made.cast(pa.list_(pa.field("entries", entries))).flatten(), pa.field("entries", entries))]
    elif pt.is_list(kind):
        inner = [(made.flatten(), kind.value_field)]
    elif pt.is_struct(kind):
        present = made.filter(made.is_valid()) if made.null_count else made
        inner = [(present.field(i), kind.field(i)) for i in range(kind.num_fields)]
    return next((found for one, of in inner if (found := path_of_null(one, of, f"{path}.{of.name}"))), None)
