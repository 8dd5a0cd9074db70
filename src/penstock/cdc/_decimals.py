"""Decimals of declared columns, at any depth: exact, and never the digits of base64.

Runs on executors; pure. Invariants: a decimal has all digits of its message, or the message is a failure. A
text that may be base64 is a failure too if its column has digits behind the point. With
`decimal.handling.mode` = `precise` Debezium writes base64. It may have digits only: "1234" is -26588.24 then.
Base64 has neither a point nor a minus sign, and with `string` Debezium writes all digits behind the point.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Context, Decimal, InvalidOperation
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.cdc import _values
from penstock.cdc._kinds import Kind
from penstock.cdc._messages import Changes
from penstock.cdc._reading import Bad
from penstock.cdc._values import Converted

_MODE = (
    "If the connector's 'decimal.handling.mode' is 'precise', Debezium's default, this is base64. Set it to "
    "'string', and begin with a new topic"
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LIKE_BASE64 = re.compile(r"[0-9+eE]+")
_WHOLE = re.compile(r"0|[1-9][0-9]*")
_EXACT = Context(prec=100)
_MAYBE = r'"(?:[0-9+eE]|\\u00[0-9a-fA-F]{2})+"'
"""Finds each JSON text that `_LIKE_BASE64` matches, and some more."""


def exact(wanted: pa.DataType) -> Kind:
    """Return how values of a declared column are read: decimals as text, because the format rounds them."""
    kinds = pa.types
    if kinds.is_decimal(wanted):
        return Kind(pa.string(), wanted, partial(_numbers, wanted))
    if kinds.is_list(wanted):
        item = exact(wanted.value_type)
        if item.convert is not None:
            physical = pa.list_(wanted.value_field.with_type(item.physical))
            return Kind(physical, wanted, _values.lists(item.convert, wanted))
    elif kinds.is_map(wanted):
        item = exact(wanted.item_type)
        if item.convert is not None:
            physical = pa.map_(wanted.key_field, wanted.item_field.with_type(item.physical))
            return Kind(physical, wanted, _values.maps(item.convert, wanted))
    elif kinds.is_struct(wanted):
        inner = {one: exact(one.type) for one in wanted}
        if any(kind.convert is not None for kind in inner.values()):
            physical = pa.struct([one.with_type(kind.physical) for one, kind in inner.items()])
            return Kind(physical, wanted, _values.structs(wanted, [one.converted for one in inner.values()]))
    return Kind(wanted, wanted)


def _numbers(wanted: pa.Decimal128Type, column: pa.Array) -> Converted:
    """Convert the texts of numbers. What a decimal cannot hold is bad, and is not rounded."""
    found = _values.cast(column, wanted).column
    bad = pc.and_(column.is_valid(), found.is_null())
    if not pc.any(bad).as_py():
        return Converted(found)
    # Arrow refuses some texts of numbers that fit, such as those with more than 38 digits, many of them 0.
    others = [_number(one, wanted) for one in column.filter(bad).to_pylist()]
    found = pc.replace_with_mask(found, bad, pa.array(others, wanted))
    bad = pc.and_(column.is_valid(), found.is_null())
    reason = f"it is not a number that fits into {wanted} with all digits. {_MODE}"
    return Converted(found, bad, reason) if pc.any(bad).as_py() else Converted(found)


def _number(text: str, wanted: pa.Decimal128Type) -> Decimal | None:
    """Return the number of a text; None if it is not one, or does not fit."""
    if _NUMBER.fullmatch(text) is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent with very many digits
        return None
    if not number.is_finite() or (number and number.adjusted() >= wanted.precision - wanted.scale):
        return None
    made = number.quantize(Decimal(1).scaleb(-wanted.scale), context=_EXACT) if number else Decimal(0)
    return made if made == number else None


def _has_fractions(kind: pa.DataType) -> bool:
    """Return whether a number in values of a type may have digits behind the point."""
    kinds = pa.types
    if kinds.is_list(kind):
        return _has_fractions(kind.value_type)
    if kinds.is_map(kind):
        return _has_fractions(kind.item_type)
    if kinds.is_struct(kind):
        return any(_has_fractions(one.type) for one in kind)
    return bool(kinds.is_floating(kind) or kinds.is_decimal(kind))


def without_base64(changes: Changes, values: pa.Array) -> Changes:
    """Return changes without the messages that have base64 or what may be base64 in place of a number."""
    fields = [one for one in changes.rows.schema if _has_fractions(one.type)]
    if not fields:
        return changes
    suspects = pc.fill_null(pc.match_substring_regex(values, _MAYBE), False).to_numpy(zero_copy_only=False)
    if not suspects.any():
        return changes
    bad = Bad(values, changes.index)
    for message, kind in zip(changes.index.to_pylist(), changes.kinds.to_pylist(), strict=True):
        if suspects[message]:
            side = "before" if kind in ("-U", "-D") else "after"
            reason = _reason(values[message].as_py(), side, fields)
            if reason is not None:
                bad.reasons.setdefault(message, reason)
    return bad.left_out(changes)


def _reason(message: bytes, side: str, fields: Sequence[pa.Field]) -> str | None:
    """Return why a row of a message cannot be read; None if it can."""
    try:
        # Only texts count here. int() would refuse numbers of more than 4300 digits.
        row = json.loads(message, strict=False, parse_int=float)[side]
    except (ValueError, RecursionError) as error:
        return f"its JSON cannot be read: {error}"
    for one in fields:
        if _may_be_base64(row.get(one.name), one.type):
            return (
                f"a value of column '{one.name}' is a text without a point. It may be base64, and penstock "
                f"cannot tell whether it is a number. {_MODE}. If the column has no scale in the source, "
                "declare STRING. If its scale is 0, declare a DECIMAL with the scale 0"
            )
    return None


def _may_be_base64(value: Any, kind: pa.DataType) -> bool:
    """Return whether a number in a value of JSON is a text that may be base64."""
    kinds = pa.types
    if isinstance(value, list) and kinds.is_list(kind):
        return any(_may_be_base64(one, kind.value_type) for one in value)
    if isinstance(value, dict) and kinds.is_map(kind):
        return any(_may_be_base64(one, kind.item_type) for one in value.values())
    if isinstance(value, dict) and kinds.is_struct(kind):
        return any(_may_be_base64(value.get(one.name), one.type) for one in kind)
    if not isinstance(value, str) or _LIKE_BASE64.fullmatch(value) is None:
        return False
    if kinds.is_decimal(kind) and kind.scale == 0:
        return _WHOLE.fullmatch(value) is None
    return bool(kinds.is_decimal(kind) or kinds.is_floating(kind))
