"""Tables are read with the columns that the query uses, and other columns are not computed.

Runs on the driver. Invariant: the rows stay the same.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.plan.expressions import Column, Expression, QueryCall, QueryKind, rewritten, walk
from penstock.sql.plan.nodes import (
    Aggregate,
    Apply,
    AsOfJoin,
    Changelog,
    Join,
    Node,
    Output,
    Over,
    Project,
    Rank,
    Scan,
    copies,
)
from penstock.sql.plan.rewrite import (
    columns_of,
    expressions_of,
    free_columns,
    inputs_of,
    nodes_in,
    plan_of,
    used_by,
    with_expressions,
    with_inputs,
)


def prune_columns(plan: Output) -> Output:
    """Return a plan whose tables are read with the columns that the query uses."""
    return replace(plan, input=_pruned(plan.input, frozenset(plan.columns)))


def _pruned(node: Node, wanted: frozenset[Column]) -> Node:
    """Return a node that makes the wanted columns only, if it can."""
    match node:
        case Scan():
            keys = node.source.keys if node.source.changelog is not Changelog.APPEND else ()
            kept = (each for each in node.columns if each in wanted or each.name in keys)
            return replace(node, columns=tuple(kept))
        case Project():
            node = replace(node, outputs=tuple(each for each in node.outputs if each.column in wanted))
        case Over():
            node = replace(node, calls=tuple(each for each in node.calls if each.column in wanted))
            if not node.calls:
                return _pruned(node.input, wanted)
        case Rank() if node.rank not in wanted:
            node = replace(node, rank=None)
        case Aggregate():
            node = replace(node, calls=tuple(each for each in node.calls if each.column in wanted))
        case _:
            pass
    node = _with_pruned_queries(node)
    return _with_pruned_inputs(node, wanted | used_by(node))


def _with_pruned_queries(node: Node) -> Node:
    """Return a node whose expressions have queries that make their own columns only."""
    if not any(isinstance(part, QueryCall) for each in expressions_of(node) for part in walk(each)):
        return node

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, QueryCall):
            return None
        plan, is_exists = plan_of(part), part.kind is QueryKind.EXISTS
        if is_exists and any(isinstance(each, Aggregate) and not each.keys for each in nodes_in(plan)):
            return part  # Spark has to see the aggregate, which has one row whatever it is of
        outputs = () if is_exists else part.outputs
        values = tuple(rewritten(each, change) for each in part.values)
        return replace(part, plan=_pruned(plan, frozenset(outputs)), outputs=outputs, values=values)

    return with_expressions(node, lambda each: rewritten(each, change))


def _with_pruned_inputs(node: Node, wanted: frozenset[Column]) -> Node:
    if isinstance(node, Apply):
        wanted |= free_columns(node.right)
    inputs = (_pruned(each, wanted & {*columns_of(each)}) for each in inputs_of(node))
    if isinstance(node, _KEEPING):
        inputs = (_narrowed(each, wanted) for each in inputs)
    return with_inputs(node, tuple(inputs))


_KEEPING = (Join, AsOfJoin, Rank)
"""Nodes whose operators keep each column of their rows."""


def _narrowed(node: Node, wanted: frozenset[Column]) -> Node:
    """Return rows with the wanted columns alone."""
    columns = columns_of(node)
    kept = tuple(each for each in columns if each in wanted)
    return node if len(kept) == len(columns) else Project(node, copies(kept))
