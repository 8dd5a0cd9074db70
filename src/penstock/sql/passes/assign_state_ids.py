"""Each operator with a state gets an id from its place in the tree of such operators.

Runs on the driver. Invariant: projections, conditions and names do not count, so a change of them leaves the
ids. The operator nearest to the output is `1`, the operators that it reads are `1.1`, `1.2` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.sql.plan.nodes import Node, Output, Stateful
from penstock.sql.plan.operators import GatheredAggregation
from penstock.sql.plan.rewrite import inputs_of, nodes_in, with_inputs
from penstock.sql.plan.show import shown
from penstock.sql.plan.traits import TraitsOf

NAMES = {
    "Aggregation": "aggregate",
    "Deduplication": "deduplicate",
    "Top": "top-n",
    "RegularJoin": "join",
    "VersionJoin": "temporal-join",
    "OverRows": "over",
    "SessionRows": "sessions",
    "TimeSort": "sort-by-time",
    "Normalization": "normalize",
}
"""The names of operators, also in folders of states."""


def assign_state_ids(plan: Output) -> Output:
    """Return a plan in which each operator with a state has an id."""
    return replace(plan, input=_assigned(plan.input, "", _numbers()))


def states_of(plan: Output, traits: TraitsOf) -> dict[str, str]:
    """Return for each operator with a state, by its id, what it and all that it reads do."""
    found = {}
    for each in nodes_in(plan):
        if isinstance(each, Stateful) and each.state_id:
            found[each.state_id] = shown(replace(each, state_id=""), traits)
    return found


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _assigned(node: Node, parent: str, numbers: Iterator[int]) -> Node:
    if isinstance(node, Stateful) and not isinstance(node.operator, GatheredAggregation):
        path = f"{parent}.{next(numbers)}".lstrip(".")
        name = NAMES[type(node.operator).__name__]
        own = _numbers()
        inputs = tuple(replace(each, node=_assigned(each.node, path, own)) for each in node.inputs)
        return replace(node, inputs=inputs, state_id=f"{path}-{name}")
    return with_inputs(node, tuple(_assigned(each, parent, numbers) for each in inputs_of(node)))
