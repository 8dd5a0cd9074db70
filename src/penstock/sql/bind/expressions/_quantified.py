"""Comparisons with the rows of a query: `> ALL (SELECT ...)`, `= ANY (SELECT ...)`, `< SOME (SELECT ...)`.

Runs on the driver. Invariant: they are TRUE, FALSE or NULL as SQL says it, also of a query without rows and
of one with NULLs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp

from penstock.sql.bind.expressions._operators import COMPARISONS, Operators
from penstock.sql.plan.expressions import AggregateCall, Expression, QueryCall, QueryKind
from penstock.sql.plan.nodes import Aggregate, AggregateOutput, Assignment, Project
from penstock.sql.plan.rewrite import free_columns, nodes_in, plan_of, varying_part
from penstock.sql.plan.types import BOOLEAN, INT

_ONE_ROW = (
    "the query behind ALL or ANY compares its rows with those outside, and has an aggregate without GROUP "
    "BY. It has one row: compare with it as a value, such as `x > (SELECT MAX(y) FROM ...)`."
)
_VARIES = (
    "the query behind ALL or ANY has {}. It is run more than once here, and may give other rows each time. "
    "Add ORDER BY to LIMIT. Use a value of the record in place of RAND, or say CREATE FUNCTION ... LANGUAGE "
    "PYTHON DETERMINISTIC."
)
_ALL = "({1} = 0 OR ({0} AND CASE WHEN {1} = 2 THEN NULL ELSE TRUE END))"
_ANY = "({1} > 0 AND ({0} OR CASE WHEN {1} = 2 THEN NULL ELSE FALSE END))"
"""Of a comparison with the extreme values, and of what the query has: 0 for no row, 2 for a NULL, else 1."""


class Quantified(Operators):
    """Binds comparisons, also those with the rows of a query."""

    def _quantified(self, node: exp.Expr) -> Expression:
        """Return a comparison, whose right side may be ANY, SOME or ALL of a query.

        Raises:
            SqlError: it compares several values, otherwise than by = ANY and <> ALL.
        """
        if not isinstance(node.expression, (exp.Any, exp.All)):
            return self._comparison(node)
        sign, is_all, tree = (
            COMPARISONS[type(node)],
            isinstance(node.expression, exp.All),
            node.expression.this,
        )
        given = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        values = tuple(map(self.bind, given))
        if (sign, is_all) in (("=", False), ("<>", True)):
            found = self.bind_query(QueryKind.IN, tree, values, self.scope)
            return self.call(node, "NOT", "(NOT {0})", [found], BOOLEAN) if is_all else found
        word = "ALL" if is_all else "ANY"
        if len(values) > 1:
            self.refuse(node, f"{sign} {word} compares one value. Several are compared by = ANY and <> ALL.")
        if sign in ("=", "<>"):
            ends = [self._compared_with(node, sign, values[0], name) for name in ("MIN", "MAX")]
            logic = "AND" if is_all else "OR"
            test: Expression = self.call(node, logic, f"({{0}} {logic} {{1}})", ends, BOOLEAN)
        else:
            is_above = sign in (">", ">=")
            test = self._compared_with(node, sign, values[0], "MAX" if is_above is is_all else "MIN")
        return self.call(node, f"{sign} {word}", _ALL if is_all else _ANY, [test, self._has(node)], BOOLEAN)

    def _compared_with(self, node: exp.Expr, sign: str, value: Expression, name: str) -> Expression:
        query = self.bind_query(QueryKind.VALUE, node.expression.this, (), self.scope)
        self.check_kinds(node, sign, value, query)
        return self.compared(node, sign, value, self._aggregate(node, query, name, query.outputs[0]))

    def _has(self, node: exp.Expr) -> Expression:
        """Return 0 for a query without rows, 2 for one with a NULL, and 1 for another one."""
        query = self.bind_query(QueryKind.VALUE, node.expression.this, (), self.scope)
        text = "CASE WHEN {0} IS NULL THEN 2 ELSE 1 END"
        value = self.call(node, "CASE", text, [query.outputs[0]], INT)
        return self.call(
            node, "COALESCE", "coalesce({0}, 0)", [self._aggregate(node, query, "MAX", value)], INT
        )

    def _aggregate(self, node: exp.Expr, query: QueryCall, name: str, value: Expression) -> QueryCall:
        """Return an aggregate of the rows of a query as a value."""
        plan = plan_of(query)
        if free_columns(plan) and any(
            isinstance(each, Aggregate) and not each.keys for each in nodes_in(plan)
        ):
            self.refuse(node, _ONE_ROW)
        varying = varying_part(plan)
        if varying:
            self.refuse(node, _VARIES.format(varying))
        found, shown = (self.context.column(name.lower(), value.type) for _ in range(2))
        call = AggregateCall(name, (value,), value.type, offset=query.offset)
        groups = Aggregate(plan_of(query), (), (AggregateOutput(found, call),), offset=query.offset)
        top = Project(groups, (Assignment(shown, found),))
        return QueryCall(QueryKind.VALUE, top, (shown,), (), query.offset)

    methods: ClassVar[dict[type, Callable[[Any, Any], Expression]]] = {
        **Operators.methods,
        **dict.fromkeys(COMPARISONS, _quantified),
    }
