"""Queries in expressions of a stream become joins: IN and EXISTS semi and anti joins, a value a left join.

Where IN or EXISTS does not say alone which rows stay, it becomes a value (`query_values.py`).

Runs on the driver. Invariant: a NULL that is compared by = is equal to nothing. Where NOT IN may meet a NULL,
it is an anti join and one more condition, because one NULL in its query makes it keep nothing. As in Flink, a
COUNT of no rows as a value is NULL, unless the query compares its rows with those outside: then it is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.decorrelate import OF_ALL, Decorrelation, decorrelated
from penstock.sql.passes.query_values import (
    HAS_NULL,
    HAS_ROWS,
    ONLY_EQUAL,
    as_values,
    checked,
    never_null,
    rows_or_null,
)
from penstock.sql.plan.expressions import (
    COUNT_ALL,
    AggregateCall,
    Call,
    Column,
    Expression,
    Literal,
    QueryCall,
    QueryKind,
    rewritten,
    walk,
)
from penstock.sql.plan.nodes import (
    Aggregate,
    AggregateOutput,
    Assignment,
    Filter,
    Join,
    JoinKind,
    Node,
    Output,
    Project,
    copies,
)
from penstock.sql.plan.rewrite import (
    columns_of,
    expressions_of,
    plan_of,
    transformed,
    transformed_below,
    with_expressions,
    with_inputs,
)
from penstock.sql.plan.types import BIGINT, BOOLEAN, INT, NULL

_MANY = "a scalar subquery gave more than one row. Take one of them with MAX, MIN or WHERE."


def unnest_queries(plan: Output, context: PassContext) -> Output:
    """Return a plan in which no expression over a stream has a query."""
    changed: list[Node] = []

    def change(node: Node) -> Node:
        made = _unnested(node, context)
        if made is not node:
            changed.append(node)
        return made

    found = transformed_below(plan, change)
    # A query may have queries of its own, which are in the plan after it was joined.
    return unnest_queries(found, context) if changed else found


def _unnested(node: Node, context: PassContext) -> Node:  # noqa: RET503 - `refuse` does not return
    queries = _queries_in(node)
    if not queries or not any(_is_stream(each, node, context) for each in queries):
        return node

    def inner(part: Expression) -> Expression | None:
        if not isinstance(part, QueryCall):
            return None
        return replace(part, plan=transformed(plan_of(part), lambda each: _unnested(each, context)))

    node = with_expressions(node, lambda each: rewritten(each, inner))
    queries = _queries_in(node)
    if isinstance(node, Filter):
        return _filtered(node, context)
    if isinstance(node, (Project, Aggregate)):
        return _with_values(node, context)
    context.refuse(
        queries[0].offset, "a query is not served here in a stream. Put it into FROM, and join it."
    )


def _queries_in(node: Node) -> list[QueryCall]:
    return [part for each in expressions_of(node) for part in walk(each) if isinstance(part, QueryCall)]


def _is_stream(query: QueryCall, node: Node, context: PassContext) -> bool:
    return context.traits(node).is_stream or context.traits(plan_of(query)).is_stream


# ---- IN and EXISTS


@dataclass(frozen=True)
class _Kept:
    """A condition that is a query: IN, EXISTS, or one of them behind NOT."""

    condition: Expression
    query: QueryCall
    is_negated: bool


def _kept(condition: Expression) -> _Kept | None:
    is_negated = isinstance(condition, Call) and condition.name == "NOT"
    inner = condition.args[0] if isinstance(condition, Call) and is_negated else condition
    if isinstance(inner, QueryCall) and inner.kind is not QueryKind.VALUE:
        return _Kept(condition, inner, is_negated)
    return None


def _filtered(node: Filter, context: PassContext) -> Node:
    """Return the rows that the queries keep. The other conditions act before, so that the join keeps less."""
    kept = [found for each in node.conditions if (found := _kept(each)) is not None]
    others = [each for each in node.conditions if _kept(each) is None]
    plain = tuple(each for each in others if not _has_query(each))
    with_values = tuple(each for each in others if _has_query(each))
    made: Node = Filter(node.input, plain) if plain else node.input
    present = checked(plain)
    for each in kept:
        made, more = _joined(made, each, present, context)
        with_values += more
    if not with_values:
        return made
    columns = columns_of(made)
    scalar = tuple(as_values(each, context, is_condition=True) for each in with_values)
    made, values = _with_value_columns(made, scalar, context)
    return Project(Filter(made, values), copies(columns))


def _has_query(expression: Expression) -> bool:
    return any(isinstance(each, QueryCall) for each in walk(expression))


def _joined(
    node: Node, kept: _Kept, present: frozenset[Expression], context: PassContext
) -> tuple[Node, tuple[Expression, ...]]:
    """Return the rows that a query keeps, and more conditions on them."""
    query = kept.query
    if not context.traits(plan_of(query)).is_stream or not context.traits(node).is_stream:
        context.refuse(
            query.offset, "a query over a static table in WHERE of a stream is not served. Use a JOIN."
        )
    found = decorrelated(plan_of(query), context, ONLY_EQUAL)
    if found.is_of_all:
        context.refuse(query.offset, OF_ALL)
    outputs = query.outputs if query.kind is QueryKind.IN else ()
    conditions = context.equal((*query.values, *found.outer), (*outputs, *found.inner))
    is_nullable = query.kind is QueryKind.IN and kept.is_negated and _may_be_null(query, found, present)
    if not conditions or (is_nullable and (found.outer or len(query.values) > 1)):
        return node, (kept.condition,)
    kind = JoinKind.ANTI if kept.is_negated else JoinKind.SEMI
    more = (_condition_on_nulls(query, context),) if is_nullable else ()
    return Join(node, found.node, kind, conditions, query.offset), more


def _may_be_null(query: QueryCall, found: Decorrelation, present: frozenset[Expression]) -> bool:
    """Return whether a value before IN, or one of its query, may be NULL."""
    given = (each in present or (isinstance(each, Literal) and each.type != NULL) for each in query.values)
    return not (all(given) and never_null(found.node).issuperset(query.outputs))


def _condition_on_nulls(query: QueryCall, context: PassContext) -> Expression:
    """Return a condition: a NULL stays if the query has no row, and others stay if it has no NULL."""
    text = f"CASE WHEN {{0}} IS NULL THEN {HAS_ROWS} ELSE {HAS_NULL} END"
    limit = context.call("CASE", text, (query.values[0],), INT)
    return context.call("<", "({0} < {1})", (rows_or_null(query, context), limit), BOOLEAN)


# ---- values


def _with_values(node: Project | Aggregate, context: PassContext) -> Node:
    scalar = with_expressions(node, lambda each: as_values(each, context, is_condition=False))
    made, change = _value_columns(node.input, _queries_in(scalar), context)
    return with_inputs(with_expressions(scalar, change), (made,))


def _with_value_columns(
    node: Node, conditions: tuple[Expression, ...], context: PassContext
) -> tuple[Node, tuple[Expression, ...]]:
    queries = [part for each in conditions for part in walk(each) if isinstance(part, QueryCall)]
    made, change = _value_columns(node, queries, context)
    return made, tuple(map(change, conditions))


def _value_columns(
    node: Node, queries: list[QueryCall], context: PassContext
) -> tuple[Node, Callable[[Expression], Expression]]:
    """Return rows with the values of scalar queries, and what puts these into an expression."""
    found: dict[Expression, Expression] = {}
    for each in queries:
        if each not in found:
            node, found[each] = _value(node, each, context)
    return node, lambda value: rewritten(value, found.get)


def _value(node: Node, query: QueryCall, context: PassContext) -> tuple[Node, Expression]:
    plan = plan_of(query)
    if not context.traits(plan).is_stream:
        context.refuse(
            query.offset, "a query over a static table as a value in a stream is not served. Use a JOIN."
        )
    found = decorrelated(
        plan, context, "a correlated subquery compares with the outer rows by = only, in its own WHERE."
    )
    groups = _one_row(found)
    if groups is None and found.is_of_all:
        context.refuse(query.offset, OF_ALL)
    if groups is None:
        made, value = _of_rows(found, query, context)
    else:
        made, value = _of_aggregates(found, groups, query, context)
    conditions = context.equal(found.outer, found.inner)
    return Join(node, made, JoinKind.LEFT, conditions, query.offset), value


def _one_row(found: Decorrelation) -> tuple[Project, Aggregate] | None:
    """Return the projection and the aggregates of a query that has one row for each value of its keys."""
    top = found.node
    if isinstance(top, Project) and isinstance(top.input, Aggregate):
        groups = top.input
        if {each.column for each in groups.keys} == {*found.inner} and not groups.sets:
            return top, groups
    return None


def _of_aggregates(
    found: Decorrelation, parts: tuple[Project, Aggregate], query: QueryCall, context: PassContext
) -> tuple[Node, Expression]:
    """Return the groups, and the value over their aggregates, which are NULL where no row is."""
    top, groups = parts
    value = next(each.expression for each in top.outputs if each.column == query.outputs[0])
    counts = {each.column for each in groups.calls if each.call.name == "COUNT"} if found.is_of_all else set()

    def change(part: Expression) -> Expression | None:
        if isinstance(part, Column) and part in counts:
            return context.call("COALESCE", "coalesce({0}, 0)", (part,), BIGINT)
        return None

    return groups, rewritten(value, change)


def _of_rows(found: Decorrelation, query: QueryCall, context: PassContext) -> tuple[Node, Expression]:
    """Return the number of rows and the only value of a query, for each value of what is compared."""
    keys = tuple(Assignment(context.column(each.name, each.type), each) for each in found.inner)
    rows = context.column("rows", BIGINT)
    value = context.column("value", query.outputs[0].type)
    calls = (
        AggregateOutput(rows, COUNT_ALL),
        AggregateOutput(value, AggregateCall("MAX", (query.outputs[0],), value.type)),
    )
    made = Aggregate(found.node, keys, calls, offset=query.offset)
    found.inner = tuple(each.column for each in keys)
    text = f"CASE WHEN {{0}} > 1 THEN raise_error('{_MANY}') ELSE {{1}} END"
    return made, context.call("value", text, (rows, value), value.type)
