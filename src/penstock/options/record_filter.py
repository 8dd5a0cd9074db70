"""Parse `scan.filter`: which records a batch read wants, by topic, partition, offset and timestamp.

Runs on the driver. Invariant: the text is understood as a whole or refused, so that no condition is ignored.

    condition:  comparison AND comparison ...
    comparison: column (= | <> | != | < | <= | > | >=) value
                column BETWEEN value AND value
                column [NOT] IN (value, ...)
    value:      a number, or a text in quotes; for a timestamp milliseconds since 1970 or ISO 8601 with a zone
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from penstock.options.time_text import BeforeNow, parse_moment
from penstock.options.values import LONG_MAX, ValueType

_ALLOWED = (
    "comparisons of topic, partition, offset and timestamp with values, joined by AND, such as "
    "\"timestamp >= '2026-11-22T17:00:00Z' AND timestamp < '2026-11-22T18:00:00Z' AND partition IN (0, 1)\""
)
_TOKEN = re.compile(r"\s*(?:(-?[0-9]{1,20})|'((?:[^']|'')*)'|([a-zA-Z_]+)|(<=|>=|<>|!=|==|[=<>(),]))")
_FRACTION_OF_MS = re.compile(r"[.,][0-9]{3}[0-9]*[1-9]")


class Column(str, Enum):
    """A part of a record by which a read can be narrowed."""

    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Within:
    """A column is at least `low` and less than `high`; None means no bound. Timestamps are milliseconds."""

    column: Column
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Among:
    """A column has one of the values, or with `is_negated` none of them. Timestamps are milliseconds."""

    column: Column
    values: frozenset[int | str]
    is_negated: bool = False


RecordFilter = tuple[Within | Among, ...]
"""Conditions that all hold for the records that a read wants."""


def parse_record_filter(text: str) -> RecordFilter:
    """Parse the text of a filter.

    Raises:
        ValueError: a part of the text is not understood. The error says what is allowed, and where.
    """
    return _Parser(text).conditions()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def conditions(self) -> RecordFilter:
        found = [self._comparison()]
        while self._peek() is not None:
            self._expect("AND")
            found.append(self._comparison())
        return tuple(found)

    def _comparison(self) -> Within | Among:
        name = self._next_word("the name of a column")
        if name.lower() not in list(Column):
            self._fail(f"expected topic, partition, offset or timestamp, got {name!r}")
        column = Column(name.lower())
        operator = self._next_word("a comparison").upper()
        if operator == "IN":
            return Among(column, self._values(column))
        if operator == "NOT":
            self._expect("IN")
            return Among(column, self._values(column), is_negated=True)
        if operator == "BETWEEN":
            low = self._number(column)
            self._expect("AND")
            return Within(column, low, self._number(column) + 1)  # BETWEEN has its upper end, `high` has not
        if operator in ("=", "=="):
            return Among(column, frozenset([self._value(column)]))
        if operator in ("<>", "!="):
            return Among(column, frozenset([self._value(column)]), is_negated=True)
        return self._bound(column, operator)

    def _bound(self, column: Column, operator: str) -> Within:
        if operator not in ("<", "<=", ">", ">="):
            self._fail(f"expected a comparison, IN, NOT IN or BETWEEN, got {operator!r}")
        number = self._number(column)
        if operator in (">", ">="):
            return Within(column, low=number + (operator == ">"))
        return Within(column, high=number + (operator == "<="))

    def _values(self, column: Column) -> frozenset[int | str]:
        self._expect("(")
        found = [self._value(column)]
        while (mark := self._next_word("a comma or a closing bracket")) != ")":
            if mark != ",":
                self._fail(f"expected a comma or a closing bracket, got {mark!r}")
            found.append(self._value(column))
        return frozenset(found)

    def _number(self, column: Column) -> int:
        value = self._value(column)
        if isinstance(value, str):
            self._fail("a topic can be compared with =, <>, IN and NOT IN only")
        return value

    def _value(self, column: Column) -> int | str:
        match = self._match()
        if match is not None and (match[3] or "").upper() == "TIMESTAMP" and column is Column.TIMESTAMP:
            match = self._match()
        if match is None or (match[1] is None and match[2] is None):
            self._fail(f"expected a value for {column.value}")
        if column is Column.TOPIC:
            if match[2] is None:
                self._fail("expected a text in single quotes for topic")
            return str(match[2]).replace("''", "'")
        if match[1] is None:
            if column is not Column.TIMESTAMP:
                self._fail(f"expected a number for {column.value}")
            return self._time_ms(match[2])
        if not 0 <= int(match[1]) <= LONG_MAX:
            self._fail(f"expected a number from 0 to {LONG_MAX} for {column.value}")
        return int(match[1])

    def _time_ms(self, text: str) -> int:
        try:
            moment = parse_moment(text)
        except ValueError as error:
            self._fail(f"the timestamp '{text}' is not allowed: {error}")
        if isinstance(moment, BeforeNow) or _FRACTION_OF_MS.search(text):
            self._fail(
                f"the timestamp '{text}' is not allowed here: give whole milliseconds, and no time before now"
            )
        return moment.time_ms

    def _expect(self, wanted: str) -> None:
        token = self._next_word(wanted)
        if token.upper() != wanted:
            self._fail(f"expected {wanted}, got {token!r}")

    def _next_word(self, wanted: str) -> str:
        match = self._match()
        token = None if match is None else match[3] or match[4]
        if token is None:
            self._fail(f"expected {wanted}")
        return str(token)

    def _peek(self) -> re.Match[str] | None:
        if not self._text[self._position :].strip():
            return None
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            self._fail("this is not understood")
        return match

    def _match(self) -> re.Match[str] | None:
        match = self._peek()
        if match is not None:
            self._position = match.end()
        return match

    def _fail(self, what: str) -> NoReturn:
        raise ValueError(f"{_ALLOWED}; before character {self._position + 1}: {what}")


RECORD_FILTER: ValueType[RecordFilter] = ValueType("condition", _ALLOWED, parse_record_filter)
