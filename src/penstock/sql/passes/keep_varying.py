"""The time of a batch over a changelog is kept with each row, so that the row goes with it.

Runs on the driver. It does what Flink calls TRY_RESOLVE. Invariant: the time is computed once for a row,
where the query computes it, and everything above reads the kept column. Functions that give another value in
each call, such as RAND, are not kept: a task that Spark runs again would give other rows than were read. The
engines are chosen before, because only then it is known which rows change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.errors import SqlError
from penstock.sql.passes.check_determinism import check_determinism
from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.inputs import ZERO, labelled
from penstock.sql.passes.prune_columns import prune_columns
from penstock.sql.plan.expressions import Call, Column, Expression, Varies, rewritten, walk
from penstock.sql.plan.hidden import OFFSETS
from penstock.sql.plan.nodes import (
    Assignment,
    Changelog,
    Filter,
    Input,
    MarkedWindows,
    Node,
    Output,
    Project,
    Stateful,
    Window,
    copies,
)
from penstock.sql.plan.operators import KeptValues
from penstock.sql.plan.rewrite import (
    columns_of,
    expressions_of,
    nodes_in,
    transformed_below,
    with_expressions,
)
from penstock.sql.plan.types import INT

_NESTED = ("ROW", "ARRAY", "MAP", "MULTISET", "VARIANT")
_MARKED = (Window, MarkedWindows)
"""Nodes behind which Spark knows times of append-only rows, which an operator would take away."""


def keep_varying(plan: Output, context: PassContext) -> Output:
    """Return a plan that keeps times of batches over a changelog, if that makes it right."""
    if not context.keeps_varying or _is_right(plan, context):
        return plan
    found = transformed_below(_without_offsets(plan), lambda node: _kept(node, context))
    return found if _is_right(found, context) else plan


def _without_offsets(plan: Output) -> Output:
    """Return a plan without the offsets of records. A record that takes a row back has another offset."""
    if plan.names[-len(OFFSETS) :] != OFFSETS:
        return plan
    count = len(plan.names) - len(OFFSETS)
    return prune_columns(replace(plan, columns=plan.columns[:count], names=plan.names[:count]))


def _is_right(plan: Output, context: PassContext) -> bool:
    try:
        check_determinism(plan, context)
    except SqlError:
        return False
    return True


def _kept(node: Node, context: PassContext) -> Node:
    if not isinstance(node, (Project, Filter)) or not context.traits(node.input).changes:
        return node
    calls = {each.identity: each for part in expressions_of(node) for each in _clocks(part)}
    columns = columns_of(node.input)
    is_served = not any(each.type.name in _NESTED or each.name in OFFSETS for each in columns)
    marked = (each for each in nodes_in(node.input) if isinstance(each, _MARKED))
    if not calls or not is_served or not all(context.traits(each).changes for each in marked):
        return node
    values = {name: context.column("kept", call.type) for name, call in calls.items()}
    made = [Assignment(values[name], call) for name, call in calls.items()]
    if not columns:  # rows without columns are equal
        columns = (context.column("row", INT),)
        made.append(Assignment(columns[0], ZERO))
    rows = Project(node.input, (*copies(columns_of(node.input)), *made))

    def kept(part: Expression) -> Expression | None:
        return values.get(part.identity) if isinstance(part, Call) else None

    node = with_expressions(node, lambda each: rewritten(each, kept))
    assert isinstance(node, (Project, Filter))  # noqa: S101 - a node stays of its kind
    offset = next(iter(calls.values())).offset
    return replace(node, input=_operator(rows, columns, tuple(values.values()), offset, context))


def _operator(
    rows: Project, columns: tuple[Column, ...], values: tuple[Column, ...], offset: int, context: PassContext
) -> Node:
    labels = (*labelled("c", columns), *labelled("v", values))
    key = context.traits(rows).key
    keys = tuple(label for label, each in labels if (each in key if key else each in columns))
    operator = KeptValues(keys, tuple(label for label, each in labels if each in values))
    return Stateful(operator, (Input(rows, labels),), labels, Changelog.RETRACT, offset=offset)


def _clocks(expression: Expression) -> Iterator[Call]:
    for each in walk(expression):
        if isinstance(each, Call) and each.function.varies is Varies.BATCH:
            yield each
