"""Walk and change plans.

Runs on the driver. Invariant: a changed plan is a new plan. Nodes that do not change stay the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import TypeVar, assert_never

from penstock.sql.plan.expressions import (
    AggregateCall,
    Column,
    Expression,
    OverCall,
    QueryCall,
    rewritten,
    walk,
)
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Apply,
    AsOfJoin,
    Assignment,
    Distinct,
    Filter,
    FromChangelog,
    Join,
    JoinKind,
    Limit,
    MarkedWindows,
    Node,
    Output,
    Over,
    OverOutput,
    PlainTimes,
    Project,
    Rank,
    Scan,
    SetOperation,
    Sort,
    Stateful,
    TableFunction,
    TimedChanges,
    ToChangelog,
    Unnest,
    Upserts,
    Values,
    Watermark,
    Window,
)

C = TypeVar("C", AggregateCall, OverCall)
_INPUTS = ("input", "left", "right")


def inputs_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node reads."""
    if isinstance(node, Stateful):
        return tuple(each.node for each in node.inputs)
    return tuple(getattr(node, each.name) for each in fields(node) if each.name in _INPUTS)


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return a node that reads others."""
    if isinstance(node, Stateful):
        pairs = zip(node.inputs, inputs, strict=True)
        return replace(node, inputs=tuple(replace(each, node=one) for each, one in pairs))
    names = [each.name for each in fields(node) if each.name in _INPUTS]
    if all(one is getattr(node, name) for name, one in zip(names, inputs, strict=True)):
        return node
    return replace(node, **dict(zip(names, inputs, strict=True)))  # type: ignore[arg-type]  # names are inputs


def nodes_in(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, but those of queries in expressions."""
    yield node
    for each in inputs_of(node):
        yield from nodes_in(each)


