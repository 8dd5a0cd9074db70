"""Watermarks go if nothing in the query waits for one: Spark would look at the time of each row for them.

Runs on the driver. Invariant: Spark has one watermark for a query, made of all of them. So all stay if one
node waits, or may wait. They also stay in a DataFrame that a user starts, who may put a window behind it.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.plan import nodes, operators
from penstock.sql.plan.nodes import Node, Output
from penstock.sql.plan.rewrite import every_node, transformed_below

_OF_EACH_ROW = (
    *(nodes.Filter, nodes.FromChangelog, nodes.Output, nodes.PlainTimes, nodes.Project, nodes.Scan),
    *(nodes.SetOperation, nodes.TableFunction, nodes.ToChangelog, nodes.Unnest, nodes.Upserts),
    *(nodes.Values, nodes.Watermark),
)
"""Nodes that keep no rows of a stream."""
_WITHOUT_TIMES = (
    *(operators.Aggregation, operators.Deduplication, operators.KeptValues, operators.Normalization),
    *(operators.MultiJoin, operators.RegularJoin, operators.Top),
)
"""Operators of penstock that keep and forget rows without a look at the watermark."""


def drop_watermarks(plan: Output, context: PassContext) -> Output:
    """Return a plan whose watermarks are not for Spark, if nothing waits for them."""
    if not context.is_insert or any(_may_wait(each, context) for each in every_node(plan)):
        return plan
    return transformed_below(plan, _without)


def _without(node: Node) -> Node:
    if isinstance(node, nodes.Watermark):
        return replace(node, delay_ms=None)
    return node.input if isinstance(node, nodes.PlainTimes) else node


def _may_wait(node: Node, context: PassContext) -> bool:
    """Return whether what a node gives, or keeps, may depend on Spark's watermark."""
    if isinstance(node, nodes.Stateful):
        return not isinstance(node.operator, _WITHOUT_TIMES)
    if isinstance(node, nodes.Join):
        return all(context.traits(each).is_stream for each in (node.left, node.right))
    if isinstance(node, nodes.Window) and context.traits(node).changes:
        return False
    return context.traits(node).is_stream and not isinstance(node, _OF_EACH_ROW)
