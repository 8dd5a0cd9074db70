"""Rows are put together by slices before they go into windows that overlap, as Flink does.

Runs on the driver. Spark copies each row into each of its windows. Here the rows of a task with equal keys
become one row a slide, and that row is copied. Invariant: a slice is in the same windows as each of its rows.
So Spark drops it as late for the windows for which it would drop the rows, and the table is the same.

Only aggregates are taken that are the same whatever rows come together first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.calls import Calls
from penstock.sql.passes.engine.inputs import input_with, labelled, labels_of
from penstock.sql.plan.expressions import (
    AggregateCall,
    Column,
    Expression,
    Function,
    replaced,
    varies,
)
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Assignment,
    Changelog,
    Filter,
    MarkedWindows,
    Node,
    Output,
    Project,
    Stateful,
    Window,
    copies,
)
from penstock.sql.plan.operators import Slices
from penstock.sql.plan.rewrite import columns_in, transformed_below
from penstock.sql.plan.types import BIGINT, COMPARED_ALIKE, INTEGERS

_LEAST = 4
"""A row that is in fewer windows is copied at once, because rows go to Python to be put together."""
_MOST_DIGITS = 27
"""Of a DECIMAL in SUM: what a task holds has a sum of at most 38 digits then."""
_MERGED = {"count": "coalesce(sum({0}), 0L)", "sum": "sum({0})", "min": "min({0})", "max": "max({0})"}


@dataclass(frozen=True)
class _Rows:
    """The way from groups to their window. `values` are columns above it, by columns below it."""

    window: Window
    marked: MarkedWindows | None
    conditions: tuple[Expression, ...]
    values: dict[Column, Expression]

    def below(self, value: Expression) -> Expression:
        """Return a value by the columns below the window."""
        return replaced(value, self.values)


def slice_windows(plan: Output, context: PassContext) -> Output:
    """Return a plan in which groups of windows that overlap take slices."""

    def change(node: Node) -> Node:
        return _sliced(node, context) if isinstance(node, Aggregate) else node

    return transformed_below(plan, change)


def _sliced(node: Aggregate, context: PassContext) -> Node:
    rows = _rows_of(node.input)
    if rows is None or node.sets or not _is_timed(rows.window, context):
        return node
    keys = {each.column: rows.below(each.expression) for each in node.keys}
    found = [replace(each, call=_below(each.call, rows)) for each in node.calls]
    window = rows.window.column
    own = [value for value in keys.values() if value != window]
    parts = [*own, *rows.conditions, *(each.call for each in found)]
    if len(own) + 1 != len(keys) or any(window in columns_in(each) or varies(each) for each in parts):
        return node
    is_alike = all(each.type.name in COMPARED_ALIKE for each in own)
    if not is_alike or not all(_is_taken(each.call) for each in found):
        return node
    return _with_slices(node, rows, keys, found, context)


def _rows_of(node: Node) -> _Rows | None:
    """Return the way from groups to a window whose rows are in many of its kind; None for another node."""
    values: dict[Column, Expression] = {}
    conditions: tuple[Expression, ...] = ()
    marked: MarkedWindows | None = None
    while isinstance(node, (Project, Filter, MarkedWindows)):
        if isinstance(node, Filter):
            conditions = (*conditions, *node.conditions)
        elif isinstance(node, MarkedWindows):
            if marked is not None or node.window is not None or node.ends or node.times:
                return None
            marked = node
        else:
            made = {each.column: each.expression for each in node.outputs}
            conditions = tuple(replaced(each, made) for each in conditions)
            values = {**made, **{column: replaced(each, made) for column, each in values.items()}}
        node = node.input
    is_overlapping = isinstance(node, Window) and node.spans.kind in ("HOP", "CUMULATE")
    if not isinstance(node, Window) or not is_overlapping or node.spans.size < _LEAST * node.spans.slide:
        return None
    return _Rows(node, marked, conditions, values)


def _is_timed(window: Window, context: PassContext) -> bool:
    below = context.traits(window.input)
    return below.is_stream and not below.changes and below.delay_of(window.time) is not None


def _below(call: AggregateCall, rows: _Rows) -> AggregateCall:
    condition = None if call.condition is None else rows.below(call.condition)
    return replace(call, args=tuple(map(rows.below, call.args)), condition=condition)


def _is_taken(call: AggregateCall) -> bool:
    """Return whether the aggregate of partial ones is surely the one of the rows."""
    if call.is_distinct or call.function is not None:
        return False
    kinds = [each.type for each in call.args]
    if call.name in ("SUM", "AVG"):
        is_decimal = kinds[0].name == "DECIMAL" and call.name == "SUM"
        return kinds[0].name in INTEGERS or (is_decimal and (*kinds[0].args, 10)[0] <= _MOST_DIGITS)
    return call.name in ("COUNT", "MIN", "MAX") and all(each.name in COMPARED_ALIKE for each in kinds)


def _with_slices(
    node: Aggregate,
    rows: _Rows,
    keys: dict[Column, Expression],
    found: list[AggregateOutput],
    context: PassContext,
) -> Node:
    calls, window = Calls(context), rows.window
    values = {each.column: calls.value(each.call) for each in found}
    own = labelled("k", [value for value in keys.values() if value != window.column])
    below = Filter(window.input, rows.conditions) if rows.conditions else window.input
    taken = input_with(below, [("t", window.time), *own, *labelled("a", calls.arguments)], context)
    start = context.column(getattr(window.time, "name", "t"), window.time.type)
    of_keys = [context.column(getattr(value, "name", label), value.type) for label, value in own]
    parts = [(label, context.column(f"{label}_part", column.type)) for label, column in calls.columns]
    shown = (("t", start), *zip(labels_of(own), of_keys, strict=True), *parts)
    operator = Slices("t", window.spans.slide, window.spans.offset, labels_of(own), calls.texts)
    made: Node = Stateful(operator, (taken,), shown, Changelog.APPEND, offset=node.offset)
    made = replace(window, input=made, time=start)
    made = made if rows.marked is None else replace(rows.marked, input=made)
    others = iter(of_keys)
    merged_keys = (
        Assignment(column, value if value == window.column else next(others))
        for column, value in keys.items()
    )
    merged = (
        AggregateOutput(column, _merged(text.partition("(")[0], part))
        for (_, text, column), (_, part) in zip(calls.calls, parts, strict=True)
    )
    groups = replace(node, input=made, keys=tuple(merged_keys), calls=tuple(merged))
    return Project(groups, (*copies(keys), *(Assignment(*each) for each in values.items())))


def _merged(function: str, part: Column) -> AggregateCall:
    kind = BIGINT if function == "count" else part.type
    return AggregateCall(f"merged {function}", (part,), kind, function=Function(1, 1, _MERGED[function]))
