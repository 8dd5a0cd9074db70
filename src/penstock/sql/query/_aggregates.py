"""Aggregates of a stream without a window, as calls of penstock's operator and expressions over its columns.

Runs on the driver. Invariant: the type of an aggregate is that of Flink. An aggregate that the operator does
not have is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.sql.query.piece import Piece

_NOT_NUMBERS = ("string", "boolean", "timestamp", "timestamp_ntz", "date", "binary")
_AVG_SCALE_MAX = 6
_COUNT_DISTINCT = "count distinct"
_DISTINCT = "DISTINCT is served in COUNT. Elsewhere take the different values first: SELECT DISTINCT in FROM."


class Calls:
    """The calls of one GROUP BY: the columns that they read, and their own columns."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.calls: list[tuple[str, str]] = []

    def add(self, function: str, argument: str | None) -> str:
        """Return the column of a call; `argument` is None for `*`."""
        column = "*" if argument is None else self.argument(argument)
        return self.add_text(
            f"count(distinct {column})" if function == _COUNT_DISTINCT else f"{function}({column})"
        )

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
    calls: Calls, name: str, args: list[Piece], *, is_distinct: bool, condition: str | None
) -> str:
    """Return the text of an aggregate over the operator's columns.

    Args:
        calls: gets the calls that it needs.
        name: of the aggregate.
        args: its arguments.
        is_distinct: whether DISTINCT stands before them.
        condition: of FILTER, in Spark's SQL.

    Raises:
        ValueError: it is not served. The message says what to do.
    """
    if name in ("FIRST_VALUE", "LAST_VALUE"):
        raise ValueError(
            "it is not served in a stream without a window, because rows of several tasks have no order. Use "
            "ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1."
        )
    if name not in _TEXTS:
        raise ValueError(
            f"{name} is not served in a stream without a window. Served are {', '.join(_TEXTS)}."
        )
    if is_distinct and name not in ("COUNT", "MIN", "MAX"):
        raise ValueError(_DISTINCT)
    one = args[0]
    text = one.text if condition is None else f"CASE WHEN {condition} THEN {one.text} END"
    if name == "COUNT":
        return _count(calls, one, condition, is_distinct=is_distinct)
    if name == "LISTAGG":
        return _listagg(calls, one, text, args[1].text if len(args) > 1 else "','")
    return _TEXTS[name](calls, one, text)


def _count(calls: Calls, one: Piece, condition: str | None, *, is_distinct: bool) -> str:
    is_star = one.text == "*"
    if is_star and condition is None:
        return calls.add("count", None)
    value = "1" if is_star else one.text
    text = value if condition is None else f"CASE WHEN {condition} THEN {value} END"
    return calls.add(_COUNT_DISTINCT if is_distinct else "count", text)


def _sum(calls: Calls, one: Piece, text: str) -> str:
    kind = one.type
    if kind in _NOT_NUMBERS:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
    wanted = f"DECIMAL(38,{decimal.group(1)})" if decimal else kind.upper()
    return f"CAST({calls.add('sum', text)} AS {wanted})"


def _avg(calls: Calls, one: Piece, text: str) -> str:
    kind = one.type
    if kind in _NOT_NUMBERS:
        raise ValueError(f"expected a number, got {kind.upper()}.")
    if kind in ("float", "double"):
        return f"CAST({calls.add('avg', text)} AS {kind.upper()})"
    total, count = calls.add("sum", text), calls.add("count", text)
    if one.is_integer:
        return f"CAST({total} div nullif({count}, 0) AS {kind.upper()})"
    decimal = re.fullmatch(r"decimal\(\d+,(\d+)\)", kind)
    if decimal is None or int(decimal.group(1)) > _AVG_SCALE_MAX:
        raise ValueError("AVG takes a DECIMAL with 6 digits behind the point at most. Write a CAST.")
    return f"CAST({total} / nullif({count}, 0) AS DECIMAL(38,{_AVG_SCALE_MAX}))"


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
}