def every_node(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, also those of queries in expressions."""
    for each in nodes_in(node):
        yield each
        for expression in expressions_of(each):
            for part in walk(expression):
                if isinstance(part, QueryCall):
                    yield from every_node(part.plan)


def columns_of(node: Node) -> tuple[Column, ...]:
    """Return the columns that the rows of a node have."""
    match node:
        case Scan() | Values() | SetOperation() | Distinct() | Output():
            return node.columns
        case Project():
            return tuple(each.column for each in node.outputs)
        case Filter() | Sort() | Limit() | PlainTimes() | Upserts() | TimedChanges():
            return columns_of(node.input)
        case MarkedWindows():
            return tuple(each for each in columns_of(node.input) if each != node.window)
        case ToChangelog():
            return (node.column, *columns_of(node.input))
        case FromChangelog():
            return tuple(each for each in columns_of(node.input) if each != node.column)
        case Stateful():
            return tuple(column for _, column in node.columns)
        case Watermark():
            return tuple(node.column if each == node.time else each for each in columns_of(node.input))
        case Join() if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return columns_of(node.left)
        case Join() | AsOfJoin() | Apply():
            return (*columns_of(node.left), *columns_of(node.right))
        case Unnest():
            own = (*node.columns, *([node.number] if node.number is not None else []))
            return (*columns_of(node.input), *own)
        case TableFunction():
            return (*columns_of(node.input), *node.columns)
        case Window():
            return (*columns_of(node.input), node.column)
        case Aggregate():
            groupings = (column for column, _ in node.groupings)
            return (
                *(each.column for each in node.keys),
                *(each.column for each in node.calls),
                *groupings,
            )
        case Over():
            return (*columns_of(node.input), *(each.column for each in node.calls))
        case Rank():
            return (*columns_of(node.input), *([node.rank] if node.rank is not None else []))
        case _:
            assert_never(node)


def expressions_of(node: Node) -> tuple[Expression, ...]:
    """Return the expressions of a node over the rows that it reads."""
    match node:
        case Scan() | SetOperation() | Distinct() | Limit() | Output() | Apply():
            return ()
        case Stateful() | MarkedWindows() | PlainTimes() | Upserts() | TimedChanges():
            return ()
        case ToChangelog() | FromChangelog():
            return ()
        case Values():
            return tuple(cell for row in node.rows for cell in row)
        case Watermark():
            return (node.time,)
        case Project():
            return tuple(each.expression for each in node.outputs)
        case Filter() | Join():
            return node.conditions
        case AsOfJoin():
            return (*node.conditions, node.time)
        case Unnest():
            return (node.expression,)
        case TableFunction():
            return node.args
        case Window():
            return (node.time, *node.partition)
        case Aggregate():
            return (*(each.expression for each in node.keys), *(each.call for each in node.calls))
        case Over():
            return tuple(each.call for each in node.calls)
        case Rank():
            return (*node.partition, *(each.expression for each in node.order))
        case Sort():
            return tuple(each.expression for each in node.items)
        case _:
            assert_never(node)


def columns_in(expression: Expression) -> frozenset[Column]:
    """Return the columns that an expression takes, also those that a query in it takes from outside."""
    found: set[Column] = set()
    for part in walk(expression):
        if isinstance(part, Column):
            found.add(part)
        elif isinstance(part, QueryCall):
            found |= free_columns(part.plan)
    return frozenset(found)


def used_by(node: Node) -> frozenset[Column]:
    """Return the columns that a node itself takes of the rows that it reads."""
    return kept_by(node).union(*(columns_in(each) for each in expressions_of(node)))


def kept_by(node: Node) -> frozenset[Column]:
    """Return the columns that a node takes as they are, without an expression."""
    match node:
        case SetOperation():
            return frozenset((*node.lefts, *node.rights))
        case Distinct() | Output():
            return frozenset(node.columns)
        case Stateful():
            return frozenset(column for each in node.inputs for _, column in each.columns)
        case MarkedWindows():
            return frozenset((*node.ends, *node.times, *([node.window] if node.window is not None else [])))
        case TimedChanges():
            return frozenset((node.time,))
        case Upserts():
            return frozenset(node.keys)
        case FromChangelog():
            return frozenset((node.column, *(node.time[:1] if node.time is not None else ())))
        case AsOfJoin() if node.version is not None:
            return frozenset((node.version,))
        case _:
            return frozenset()


def free_columns(node: Node) -> frozenset[Column]:
    """Return the columns that a query takes from the rows around it."""
    used: set[Column] = set()
    made: set[Column] = set()
    for each in nodes_in(node):
        used |= used_by(each)
        made |= {*columns_of(each)}
    return frozenset(used - made)


def transformed(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a plan in which each node was changed, the inputs before the node that reads them."""
    return change(with_inputs(node, tuple(transformed(each, change) for each in inputs_of(node))))


def transformed_with_queries(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a plan in which each node was changed, also those of queries in expressions."""

    def inner(part: Expression) -> Expression | None:
        if not isinstance(part, QueryCall):
            return None
        values = tuple(rewritten(each, inner) for each in part.values)
        return replace(part, plan=transformed_with_queries(part.plan, change), values=values)

    def changed(each: Node) -> Node:
        has_queries = any(isinstance(p, QueryCall) for e in expressions_of(each) for p in walk(e))
        return change(with_expressions(each, lambda old: rewritten(old, inner)) if has_queries else each)

    return transformed(node, changed)


def substituted(node: Node, values: Mapping[Column, Expression]) -> Node:
    """Return a plan in which free columns are other expressions."""

    def value(part: Expression) -> Expression | None:
        if isinstance(part, Column):
            return values.get(part)
        if isinstance(part, QueryCall):
            inner = tuple(rewritten(each, value) for each in part.values)
            return replace(part, plan=substituted(part.plan, values), values=inner)
        return None

    return transformed(node, lambda each: with_expressions(each, lambda old: rewritten(old, value)))


def with_expressions(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """Return a node with each of its expressions changed."""
    match node:
        case Scan() | SetOperation() | Distinct() | Limit() | Output() | Apply() | Watermark():
            return node
        case Stateful() | MarkedWindows() | PlainTimes() | Upserts() | TimedChanges():
            return node
        case ToChangelog() | FromChangelog():
            return node
        case Values():
            return replace(node, rows=tuple(tuple(map(change, row)) for row in node.rows))
        case Project():
            outputs = (replace(each, expression=change(each.expression)) for each in node.outputs)
            return replace(node, outputs=tuple(outputs))
        case Filter() | Join():
            return replace(node, conditions=tuple(map(change, node.conditions)))
        case AsOfJoin():
            return replace(node, conditions=tuple(map(change, node.conditions)), time=change(node.time))
        case Unnest():
            return replace(node, expression=change(node.expression))
        case TableFunction():
            return replace(node, args=tuple(map(change, node.args)))
        case Window():
            return replace(node, time=change(node.time), partition=tuple(map(change, node.partition)))
        case Aggregate():
            keys = (replace(each, expression=change(each.expression)) for each in node.keys)
            calls = (replace(each, call=_same(each.call, change(each.call))) for each in node.calls)
            return replace(node, keys=tuple(keys), calls=tuple(calls))
        case Over():
            overs = (replace(each, call=_same(each.call, change(each.call))) for each in node.calls)
            return replace(node, calls=tuple(overs))
        case Rank():
            order = (replace(each, expression=change(each.expression)) for each in node.order)
            return replace(node, partition=tuple(map(change, node.partition)), order=tuple(order))
        case Sort():
            items = (replace(each, expression=change(each.expression)) for each in node.items)
            return replace(node, items=tuple(items))
        case _:
            assert_never(node)


def _same(old: C, new: Expression) -> C:
    """Return the new form of a call, which has to be a call of the same kind."""
    if type(new) is not type(old):
        raise TypeError(f"expected a changed {type(old).__name__}, got {new}.")
    return new


def with_new_columns(node: Node, of: Callable[[Column], Column]) -> Node:
    """Return a plan in which `of` gives each column that a node of it makes. Columns from outside stay."""
    made = {column for each in nodes_in(node) for column in columns_of(each)}

    def value(part: Expression) -> Expression | None:
        if isinstance(part, Column):
            return of(part) if part in made else part
        if isinstance(part, QueryCall):
            values = tuple(rewritten(each, value) for each in part.values)
            taken = free_columns(part.plan)
            names = {each: of(each) for each in taken if each in made}
            return replace(part, plan=substituted(part.plan, names), values=values)
        return None

    def own(item: object) -> object:
        """Return a part of a node with its columns replaced."""
        if isinstance(item, Column):
            return of(item) if item in made else item
        if isinstance(item, tuple):
            return tuple(map(own, item))
        if isinstance(item, (Assignment, AggregateOutput, OverOutput)):
            return replace(item, column=of(item.column))
        return item

    def changed(each: Node) -> Node:
        each = with_expressions(each, lambda old: rewritten(old, value))
        if isinstance(each, Scan):
            # The stored name of a column is its own; only the id is new.
            return replace(each, columns=tuple(map(of, each.columns)))
        parts = {
            part.name: own(getattr(each, part.name)) for part in fields(each) if part.name in _OWN_COLUMNS
        }
        return replace(each, **parts)  # type: ignore[arg-type]  # each is of the kind that it was

    return transformed(node, changed)


_OWN_COLUMNS = (
    *("columns", "outputs", "column", "keys", "calls", "groupings", "lefts", "rights", "number", "time"),
    *("window", "ends", "times", "struct", "keep", "rank", "version"),
)
