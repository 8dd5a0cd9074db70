"""Conditions move down: through projections, into joins, and to the side that they are about.

Runs on the driver. Invariant: the same rows stay. A condition moves only past nodes for which each row that
it drops could not matter: a projection of plain columns, and an inner join.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Column, Expression, rewritten, varies
from penstock.sql.plan.nodes import Filter, Join, JoinKind, Node, Output, Project, Watermark
from penstock.sql.plan.rewrite import columns_in, columns_of, transformed_below


def push_filters(plan: Output, context: PassContext) -> Output:
    """Return a plan whose conditions stand as low as they can."""
    return transformed_below(plan, lambda node: _pushed(node) if isinstance(node, Filter) else node)


def _pushed(node: Filter) -> Node:
    movable = tuple(each for each in node.conditions if not varies(each))
    fixed = tuple(each for each in node.conditions if varies(each))
    below = node.input
    if isinstance(below, Filter):
        return _pushed(Filter(below.input, (*below.conditions, *node.conditions)))
    if isinstance(below, Project):
        made, movable = _through(below, movable)
    elif isinstance(below, Watermark):
        # As Spark does it: what is left out does not move the watermark.
        moved = tuple(each for each in movable if below.column not in columns_in(each))
        movable = tuple(each for each in movable if each not in moved)
        made = replace(below, input=_pushed(Filter(below.input, moved))) if moved else below
    elif isinstance(below, Join) and below.kind is JoinKind.INNER:
        made, movable = _into(below, movable), ()
    else:
        made = below
    kept = (*movable, *fixed)
    return Filter(made, kept) if kept else made


def _through(below: Project, conditions: tuple[Expression, ...]) -> tuple[Node, tuple[Expression, ...]]:
    """Return the projection with the conditions below it that are about plain columns, and the others."""
    names = {each.column: each.expression for each in below.outputs if isinstance(each.expression, Column)}
    moved = tuple(each for each in conditions if columns_in(each) <= names.keys())
    if not moved:
        return below, conditions

    def old(part: Expression) -> Expression | None:
        if isinstance(part, Column) and part in names:
            found = names[part]
            return found.at(part.offset) if isinstance(found, Column) else found
        return None

    inner = _pushed(Filter(below.input, tuple(rewritten(each, old) for each in moved)))
    return replace(below, input=inner), tuple(each for each in conditions if each not in moved)


def _into(below: Join, conditions: tuple[Expression, ...]) -> Node:
    """Return an inner join with more conditions, each of which is at its side if it is about one side."""
    lefts, rights = {*columns_of(below.left)}, {*columns_of(below.right)}
    every = (*below.conditions, *conditions)
    movable = [each for each in every if columns_in(each) and not varies(each)]
    own_left = tuple(each for each in movable if columns_in(each) <= lefts)
    own_right = tuple(each for each in movable if columns_in(each) <= rights)
    rest = tuple(each for each in every if each not in own_left and each not in own_right)
    left = _pushed(Filter(below.left, own_left)) if own_left else below.left
    right = _pushed(Filter(below.right, own_right)) if own_right else below.right
    return replace(below, left=left, right=right, conditions=rest)
