"""IN and EXISTS of a query as values of a stream: beside OR, in CASE, in SELECT, behind NOT with NULLs.

Runs on the driver. Invariant: a value is TRUE, FALSE or NULL as SQL says it. Only where a row goes for NULL
as for FALSE may a NULL be FALSE.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.sql.passes.context import PassContext
from penstock.sql.passes.decorrelate import OF_ALL, decorrelated
from penstock.sql.plan.expressions import (
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
from penstock.sql.plan.nodes import Aggregate, AggregateOutput, Assignment, Filter, Node, Project
from penstock.sql.plan.rewrite import plan_of, varying_part
from penstock.sql.plan.types import BOOLEAN, INT

HAS_ROWS, HAS_NULL = 1, 2
"""What the query of IN has; 0 without rows."""
STEADY = (
    "Use a value of the record in place of RAND, or say CREATE FUNCTION ... LANGUAGE PYTHON DETERMINISTIC"
)
ONLY_EQUAL = "a correlated subquery of a stream compares with the outer rows by = only."


def as_values(value: Expression, context: PassContext, *, is_condition: bool) -> Expression:
    """Return an expression in which each query is a scalar one.

    Args:
        value: the expression.
        context: of the statement.
        is_condition: whether it says which rows stay.
    """
    if isinstance(value, QueryCall):
        return _value(value, context, is_condition=is_condition)
    if isinstance(value, Call) and is_condition and value.name in ("AND", "OR"):
        return replace(value, args=tuple(as_values(e, context, is_condition=True) for e in value.args))

    def change(part: Expression) -> Expression | None:
        return _value(part, context, is_condition=False) if isinstance(part, QueryCall) else None

    return rewritten(value, change)


def largest(node: Node, value: Expression, context: PassContext, offset: int) -> Expression:
    """Return the largest of the numbers that a query has for its rows, or 0 if it has no row."""
    rows, (made,) = context.with_expressions(node, (value,), "has")
    found, shown = context.column("has", INT), context.column("has", INT)
    call = AggregateCall("MAX", (made,), INT)
    top = Aggregate(rows, (), (AggregateOutput(found, call),), offset=offset)
    query = QueryCall(QueryKind.VALUE, Project(top, (Assignment(shown, found),)), (shown,), (), offset)
    return context.call("COALESCE", "coalesce({0}, 0)", (query,), INT)


def rows_or_null(query: QueryCall, context: PassContext) -> Expression:
    """Return what the query of IN has: HAS_NULL, HAS_ROWS, or 0. The query stands in the plan once more.

    Raises:
        SqlError: it may give other rows the second time.
    """
    varying = varying_part(plan_of(query))
    if varying:
        advice = "Add ORDER BY" if varying.startswith("LIMIT") else STEADY
        context.refuse(
            query.offset,
            f"NOT IN of a query with {varying} is not served in a stream. It is run twice, and may give "
            f"other rows the second time. {advice}, or write `IS NOT NULL` for both sides.",
        )
    copied, names = context.copied(plan_of(query))
    text = f"CASE WHEN {{0}} IS NULL THEN {HAS_NULL} ELSE {HAS_ROWS} END"
    value = context.call("CASE", text, (names[query.outputs[0]],), INT)
    return largest(copied, value, context, query.offset)


def _value(query: QueryCall, context: PassContext, *, is_condition: bool) -> Expression:
    if query.kind is QueryKind.VALUE:
        return query
    if decorrelated(plan_of(query), context, ONLY_EQUAL).is_of_all:
        context.refuse(query.offset, OF_ALL)
    if query.kind is QueryKind.EXISTS:
        return _has_rows(plan_of(query), query, context)
    if any(isinstance(part, QueryCall) for each in query.values for part in walk(each)):
        context.refuse(query.offset, "a query before IN is not served here in a stream. Join it in FROM.")
    equal = context.equal(query.outputs, query.values)
    found = _has_rows(Filter(plan_of(query), equal), query, context)
    return found if is_condition else _of_three(found, query, context)


def _has_rows(node: Node, query: QueryCall, context: PassContext) -> Call:
    one = Literal(str(HAS_ROWS), INT, HAS_ROWS)
    return context.call("=", "({0} = {1})", (largest(node, one, context, query.offset), one), BOOLEAN)


def _of_three(found: Call, query: QueryCall, context: PassContext) -> Expression:
    """Return TRUE, FALSE, or NULL where a NULL may be the value that IN looks for."""
    if len(query.values) > 1:
        context.refuse(
            query.offset,
            "NOT IN of several values keeps no row for a NULL of its query, and IN gives NULL. In a stream "
            "say that there is none: write `x IS NOT NULL` for each value before NOT IN and beside AND, and "
            "in WHERE of the query for each column. Or write EXISTS with a comparison by = of each value.",
        )
    text = (
        f"CASE WHEN {{0}} THEN TRUE WHEN {{1}} = 0 THEN FALSE "
        f"WHEN {{2}} IS NULL OR {{1}} = {HAS_NULL} THEN NULL ELSE FALSE END"
    )
    return context.call("CASE", text, (found, rows_or_null(query, context), query.values[0]), BOOLEAN)


def never_null(node: Node) -> frozenset[Column]:
    """Return the columns of a query that its own conditions leave no NULL in."""
    if isinstance(node, Filter):
        own = frozenset(each for each in checked(node.conditions) if isinstance(each, Column))
        return own | never_null(node.input)
    if isinstance(node, Project):
        below = never_null(node.input)
        return frozenset(
            each.column
            for each in node.outputs
            if each.expression in below
            or (isinstance(each.expression, Literal) and each.expression.value is not None)
        )
    return frozenset()


def checked(conditions: tuple[Expression, ...]) -> frozenset[Expression]:
    """Return the values that conditions leave no NULL in."""
    inner = (each.args[0] for each in conditions if isinstance(each, Call) and each.name == "NOT")
    return frozenset(each.args[0] for each in inner if isinstance(each, Call) and each.name == "IS NULL")
