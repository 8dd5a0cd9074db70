"""Walk and change plans.

Runs on the driver. Invariant: a changed plan is a new plan. Nodes that do not change stay the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, assert_never, cast, get_args

from penstock.sql.plan import nodes
from penstock.sql.plan.expressions import (
    AggregateCall,
    Call,
    Column,
    Expression,
    OverCall,
    QueryCall,
    SortItem,
    Varies,
    rewritten,
    walk,
)
from penstock.sql.plan.nodes import AggregateOutput, Assignment, JoinKind, Node, OverOutput

_INPUTS = ("input", "left", "right")
_HAS_EXPRESSION = re.compile(r"\b(?:Expression|Assignment|AggregateOutput|OverOutput|SortItem)\b")
_EXPRESSION_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(each.name for each in fields(kind) if _HAS_EXPRESSION.search(str(each.type)))
    for kind in get_args(Node)
}
"""The fields of each kind of node that hold expressions over the rows that it reads."""


def plan_of(query: QueryCall) -> Node:
    """Return the plan of a query in an expression."""
    return cast("Node", query.plan)


def inputs_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that a node reads."""
    if isinstance(node, nodes.Stateful):
        return tuple(each.node for each in node.inputs)
    return tuple(getattr(node, each.name) for each in fields(node) if each.name in _INPUTS)


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return a node that reads others."""
    if isinstance(node, nodes.Stateful):
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


def node_below(node: Node, *kinds: type[Any]) -> Node:
    """Return the first node of another kind, going down from a node. Nodes of these kinds have one input."""
    while isinstance(node, kinds):
        node = node.input
    return node


def scan_below(node: Node) -> nodes.Scan | None:
    """Return the scan below nodes that look at each row by itself; None if there are other nodes."""
    found = node_below(node, nodes.Project, nodes.Filter, nodes.Watermark)
    return found if isinstance(found, nodes.Scan) else None


def every_node(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, also those of queries in expressions."""
    for each in nodes_in(node):
        yield each
        for expression in expressions_of(each):
            for part in walk(expression):
                if isinstance(part, QueryCall):
                    yield from every_node(plan_of(part))


def columns_of(node: Node) -> tuple[Column, ...]:
    """Return the columns that the rows of a node have."""
    match node:
        case nodes.Scan() | nodes.Values() | nodes.SetOperation() | nodes.Distinct() | nodes.Output():
            return node.columns
        case nodes.Project():
            return tuple(each.column for each in node.outputs)
        case nodes.Filter() | nodes.Sort() | nodes.Limit() | nodes.PlainTimes() | nodes.Upserts():
            return columns_of(node.input)
        case nodes.MarkedWindows():
            return tuple(each for each in columns_of(node.input) if each != node.window)
        case nodes.ToChangelog():
            return (node.column, *columns_of(node.input))
        case nodes.FromChangelog():
            return tuple(each for each in columns_of(node.input) if each != node.column)
        case nodes.Stateful():
            return tuple(column for _, column in node.columns)
        case nodes.Watermark():
            return tuple(node.column if each == node.time else each for each in columns_of(node.input))
        case nodes.Join() if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return columns_of(node.left)
        case nodes.Join() | nodes.AsOfJoin() | nodes.Apply():
            return (*columns_of(node.left), *columns_of(node.right))
        case nodes.Unnest():
            own = (*node.columns, *([node.number] if node.number is not None else []))
            return (*columns_of(node.input), *own)
        case nodes.TableFunction():
            return (*columns_of(node.input), *node.columns)
        case nodes.Window():
            return (*columns_of(node.input), node.column)
        case nodes.Aggregate():
            groupings = (column for column, _ in node.groupings)
            return (
                *(each.column for each in node.keys),
                *(each.column for each in node.calls),
                *groupings,
            )
        case nodes.Over():
            return (*columns_of(node.input), *(each.column for each in node.calls))
        case nodes.Rank():
            return (*columns_of(node.input), *([node.rank] if node.rank is not None else []))
        case _:
            assert_never(node)


def expressions_of(node: Node) -> tuple[Expression, ...]:
    """Return the expressions of a node over the rows that it reads."""
    parts = (getattr(node, name) for name in _EXPRESSION_FIELDS[type(node)])
    return tuple(found for part in parts for found in _expressions_in(part))


def _expressions_in(part: Any) -> Iterator[Expression]:
    if isinstance(part, tuple):
        for each in part:
            yield from _expressions_in(each)
    elif isinstance(part, (Assignment, SortItem)):
        yield part.expression
    else:
        yield part.call if isinstance(part, (AggregateOutput, OverOutput)) else part


