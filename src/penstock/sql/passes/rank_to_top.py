"""ROW_NUMBER() <= n over a stream becomes the first rows of each group; LIMIT the first rows of all.

Runs on the driver. Invariant: only ROW_NUMBER() alone in its OVER is taken. Any other use of OVER stays.
"""

from __future__ import annotations

from penstock.sql.passes.context import PassContext
from penstock.sql.plan.expressions import Call, Column, Expression, Literal
from penstock.sql.plan.nodes import Filter, Limit, Node, Output, Over, Rank, Sort
from penstock.sql.plan.rewrite import transformed_below
from penstock.sql.plan.types import BIGINT, BOOLEAN


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
    counts = [(each, _count(each, column)) for each in node.conditions]
    found = next(((each, count) for each, count in counts if count is not None), None)
    if found is None:
        return node
    rank = Rank(over.input, call.partition, call.order, found[1] or 1, column, call.offset)
    rest = tuple(each for each in node.conditions if each is not found[0])
    return Filter(rank, rest) if rest else rank


def _count(condition: Expression, rank: Column) -> int | None:
    """Return how many rows a condition keeps: rank <= n, rank < n, rank = 1."""
    if not isinstance(condition, Call) or condition.name not in ("<=", "<", "=") or condition.args[0] != rank:
        return None
    number = condition.args[1]
    if not isinstance(number, Literal) or not isinstance(number.value, int):
        return None
    count = number.value - (1 if condition.name == "<" else 0)
    return None if count < 1 or (condition.name == "=" and count != 1) else count


def _of_limit(node: Limit, context: PassContext) -> Node:
    below = node.input
    order = below.items if isinstance(below, Sort) else ()
    rows = below.input if isinstance(below, Sort) else below
    if node.count is None:
        context.refuse(node.offset, "OFFSET without LIMIT is not served in a stream, as in Flink.")
    if not order and not node.skipped and not context.traits(rows).changes:
        return node  # Spark counts the rows itself
    rank = context.column("rank", BIGINT) if node.skipped else None
    offset = below.offset if isinstance(below, Sort) else node.offset
    made: Node = Rank(rows, (), order, node.skipped + node.count, rank, offset)
    if rank is None:
        return made
    skipped = Literal(str(node.skipped), BIGINT, node.skipped)
    return Filter(made, (context.call(">", "({0} > {1})", (rank, skipped), BOOLEAN),))
