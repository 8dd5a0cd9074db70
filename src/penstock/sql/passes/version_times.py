"""FOR SYSTEM_TIME AS OF: the column with the time of a version.

Runs on the driver. Invariant: the pass runs before columns are pruned, so the time is still there.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Column
from penstock.sql.plan.nodes import AsOfJoin, Filter, Node, Output, Project, Rank, Watermark
from penstock.sql.plan.rewrite import columns_of, transformed_below


def version_times(plan: Output, context: PassContext) -> Output:
    """Return a plan in which each join with versions knows their time."""

    def change(node: Node) -> Node:
        if not isinstance(node, AsOfJoin) or not context.traits(node.right).is_stream:
            return node
        return replace(node, version=_time(node.right))

    return transformed_below(plan, change)


def _time(node: Node) -> Column | None:
    """Return the column of the watermark of the only table below, where it is shown."""
    match node:
        case Watermark():
            return node.column
        case Filter() | Rank():
            found = _time(node.input)
        case Project():
            found = _time(node.input)
            return next((each.column for each in node.outputs if each.expression == found), None)
        case _:
            return None
    return found if found in columns_of(node) else None
