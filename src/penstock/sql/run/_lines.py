"""Rows as the lines of Flink's connector `print`: the texts that Java gives to values.

Runs on the driver. Invariant: a value has one text on every machine, because times are local times.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7


def line(row: Any, kind: str = "+I") -> str:
    """Return a row as a line, e.g. `+I[1, a, 2026-01-02T03:04]`."""
    return f"{kind}[{', '.join(map(text, row))}]"


def text(value: Any) -> str:  # noqa: C901, PLR0911 - one for each kind of value
    """Return a value as Java prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return _time(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(key)}={text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple):  # a ROW
        return line(value)
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return str(value)


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        plain = format(Decimal(repr(value)), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(rest)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"


def _time(value: datetime) -> str:
    if value.microsecond:
        return value.isoformat(timespec="microseconds" if value.microsecond % 1_000 else "milliseconds")
    return value.isoformat(timespec="seconds" if value.second else "minutes")
