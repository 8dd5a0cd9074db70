"""Metadata that a tool writes beside the rows, in columns `value.<key>` with Flink's types.

Runs on executors. Invariant: a value that is not of its type is a problem of its message, never another
value. Times are UTC, as in Flink.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.base import ROW_KIND

TIMESTAMP = pa.timestamp("us", tz="UTC")
STRINGS = pa.map_(pa.string(), pa.string())

Conversion: TypeAlias = tuple[pa.Array, pa.Array | None]
"""The column, and a mask of the values that cannot be converted (None: every value can)."""

_US_MAX = 2**63 - 1
_WHOLE = r"^-?[0-9]{1,18}$"
_NANOSECONDS = re.compile(r"(\.[0-9]{6})[0-9]{1,3}$")


@dataclass(frozen=True)
class Metadata:
    """One metadata key: its type, the JSON field that holds it, and the conversion.

    `in_payload` is false for a field that Debezium writes beside the payload.
    """

    key: str
    type: pa.DataType
    field: pa.Field
    convert: Callable[[pa.Array], Conversion]
    in_payload: bool = True


def metadata_schema(known: Sequence[Metadata]) -> pa.Schema:
    kind = pa.field(ROW_KIND, pa.string(), nullable=False)
    return pa.schema([kind, *(pa.field(one.key, one.type) for one in known)])


def plain(key: str, field: str, kind: pa.DataType, *, in_payload: bool = True) -> Metadata:
    return Metadata(key, kind, pa.field(field, kind), lambda column: (column, None), in_payload)


def epoch(key: str, field: str, unit: str) -> Metadata:
    """Declare a time that the field counts since 1970, in units "s" or "ms"."""
    return Metadata(key, TIMESTAMP, pa.field(field, pa.int64()), lambda column: _of_epoch(column, unit))


def entry(key: str, field: str, name: str) -> Metadata:
    """Declare the text of one entry of an object."""
    return Metadata(key, pa.string(), pa.field(field, STRINGS), lambda column: (_entry(column, name), None))


def entry_ms(key: str, field: str, name: str) -> Metadata:
    """Declare a time in milliseconds in one entry of an object."""
    return Metadata(key, TIMESTAMP, pa.field(field, STRINGS), lambda column: _of_whole(_entry(column, name)))


def utc_text(key: str, field: str) -> Metadata:
    """Declare a time that is written without a zone and is UTC."""
    return Metadata(key, TIMESTAMP, pa.field(field, pa.string()), _of_text)


def _entry(column: pa.Array, name: str) -> pa.Array:
    return pc.map_lookup(column, name, "first")


def _of_epoch(column: pa.Array, unit: str) -> Conversion:
    factor = {"s": 1_000_000, "ms": 1_000}[unit]
    most = _US_MAX // factor
    fits = pc.and_(pc.greater_equal(column, -most), pc.less_equal(column, most))
    if pc.all(fits).as_py() is False:
        times, _ = _of_epoch(pc.if_else(fits, column, None), unit)
        return times, pc.invert(fits)
    return pc.multiply(column, factor).cast(TIMESTAMP), None


def _of_whole(column: pa.Array) -> Conversion:
    is_whole = pc.match_substring_regex(column, _WHOLE)
    times, is_large = _of_epoch(pc.if_else(is_whole, column, None).cast(pa.int64()), "ms")
    is_bad = pc.invert(is_whole)
    return times, is_bad if is_large is None else pc.or_kleene(is_bad, is_large)


def _of_text(column: pa.Array) -> Conversion:
    try:
        return column.cast(pa.timestamp("us")).cast(TIMESTAMP), None
    except pa.ArrowInvalid:
        times = [_time_of(text) for text in column]
    made = pa.array(times, TIMESTAMP)
    return made, pc.and_(column.is_valid(), made.is_null())


def _time_of(text: pa.Scalar) -> pa.Scalar | None:
    """Return a time without the digits behind its microseconds, as in columns of rows."""
    if not text.is_valid:
        return None
    shorter = _NANOSECONDS.sub(r"\1", text.as_py())
    try:
        return pa.scalar(shorter).cast(pa.timestamp("us")).cast(TIMESTAMP)
    except pa.ArrowInvalid:
        return None
