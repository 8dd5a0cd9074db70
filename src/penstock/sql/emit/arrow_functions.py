"""Functions of texts and numbers over Arrow arrays: what a continuous query computes in its tasks.

Runs on executors. Invariant: a value is the one that Spark's SQL gives, or an error that says why there is
none (`ArrowInvalid`, which becomes a RowError with its place).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_NEW_CAPITALS = "\u019b\u0264\ua7d3\ua7d5"
"""Old letters that have a capital one since Unicode 16, which Spark knows."""
_OLD_BESIDE_SIGMA = frozenset(each for each in "\u0295\U0001171e" if f"a{each}\u03a3".lower()[-1] == "\u03c2")
"""Characters beside which Spark takes another small letter of Sigma than a Python before Unicode 16."""

# ----- texts


def upper(text: pa.Array) -> pa.Array:
    """Return texts in capitals, as Unicode's full mapping has them: 'ß' becomes 'SS'."""
    return _mapped(text, pc.ascii_upper, str.upper)


def lower(text: pa.Array) -> pa.Array:
    """Return texts in small letters. A 'Σ' at the end of a word becomes 'ς'."""
    return _mapped(text, pc.ascii_lower, _lower)


def _lower(text: str) -> str:
    if "\u03a3" in text:
        for each in text:
            if each in _OLD_BESIDE_SIGMA:
                raise _unknown(each)
    return text.lower()


def _mapped(
    text: pa.Array, of_ascii: Callable[[pa.Array], pa.Array], of_any: Callable[[str], str]
) -> pa.Array:
    if pc.all(pc.string_is_ascii(text)).as_py() is not False:
        return of_ascii(text)
    given = text.to_pylist()
    return pa.array([None if each is None else of_any(_known(each)) for each in given], pa.string())


def _known(text: str) -> str:
    """Return the text. Raise ArrowInvalid for a character whose case is newer than this Python's Unicode."""
    if not text.isascii():
        for each in text:
            is_new = each in _NEW_CAPITALS and each.upper() == each
            if is_new or unicodedata.category(each) == "Cn":
                raise _unknown(each)
    return text


def _unknown(character: str) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(
        f"the case of the character U+{ord(character):04X} is not in Unicode "
        f"{unicodedata.unidata_version}, which this Python knows"
    )


@dataclass(frozen=True)
class Like:
    """Returns whether texts have a pattern of LIKE.

    Attributes:
        expression: the pattern as a regular expression of a whole text.
        is_negated: whether it is NOT LIKE.
    """

    expression: str
    is_negated: bool

    def __call__(self, text: pa.Array) -> pa.Array:
        found = pc.match_substring_regex(text, self.expression)
        return pc.invert(found) if self.is_negated else found


def like_expression(pattern: str) -> str:
    """Return a pattern of LIKE, where a backslash is a plain character, as a regular expression."""
    parts = {"%": ".*", "_": "."}
    made = "".join(parts.get(each, _quoted(each)) for each in pattern)
    return rf"(?s)\A{made}\z"


def _quoted(character: str) -> str:
    return r"\x{0}" if character == "\0" else re.escape(character)


def substring(text: pa.Array, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    """Return parts of texts, in characters. A start below 0 counts from the end; NULL for a negative length.

    A start before the text gives ''.
    """
    lengths = [None] * len(text) if length is None else length.to_pylist()
    rows = zip(text.to_pylist(), start.to_pylist(), lengths, strict=True)
    has_length = length is not None
    return pa.array([_substring(*row, has_length=has_length) for row in rows], pa.string())


def _substring(text: str | None, start: int | None, length: int | None, *, has_length: bool) -> str | None:
    if text is None or start is None or (has_length and (length is None or length < 0)):
        return None
    if start < -len(text):
        return ""
    first = start - 1 if start > 0 else start + len(text) if start < 0 else 0
    return text[first:] if length is None else text[first : first + length]


# ----- numbers


def divided(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return doubles divided. A 0 is an error, as in Spark, where a value is divided by it."""
    is_zero = pc.and_(pc.equal(other, 0.0), pc.is_valid(one))
    if pc.any(is_zero).as_py():
        raise pa.ArrowInvalid("divide by zero")
    return pc.divide(one, other)


def to_double(number: pa.Array) -> pa.Array:
    """Return numbers as doubles. The largest integers lose digits, as in Spark."""
    return number.cast(pa.float64(), safe=False)


def equal(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return whether values are equal. NaN equals NaN, as in Spark."""
    if not pa.types.is_floating(one.type):
        return pc.equal(one, other)
    return pc.or_(pc.equal(one, other), pc.and_(pc.is_nan(one), pc.is_nan(other)))


def not_equal(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.invert(equal(one, other))


def less(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return whether values are less. NaN is the largest number, as in Spark."""
    if not pa.types.is_floating(one.type):
        return pc.less(one, other)
    return pc.or_(pc.less(one, other), pc.and_(pc.invert(pc.is_nan(one)), pc.is_nan(other)))


def greater(one: pa.Array, other: pa.Array) -> pa.Array:
    return less(other, one)


def less_equal(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.invert(less(other, one))


def greater_equal(one: pa.Array, other: pa.Array) -> pa.Array:
    return pc.invert(less(one, other))
