"""Passes over plans.

Runs on the driver. Invariant: a pass gives a plan with the same rows.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.plan.expressions import Column
from penstock.sql.plan.nodes import (
    Aggregate,
    Apply,
    AsOfJoin,
    Assignment,
    Changelog,
    Join,
    Node,
    Output,
    Over,
    Project,
    Rank,
    Scan,
)
from penstock.sql.plan.rewrite import (
    columns_of,
    free_columns,
    inputs_of,
    used_by,
    with_inputs,
)


def prune_columns(plan: Output) -> Output:
    """Return a plan whose tables are read with the columns that the query uses."""
    found = _pruned(plan, frozenset(plan.columns))
    assert isinstance(found, Output)  # noqa: S101 - a node stays of its kind
    return found


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
    return _with_pruned_inputs(node, wanted | used_by(node))


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
    return node if len(kept) == len(columns) else Project(node, tuple(Assignment(e, e) for e in kept))
