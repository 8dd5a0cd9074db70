"""CASE over rows of which a condition tells a value: the branch that they take stands alone.

Runs on the driver. Invariant: a CASE is replaced only if the conditions below it decide each branch up to the
one that is taken. So a computed time of a table with rows of several kinds reads the fields of one kind only.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.sql.plan.expressions import Call, Case, Column, Expression, Literal, conjuncts, rewritten
from penstock.sql.plan.nodes import Filter, Node, Output, Project
from penstock.sql.plan.rewrite import transformed_below, with_expressions
from penstock.sql.plan.types import INTEGERS

Known = Mapping[Column, str | int]
_TEXTS = ("STRING", "VARCHAR")


def fold_cases(plan: Output) -> Output:
    """Return a plan in which a CASE that conditions decide is the value of its branch."""
    return transformed_below(plan, lambda node: _folded(node) if isinstance(node, Project) else node)


def _folded(node: Project) -> Node:
    known = _known(node.input)
    if not known:
        return node
    return with_expressions(node, lambda each: rewritten(each, lambda part: _branch(part, known)))


def _known(node: Node) -> Known:
    """Return the columns that have one value in all rows that the conditions of a node keep."""
    known: dict[Column, str | int] = {}
    while isinstance(node, Filter):
        for condition in (part for each in node.conditions for part in conjuncts(each)):
            pair = _equal(condition)
            if pair is not None:
                known[pair[0]] = pair[1]
        node = node.input
    return known


def _equal(condition: Expression) -> tuple[Column, str | int] | None:
    """Return the column and the constant of `column = constant`, for whole numbers and texts."""
    if not isinstance(condition, Call) or condition.name != "=":
        return None
    column, constant = condition.args
    if isinstance(column, Literal):
        column, constant = constant, column
    if not isinstance(column, Column) or not isinstance(constant, Literal):
        return None
    value, kinds = constant.value, (column.type.name, constant.type.name)
    if type(value) is int and all(each in INTEGERS for each in kinds):
        return column, value
    if type(value) is str and kinds[0] in _TEXTS and kinds[1] in ("CHAR", *_TEXTS):
        return column, value
    return None


def _branch(part: Expression, known: Known) -> Expression | None:
    """Return the value that a CASE has; None for another expression, and if the conditions do not tell."""
    if not isinstance(part, Call) or not isinstance(part.function, Case) or part.function.has_operand:
        return None
    count = part.function.branches
    found = part.args[-1] if len(part.args) > 2 * count else None
    for condition, value in zip(part.args[: 2 * count : 2], part.args[1 : 2 * count : 2], strict=True):
        pair = _equal(condition)
        if pair is None or pair[0] not in known:
            return None
        if known[pair[0]] == pair[1]:
            found = value
            break
    return found if found is not None and found.type == part.type else None
