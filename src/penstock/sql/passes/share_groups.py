"""Groups of windows that are joined with aggregates of the same groups are read and computed once.

Runs on the driver. `SELECT ... FROM g JOIN (SELECT e, MAX(n) FROM g GROUP BY e) ON ...` names its groups `g`
twice, so a topic would be read twice. Here the rows of a window get the aggregates of all rows of the window,
in the micro-batch in which they come. Invariant: both plans are equal but for the ids of their columns, and
nothing in them varies.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.calls import Calls
from penstock.sql.passes.engine.inputs import input_with, labelled, labels_of
from penstock.sql.plan.expressions import AggregateCall, Column, Expression, Varies, replaced, varies
from penstock.sql.plan.nodes import (
    Aggregate,
    Assignment,
    Changelog,
    Filter,
    MarkedWindows,
    Node,
    Output,
    PlainTimes,
    Project,
    Scan,
    Stateful,
    TableFunction,
    copies,
)
from penstock.sql.plan.operators import WindowJoin, WindowTotals
from penstock.sql.plan.rewrite import columns_of, expressions_of, nodes_in, with_new_columns
from penstock.sql.plan.types import COMPARED_ALIKE

_CALLS = ("COUNT", "MIN", "MAX")
"""Aggregates that cannot overflow."""


def share_groups(plan: Output, context: PassContext) -> Output:
    """Return a plan whose uppermost join computes equal groups once."""
    return replace(plan, input=_below(plan.input, context))


def _below(node: Node, context: PassContext) -> Node:
    if isinstance(node, (Project, Filter)):
        below = _below(node.input, context)
        return node if below is node.input else replace(node, input=below)
    if isinstance(node, Stateful) and isinstance(node.operator, WindowJoin) and node.operator.how == "inner":
        return _shared(node, node.operator, context) or node
    return node


def _shared(node: Stateful, operator: WindowJoin, context: PassContext) -> Node | None:
    """Return the rows of a join by one read of both sides; None if these differ."""
    left, right = node.inputs
    groups, values = _groups_below(left.node)
    totals, of_totals = _groups_below(right.node)
    if groups is None or totals is None or totals.sets or not all(_is_taken(e.call) for e in totals.calls):
        return None
    again, of_again = _groups_below(totals.input)
    names = None if again is None else same_rows(groups, again)
    if names is None:
        return None

    def here(value: Expression) -> Expression:
        """Return a value of the rows below the totals by the columns of the groups."""
        return replaced(replaced(value, of_again), names)

    lefts, rights = dict(left.columns), dict(right.columns)
    pairs = {
        column: lefts[one]
        for one, other in operator.on
        if isinstance(column := of_totals[rights[other]], Column)
    }
    keys = {each.column: here(each.expression) for each in totals.keys}
    if len(operator.on) != len(keys) or {one: values[other] for one, other in pairs.items()} != keys:
        return None
    columns = {value: column for column, value in values.items()}
    calls, made = Calls(context), dict[Column, Expression](pairs)
    for each in totals.calls:
        args = [columns.get(here(value)) for value in each.call.args]
        found = tuple(value for value in args if value is not None)
        if len(found) != len(args):
            return None
        made[each.column] = calls.value(replace(each.call, args=found))
    shown = [(label, column) for label, column in node.columns if label.startswith("l")]
    of_keys = labelled("k", pairs.values())
    taken = input_with(left.node, [*shown, *of_keys, *labelled("a", calls.arguments)], context)
    more = [each for each in of_keys if each[1] not in dict(shown).values()]
    rows = Stateful(
        WindowTotals(labels_of(of_keys), calls.texts),
        (taken,),
        (*shown, *more, *calls.columns),
        Changelog.APPEND,
        offset=node.offset,
    )
    others = [column for label, column in node.columns if label.startswith("r")]
    totals_of = [Assignment(column, replaced(of_totals[column], made)) for column in others]
    return Project(rows, (*copies(column for _, column in shown), *totals_of))


def _groups_below(node: Node) -> tuple[Aggregate | None, dict[Column, Expression]]:
    """Return the groups below projections, and the columns of a node by theirs; None for other rows."""
    values: dict[Column, Expression] = {each: each for each in columns_of(node)}
    while isinstance(node, (Project, MarkedWindows, PlainTimes)):
        if isinstance(node, Project):
            made = {each.column: each.expression for each in node.outputs}
            values = {column: replaced(value, made) for column, value in values.items()}
        node = node.input
    return (node if isinstance(node, Aggregate) else None), values


def _is_taken(call: AggregateCall) -> bool:
    """Return whether the aggregate of whole windows is surely that of Spark."""
    is_plain = call.function is None and call.condition is None and not call.is_distinct
    return is_plain and call.name in _CALLS and all(each.type.name in COMPARED_ALIKE for each in call.args)


def same_rows(one: Node, other: Node) -> dict[Column, Column] | None:
    """Return the columns of one plan by those of another with the same rows; None if these may differ."""
    names: dict[Column, Column] = {}
    for left, right in zip(nodes_in(one), nodes_in(other), strict=False):
        lefts, rights = columns_of(left), columns_of(right)
        if type(left) is not type(right) or [c.type for c in lefts] != [c.type for c in rights]:
            return None
        if isinstance(left, Scan) and [c.name for c in lefts] != [c.name for c in rights]:
            return None
        names.update(zip(rights, lefts, strict=True))
    is_same = with_new_columns(other, lambda column: names.get(column, column)) == one
    return names if is_same and not any(map(_varies, nodes_in(one))) else None


def _varies(node: Node) -> bool:
    return any(map(varies, expressions_of(node))) or (
        isinstance(node, TableFunction) and node.varies is not Varies.NEVER
    )