def columns_in(expression: Expression) -> frozenset[Column]:
    """Return the columns that an expression takes, also those that a query in it takes from outside."""
    found: set[Column] = set()
    for part in walk(expression):
        if isinstance(part, Column):
            found.add(part)
        elif isinstance(part, QueryCall):
            found |= free_columns(plan_of(part))
    return frozenset(found)


def used_by(node: Node) -> frozenset[Column]:
    """Return the columns that a node itself takes of the rows that it reads."""
    return kept_by(node).union(*(columns_in(each) for each in expressions_of(node)))


def kept_by(node: Node) -> frozenset[Column]:
    """Return the columns that a node takes as they are, without an expression."""
    match node:
        case nodes.SetOperation():
            return frozenset((*node.lefts, *node.rights))
        case nodes.Distinct() | nodes.Output():
            return frozenset(node.columns)
        case nodes.Stateful():
            return frozenset(column for each in node.inputs for _, column in each.columns)
        case nodes.MarkedWindows():
            return frozenset((*node.ends, *node.times, *([node.window] if node.window is not None else [])))
        case nodes.Watermark():
            return frozenset((node.time,))
        case nodes.Upserts():
            return frozenset(node.keys)
        case nodes.FromChangelog():
            return frozenset((node.column,))
        case nodes.AsOfJoin() if node.version is not None:
            return frozenset((node.version,))
        case _:
            return frozenset()


def has_queries(node: Node) -> bool:
    """Return whether an expression of a node has a query."""
    return any(isinstance(part, QueryCall) for each in expressions_of(node) for part in walk(each))


def varying_part(node: Node) -> str:
    """Return what may give a query other rows when it stands in the plan twice; "" if nothing does."""
    for each in every_node(node):
        if isinstance(each, nodes.Limit) and not isinstance(each.input, nodes.Sort):
            return "LIMIT without ORDER BY"
        if isinstance(each, nodes.TableFunction) and each.varies is Varies.CALL:
            return each.said
        for part in (part for expression in expressions_of(each) for part in walk(expression)):
            if isinstance(part, Call) and part.function.varies is Varies.CALL:
                return part.name
    return ""


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
        return replace(part, plan=transformed_with_queries(plan_of(part), change), values=values)

    def changed(each: Node) -> Node:
        has_queries = any(isinstance(p, QueryCall) for e in expressions_of(each) for p in walk(e))
        return change(with_expressions(each, lambda old: rewritten(old, inner)) if has_queries else each)

    return transformed(node, changed)


def transformed_below(plan: nodes.Output, change: Callable[[Node], Node]) -> nodes.Output:
    """Return a plan in which each node below its output was changed; see `transformed`."""
    return replace(plan, input=transformed(plan.input, change))


def substituted(node: Node, values: Mapping[Column, Expression]) -> Node:
    """Return a plan in which free columns are other expressions."""

    def value(part: Expression) -> Expression | None:
        if isinstance(part, Column):
            return values.get(part)
        if isinstance(part, QueryCall):
            inner = tuple(rewritten(each, value) for each in part.values)
            return replace(part, plan=substituted(plan_of(part), values), values=inner)
        return None

    return transformed(node, lambda each: with_expressions(each, lambda old: rewritten(old, value)))


def with_expressions(node: Node, change: Callable[[Expression], Expression]) -> Node:
    """Return a node with each of its expressions changed."""

    def changed(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(changed, part))
        if isinstance(part, (Assignment, SortItem)):
            return replace(part, expression=change(part.expression))
        if isinstance(part, (AggregateOutput, OverOutput)):
            return replace(part, call=_same(part.call, change(part.call)))
        return change(part)

    names = _EXPRESSION_FIELDS[type(node)]
    return replace(node, **{name: changed(getattr(node, name)) for name in names}) if names else node


def _same(old: AggregateCall | OverCall, new: Expression) -> Any:
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
            taken = free_columns(plan_of(part))
            names = {each: of(each) for each in taken if each in made}
            return replace(part, plan=substituted(plan_of(part), names), values=values)
        return None

    def own(item: object) -> object:
        """Return a part of a node with its columns replaced."""
        if isinstance(item, Column):
            return of(item) if item in made else item
        if isinstance(item, tuple):
            return tuple(map(own, item))
        if isinstance(item, (Assignment, AggregateOutput, OverOutput)):
            return replace(item, column=of(item.column))
        if isinstance(item, nodes.Input):
            return replace(item, columns=tuple((label, of(column)) for label, column in item.columns))
        return item

    def changed(each: Node) -> Node:
        each = with_expressions(each, lambda old: rewritten(old, value))
        if isinstance(each, nodes.Scan):
            # The stored name of a column is its own; only the id is new.
            return replace(each, columns=tuple(map(of, each.columns)))
        parts = {part.name: own(getattr(each, part.name)) for part in fields(each)}
        return replace(each, **parts)  # type: ignore[arg-type]  # each is of the kind that it was

    return transformed(node, changed)
