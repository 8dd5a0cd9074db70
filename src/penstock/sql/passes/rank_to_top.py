"""ROW_NUMBER() <= n over a stream becomes the first rows of each group; LIMIT the first rows of all.

Conditions on the rank may also leave out some of these rows: `= 2`, `BETWEEN 2 AND 3`, `> 1 AND < 4`.

Runs on the driver. Invariant: only ROW_NUMBER() alone in its OVER is taken. Any other use of OVER stays.
"""

from __future__ import annotations

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Call, Column, Expression, Literal
from penstock.sql.plan.nodes import Filter, Limit, Node, Output, Over, Rank, Sort
from penstock.sql.plan.rewrite import transformed_below


def rank_to_top(plan: Output, context: PassContext) -> Output:
    """Return a plan in which the first rows of a stream are nodes of their own."""
    return transformed_below(plan, lambda node: _ranked(node, context))


def _ranked(node: Node, context: PassContext) -> Node:
    if isinstance(node, Filter) and isinstance(node.input, Over) and context.traits(node.input).is_stream:
        return _of_filter(node, node.input)
    if isinstance(node, Limit) and context.traits(node).is_stream:
        return _of_limit(node, context)
    return node


def _of_filter(node: Filter, over: Over) -> Node:
    if len(over.calls) != 1 or over.calls[0].call.call.name != "ROW_NUMBER" or not over.calls[0].call.order:
        return node
    column, call = over.calls[0].column, over.calls[0].call
    ranges = [(each, _range(each, column)) for each in node.conditions]
    found = [each for _, each in ranges if each is not None]
    first = max((each for each, _ in found), default=1)
    last = min((each for _, each in found if each is not None), default=0)
    if last < 1:
        return node
    skipped = max(first, 1) - 1 if first <= last else 0
    rank = Rank(over.input, call.partition, call.order, last, column, call.offset, skipped)
    rest = tuple(condition for condition, each in ranges if each is None or first > last)
    return Filter(rank, rest) if rest else rank


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def _range(condition: Expression, rank: Column) -> tuple[int, int | None] | None:
    """Return the first and the last rank that a condition keeps; None for another condition.

    The last one is None if there is none.
    """
    if not isinstance(condition, Call):
        return None
    name, args = condition.name, condition.args
    if name in _MIRRORED and args[1] == rank:
        name, args = _MIRRORED[name], args[::-1]
    if (name not in _MIRRORED and name != "BETWEEN") or args[0] != rank:
        return None
    numbers = [each.value for each in args[1:] if isinstance(each, Literal)]
    if len(numbers) < len(args) - 1 or not all(type(each) is int for each in numbers):
        return None
    first, last = int(numbers[0] or 0), int(numbers[-1] or 0)
    if name in ("<", "<="):
        return 1, last - (name == "<")
    return first + (name == ">"), None if name in (">", ">=") else last


def _of_limit(node: Limit, context: PassContext) -> Node:
    below = node.input
    order = below.items if isinstance(below, Sort) else ()
    rows = below.input if isinstance(below, Sort) else below
    if node.count is None:
        context.refuse(node.offset, "OFFSET without LIMIT is not served in a stream, as in Flink.")
    if not order and not node.skipped and not context.traits(rows).changes:
        return node  # Spark counts the rows itself
    offset = below.offset if isinstance(below, Sort) else node.offset
    return Rank(rows, (), order, node.skipped + node.count, None, offset, node.skipped)
