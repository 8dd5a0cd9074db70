"""Conditions on rows of sessions act before the sessions are made, as in Flink.

Runs on the driver. Flink makes the sessions of a group where it groups. So a row that WHERE leaves out makes
no session longer. A stream does the same, because Spark makes its sessions in GROUP BY. Invariant: a
condition on the session itself stays where it is.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.groups import grouped_window
from penstock.sql.plan.expressions import Column, Expression, QueryCall, walk
from penstock.sql.plan.nodes import Aggregate, Filter, Node, Output, Project, Window
from penstock.sql.plan.rewrite import columns_in, columns_of, node_below, transformed_below


def filter_before_sessions(plan: Output, context: PassContext) -> Output:
    """Return a plan in which groups of sessions have the conditions on their rows below the sessions."""

    def change(node: Node) -> Node:
        window = grouped_window(node) if isinstance(node, Aggregate) else None
        if not isinstance(node, Aggregate) or window is None:
            return node
        below, moved = _without_conditions(node.input, window)
        return replace(node, input=_with_conditions(below, moved)) if moved else node

    return transformed_below(plan, change)


def _without_conditions(node: Node, window: Column) -> tuple[Node, tuple[Expression, ...]]:
    """Return rows of sessions without their conditions on plain columns, and these conditions."""
    if isinstance(node, Project):
        below, moved = _without_conditions(node.input, window)
        return replace(node, input=below), moved
    if not isinstance(node, Filter):
        return node, ()
    below, moved = _without_conditions(node.input, window)
    session = _window_below(below)
    if session is None or session.spans.kind != "SESSION" or session.column != window:
        return replace(node, input=below), moved
    plain = {*columns_of(session.input)}
    own = tuple(each for each in node.conditions if columns_in(each) <= plain and not _has_query(each))
    kept = tuple(each for each in node.conditions if each not in own)
    return (replace(node, input=below, conditions=kept) if kept else below), (*moved, *own)


def _window_below(node: Node) -> Window | None:
    below = node_below(node, Project, Filter)
    return below if isinstance(below, Window) else None


def _with_conditions(node: Node, conditions: tuple[Expression, ...]) -> Node:
    if isinstance(node, (Project, Filter)):
        return replace(node, input=_with_conditions(node.input, conditions))
    assert isinstance(node, Window)  # noqa: S101 - `_without_conditions` has found it
    return replace(node, input=Filter(node.input, conditions))


def _has_query(condition: Expression) -> bool:
    return any(isinstance(each, QueryCall) for each in walk(condition))
