"""Parse `scan.row-filter`: which rows a read of a table wants, by the values of columns.

Runs on the driver. Invariant: the text is understood as a whole or refused, so that no condition is ignored.
`text_of` makes a text that means the same conditions.

    condition:  comparison AND comparison ...
    comparison: column (= | <> | < | <= | > | >=) value
                column [NOT] IN (value, ...)
    column:     a name, or any text in backticks
    value:      a whole number, or a text in single quotes
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from penstock.options.values import LONG_MAX, ValueType

_ALLOWED = (
    "comparisons of columns with whole numbers or texts in single quotes, joined by AND, such as "
    "\"kind = 2 AND country IN ('DE', 'FR')\""
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(
    rf"\s*(?:(-?[0-9]{{1,20}})|'((?:[^']|'')*)'|`((?:[^`]|``)+)`|({_NAME.pattern})|(<=|>=|<>|!=|[=<>(),]))"
)
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
OF_TEXTS = ("=", "<>", "IN", "NOT IN")
"""What compares texts. Their order depends on a collation."""
_NOT_NAMES = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL")


@dataclass(frozen=True)
class RowCondition:
    """A comparison of a column with constants. A row in which the column is null does not fulfil it.

    Attributes:
        column: its name.
        operator: one of COMPARISONS, IN or NOT IN.
        values: numbers or texts; one for a comparison.
    """

    column: str
    operator: str
    values: tuple[int | str, ...]

    @property
    def is_of_texts(self) -> bool:
        return isinstance(self.values[0], str)


RowFilter = tuple[RowCondition, ...]
"""Conditions that all hold for the rows that a read wants."""


def parse_row_filter(text: str) -> RowFilter:
    """Parse the text of a filter.

    Raises:
        ValueError: a part of the text is not understood. The error says what is allowed, and where.
    """
    return tuple(_Parser(text).conditions())


def text_of(conditions: Iterable[RowCondition]) -> str:
    """Return the text of conditions."""
    return " AND ".join(map(_text, conditions))


def _text(condition: RowCondition) -> str:
    name = condition.column
    if not _NAME.fullmatch(name) or name.upper() in _NOT_NAMES:
        name = f"`{name.replace('`', '``')}`"
    values = list(map(_constant, condition.values))
    shown = values[0] if condition.operator in COMPARISONS else f"({', '.join(values)})"
    return f"{name} {condition.operator} {shown}"


def _constant(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    return "'" + value.replace("'", "''") + "'"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._offset = 0

    def conditions(self) -> Iterator[RowCondition]:
        yield self._comparison()
        while self._text[self._offset :].strip():
            self._expect("AND")
            yield self._comparison()

    def _comparison(self) -> RowCondition:
        match = self._match("the name of a column")
        name = match[4] if match[3] is None else match[3].replace("``", "`")
        if name is None or (match[3] is None and name.upper() in _NOT_NAMES):
            self._fail("expected the name of a column")
        operator = self._word("a comparison")
        if operator == "NOT":
            self._expect("IN")
            operator = "NOT IN"
        operator = {"!=": "<>"}.get(operator, operator)
        if operator in ("IN", "NOT IN"):
            values = self._values()
        elif operator in COMPARISONS:
            values = [self._value()]
        else:
            self._fail(f"expected a comparison, IN or NOT IN, got {operator!r}")
        numbers = tuple(each for each in values if isinstance(each, int))
        texts = tuple(each for each in values if isinstance(each, str))
        if numbers and texts:
            self._fail("expected numbers alone or texts alone")
        if texts and operator not in OF_TEXTS:
            self._fail("texts are compared with =, <>, IN and NOT IN only")
        return RowCondition(name, operator, (*numbers, *texts))

    def _values(self) -> list[int | str]:
        self._expect("(")
        found = [self._value()]
        while (mark := self._word("a comma or a closing bracket")) != ")":
            if mark != ",":
                self._fail(f"expected a comma or a closing bracket, got {mark!r}")
            found.append(self._value())
        return found

    def _value(self) -> int | str:
        match = self._match("a value")
        if match[2] is not None:
            return match[2].replace("''", "'")
        if match[1] is None:
            self._fail("expected a whole number, or a text in single quotes")
        if not -LONG_MAX - 1 <= int(match[1]) <= LONG_MAX:
            self._fail("expected a number of at most 64 bits")
        return int(match[1])

    def _expect(self, wanted: str) -> None:
        found = self._word(wanted)
        if found != wanted:
            self._fail(f"expected {wanted}, got {found!r}")

    def _word(self, wanted: str) -> str:
        match = self._match(wanted)
        word = match[4] or match[5]
        if word is None:
            self._fail(f"expected {wanted}")
        return word.upper()

    def _match(self, wanted: str) -> re.Match[str]:
        match = _TOKEN.match(self._text, self._offset)
        if match is None:
            self._fail(f"expected {wanted}")
        self._offset = match.end()
        return match

    def _fail(self, what: str) -> NoReturn:
        raise ValueError(f"{_ALLOWED}; before character {self._offset + 1}: {what}")


ROW_FILTER: ValueType[RowFilter] = ValueType("condition", _ALLOWED, parse_row_filter, text_of)
