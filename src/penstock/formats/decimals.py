"""Casts of Arrow, and SQL of Spark for a change of the sign, in which a decimal keeps its value.

Runs on executors; pure. Invariant: a value becomes the same number, or `pa.ArrowInvalid` is raised. Arrow's
own cast gives another number, without an error, if a decimal has too many digits at the scale of its new
type: 11 * 10^36 as DECIMAL(38, 2). It does so with a text of too many digits, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_DIGITS_MAX = {32: 9, 64: 18, 128: 38, 256: 76}
"""The most digits of a decimal, by its bits."""
_EXACT = Context(prec=400)
SIGN_DIGITS_MAX = 34
"""The digits that `-x` and `abs(x)` of Spark keep. They round a DECIMAL with more, as of Spark 4.3."""


def exact_cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return values as another type; see Arrow's `cast`.

    Values are compared only if the new type may have too few digits for them.

    Raises:
        pa.ArrowInvalid: a value does not fit.
    """
    made = column.cast(wanted)
    if _may_differ(column.type, wanted):
        for given, found in _leaves(column, made):
            _check(given, found)
    return made


def negative_sql(value: str, precision: int, scale: int) -> str:
    """Return SQL of Spark for `-value` that keeps all digits of a DECIMAL(precision, scale).

    Args:
        value: SQL of the decimal. It stands in the result up to three times.
        precision: of its type.
        scale: of its type.
    """
    if precision <= SIGN_DIGITS_MAX:
        return f"(- {value})"
    text = f"CAST({value} AS STRING)"
    changed = f"IF({value} < 0, substr({text}, 2), concat('-', {text}))"
    return f"CAST({changed} AS DECIMAL({precision},{scale}))"


def has_digits_beyond(number: Decimal, scale: int) -> bool:
    """Return whether a finite number has digits that a decimal of this scale does not keep."""
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= -scale or not number:
        return False
    try:
        return bool(_EXACT.remainder(number, Decimal(1).scaleb(-scale)))
    except InvalidOperation:  # it has more digits than any decimal
        return True


def _may_differ(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Arrow's cast may give other numbers."""
    if given.equals(wanted):
        return False
    if pt.is_dictionary(given):
        return _may_differ(given.value_type, wanted)
    if pt.is_decimal(wanted):
        return _may_overflow(given, wanted)
    if pt.is_struct(given) and pt.is_struct(wanted):
        inner = {one.name: one.type for one in given}
        return any(one.name in inner and _may_differ(inner[one.name], one.type) for one in wanted)
    pairs = zip(_children(given), _children(wanted), strict=False)
    return any(_may_differ(one, other) for one, other in pairs)


def _children(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(at).type for at in range(kind.num_fields)]


def _may_overflow(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a decimal may have too few digits. Arrow itself checks integers and floats."""
    if not pt.is_decimal(given):
        return _is_text(given)
    more = wanted.scale - given.scale
    return bool(more > 0 and given.precision + more > _DIGITS_MAX[wanted.bit_width])


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _leaves(given: pa.Array, made: pa.Array) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the decimals in values, and what they were made of. Values under a null do not count."""
    if pt.is_struct(made.type):
        of_name = dict(zip((one.name for one in given.type), given.flatten(), strict=True))
        for one, found in zip(made.type, made.flatten(), strict=True):
            if one.name in of_name:
                yield from _leaves(of_name[one.name], found)
    elif pt.is_map(made.type):
        for at in (0, 1):
            yield from _leaves(*(_as_lists(each).flatten().field(at) for each in (given, made)))
    elif pt.is_nested(made.type):
        yield from _leaves(given.flatten(), made.flatten())
    elif _may_differ(given.type, made.type):
        yield given, made


def _as_lists(maps: pa.MapArray) -> pa.ListArray:
    kind = maps.type
    return maps.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))


def _check(given: pa.Array, made: pa.Array) -> None:
    """Raise ArrowInvalid for decimals that are other numbers than those that they were made of."""
    if pt.is_dictionary(given.type):
        given = given.dictionary_decode()
    if not (_are_back if pt.is_decimal(given.type) else _are_same)(given, made):
        raise pa.ArrowInvalid(f"Decimal value does not fit in {made.type}")


def _are_back(given: pa.Array, made: pa.Array) -> bool:
    """Return whether decimals become those again that they were made of.

    They were multiplied by a power of ten. A product that lost its highest bits is not divided into the same.
    """
    try:
        return bool(made.cast(given.type).equals(given))
    except pa.ArrowInvalid:
        return False


def _are_same(texts: pa.Array, made: pa.Array) -> bool:
    """Return whether decimals are the numbers of texts."""
    most = _DIGITS_MAX[made.type.bit_width] - made.type.scale
    texts = texts.cast(pa.large_string())
    is_long = pc.invert(pc.match_substring_regex(texts, f"^-?[0-9.]{{0,{most}}}$"))
    if not pc.any(is_long).as_py():
        return True
    pairs = zip(texts.filter(is_long).to_pylist(), made.filter(is_long).to_pylist(), strict=True)
    return all(_number(text) == number for text, number in pairs)


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:  # Arrow reads more kinds of texts
        return None
