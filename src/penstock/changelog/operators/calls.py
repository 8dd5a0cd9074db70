"""The aggregates that a user asks for: `{"total": "sum(amount)", "state": "last(state order by at)"}`.

Runs on the driver; executors get the result. Invariant: a text is understood completely or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

FUNCTIONS = (
    *("count", "sum", "avg", "min", "max", "count_distinct", "sum_distinct"),
    *("first", "last", "first_arrived", "last_arrived", "listagg"),
)
ARRIVED = ("first_arrived", "last_arrived")
"""The first and the last value to come, by the order of the batches. They take inserts only."""
_ORDERED = ("first", "last", *ARRIVED, "listagg")
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_ORDER_BY = re.compile(r"\s+order\s+by\s+", re.IGNORECASE)
_SEPARATOR = re.compile(r"(.*?)\s*,\s*'((?:[^']|'')*)'", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """One aggregate.

    Attributes:
        name: in the output.
        function: one of FUNCTIONS.
        column: None for `count` of rows.
        order: the column that says which value is first; None for the order of the values themselves.
        separator: of `listagg`.
    """

    name: str
    function: str
    column: str | None
    order: str | None = None
    separator: str = ","

    @property
    def columns(self) -> list[str]:
        return [name for name in (self.column, self.order) if name is not None]


def parse_calls(given: Mapping[str, str]) -> Iterator[Call]:
    """Yield the aggregates. Raises ValueError if an aggregate is not one of FUNCTIONS of a column."""
    for name, text in given.items():
        call = _parse(name, text)
        if call is None:
            raise ValueError(
                f"expected one of {', '.join(FUNCTIONS)} of a column, such as sum(amount); got {text!r}"
            )
        if call.function in _ORDERED[:-1] and call.order is None:
            raise ValueError(
                f"{call.function} needs the order, because rows come in any order: write "
                f"{call.function}({call.column} order by ...); got {text!r}"
            )
        yield call


def split_call(text: str) -> tuple[str, str]:
    """Return the function of a call in lower case, and its arguments; two empty texts for another text."""
    found = _CALL.fullmatch(text)
    return ("", "") if found is None else (found[1].lower(), found[2].strip())


def _parse(name: str, text: str) -> Call | None:
    function, column = split_call(text)
    if function not in FUNCTIONS:
        return None
    if function in ("count", "sum") and column.lower().startswith("distinct "):
        function, column = f"{function}_distinct", column[9:].strip()
    order, separator = None, ","
    if function in _ORDERED:
        column, *orders = _ORDER_BY.split(column)
        if len(orders) > 1 or not all(orders):
            return None
        order = orders[0].strip() if orders else None
    if function == "listagg" and (found := _SEPARATOR.fullmatch(column)):
        column, separator = found[1].strip(), found[2].replace("''", "'")
    if not column or (column == "*" and function != "count"):
        return None
    return Call(name, function, None if column == "*" else column, order, separator)
