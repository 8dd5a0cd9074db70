"""Make the values of columns.

Runs in tasks. Invariant: values depend only on `Draw`: no clock and no global random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.decimals import exact_cast

EXACT = Context(prec=200)
"""Python's own context rounds to 28 digits."""
_LONG_DIGITS = 19
_US_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class Draw:
    """The rows to make.

    Attributes:
        random: random numbers of this column and these rows.
        first: the number of the first row.
        count: how many rows.
        now_us: the time that is "now" for these rows, microseconds since 1970.
    """

    random: np.random.Generator
    first: int
    count: int
    now_us: int

    def of(self, count: int) -> Draw:
        """Return the same for another number of values."""
        return Draw(self.random, self.first, count, self.now_us)


class Maker(Protocol):
    """Makes the values of one column."""

    @property
    def size_bytes(self) -> int:
        """Return about how many bytes a value has."""

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        """Return values of an Arrow type."""


@dataclass(frozen=True)
class Sequence:
    """The numbers from `start` to `end`, one a row; also as texts."""

    start: int
    end: int
    size_bytes: int = 8

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        """Return the numbers of the rows."""
        # A block may go beyond the end of the table, where numbers need not fit the type.
        steps = np.arange(draw.first, draw.first + draw.count, dtype=np.int64)
        numbers = pa.array(self.start + np.minimum(steps, self.end - self.start))
        if pa.types.is_decimal(kind):
            # Arrow casts an integer only to a decimal that has room for all integers of its type.
            return exact_cast(numbers.cast(pa.decimal128(_LONG_DIGITS, 0)), kind)
        return numbers.cast(kind, safe=not pa.types.is_floating(kind))


@dataclass(frozen=True)
class Whole:
    """Integers from `low` to `high`, both included."""

    low: int
    high: int
    size_bytes: int = 8

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        numbers = draw.random.integers(self.low, self.high, draw.count, dtype=np.int64, endpoint=True)
        return pa.array(numbers).cast(kind)


@dataclass(frozen=True)
class Real:
    """Floating numbers from `low` to `high`."""

    low: float
    high: float
    size_bytes: int = 8

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        """Return random numbers."""
        share = draw.random.random(draw.count)
        # Not low + (high - low) * share: the difference may be infinite.
        numbers = np.clip(self.low * (1 - share) + self.high * share, self.low, self.high)
        return pa.array(numbers.astype(kind.to_pandas_dtype()), kind)


@dataclass(frozen=True)
class Exact:
    """Decimal numbers from `low` to `high`, as counts of the last digit."""

    low: int
    high: int
    size_bytes: int = 16

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        """Return random decimals."""
        shares = draw.random.random(draw.count)
        width = self.high - self.low + 1
        counts = (self.low + int(EXACT.multiply(width, Decimal(share))) for share in shares.tolist())
        return pa.array([Decimal(count).scaleb(-kind.scale, EXACT) for count in counts], kind)


@dataclass(frozen=True)
class Truth:
    """TRUE and FALSE."""

    size_bytes: int = 1

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        return pa.array(draw.random.random(draw.count) < 0.5, kind)


@dataclass(frozen=True)
class Bytes:
    """Random bytes; as a text hexadecimal digits, as in Flink.

    Attributes:
        length: of each value: bytes or digits.
        is_text: whether values are texts.
        varies: whether the length is random, from 1 to `length`.
    """

    length: int
    is_text: bool
    varies: bool

    @property
    def size_bytes(self) -> int:
        return self.length

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        lengths = np.full(draw.count, self.length, np.int64)
        if self.varies and self.length:
            lengths = draw.random.integers(1, self.length, draw.count, endpoint=True)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        total = int(offsets[-1])
        data = (
            draw.random.bytes((total + 1) // 2).hex().encode() if self.is_text else draw.random.bytes(total)
        )
        binary = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            draw.count,
            [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(data[:total])],
        )
        return binary.cast(pa.large_string()).cast(kind) if self.is_text else binary.cast(kind)


@dataclass(frozen=True)
class Moment:
    """Times from now back to `max_past_us` before now, in milliseconds as in Flink."""

    max_past_us: int
    size_bytes: int = 8

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        past_ms = draw.random.integers(0, self.max_past_us // 1_000, draw.count, endpoint=True)
        at_us = (draw.now_us // 1_000 - past_ms) * 1_000
        return pa.array(at_us).cast(kind)


@dataclass(frozen=True)
class Today:
    """The current date."""

    size_bytes: int = 4

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        """Return the date of now in UTC."""
        days = np.full(draw.count, draw.now_us // _US_PER_DAY, np.int32)
        return pa.array(days).cast(kind)


@dataclass(frozen=True)
class Row:
    """Rows of other values."""

    fields: tuple[Maker, ...]

    @property
    def size_bytes(self) -> int:
        return sum(field.size_bytes for field in self.fields)

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        fields = [kind.field(index) for index in range(kind.num_fields)]
        made = [maker.make(draw, field.type) for maker, field in zip(self.fields, fields, strict=True)]
        return pa.StructArray.from_arrays(made, fields=fields)


@dataclass(frozen=True)
class Many:
    """Arrays of `length` values."""

    element: Maker
    length: int

    @property
    def size_bytes(self) -> int:
        return max(1, self.element.size_bytes * self.length)

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        values = self.element.make(draw.of(draw.count * self.length), kind.value_type)
        return pa.ListArray.from_arrays(_offsets(draw.count, self.length), values).cast(kind)


@dataclass(frozen=True)
class Pairs:
    """Maps of at most `length` entries: a key that is drawn twice counts once, as in Flink."""

    key: Maker
    value: Maker
    length: int

    @property
    def size_bytes(self) -> int:
        return max(1, (self.key.size_bytes + self.value.size_bytes) * self.length)

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        entries = draw.of(draw.count * self.length)
        keys = self.key.make(entries, kind.key_type).to_pylist()
        values = self.value.make(entries, kind.item_type).to_pylist()
        n = self.length
        rows = range(0, draw.count * n, n) if n else [0] * draw.count
        maps = [list(dict(zip(keys[at : at + n], values[at : at + n], strict=True)).items()) for at in rows]
        return pa.array(maps, kind)


@dataclass(frozen=True)
class Sparse:
    """Values of which a part is NULL.

    Attributes:
        maker: of the values.
        rate: the part that is NULL, 0 to 1.
    """

    maker: Maker
    rate: float

    @property
    def size_bytes(self) -> int:
        return self.maker.size_bytes

    def make(self, draw: Draw, kind: pa.DataType) -> pa.Array:
        made = self.maker.make(draw, kind)
        kept = np.where(draw.random.random(draw.count) < self.rate, -1, np.arange(draw.count))
        indices: Any = pa.array(kept)
        return made.take(pc.if_else(pc.less(indices, 0), pa.scalar(None, pa.int64()), indices))


def _offsets(count: int, length: int) -> pa.Array:
    return pa.array(np.arange(count + 1, dtype=np.int32) * length, pa.int32())
