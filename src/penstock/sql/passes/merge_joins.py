"""Inner joins of append-only rows one behind the other become one join, if they compare the same values.

Runs on the driver. Two joins of `a JOIN b ON a.k = b.k JOIN c ON b.k = c.k` keep all pairs of `a` and `b`,
and send them through a shuffle. One operator keeps the rows of `a`, `b` and `c`, as Flink's MultiJoin does.
Invariant: the keys of the joins are the same values, so rows with equal keys are in one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.engine.inputs import defined
from penstock.sql.plan.expressions import Column
from penstock.sql.plan.nodes import Changelog, Input, Node, Output, Project, Stateful
from penstock.sql.plan.operators import MultiJoin, RegularJoin
from penstock.sql.plan.rewrite import node_below, transformed_below

_MOST_INPUTS = 8
"""A batch reads kept rows of an input again for each choice of new and kept rows of the inputs before it."""


def merge_joins(plan: Output, context: PassContext) -> Output:
    """Return a plan whose joins by the same values are one join."""
    if context.ttl is not None:
        return plan  # an operator forgets a row of each side by itself
    return transformed_below(plan, _merged)


def _merged(node: Node) -> Node:
    if not isinstance(node, Stateful) or not _may_merge(node):
        return node
    parts = [_below(*each) or _whole(*each) for each in zip(node.inputs, _keys_of(node), strict=True)]
    inputs = [each for part in parts for each in part.inputs]
    if not len(node.inputs) < len(inputs) <= _MOST_INPUTS:
        return node
    firsts = accumulate((len(part.inputs) for part in parts[:-1]), initial=0)
    sources = {
        label: (first + number, column)
        for first, part in zip(firsts, parts, strict=True)
        for label, (number, column) in part.sources.items()
    }
    return _joined(node, inputs, [each for part in parts for each in part.keys], sources)


def _may_merge(node: Stateful) -> bool:
    """Return whether a node is an inner join of rows that only come, without a time to live of its own."""
    operator = node.operator
    is_inner = isinstance(operator, MultiJoin) or (
        isinstance(operator, RegularJoin) and operator.how == "inner" and operator.ttls == (None, None)
    )
    return is_inner and node.changelog is Changelog.APPEND


@dataclass(frozen=True)
class _Part:
    """What stands for one input of a join.

    Attributes:
        inputs: one, or those of the join below.
        keys: of each of them, in the order of the keys of the join.
        sources: for each label of the join's input the number of one of `inputs`, and its column there.
    """

    inputs: tuple[Input, ...]
    keys: tuple[tuple[str, ...], ...]
    sources: Mapping[str, tuple[int, Column]]


def _whole(given: Input, own: tuple[str, ...]) -> _Part:
    return _Part((given,), (own,), {label: (0, column) for label, column in given.columns})


def _below(given: Input, own: tuple[str, ...]) -> _Part | None:
    """Return the inputs of the join below projections of plain columns, if it has the same keys."""
    node = node_below(given.node, Project)
    if not isinstance(node, Stateful) or not _may_merge(node):
        return None
    labels, keys = {column: label for label, column in node.columns}, _keys_of(node)
    below = {label: (n, column) for n, each in enumerate(node.inputs) for label, column in each.columns}
    found = {label: defined(given.node, column) for label, column in given.columns}
    sources = {label: below[labels[each]] for label, each in found.items() if isinstance(each, Column)}
    if len(sources) < len(found):
        return None
    places = [_index_of_key(keys, below, sources[label]) for label in own]
    if sorted(places) != list(range(len(keys[0]))):
        return None
    return _Part(node.inputs, tuple(tuple(each[index] for index in places) for each in keys), sources)


def _index_of_key(
    keys: Sequence[tuple[str, ...]], below: Mapping[str, tuple[int, Column]], source: tuple[int, Column]
) -> int:
    """Return the number of the key of its input that a column is; -1 if it is not one of the keys."""
    found = (index for index, label in enumerate(keys[source[0]]) if below[label] == source)
    return next(found, -1)


def _keys_of(node: Stateful) -> list[tuple[str, ...]]:
    """Return the labels of the keys of each input of a join."""
    operator = node.operator
    return list(zip(*operator.on, strict=True)) if isinstance(operator, (MultiJoin, RegularJoin)) else []


def _joined(
    node: Stateful,
    inputs: Sequence[Input],
    keys: Sequence[tuple[str, ...]],
    sources: Mapping[str, tuple[int, Column]],
) -> Stateful:
    """Return the rows of a join by an operator with more inputs."""
    columns: list[list[tuple[str, Column]]] = [[] for _ in inputs]
    outputs = []
    for label, output in node.columns:
        number, column = sources[label]
        outputs.append((f"i{number}c{len(columns[number])}", output))
        columns[number].append((outputs[-1][0], column))
    for number, (given, labels) in enumerate(zip(inputs, keys, strict=True)):
        known = dict(given.columns)
        columns[number] += [(f"i{number}k{index}", known[label]) for index, label in enumerate(labels)]
    on = tuple(tuple(f"i{number}k{index}" for number in range(len(inputs))) for index in range(len(keys[0])))
    made = tuple(Input(given.node, tuple(each)) for given, each in zip(inputs, columns, strict=True))
    return replace(node, operator=MultiJoin(on), inputs=made, columns=tuple(outputs))
