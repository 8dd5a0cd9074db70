"""A correlated subquery without its comparisons with outer rows by =, and what is compared.

Runs on the driver. Invariant: the query that is left takes no column from outside. A query that uses rows
outside otherwise than by a comparison with = in its WHERE is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.null_safe import comparisons
from penstock.sql.plan.expressions import Call, Column, Expression
from penstock.sql.plan.nodes import (
    Aggregate,
    Assignment,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Over,
    Project,
    TableFunction,
    Unnest,
    Window,
    copies,
)
from penstock.sql.plan.rewrite import columns_in, columns_of, free_columns

OF_ALL = (
    "a query that compares its rows with those outside has an aggregate without GROUP BY here. It has a row "
    "where nothing is equal, and a join has none. Use it as a value by itself, or join groups in FROM."
)


@dataclass
class Decorrelation:
    """A query that stands alone.

    Attributes:
        node: the query, with the columns `inner`.
        outer: the values outside.
        inner: the columns that they are compared with.
        is_of_all: whether the query has an aggregate over all rows, which now has groups. Such a query
            has one row where nothing is equal, and the groups have none.
    """

    node: Node
    outer: tuple[Expression, ...] = ()
    inner: tuple[Column, ...] = ()
    is_of_all: bool = False


def decorrelated(node: Node, context: PassContext, refusal: str) -> Decorrelation:
    """Return a query without its comparisons with outer rows.

    Args:
        node: the query.
        context: of the statement.
        refusal: the message for a column that is used otherwise.

    Raises:
        SqlError: the query uses outer rows otherwise than by =.
    """
    outside = free_columns(node)
    if not outside:
        return Decorrelation(node)
    found = _pulled(node, outside, context)
    left = free_columns(found.node)
    if left:
        context.refuse(max(each.offset for each in left), refusal)
    return found


def _pulled(node: Node, outside: frozenset[Column], context: PassContext) -> Decorrelation:
    match node:
        case Filter():
            return _of_filter(node, outside, context)
        case Project():
            found = _pulled(node.input, outside, context)
            kept = copies(each for each in found.inner if each not in columns_of(node))
            return replace(found, node=replace(node, input=found.node, outputs=(*node.outputs, *kept)))
        case Aggregate():
            return _of_aggregate(node, outside, context)
        case Distinct():
            found = _pulled(node.input, outside, context)
            columns = (*node.columns, *(each for each in found.inner if each not in node.columns))
            return replace(found, node=replace(node, input=found.node, columns=columns))
        case Join() if node.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
            left = _pulled(node.left, outside, context)
            right = Decorrelation(node.right)
            if node.kind is JoinKind.INNER:
                right = _pulled(node.right, outside, context)
            made = replace(node, left=left.node, right=right.node)
            is_of_all = left.is_of_all or right.is_of_all
            return Decorrelation(made, (*left.outer, *right.outer), (*left.inner, *right.inner), is_of_all)
        case Window() | Unnest() | TableFunction() | Over():
            found = _pulled(node.input, outside, context)
            beside = "beside a comparison with the outer rows is not served."
            if found.outer and isinstance(node, Window) and node.spans.kind == "SESSION":
                context.refuse(node.offset, f"SESSION {beside}")
            if found.outer and isinstance(node, Over):
                context.refuse(node.offset, f"OVER {beside} Put it in a query in FROM.")
            return replace(found, node=replace(node, input=found.node))
        case _:
            return Decorrelation(node)


def _of_filter(node: Filter, outside: frozenset[Column], context: PassContext) -> Decorrelation:
    found = _pulled(node.input, outside, context)
    conditions = [
        part
        for each in node.conditions
        for part in (comparisons(each, context) if columns_in(each) & outside else (each,))
    ]
    pairs = [pair for each in conditions if (pair := _pair(each, outside)) is not None]
    kept = [each for each in conditions if _pair(each, outside) is None]
    made = replace(node, input=found.node, conditions=tuple(kept)) if kept else found.node
    made, inner = context.with_expressions(made, tuple(theirs for _, theirs in pairs), "compared")
    outer = (*found.outer, *(mine for mine, _ in pairs))
    return Decorrelation(made, outer, (*found.inner, *inner), found.is_of_all)


def _of_aggregate(node: Aggregate, outside: frozenset[Column], context: PassContext) -> Decorrelation:
    """Return groups that are also by what is compared."""
    found = _pulled(node.input, outside, context)
    if found.is_of_all:
        context.refuse(node.offset, OF_ALL)
    own = {each.expression: each.column for each in node.keys}
    more = tuple(
        Assignment(context.column(each.name, each.type), each) for each in found.inner if each not in own
    )
    known = {**own, **{each.expression: each.column for each in more}}
    indices = tuple(range(len(node.keys), len(node.keys) + len(more)))
    sets = tuple((*each, *indices) for each in node.sets)
    made = replace(node, input=found.node, keys=(*node.keys, *more), sets=sets)
    is_of_all = found.is_of_all or (not node.keys and bool(more))
    return Decorrelation(made, found.outer, tuple(known[each] for each in found.inner), is_of_all)


def _pair(condition: Expression, outside: frozenset[Column]) -> tuple[Expression, Expression] | None:
    """Return the value outside and the value inside of a comparison by =; None for another condition."""
    if not (isinstance(condition, Call) and condition.name == "="):
        return None
    for mine, theirs in (condition.args, condition.args[::-1]):
        ones, others = columns_in(mine), columns_in(theirs)
        if ones and ones <= outside and others and not others & outside:
            return mine, theirs
    return None
