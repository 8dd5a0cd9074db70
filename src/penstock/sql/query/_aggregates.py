"""Aggregates of a stream without a window, as calls of penstock's operator and expressions over its columns.

Runs on the driver. Invariant: the type of an aggregate is that of Flink. An aggregate that the operator does
not have is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.sql.query._functions import check_deviation
from penstock.sql.query.piece import Piece

_NOT_NUMBERS = ("string", "boolean", "timestamp", "timestamp_ntz", "date", "binary")
_AVG_SCALE_MAX = 6
_DISTINCT = (
    "DISTINCT is served in COUNT, SUM, AVG, MIN and MAX. Elsewhere take the different values first: SELECT "
    "DISTINCT in FROM."
)
_NO_ORDER = (
    "it needs the order in which rows arrive. Without a window that order is known if FROM has one table "
    "whose rows are only inserted, and which reads one topic or has a WATERMARK. Use ROW_NUMBER() OVER "
    "(PARTITION BY ... ORDER BY ...) = 1."
)
_ARRIVED = {"FIRST_VALUE": "first_arrived", "LAST_VALUE": "last_arrived"}


class Calls:
    """The calls of one GROUP BY: the columns that they read, and their own columns."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.calls: list[tuple[str, str]] = []

    def add(self, function: str, argument: str | None) -> str:
        """Return the column of a call, e.g. of `sum distinct`; `argument` is None for `*`."""
        column = "*" if argument is None else self.argument(argument)
        name, _, distinct = function.partition(" ")
        return self.add_text(f"{name}({distinct} {column})" if distinct else f"{name}({column})")

    def add_text(self, text: str) -> str:
        """Return the column of a call, whose arguments are columns already."""
        for name, known in self.calls:
            if known == text:
                return f"`{name}`"
        self.calls.append((f"r{len(self.calls)}", text))
        return f"`{self.calls[-1][0]}`"

    def argument(self, text: str) -> str:
        """Return the column of an argument."""
        if text not in self.arguments:
            self.arguments.append(text)
        return f"a{self.arguments.index(text)}"


def aggregate_text(
    calls: Calls,
    name: str,
    args: list[Piece],
    *,
    is_distinct: bool,
    condition: str | None,
    order: str | None = None,
) -> str:
    """Return the text of an aggregate over the operator's columns.

    Args:
        calls: gets the calls that it needs.
        name: of the aggregate.
        args: its arguments.
        is_distinct: whether DISTINCT stands before them.
        condition: of FILTER, in Spark's SQL.
        order: the text that orders rows of one batch; None if their order is not known.

    Raises:
        ValueError: it is not served. The message says what to do.
    """
    if name not in _TEXTS and name not in _ARRIVED:
        served = ", ".join((*_TEXTS, *_ARRIVED))
        raise ValueError(f"{name} is not served in a stream without a window. Served are {served}.")
    if is_distinct and name not in ("COUNT", "SUM", "AVG", "MIN", "MAX"):
        raise ValueError(_DISTINCT)
    one = args[0]
    text = one.text if condition is None else f"CASE WHEN {condition} THEN {one.text} END"
    if name == "COUNT":
        return _count(calls, one, condition, is_distinct=is_distinct)
    if name in _ARRIVED:
        if order is None:
            raise ValueError(_NO_ORDER)
        place = calls.argument(order)
        return calls.add_text(f"{_ARRIVED[name]}({calls.argument(text)} order by {place})")
    if is_distinct and name in _OF_DISTINCT:
        return _OF_DISTINCT[name](calls, one, text, " distinct")
    if name == "LISTAGG":
        return _listagg(calls, one, text, args[1].text if len(args) > 1 else "','")
    return _TEXTS[name](calls, one, text)


def _count(calls: Calls, one: Piece, condition: str | None, *, is_distinct: bool) -> str:
    is_star = one.text == "*"
    if is_star and condition is None:
        return calls.add("count", None)
    value = "1" if is_star else one.text
    text = value if condition is None else f"CASE WHEN {condition} THEN {value} END"
    return calls.add("count distinct" if is_distinct else "count", text)


def _sum(calls: Calls, one: Piece, text: str, of: str = "") -> str:
    kind = one.type
    if kind in _NOT_NUMBERS:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
    wanted = f"DECIMAL(38,{decimal.group(1)})" if decimal else kind.upper()
    return f"CAST({calls.add(f'sum{of}', text)} AS {wanted})"


def _avg(calls: Calls, one: Piece, text: str, of: str = "") -> str:
    kind = one.type
    if kind in _NOT_NUMBERS:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    is_float = kind in ("float", "double")
    if is_float and not of:
        return f"CAST({calls.add('avg', text)} AS {kind.upper()})"
    total, count = calls.add(f"sum{of}", text), calls.add(f"count{of}", text)
    if is_float:
        return f"CAST({total} / nullif({count}, 0) AS {kind.upper()})"
    if one.is_integer:
        return f"CAST({total} div nullif({count}, 0) AS {kind.upper()})"
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
    if decimal is None or int(decimal.group(1)) > _AVG_SCALE_MAX:
        raise ValueError("AVG takes a DECIMAL with 6 digits behind the point at most. Write a CAST.")
    return f"CAST({total} / nullif({count}, 0) AS DECIMAL(38,{_AVG_SCALE_MAX}))"


def _deviation(*, is_of_sample: bool, is_root: bool) -> Callable[[Calls, Piece, str], str]:
    """Return how a variance or a deviation is computed: from sums, as in Flink."""

    def text_of(calls: Calls, one: Piece, text: str) -> str:
        check_deviation(one)
        squares, total = calls.add("sum", f"({text}) * ({text})"), calls.add("sum", text)
        count = calls.add("count", text)
        divisor = f"({count} - 1)" if is_of_sample else count
        variance = f"(({squares} - {total} * {total} / nullif({count}, 0)) / nullif({divisor}, 0))"
        return f"power({variance}, 0.5)" if is_root else variance

    return text_of


def _least(calls: Calls, one: Piece, text: str) -> str:
    return calls.add("min", text)


def _most(calls: Calls, one: Piece, text: str) -> str:
    return calls.add("max", text)


def _listagg(calls: Calls, one: Piece, text: str, separator: str = "','") -> str:
    """Return LISTAGG, whose values are in their own order, because rows of several tasks have none."""
    if one.type != "string":
        raise ValueError(f"expected a STRING, got {one.type.upper()}. Write a CAST.")
    if not separator.startswith("'"):
        raise ValueError("expected a text in quotes as the separator.")
    plain = re.sub(r"\\(.)", r"\1", separator[1:-1]).replace("'", "''")
    return calls.add_text(f"listagg({calls.argument(text)}, '{plain}')")


_TEXTS: dict[str, Callable[[Calls, Piece, str], str]] = {
    "COUNT": lambda calls, one, text: calls.add("count", text),
    "SUM": _sum,
    "AVG": _avg,
    "LISTAGG": _listagg,
    "MIN": _least,
    "MAX": _most,
    "STDDEV_POP": _deviation(is_of_sample=False, is_root=True),
    "STDDEV_SAMP": _deviation(is_of_sample=True, is_root=True),
    "STDDEV": _deviation(is_of_sample=True, is_root=True),
    "VAR_POP": _deviation(is_of_sample=False, is_root=False),
    "VAR_SAMP": _deviation(is_of_sample=True, is_root=False),
    "VARIANCE": _deviation(is_of_sample=True, is_root=False),
}
_OF_DISTINCT: dict[str, Callable[[Calls, Piece, str, str], str]] = {"SUM": _sum, "AVG": _avg}
