"""Expressions of a plan as texts of Spark's SQL.

Runs on the driver. Invariant: a text is in brackets where it could join with what stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.sql.functions.served import AGGREGATES, OVER_ONLY, SUFFIX
from penstock.sql.plan.expressions import (
    AggregateCall,
    Call,
    Column,
    Expression,
    Literal,
    OverCall,
    QueryCall,
    QueryKind,
    SortItem,
    TypedSql,
)
from penstock.sql.plan.types import spark_text

Names = Callable[[Column], str]
"""Gives the text of a column."""
QueryText = Callable[[QueryCall, Names], str]
"""Gives the text of a query in an expression, without brackets."""


class Texts:
    """Makes texts of expressions over columns with these names."""

    def __init__(self, names: Names, query_text: QueryText) -> None:
        self.names = names
        self._query_text = query_text

    def text(self, expression: Expression) -> str:
        """Return an expression in Spark's SQL."""
        match expression:
            case Column():
                return self.names(expression)
            case Literal():
                return expression.text
            case Call():
                return expression.function.apply(self.pieces(expression.args))
            case AggregateCall():
                return self._aggregate(expression, "")
            case OverCall():
                return self._over(expression)
            case QueryCall():
                return self._query(expression)

    def pieces(self, expressions: tuple[Expression, ...]) -> list[TypedSql]:
        """Return expressions with their types, for a function that makes a text of them."""
        return [TypedSql(self.text(each), spark_text(each.type)) for each in expressions]

    def sort_item(self, item: SortItem) -> str:
        """Return an item of ORDER BY. Nulls are the smallest values in both systems."""
        text = f"{self.text(item.expression)}{' DESC' if item.is_descending else ''}"
        return text if item.nulls_first is None else f"{text} NULLS {'FIRST' if item.nulls_first else 'LAST'}"

    def _aggregate(self, call: AggregateCall, over: str) -> str:
        function = call.function or AGGREGATES.get(call.name) or OVER_ONLY[call.name]
        pieces = self.pieces(call.args) or ([TypedSql("*", "bigint")] if call.name == "COUNT" else [])
        if call.is_distinct:
            pieces[0] = TypedSql(f"DISTINCT {pieces[0].text}", pieces[0].type)
        kept = "" if call.condition is None else f" FILTER (WHERE {self.text(call.condition)})"
        return function.apply(pieces).replace(SUFFIX, kept + over)

    def _over(self, expression: OverCall) -> str:
        parts = []
        if expression.partition:
            parts.append(f"PARTITION BY {', '.join(map(self.text, expression.partition))}")
        if expression.order:
            parts.append(f"ORDER BY {', '.join(map(self.sort_item, expression.order))}")
        if expression.frame is not None:
            frame = expression.frame
            parts.append(f"{frame.kind} BETWEEN {frame.start} AND {frame.stop}")
        return self._aggregate(expression.call, f" OVER ({' '.join(parts)})")

    def _query(self, expression: QueryCall) -> str:
        query = self._query_text(expression, self.names)
        if expression.kind is QueryKind.EXISTS:
            return f"EXISTS ({query})"
        if expression.kind is QueryKind.VALUE:
            return f"({query})"
        values = ", ".join(map(self.text, expression.values))
        return f"({f'({values})' if len(expression.values) > 1 else values} IN ({query}))"
