"""A join of groups of windows with equal ends keeps no rows: partners come in one micro-batch.

Runs on the driver. Spark gives the groups of a window in the micro-batch whose watermark passes its end, and
drops later rows. All windows of a query have one watermark, so groups of equal ends come together. Spark's
join would keep them. Invariants: no node above such a join waits for a watermark; conditions beside the equal
keys choose among few pairs.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.inputs import input_with, labelled
from penstock.sql.passes.engine.joins import equal_values
from penstock.sql.plan.expressions import Call, Column, Expression
from penstock.sql.plan.nodes import (
    Aggregate,
    Changelog,
    Filter,
    Input,
    Join,
    JoinKind,
    MarkedWindows,
    Node,
    Output,
    PlainTimes,
    Project,
    Scan,
    Stateful,
    Unnest,
    Watermark,
    Window,
)
from penstock.sql.plan.operators import Slices, WindowJoin
from penstock.sql.plan.rewrite import columns_in, columns_of, nodes_in, used_by
from penstock.sql.plan.types import COMPARED_ALIKE, spark_text

_SHOWN = (*COMPARED_ALIKE, "FLOAT", "DOUBLE", "BINARY", "VARBINARY", "BYTES")
_IN_TIME = (Scan, Watermark, Project, Filter, Unnest, Window, MarkedWindows, Aggregate)
"""Nodes behind which the watermark is that of the query."""
_KINDS = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)


def join_ended_windows(plan: Output, context: PassContext) -> Output:
    """Return a plan whose uppermost join keeps no rows if it is one of windows that are over.

    Only in append mode a group comes once, when its window is over.
    """
    if not context.is_insert:
        return plan
    return replace(plan, input=_below(plan.input, frozenset(plan.columns), context))


def _below(node: Node, wanted: frozenset[Column], context: PassContext) -> Node:
    if isinstance(node, (Project, Filter)):
        wanted = used_by(node) | (wanted if isinstance(node, Filter) else frozenset())
        below = _below(node.input, wanted, context)
        return node if below is node.input else replace(node, input=below)
    return _joined(node, wanted, context) if isinstance(node, Join) and node.kind in _KINDS else node


def _joined(node: Join, wanted: frozenset[Column], context: PassContext) -> Node:
    equal = equal_values(node)
    calls = [call for _, _, call in equal]
    rest = tuple(each for each in node.conditions if not any(each is call for call in calls))
    if node.kind is not JoinKind.INNER:  # a row with a null in its keys has no partner
        checked = {value for one, other, _ in equal for value in (one, other)}
        rest = tuple(each for each in rest if not _says_not_null(each, checked))
    wanted = wanted.union(*map(columns_in, rest)) or frozenset(columns_of(node.left)[:1])
    shown = [each for side in (node.left, node.right) for each in columns_of(side) if each in wanted]
    is_taken = (
        any(_end_together(one, other, node, context) for one, other, _ in equal)
        and all(_is_key(one, other) for one, other, _ in equal)
        and all(each.type.name in _SHOWN for each in shown)
        and (not rest or (node.kind is JoinKind.INNER and _has_few_pairs(node, equal, context)))
    )
    if not is_taken:
        return node
    inputs = (
        _side(node.left, "l", [one for one, _, _ in equal], wanted, context),
        _side(node.right, "r", [other for _, other, _ in equal], wanted, context),
    )
    on = tuple((f"lk{index}", f"rk{index}") for index in range(len(equal)))
    columns = tuple((label, column) for each in inputs for label, column in each.columns if label[1] != "k")
    operator = WindowJoin(on, node.kind.value)
    made: Node = Stateful(operator, inputs, columns, Changelog.APPEND, offset=node.offset)
    return Filter(made, rest) if rest else made


def _side(
    node: Node, prefix: str, keys: list[Expression], wanted: frozenset[Column], context: PassContext
) -> Input:
    shown = [each for each in columns_of(node) if each in wanted]
    return input_with(node, [*labelled(prefix, shown), *labelled(f"{prefix}k", keys)], context)


def _is_key(one: Expression, other: Expression) -> bool:
    return spark_text(one.type) == spark_text(other.type) and one.type.name in COMPARED_ALIKE


def _says_not_null(condition: Expression, keys: set[Expression]) -> bool:
    return isinstance(condition, Call) and condition.name == "IS NOT NULL" and condition.args[0] in keys


def _has_few_pairs(
    node: Join, equal: list[tuple[Expression, Expression, Call]], context: PassContext
) -> bool:
    """Return whether each row of one side has one partner at most, by its keys."""
    left, right = (context.traits(each).key for each in (node.left, node.right))
    ones, others = ({pair[index] for pair in equal} for index in (0, 1))
    return (left is not None and left <= ones) or (right is not None and right <= others)


def _end_together(one: Expression, other: Expression, node: Join, context: PassContext) -> bool:
    """Return whether equal values are ends of windows whose rows come out when the watermark passes them."""
    return (
        isinstance(one, Column)
        and isinstance(other, Column)
        and _comes_at_end(node.left, one, context)
        and _comes_at_end(node.right, other, context)
    )


def _comes_at_end(node: Node, end: Column, context: PassContext) -> bool:
    """Return whether a column is the end by which Spark gives groups, and the only one of their windows."""
    while isinstance(node, (Project, Filter, MarkedWindows, PlainTimes)):
        if isinstance(node, Project):
            value = next(each.expression for each in node.outputs if each.column == end)
            if isinstance(value, Call) and value.name == "window_end":
                value = value.args[0]
            if not isinstance(value, Column):
                return False
            end = value
        node = node.input
    if not isinstance(node, Aggregate) or node.sets:
        return False
    below = context.traits(node.input)
    parts = {each.column: below.part_of_window(each.expression) for each in node.keys}
    of_windows = {column: part for column, part in parts.items() if part is not None}
    is_end = of_windows in ({end: "struct"}, {end: "end"})
    return is_end and below.is_stream and not below.changes and all(map(_is_in_time, nodes_in(node.input)))


def _is_in_time(node: Node) -> bool:
    if isinstance(node, Window):
        return node.spans.kind != "SESSION"
    return isinstance(node, _IN_TIME) or (isinstance(node, Stateful) and isinstance(node.operator, Slices))
