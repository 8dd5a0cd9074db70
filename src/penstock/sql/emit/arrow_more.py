"""More scalar functions of continuous queries: texts, times, decimals, casts.

Runs on the driver; the functions in `arrow_rows` run on executors. Invariant: a function is recognised by the
text of Spark's SQL that it becomes, and by the types of its arguments. What is not listed here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.decimals import SIGN_DIGITS_MAX
from penstock.sql.emit import arrow_functions as functions
from penstock.sql.emit import arrow_rows as rows
from penstock.sql.emit.arrow_types import DIGITS_MAX, TYPES
from penstock.sql.emit.arrow_values import CastTo, trimmed
from penstock.sql.plan.expressions import Call, Literal, TypedSql
from penstock.sql.plan.texts import INTEGERS, decimal_digits
from penstock.sql.plan.types import spark_text

_Function = Callable[..., pa.Array]
_STRING, _DATE, _TIME, _LOCAL = "string", "date", "timestamp_ntz", "timestamp"
_SHORT = frozenset(("tinyint", "smallint", "int"))
_INT_MAX = 2**31 - 1
_STRINGS: Mapping[str, _Function] = {
    "upper({0})": functions.upper,
    "lower({0})": functions.lower,
    "trim({0})": trimmed,
    "trim(LEADING ' ' FROM {0})": rows.left_trimmed,
    "trim(TRAILING ' ' FROM {0})": rows.right_trimmed,
    "btrim({0})": trimmed,
    "btrim({0}, {1})": rows.ByRow(str.strip, pa.string()),
    "trim(BOTH {1} FROM {0})": rows.ByRow(str.strip, pa.string()),
    "trim(LEADING {1} FROM {0})": rows.ByRow(str.lstrip, pa.string()),
    "trim(TRAILING {1} FROM {0})": rows.ByRow(str.rstrip, pa.string()),
    "locate({0}, {1})": rows.ByRow(rows.position, pa.int32()),
    "instr({0}, {1})": rows.ByRow(rows.position_in, pa.int32()),
    "reverse({0})": rows.ByRow(rows.turned, pa.string()),
    "startswith({0}, {1})": rows.ByRow(str.startswith, pa.bool_()),
    "endswith({0}, {1})": rows.ByRow(str.endswith, pa.bool_()),
    "md5({0})": rows.ByRow(rows.md5, pa.string()),
    "sha1({0})": rows.ByRow(rows.sha1, pa.string()),
    "sha2({0}, 256)": rows.ByRow(rows.sha256, pa.string()),
    "hex({0})": rows.ByRow(rows.in_hex, pa.string()),
}
"""Functions of texts."""
_OF_TIME: Mapping[str, _Function] = {
    "year": rows.PartOfDate(pc.year),
    "quarter": rows.PartOfDate(pc.quarter),
    "month": rows.PartOfDate(pc.month),
    "weekofyear": rows.PartOfDate(pc.iso_week),
    "dayofyear": rows.PartOfDate(pc.day_of_year),
    "dayofmonth": rows.PartOfDate(pc.day),
    "day": rows.PartOfDate(pc.day),
    "dayofweek": rows.day_of_week,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_CLOCK = ("hour", "minute", "second")
_PART = re.compile(r"CAST\((\w+)\(\{0\}\) AS BIGINT\)")
_CAST = re.compile(r"CAST\(\{0\} AS ([A-Z_]+(?:\(\d+,\d+\))?)\)")
_MILLISECOND = "CAST(floor((extract(SECOND FROM CAST({0} AS TIMESTAMP_NTZ)) % 1) * 1000) AS BIGINT)"
_TEXT_OF_TIME = re.compile(
    r"concat\(left\(CAST\(\{0\} AS STRING\), 19\), '\.', "
    r"rpad\(substring\(CAST\(\{0\} AS STRING\), 21\), (\d), '0'\)\)"
)
_REMAINDER = re.compile(r"CAST\(\(\{0\} % \{1\}\) AS (TINYINT|SMALLINT|INT|BIGINT)\)")
_WITHOUT_FRACTION = (
    r"(regexp_replace(regexp_replace({0}, '^(\\s*[+-]?\\d+)\\.\\d*(\\s*)$', '$1'), "
    r"'^\\s*[+-]?\\.\\d+\\s*$', '0') AS "
)
_ROUNDED = re.compile(r"round\(\{0\}, (\d+)\)")
_REPLACED = (
    r"CASE WHEN {1} = '' THEN regexp_replace({0}, '', replace(replace({2}, '\\', '\\\\'), '$', '\\$')) "
    "ELSE replace({0}, {1}, {2}) END"
)
_SPLIT = re.compile(r"get\(split\(if\(\{0\} = '', NULL, \{0\}\), '.*'\), (\d+)\)", re.DOTALL)
_DAY_PARTS = re.compile(r"yyyy(?!y)|MM(?!M)|dd(?!d)|[-/. ]")
_DAY = re.compile(rf"date_format\(\{{0\}}, '((?:{_DAY_PARTS.pattern})+)'\)")
_PIECE = r"substring\(CAST\(CAST\(\{0\} AS TIMESTAMP_NTZ\) AS STRING\), (\d+), (\d+)\)"
_PIECES = re.compile(rf"rpad\({_PIECE}, 3, '0'\)|{_PIECE}|'([^'\\]*)'")
_EPOCHS = {"timestamp_millis({0})": 1_000, "timestamp_seconds({0})": 1_000_000}
_ROUND_CEIL = {
    f"CASE WHEN abs({{0}}) < 9007199254740992 THEN CAST({name}({{0}}) AS DOUBLE) ELSE {{0}} END": function
    for name, function in (("ceil", rows.up), ("floor", rows.down))
}


@dataclass(frozen=True)
class Found:
    """A function that is served, of the arguments with these indexes."""

    function: _Function
    type: pa.DataType
    args: tuple[int, ...] = (0,)


def found(  # noqa: PLR0911 - one for each kind
    call: Call, text: str, wanted: pa.DataType
) -> Found | None:
    """Return the function that a call is, with a result of the type `wanted`; None if it is not served.

    `text` is the call in Spark's SQL, with {0} for its first argument.
    """
    kinds = [spark_text(each.type) for each in call.args]
    if not kinds:
        return None
    every = tuple(range(len(kinds)))
    if text in _STRINGS and set(kinds) == {_STRING}:
        function = _STRINGS[text]
        return Found(function, getattr(function, "type", pa.string()), every)
    if text in ("left({0}, {1})", "right({0}, {1})") and kinds[0] == _STRING and kinds[1] in _SHORT:
        return Found(rows.ByRow(rows.first if text[0] == "l" else rows.last, pa.string()), pa.string(), every)
    if text == f"concat_ws({_numbered(every)})" and set(kinds) == {_STRING} and len(kinds) > 1:
        return Found(rows.joined_with, pa.string(), every)
    if text == _REPLACED and set(kinds) == {_STRING}:
        has_text = isinstance(call.args[1], Literal) and bool(call.args[1].value)
        return Found(rows.ByRow(str.replace, pa.string()), pa.string(), every) if has_text else None
    if (extreme := _extreme(text, every)) is not None and len(set(kinds)) == 1:
        return Found(extreme, wanted, every) if kinds[0] in _ORDERED or _is_decimal(kinds[0]) else None
    return _of_numbers(text, kinds, wanted) or _of_times(text, kinds) or _cast(text, kinds, wanted)


def found_with_constants(  # noqa: PLR0911 - one for each kind
    call: Call, wanted: pa.DataType, *, is_utc: bool
) -> Found | None:
    """Return the function that a call is, whose constants stand in its text; None if it is not served."""
    pieces = [
        TypedSql(each.text if isinstance(each, Literal) else f"{{{index}}}", spark_text(each.type))
        for index, each in enumerate(call.args)
    ]
    try:
        text = call.function.apply(pieces)
    except ValueError:  # it wants another constant
        return None
    kinds = [spark_text(each.type) for each in call.args]
    if text in _EPOCHS and kinds[0] in INTEGERS:
        return Found(rows.SinceEpoch(_EPOCHS[text]), TYPES[_LOCAL])
    if (split := _SPLIT.fullmatch(text)) is not None and kinds[0] == _STRING:
        return _piece(call, int(split[1]), wanted)
    if (digits := _ROUNDED.fullmatch(text)) is not None and _is_decimal(kinds[0]):
        return Found(rows.ToDecimal(wanted), wanted) if wanted.scale == int(digits[1]) else None
    if is_utc and (day := _DAY.fullmatch(text)) is not None and kinds[0] == _LOCAL:
        return Found(rows.DayFormat(tuple(_DAY_PARTS.findall(day[1]))), pa.string())
    if text.startswith("concat(") and kinds[0] == _TIME:
        parts = _clock_parts(text.removeprefix("concat(").removesuffix(")"))
        return None if parts is None else Found(rows.text_of_time(parts), pa.string())
    return None


def _piece(call: Call, index: int, wanted: pa.DataType) -> Found | None:
    separator = call.args[1]
    assert isinstance(separator, Literal)  # noqa: S101 - its text is there
    between = separator.value
    if not isinstance(between, str) or between == "" or index > _INT_MAX:
        return None
    return Found(rows.ByRow(rows.Piece(between, index), wanted), wanted)


def _clock_parts(text: str) -> rows.Pieces | None:
    """Return the pieces of a time that a pattern of DATE_FORMAT joins; None if one is of another kind."""
    parts: list[str | tuple[int, int]] = []
    at = 0
    while (match := _PIECES.match(text, at)) is not None:
        start, length = match[1] or match[3], match[2] or match[4]
        parts.append(match[5] if start is None else (int(start) - 1, int(start) - 1 + int(length)))
        at = match.end()
        if at == len(text):
            return tuple(parts)
        if not text.startswith(", ", at):
            return None
        at += 2
    return None


_ORDERED = (_STRING, _DATE, _TIME, _LOCAL, *INTEGERS)


def _extreme(text: str, every: Sequence[int]) -> _Function | None:
    nulls = " OR ".join(f"{{{index}}} IS NULL" for index in every)
    for name, function in (("greatest", rows.greatest), ("least", rows.least)):
        if text == f"CASE WHEN {nulls} THEN NULL ELSE {name}({_numbered(every)}) END":
            return function
    return None


def _numbered(every: Sequence[int]) -> str:
    return ", ".join(f"{{{index}}}" for index in every)


def _is_decimal(kind: str) -> bool:
    return kind.startswith("decimal")


def _keeps_its_digits(kind: str) -> bool:
    """Return whether Spark changes the sign of a DECIMAL exactly. It rounds one with more digits."""
    digits = decimal_digits(kind)
    return digits is not None and digits[0] <= SIGN_DIGITS_MAX


def _of_numbers(  # noqa: PLR0911 - one for each kind
    text: str, kinds: list[str], wanted: pa.DataType
) -> Found | None:
    if text == "abs({0})" and kinds[0] in INTEGERS:
        return Found(pc.abs_checked, wanted)
    if text == "abs({0})" and (kinds[0] in ("float", "double") or _keeps_its_digits(kinds[0])):
        return Found(pc.abs, wanted)
    if text == "(- {0})" and _keeps_its_digits(kinds[0]):
        return Found(pc.negate, wanted)
    if text in _ROUND_CEIL and kinds == ["double"]:
        return Found(_ROUND_CEIL[text], wanted)
    if _REMAINDER.fullmatch(text) is not None and set(kinds) <= {*INTEGERS}:
        return Found(rows.Remainder(wanted), wanted, (0, 1))
    if (sign := _SIGNS.get(text)) is not None and any(map(_is_decimal, kinds)):
        return _of_decimals(sign, kinds, wanted)
    return None


_SIGNS = {"({0} + {1})": "+", "({0} - {1})": "-", "({0} * {1})": "*"}
_DIGITS = {"tinyint": (3, 0), "smallint": (5, 0), "int": (10, 0), "bigint": (20, 0)}
"""The precision and scale of the DECIMAL that Spark makes of an integer beside one."""


def _of_decimals(sign: str, kinds: list[str], wanted: pa.DataType) -> Found | None:
    """Return arithmetic of decimals, if its type has all digits. So it is exact, and never too large."""
    given = [decimal_digits(each) or _DIGITS.get(each) for each in kinds]
    if given[0] is None or given[1] is None:
        return None
    (one, scale), (other, other_scale) = given[0], given[1]
    if sign == "*":
        digits, natural_scale, function = one + other + 1, scale + other_scale, pc.multiply
    else:
        natural_scale = max(scale, other_scale)
        digits = max(one - scale, other - other_scale) + natural_scale + 1
        function = pc.add if sign == "+" else pc.subtract
    if digits > DIGITS_MAX or (wanted.precision, wanted.scale) != (digits, natural_scale):
        return None
    types = (pa.decimal128(one, scale), pa.decimal128(other, other_scale))
    return Found(rows.OfDecimals(function, types), wanted, (0, 1))


def _of_times(  # noqa: PLR0911 - one for each kind
    text: str, kinds: list[str]
) -> Found | None:
    if len(kinds) != 1:
        return None
    has_clock = kinds[0] == _TIME
    if (part := _PART.fullmatch(text)) is not None and part[1] in _OF_TIME:
        if has_clock or (kinds[0] == _DATE and part[1] not in _CLOCK):
            return Found(_OF_TIME[part[1]], pa.int64())
        return None
    if text == _MILLISECOND and has_clock:
        return Found(pc.millisecond, pa.int64())
    if text == "CAST(CAST({0} AS DATE) AS TIMESTAMP_NTZ)" and has_clock:
        return Found(rows.begin_of_day, TYPES[_TIME])
    if (digits := _TEXT_OF_TIME.fullmatch(text)) is not None and has_clock:
        return Found(rows.text_of_time(((0, 20 + int(digits[1])),)), pa.string())
    return None


def _cast(  # noqa: C901, PLR0911 - one for each kind
    text: str, kinds: list[str], wanted: pa.DataType
) -> Found | None:
    kind = kinds[0]
    for name in ("CAST", "try_cast"):
        if kind == _STRING and text in {f"{name}{_WITHOUT_FRACTION}{each.upper()})" for each in INTEGERS}:
            return Found(rows.ToInteger(wanted, is_null_if_wrong=name != "CAST"), wanted)
    match = _CAST.fullmatch(text)
    if match is None:
        return None
    target = match[1].lower()
    if target in INTEGERS and kind in ("boolean", *INTEGERS):
        return Found(CastTo(wanted), wanted)
    if target in ("tinyint", "smallint", "int") and kind in ("float", "double"):
        return Found(rows.CutTo(wanted), wanted)
    if target in INTEGERS and _is_decimal(kind):
        return Found(rows.CutTo(wanted), wanted)
    if _is_decimal(target) and (kind in INTEGERS or _is_decimal(kind)):
        return Found(rows.ToDecimal(wanted), wanted)
    if target == "double" and _is_decimal(kind):
        return Found(rows.ByRow(float, wanted), wanted)
    if target == "boolean" and kind in INTEGERS:
        return Found(rows.is_not_zero, wanted)
    if target == _STRING and (kind == _DATE or _is_decimal(kind)):
        return Found(rows.ByRow(rows.plain_text, wanted), wanted)
    if (kind, target) in ((_TIME, _DATE), (_DATE, _TIME)):
        return Found(rows.to_date if target == _DATE else CastTo(wanted), wanted)
    return None
