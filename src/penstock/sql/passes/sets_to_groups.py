"""DISTINCT and set operations of streams become groups that are counted.

Runs on the driver. Invariant: a NULL is equal to a NULL here, as in GROUP BY. The result changes when a count
does, so that it is right after rows were taken back.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.language.flink_types import FlinkType
from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import AggregateCall, Column, Expression, Literal
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Assignment,
    Distinct,
    Filter,
    Node,
    Output,
    Project,
    SetKind,
    SetOperation,
    Unnest,
    copies,
)
from penstock.sql.plan.rewrite import columns_of, transformed_below
from penstock.sql.plan.types import BIGINT, BOOLEAN, INT

_KEPT = {SetKind.INTERSECT: "({0} > 0 AND {1} > 0)", SetKind.EXCEPT: "({0} > 0 AND {1} = 0)"}
_TIMES = {SetKind.INTERSECT: "least({0}, {1})", SetKind.EXCEPT: "greatest({0} - {1}, 0)"}
_COUNTED = FlinkType("ARRAY", elements=(INT,))


def sets_to_groups(plan: Output, context: PassContext) -> Output:
    """Return a plan in which streams have only UNION ALL of the set operations."""
    return transformed_below(plan, lambda node: _grouped(node, context))


def _grouped(node: Node, context: PassContext) -> Node:
    if isinstance(node, Distinct) and context.traits(node).is_stream:
        return distinct(node.input, node.columns, node.offset)
    if not isinstance(node, SetOperation) or not context.traits(node).is_stream:
        return node
    if node.kind is SetKind.UNION and node.is_all:
        return node
    if node.kind is SetKind.UNION:
        return distinct(replace(node, is_all=True), node.columns, node.offset)
    if not (context.traits(node.left).is_stream and context.traits(node.right).is_stream):
        context.refuse(node.offset, f"{node.kind.value} of a stream and a static table is not served.")
    return _counted(node, context)


def distinct(node: Node, columns: tuple[Column, ...], offset: int) -> Node:
    """Return the different rows, under their own columns."""
    return Aggregate(node, copies(columns), (), offset=offset)


def _counted(node: SetOperation, context: PassContext) -> Node:
    """Return INTERSECT or EXCEPT: how often each row is on both sides says how often it stays."""
    side = context.column("side", INT)
    left = _with_side(node.left, node.lefts, 0, context)
    right = _with_side(node.right, node.rights, 1, context)
    union = replace(
        node,
        left=left,
        right=right,
        kind=SetKind.UNION,
        is_all=True,
        columns=(*node.columns, side),
        lefts=columns_of(left),
        rights=columns_of(right),
    )
    counts = tuple(
        AggregateOutput(
            context.column(f"n{number}", BIGINT),
            AggregateCall("COUNT", (_one_of(side, number, context),), BIGINT),
        )
        for number in (0, 1)
    )
    shown = copies(node.columns)
    groups = Aggregate(union, shown, counts, offset=node.offset)
    both: tuple[Expression, ...] = tuple(each.column for each in counts)
    if not node.is_all:
        return Project(
            Filter(groups, (context.call(node.kind.value, _KEPT[node.kind], both, BOOLEAN),)), shown
        )
    times = context.call("times", f"array_repeat(0, CAST({_TIMES[node.kind]} AS INT))", both, _COUNTED)
    return Project(Unnest(groups, times, (context.column("time", INT),)), shown)


def _with_side(node: Node, columns: tuple[Column, ...], number: int, context: PassContext) -> Node:
    side = Assignment(context.column("side", INT), Literal(str(number), INT, number))
    return Project(node, (*copies(columns), side))


def _one_of(side: Column, number: int, context: PassContext) -> Expression:
    return context.call("CASE", f"CASE WHEN {{0}} = {number} THEN 1 END", (side,), INT)
