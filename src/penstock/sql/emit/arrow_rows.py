"""Functions of arrays and of rows for `arrow_more`: what a continuous query computes in its tasks.

Runs on executors. Invariant: a value is the one that Spark's SQL gives, or an error that says why there is
none (`ArrowInvalid`, which becomes a RowError with its place).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.decimals import exact_cast
from penstock.sql.emit.arrow_values import floored

_TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"
"""What Spark cuts off from a text before it reads a number: white space and control characters of ASCII."""
_WHOLE = re.compile(r"[+-]?[0-9]+")
_WITH_FRACTION = re.compile(r"(\s*[+-]?\d+)\.\d*\s*", re.ASCII)
_FRACTION = re.compile(r"\s*[+-]?\.\d+\s*", re.ASCII)
_CONTEXT = Context(prec=80)
_BIGINT_DIGITS = 19


@dataclass(frozen=True)
class ByRow:
    """Returns a function of the values of each row; NULL if one of them is NULL."""

    function: Callable[..., Any]
    type: pa.DataType

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        try:
            given = zip(*(each.to_pylist() for each in arrays), strict=True)
            made = [None if any(each is None for each in row) else self.function(*row) for row in given]
        except (ValueError, OverflowError) as error:  # a year after 9999
            raise pa.ArrowInvalid(str(error)) from None
        return pa.array(made, self.type)


# ----- texts


def left_trimmed(text: pa.Array) -> pa.Array:
    return pc.utf8_ltrim(text, characters=" ")


def right_trimmed(text: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(text, characters=" ")


def position(part: str, text: str) -> int:
    return text.find(part) + 1


def position_in(text: str, part: str) -> int:
    return text.find(part) + 1


def turned(text: str) -> str:
    return text[::-1]


def first(text: str, count: int) -> str:
    return text[: max(0, count)]


def last(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def in_hex(text: str) -> str:
    return text.encode().hex().upper()


def joined_with(separator: pa.Array, *texts: pa.Array) -> pa.Array:
    """Return texts joined. NULL is left out, and a NULL separator gives NULL.

    Arrow's own join loses the rows that have only NULLs (pyarrow 26, `null_handling="skip"`).
    """
    rows = zip(separator.to_pylist(), *(each.to_pylist() for each in texts), strict=True)
    made = [
        None if between is None else between.join(each for each in parts if each is not None)
        for between, *parts in rows
    ]
    return pa.array(made, pa.string())


@dataclass(frozen=True)
class Piece:
    """Returns a piece of a text between separators; NULL if there are not so many, or the text is empty."""

    separator: str
    index: int

    def __call__(self, text: str) -> str | None:
        pieces = text.split(self.separator) if text else []
        return pieces[self.index] if self.index < len(pieces) else None


# ----- numbers


def greatest(*arrays: pa.Array) -> pa.Array:
    """Return the greatest value of each row; NULL if one of them is NULL."""
    return pc.max_element_wise(*arrays, skip_nulls=False)


def least(*arrays: pa.Array) -> pa.Array:
    """Return the least value of each row; NULL if one of them is NULL."""
    return pc.min_element_wise(*arrays, skip_nulls=False)


def up(number: pa.Array) -> pa.Array:
    """Return the next whole number above. It is never -0.0, because Spark takes an integer for it."""
    return pc.add(pc.ceil(number), 0.0)


def down(number: pa.Array) -> pa.Array:
    """Return the next whole number below. It is never -0.0, because Spark takes an integer for it."""
    return pc.add(pc.floor(number), 0.0)


def is_not_zero(number: pa.Array) -> pa.Array:
    return pc.not_equal(number, pa.scalar(0, number.type))


@dataclass(frozen=True)
class Remainder:
    """Returns the remainder of a division of integers, with the sign of the dividend."""

    type: pa.DataType

    def __call__(self, one: pa.Array, other: pa.Array) -> pa.Array:
        if pc.any(pc.and_(pc.equal(other, pa.scalar(0, other.type)), pc.is_valid(one))).as_py():
            raise pa.ArrowInvalid("divide by zero")
        is_valid = pc.and_(pc.is_valid(one), pc.is_valid(other)).to_numpy(zero_copy_only=False)
        dividend, divisor = (each.cast(pa.int64()).fill_null(1).to_numpy() for each in (one, other))
        # The smallest number has no quotient by -1, and its remainder is 0.
        safe = np.where(is_valid & (divisor != -1) & (divisor != 0), divisor, 1)
        return pa.array(np.fmod(dividend, safe), pa.int64(), mask=~is_valid).cast(self.type)


@dataclass(frozen=True)
class OfDecimals:
    """Returns an operation of decimals, or of integers beside them."""

    operation: Callable[..., pa.Array]
    types: tuple[pa.DataType, pa.DataType]

    def __call__(self, one: pa.Array, other: pa.Array) -> pa.Array:
        return self.operation(one.cast(self.types[0]), other.cast(self.types[1]))


@dataclass(frozen=True)
class CutTo:
    """Returns numbers as integers, without their fraction. What does not fit is an error."""

    type: pa.DataType

    def __call__(self, number: pa.Array) -> pa.Array:
        if pc.any(pc.is_nan(number)).as_py() if pa.types.is_floating(number.type) else False:
            raise pa.ArrowInvalid("NaN is not an integer")
        if pa.types.is_decimal(number.type) and number.type.precision == number.type.scale:
            # Arrow finds no room for the digit 0 of such a number, which is between -1 and 1.
            return pc.if_else(pc.is_valid(number), pa.scalar(0, self.type), pa.scalar(None, self.type))
        if pa.types.is_float32(number.type):
            # As a FLOAT, the largest INT is the number after it, so Arrow may take that one for an INT.
            number = number.cast(pa.float64())
        return pc.trunc(number).cast(self.type)


@dataclass(frozen=True)
class ToDecimal:
    """Returns numbers as decimals, rounded half away from zero. What does not fit is an error."""

    type: pa.DataType

    def __call__(self, number: pa.Array) -> pa.Array:
        if pa.types.is_integer(number.type):
            made = [None if each is None else Decimal(each) for each in number.to_pylist()]
            return self._fitted(made)
        if number.type.scale <= self.type.scale:
            return exact_cast(number, self.type)
        cut = Decimal(1).scaleb(-self.type.scale)
        return self._fitted([None if each is None else _rounded(each, cut) for each in number.to_pylist()])

    def _fitted(self, made: list[Decimal | None]) -> pa.Array:
        limit = Decimal(10) ** (self.type.precision - self.type.scale)
        for each in made:
            if each is not None and each.copy_abs() >= limit:
                raise pa.ArrowInvalid(f"{each} has too many digits")
        return pa.array(made, self.type)


def _rounded(number: Decimal, cut: Decimal) -> Decimal:
    return number.quantize(cut, rounding="ROUND_HALF_UP", context=_CONTEXT)


@dataclass(frozen=True)
class ToInteger:
    """Returns texts as integers, without a fraction. Another text is an error, or NULL."""

    type: pa.DataType
    is_null_if_wrong: bool

    def __call__(self, text: pa.Array) -> pa.Array:
        made = [None if each is None else self._read(each) for each in text.to_pylist()]
        return pa.array(made, self.type)

    def _read(self, text: str) -> int | None:
        found = "0" if _FRACTION.fullmatch(text) else text
        if (match := _WITH_FRACTION.fullmatch(text)) is not None:
            found = match[1]
        found = found.strip(_TRIMMED)
        if (made := _whole(found)) is not None:
            limit = 2 ** (self.type.bit_width - 1)
            if -limit <= made < limit:
                return made
        if self.is_null_if_wrong:
            return None
        raise pa.ArrowInvalid(f"expected a text with a number of the type {self.type}, got another text")


def _whole(text: str) -> int | None:
    """Return the number; None for another text, and for more digits than a BIGINT (Python reads 4300)."""
    if _WHOLE.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _BIGINT_DIGITS:
        return None
    return -int(digits) if text.startswith("-") else int(digits)


# ----- times

_FIRST_YEAR, _LAST_YEAR = -32766, 32767
"""Arrow keeps the year of a time in 16 bits, and asks the year before for its weeks."""
_FIRST_DAY, _END_DAY = (
    int(np.datetime64(f"{year}-01-01", "D").astype(np.int64)) for year in (_FIRST_YEAR, _LAST_YEAR + 1)
)
_DAY = 86_400_000_000
"""A day in microseconds."""


@dataclass(frozen=True)
class PartOfDate:
    """Returns a part of dates or times such as the year. One outside of the years of Arrow is an error."""

    part: Callable[[pa.Array], pa.Array]

    def __call__(self, time: pa.Array) -> pa.Array:
        is_date = pa.types.is_date32(time.type)
        unit = 1 if is_date else _DAY
        bounds = pc.min_max(time.view(pa.int32() if is_date else pa.int64())).as_py()
        # Both are None if each value is NULL.
        if bounds["min"] is not None and (
            bounds["min"] < _FIRST_DAY * unit or bounds["max"] >= _END_DAY * unit
        ):
            raise pa.ArrowInvalid(
                f"expected a time of the years {_FIRST_YEAR} to {_LAST_YEAR}, got one of another year"
            )
        return self.part(time)


def day_of_week(time: pa.Array) -> pa.Array:
    """Return the day of the week: 1 is Sunday."""
    return pc.day_of_week(time, count_from_zero=False, week_start=7)


def begin_of_day(time: pa.Array) -> pa.Array:
    return floored(time, "day")


def to_date(time: pa.Array) -> pa.Array:
    return floored(time, "day").cast(pa.date32())


@dataclass(frozen=True)
class SinceEpoch:
    """Returns counts of time since 1970 as times."""

    microseconds: int

    def __call__(self, count: pa.Array) -> pa.Array:
        made = pc.multiply_checked(count.cast(pa.int64()), pa.scalar(self.microseconds, pa.int64()))
        return made.cast(pa.timestamp("us", tz="UTC"))


Pieces = tuple[str | tuple[int, int], ...]
"""What a text is joined from: texts, and from where to where another text is cut."""


def _joined(text: str, pieces: Pieces) -> str:
    return "".join(each if isinstance(each, str) else text[slice(*each)] for each in pieces)


@dataclass(frozen=True)
class Clock:
    """Returns a time as text, joined from pieces of `2026-11-27 13:05:09.123456` and texts between them."""

    parts: Pieces

    def __call__(self, time: datetime) -> str:
        text = time.isoformat(sep=" ", timespec="microseconds")
        return _joined(text, self.parts)


@dataclass(frozen=True)
class DayText:
    """Returns times as text, joined from pieces of their day such as `2026-11-27` and texts between them.

    A year after 9999 has a sign, as in Spark's own text of a time.
    """

    parts: Pieces

    def __call__(self, time: pa.Array) -> pa.Array:
        return text_of_days(time, self._text)

    def _text(self, day: np.datetime64) -> str:
        return _joined(f"{_year(day)}{str(day)[-len('-11-27') :]}", self.parts)


@dataclass(frozen=True)
class DayFormat:
    """Returns times in UTC as text of yyyy, MM, dd and signs, as Spark's date_format writes it.

    A year after 9999 has a sign, and so has one before the year 0.
    """

    parts: tuple[str, ...]

    def __call__(self, time: pa.Array) -> pa.Array:
        return text_of_days(time, self._text)

    def _text(self, day: np.datetime64) -> str:
        month, of_month = str(day).split("-")[-2:]
        found = {"yyyy": _year(day), "MM": month, "dd": of_month}
        return "".join(found.get(each, each) for each in self.parts)


def text_of_days(time: pa.Array, text: Callable[[np.datetime64], str]) -> pa.Array:
    """Return a text of each time, which is made once for each day."""
    microseconds = time.view(pa.int64()).fill_null(0).to_numpy()
    days, indices = np.unique(microseconds // _DAY, return_inverse=True)
    texts = pa.array(list(map(text, days.astype("datetime64[D]"))), pa.string())
    return texts.take(pa.array(indices, mask=time.is_null().to_numpy(zero_copy_only=False)))


def _year(day: np.datetime64) -> str:
    year = int(day.astype("datetime64[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > _LAST_PLAIN_YEAR else ""
    return f"{sign}{abs(year):04d}"


_DAY_CHARACTERS, _LAST_PLAIN_YEAR = len("2026-11-27"), 9999


def text_of_time(parts: Pieces) -> Callable[[pa.Array], pa.Array]:
    """Return what makes texts of times from pieces; see `Clock`."""
    is_of_day = all(isinstance(each, str) or each[1] <= _DAY_CHARACTERS for each in parts)
    return DayText(parts) if is_of_day else ByRow(Clock(parts), pa.string())


def plain_text(value: date | Decimal) -> str:
    """Return a date as 2026-11-27, a decimal with all digits of its scale and without an exponent."""
    return f"{value:f}" if isinstance(value, Decimal) else value.isoformat()
