"""Conditions as lists of conjuncts.

Runs on the driver. Invariant: rows fulfil a condition if, and only if, they fulfil each of its conjuncts.
"""

from __future__ import annotations

from penstock.sql.plan.expressions import Call, Expression


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """Return the parts of a condition that AND joins."""
    if isinstance(condition, Call) and condition.name == "AND":
        return tuple(part for each in condition.args for part in conjuncts(each))
    return (condition,)
