"""Each operator with a state gets an id from its position in the tree of such operators.

Runs on the driver. Invariant: projections, conditions and names do not count, so a change of them leaves the
ids, but where they choose the operator, as in a join of windows. The operator nearest to the output is `1`,
the operators that it reads are `1.1`, `1.2` and so on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock.sql.plan.nodes import (
    Aggregate,
    Join,
    Limit,
    MarkedWindows,
    Node,
    Output,
    Scan,
    Stateful,
    Window,
)
from penstock.sql.plan.operators import STATELESS, Slices, described
from penstock.sql.plan.rewrite import inputs_of, node_below, nodes_in, with_inputs
from penstock.sql.plan.traits import TraitsOf

NAMES = {
    "Aggregation": "aggregate",
    "Deduplication": "deduplicate",
    "Top": "top-n",
    "RegularJoin": "join",
    "MultiJoin": "multi-join",
    "VersionJoin": "temporal-join",
    "OverRows": "over",
    "SessionRows": "sessions",
    "TimeSort": "sort-by-time",
    "Normalization": "normalize",
    "KeptValues": "keep-values",
}
"""The names of operators, also in folders of states."""
OF_SPARK = "spark-"
"""Before the number of a node whose state Spark keeps."""


def assign_state_ids(plan: Output) -> Output:
    """Return a plan in which each operator with a state has an id."""
    return replace(plan, input=_assigned(plan.input, "", itertools.count(1)))


def has_operators(states: Iterable[str]) -> bool:
    """Return whether one of the ids of `states_of` is that of an operator of penstock."""
    return any(not each.startswith(OF_SPARK) for each in states)


def states_of(plan: Output, traits: TraitsOf) -> dict[str, str]:
    """Return for each node with a state what it does, and the tables that it reads.

    Projections, conditions and names do not count, so a change of them leaves the answer, but where they
    choose the operator. The operators of penstock have their ids. The nodes of Spark have numbers in the
    order of the plan.
    """
    found, numbers = {}, itertools.count(1)
    for each in nodes_in(plan):
        tables = ", ".join(sorted(node.source.name for node in nodes_in(each) if isinstance(node, Scan)))
        if isinstance(each, Stateful) and each.state_id:
            found[each.state_id] = f"{described(each.operator)} of {tables}"
        elif _is_kept_by_spark(each, traits):
            of_slices = " by slices" if has_slices(each) else ""
            found[f"{OF_SPARK}{next(numbers)}"] = f"{type(each).__name__}{of_slices} of {tables}"
    return found


def has_slices(node: Node) -> bool:
    """Return whether a window, or groups of it, take rows that were put together by slices."""
    below = node_below(node, Aggregate, MarkedWindows, Window)
    return isinstance(below, Stateful) and isinstance(below.operator, Slices)


def _is_kept_by_spark(node: Node, traits: TraitsOf) -> bool:
    """Return whether Spark keeps a state for a node."""
    if isinstance(node, Join):
        return traits(node.left).is_stream and traits(node.right).is_stream
    return isinstance(node, (Aggregate, Limit)) and traits(node.input).is_stream


def _assigned(node: Node, parent: str, numbers: Iterator[int]) -> Node:
    if isinstance(node, Stateful) and not isinstance(node.operator, STATELESS):
        path = f"{parent}.{next(numbers)}".lstrip(".")
        name = NAMES[type(node.operator).__name__]
        own = itertools.count(1)
        inputs = tuple(replace(each, node=_assigned(each.node, path, own)) for each in node.inputs)
        return replace(node, inputs=inputs, state_id=f"{path}-{name}")
    return with_inputs(node, tuple(_assigned(each, parent, numbers) for each in inputs_of(node)))
