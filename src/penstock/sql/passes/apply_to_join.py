"""LATERAL in a stream becomes a join by what its query compares with the rows before it.

Runs on the driver. Invariant: each row has the rows that the query gives for it, now and after changes.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.decorrelate import Decorrelation, decorrelated
from penstock.sql.plan.expressions import Column
from penstock.sql.plan.nodes import (
    Aggregate,
    Apply,
    Distinct,
    Join,
    Limit,
    Node,
    Output,
    Project,
    Rank,
    Sort,
    copies,
)
from penstock.sql.plan.rewrite import columns_of, nodes_in, transformed_below

_ONLY_EQUAL = "a correlated subquery compares with the outer rows by = only, in its own WHERE."
_NEEDS_EQUAL = (
    "a query behind LATERAL needs a comparison by = with the rows before it in WHERE, such as "
    "WHERE o.shop = s.shop. Write the names of the tables. Without one, leave LATERAL out."
)


def apply_to_join(plan: Output, context: PassContext) -> Output:
    """Return a plan in which no stream has a LATERAL, and none has aggregates.

    As in Flink, a row without partners has no groups, or NULL behind LEFT JOIN, also for COUNT.
    """
    return transformed_below(plan, lambda node: _joined(node, context) if isinstance(node, Apply) else node)


def _joined(node: Apply, context: PassContext) -> Node:
    is_stream = context.traits(node.left).is_stream or context.traits(node.right).is_stream
    found = _decorrelated(node.right, node, context)
    if not is_stream and not any(isinstance(each, Aggregate) for each in nodes_in(node.right)):
        return node  # Spark runs it
    if not found.outer:
        context.refuse(node.offset, _NEEDS_EQUAL)
    made = Join(node.left, found.node, node.kind, context.equal(found.outer, found.inner), node.offset)
    return Project(made, copies(columns_of(node)))


def _decorrelated(node: Node, apply: Apply, context: PassContext) -> Decorrelation:
    """Return the query without its comparisons. Its ORDER BY and LIMIT count for each row before it."""
    limit = next((each for each in nodes_in(node) if isinstance(each, Limit)), None)
    if isinstance(node, Sort):
        return _decorrelated(node.input, apply, context)
    if not isinstance(node, (Limit, Project)) or limit is None:
        return decorrelated(node, context, _ONLY_EQUAL)
    if isinstance(node, Project):
        found = _decorrelated(node.input, apply, context)
        kept = copies(each for each in found.inner if each not in columns_of(node))
        return replace(found, node=replace(node, input=found.node, outputs=(*node.outputs, *kept)))
    return _first_rows(node, apply, context)


def _first_rows(node: Limit, apply: Apply, context: PassContext) -> Decorrelation:
    if node.skipped or node.count is None:
        context.refuse(apply.offset, "OFFSET is not served behind LATERAL. Put it into a query in FROM.")
    sort = node.input
    if not isinstance(sort, Sort):
        context.refuse(apply.offset, "LIMIT behind LATERAL needs ORDER BY, which says which rows are first.")
    if any(isinstance(each, (Aggregate, Distinct)) for each in nodes_in(sort.input)):
        context.refuse(
            apply.offset,
            "ORDER BY and LIMIT beside groups stands in a query in FROM of the query behind LATERAL.",
        )
    found = decorrelated(sort.input, context, _ONLY_EQUAL)
    inner: tuple[Column, ...] = found.inner
    return replace(found, node=Rank(found.node, inner, sort.items, node.count, None, node.offset))
