"""The aggregates that a user asks for: `{"total": "sum(amount)", "before": "lag(amount, 1)"}`.

Runs on the driver; executors get the result. Invariant: a text is understood completely or refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.changelog.operators.calls import split_call

NUMBERS = ("row_number", "rank", "dense_rank")
"""Functions that number the rows of a key. They take no column."""
FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "last", "lag", *NUMBERS)
_LAG = re.compile(r"(.*?)(?:,\s*(\d+)\s*)?", re.DOTALL)


@dataclass(frozen=True)
class OverCall:
    """One aggregate.

    Attributes:
        name: in the output.
        function: one of FUNCTIONS.
        column: None for `count(*)` and NUMBERS.
        offset: of `lag`: how many rows before.
    """

    name: str
    function: str
    column: str | None
    offset: int = 0


def parse_over_calls(given: Mapping[str, str]) -> Iterator[OverCall]:
    """Yield the aggregates. Raises ValueError if an aggregate is not one of FUNCTIONS of a column."""
    for name, text in given.items():
        call = _parse(name, text)
        if call is None:
            raise ValueError(
                f"expected one of {', '.join(FUNCTIONS)} of a column, such as sum(amount) or lag(amount, 1); "
                f"got {text!r}"
            )
        yield call


def _parse(name: str, text: str) -> OverCall | None:
    function, column = split_call(text)
    if function in NUMBERS:
        return OverCall(name, function, None) if not column else None
    if function not in FUNCTIONS or not column or (column == "*" and function != "count"):
        return None
    if function != "lag":
        return OverCall(name, function, None if column == "*" else column)
    lag = _LAG.fullmatch(column)
    if lag is None or not lag[1].strip() or lag[2] == "0":
        return None
    return OverCall(name, function, lag[1].strip(), int(lag[2] or 1))
