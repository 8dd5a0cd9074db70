"""The times of an interval join: which conditions bound them, and what Spark sees of the others.

Runs on the driver. Spark takes a comparison of any column of a side for a bound of the watermark column of
that side, and it waits for the longest one. So `a.n > 0` keeps the rows of `a` for ever, and
`b.ts < a.until + INTERVAL '9' DAY` keeps them for 9 days. An outer join would give rows without a partner
then, or never.

Invariant: Spark finds no other bounds in a condition than the closest ones of the two watermark columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Call, Column, Expression, Literal
from penstock.sql.plan.nodes import Join, JoinKind
from penstock.sql.plan.rewrite import columns_in, columns_of
from penstock.sql.plan.types import BOOLEAN

_HARMLESS = ("<", "<=", ">", ">=", "BETWEEN", "<>")
"""Comparisons that only let Spark keep a row for longer, beside those that bound the watermark columns."""
Pair = tuple[Column, Column]
"""The watermark columns of the left and of the right side that bound each other."""


def bounding_times(node: Join, context: PassContext) -> Pair | None:
    """Return the watermark columns that bound both sides of a join of two streams; None if none do."""
    lefts, rights = (
        frozenset(column for column, mark in context.traits(side).times.items() if not mark.waits)
        for side in (node.left, node.right)
    )
    if not lefts or not rights:
        return None
    known = _Watermarks(lefts, rights, frozenset(columns_of(node.left)))
    bounded: tuple[set[Pair], set[Pair]] = (set(), set())
    equal: set[Pair] = set()
    for each in node.conditions:
        columns = columns_in(each)
        is_of_both = bool(columns & known.left_columns) and bool(columns - known.left_columns)
        if not is_of_both or not columns & (lefts | rights):
            continue
        if isinstance(each, Call) and each.name == "=" and (found := known.pair(*each.args, most=0)):
            equal.add(found[0])
        elif not (isinstance(each, Call) and each.name in _HARMLESS):
            return None
        for low, high in _ordered(each):
            if (found := known.pair(low, high, most=1)) is not None:
                bounded[found[1]].add(found[0])
    pairs = (bounded[0] | equal) & (bounded[1] | equal)
    return next((each for each in sorted(pairs, key=lambda p: (p[0].id, p[1].id)) if equal <= {each}), None)


@dataclass(frozen=True)
class _Watermarks:
    """The watermark columns of both sides of a join, and all columns of the left side."""

    lefts: frozenset[Column]
    rights: frozenset[Column]
    left_columns: frozenset[Column]

    def shifted(self, value: Expression) -> tuple[Column, int] | None:
        """Return a watermark column plus or minus intervals, and how many; None for anything else.

        Spark adds up two equal intervals only once, so more than one in a comparison are not for it.
        """
        if isinstance(value, Column):
            return (value, 0) if value in self.lefts | self.rights else None
        if not isinstance(value, Call) or value.name not in ("+", "-") or len(value.args) != 2:
            return None
        time, length = value.args
        if value.name == "+" and isinstance(time, Literal):
            time, length = length, time
        found = self.shifted(time) if _is_length(length) else None
        return None if found is None else (found[0], found[1] + 1)

    def pair(self, one: Expression, other: Expression, *, most: int) -> tuple[Pair, int] | None:
        """Return two watermark columns of different sides that are compared, and the side of the second."""
        first, second = self.shifted(one), self.shifted(other)
        if first is None or second is None or first[1] + second[1] > most:
            return None
        sides = [column in self.lefts for column in (first[0], second[0])]
        if sides[0] == sides[1]:
            return None
        return ((first[0], second[0]), 1) if sides[0] else ((second[0], first[0]), 0)

    def limit(self, one: Expression, other: Expression) -> tuple[int, int] | None:
        """Return the side whose time has a lower bound because `one` is not after `other`, and the bound.

        The bound is in microseconds behind the time of the other side.
        """
        found = self.pair(one, other, most=1)
        return None if found is None else (found[1], _added_us(one) - _added_us(other))


def _is_length(value: Expression) -> bool:
    """Return whether a value is a constant interval that does not go back."""
    if not isinstance(value, Literal) or value.type.name != "INTERVAL":
        return False
    return isinstance(value.value, int) and value.value >= 0


def _added_us(value: Expression) -> int:
    """Return how much a time has been moved by an interval."""
    if not isinstance(value, Call):
        return 0
    length = next(each.value for each in value.args if isinstance(each, Literal))
    moved_us = length if isinstance(length, int) else 0
    return -moved_us if value.name == "-" else moved_us


def _ordered(condition: Expression) -> list[tuple[Expression, Expression]]:
    """Return the pairs of which a condition says that the first is not after the second."""
    if not isinstance(condition, Call):
        return []
    if condition.name in ("<", "<="):
        return [(condition.args[0], condition.args[1])]
    if condition.name in (">", ">="):
        return [(condition.args[1], condition.args[0])]
    if condition.name == "BETWEEN":
        value, low, high = condition.args
        return [(low, value), (value, high)]
    return []


def conditions_for_spark(
    node: Join, pair: Pair, equal: Sequence[Call], context: PassContext
) -> tuple[Expression, ...]:
    """Return the conditions of an interval join, hidden from Spark if it might find a bound in them.

    Args:
        node: the join.
        pair: its watermark columns.
        equal: its conditions that compare both sides by =. Spark needs them for the keys.
        context: of the statement.
    """
    lefts = frozenset(columns_of(node.left))
    known = _Watermarks(frozenset({pair[0]}), frozenset({pair[1]}), lefts)
    limits = [limit for each in node.conditions for half in _ordered(each) if (limit := known.limit(*half))]
    closest = {side: max(us for number, us in limits if number == side) for side, _ in limits}

    def shown(condition: Expression) -> list[Expression]:
        columns = columns_in(condition)
        is_of_times = bool(columns & lefts) and not columns <= lefts and bool(columns & {*pair})
        is_equal = any(condition is each for each in equal)
        if is_equal or isinstance(condition, Column) or (node.kind is JoinKind.INNER and not is_of_times):
            return [condition]
        halves = _halves(condition, context)
        found = [next((known.limit(*each) for each in _ordered(half)), None) for half in halves]
        are_closest = [limit is not None and limit[1] == closest[limit[0]] for limit in found]
        if all(are_closest):
            return [condition]
        if not any(are_closest):
            return [_hidden(condition, context)]
        parts = zip(halves, are_closest, strict=True)
        return [half if is_closest else _hidden(half, context) for half, is_closest in parts]

    return tuple(part for each in node.conditions for part in shown(each))


def _halves(condition: Expression, context: PassContext) -> list[Expression]:
    """Return the two comparisons of a BETWEEN, or another condition alone."""
    if not (isinstance(condition, Call) and condition.name == "BETWEEN"):
        return [condition]
    value, low, high = condition.args
    return [
        context.call(sign, f"({{0}} {sign} {{1}})", (value, other), BOOLEAN)
        for sign, other in ((">=", low), ("<=", high))
    ]


def _hidden(condition: Expression, context: PassContext) -> Expression:
    """Return a condition that is true with another one. Spark's optimizer does not look into an array."""
    return context.call("HIDDEN", "array_contains(array({0}), true)", (condition,), BOOLEAN)
