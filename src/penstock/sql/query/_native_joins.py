"""Joins of streams that Spark runs itself.

Runs on the driver. Invariant: a join of two streams is compared by =, or Spark does not run it. Spark itself
refuses it only in the first batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._joins import Side, conditions_of, conjuncts, sides_of
from penstock.sql.query._parts import From

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations


def check_compared(parts: Relations, left: From, right: From, join: exp.Expr, *, is_inner: bool) -> None:
    """Check that two streams are compared by =.

    Raises:
        SqlError: they are not.
    """
    if not are_compared(parts, left, right, join, is_inner=is_inner):
        parts.inner.refuse(
            join, "an outer join of two streams needs a comparison of both sides by =. A JOIN needs none."
        )


def are_compared(parts: Relations, left: From, right: From, join: exp.Expr, *, is_inner: bool) -> bool:
    """Return whether two streams are compared by =: in ON, and for an inner join also in WHERE."""
    if join.args.get("using") or join.args.get("method"):
        return True
    given = conjuncts(join.args.get("on"))
    if is_inner:
        given += conditions_of(parts)
    pairs = [each for each in given if type(each) is exp.EQ]
    if any(map(_has_two_tables, pairs)) or not are_streams(parts, left, right):
        return True
    one, other = sides_of(parts, left, right)
    return any(_is_of_both(each, one, other) for each in pairs)


def are_streams(parts: Relations, left: From, right: From) -> bool:
    """Return whether both sides of a join are streams."""
    return parts.query.is_streaming(left.text) and parts.query.is_streaming(right.text)


def _has_two_tables(pair: exp.Expr) -> bool:
    """Return whether a comparison names different tables. The usual case needs no question to Spark."""
    sides = [
        {each.table.lower() for each in side.find_all(exp.Column)} for side in (pair.this, pair.expression)
    ]
    return all(len(names) == 1 and "" not in names for names in sides) and sides[0] != sides[1]


def _is_of_both(pair: exp.Expr, one: Side, other: Side) -> bool:
    first, second = pair.this, pair.expression
    try:
        return (one.has(first) and other.has(second)) or (other.has(first) and one.has(second))
    except ValueError:
        return True  # two tables have the column: Spark says so
