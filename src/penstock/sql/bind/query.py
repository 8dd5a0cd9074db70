"""Bind queries: SELECT, VALUES, set operations, WITH, and what ends them.

Runs on the driver. Invariant: a name means a CTE first, then a table or view, with the case in
which it was written. A CTE is bound again wherever its name stands, so that no column stands for
two rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from penstock.sql.bind.context import Context
from penstock.sql.bind.expressions.binder import ExpressionBinder
from penstock.sql.bind.hints import Hints
from penstock.sql.bind.limits import bound_limit
from penstock.sql.bind.scope import Scope
from penstock.sql.language.hints import without_hints
from penstock.sql.language.queries import QueryLocation, read_expression, read_query
from penstock.sql.language.source import Source
from penstock.sql.language.statements import Fragment
from penstock.sql.plan.expressions import Column, Expression, QueryCall, QueryKind, SortItem
from penstock.sql.plan.nodes import Node, SetKind, SetOperation, Sort, Values
from penstock.sql.plan.types import spark_text, widest

_SET_KINDS: dict[type, SetKind] = {
    exp.Union: SetKind.UNION,
    exp.Except: SetKind.EXCEPT,
    exp.Intersect: SetKind.INTERSECT,
}


@dataclass(frozen=True)
class BoundQuery:
    """A query: its plan, and its columns with their names."""

    node: Node
    columns: tuple[Column, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Cte:
    """A CTE, with the names that it may use itself."""

    tree: exp.Expr
    columns: tuple[str, ...]
    names: Names


Names = Mapping[str, Cte]
BindSelect = Callable[["QueryBinder", exp.Expr, Names, Scope | None], BoundQuery]


class QueryBinder:
    """Binds one query of a script, with its subqueries. `select` binds each SELECT of it."""

    def __init__(self, fragment: Fragment, script: Source, context: Context, select: BindSelect) -> None:
        text, hints = without_hints(fragment.text)
        self.tree = read_query(text, script, fragment.offset)
        self.context = context
        self.session = context.session
        self.location = QueryLocation(script, fragment.offset)
        self.hints = Hints(hints)
        self.select = select
        self.root: exp.Expr | None = None
        """The query whose rows are the result of the statement."""

    def query(self, tree: exp.Expr, names: Names, outside: Scope | None) -> BoundQuery:
        """Return SELECT, VALUES, set operations or a query in brackets.

        Args:
            tree: of the parser.
            names: the CTEs.
            outside: the columns of the rows around the query, which it may name too.
        """
        expressions = self.expressions(Scope(outside=outside), names)
        if isinstance(tree, exp.Subquery):
            of_from = ("alias", "joins") if isinstance(tree.parent, (exp.From, exp.Join, exp.Lateral)) else ()
            expressions.only(tree, "this", "order", "limit", "offset", "with_", *of_from)
            names = self._with(tree, names)
            return self._ended(self.query(tree.this, names, outside), tree, names)
        if isinstance(tree, exp.Values):
            return self.values(tree, names)
        if type(tree) is exp.Select:
            return self.select(self, tree, self._with(tree, names), outside)
        if type(tree) in _SET_KINDS:
            return self._set_operation(tree, self._with(tree, names), outside)
        return expressions.refuse(tree, f"{type(tree).__name__.upper()} is not served here.")

    def expressions(self, scope: Scope, names: Names) -> ExpressionBinder:
        """Return what binds the expressions of a SELECT."""

        def bind_query(
            kind: QueryKind, tree: exp.Expr, values: tuple[Expression, ...], around: Scope
        ) -> QueryCall:
            found = self.query(tree, names, around)
            width = max(1, len(values))
            if kind is QueryKind.VALUE and len(found.columns) != 1:
                self.location.refuse(tree, f"a scalar subquery has one column, got {len(found.columns)}.")
            if kind is QueryKind.IN and len(found.columns) != width:
                self.location.refuse(
                    tree, f"IN compares {width} values, and its query has {len(found.columns)} columns."
                )
            return QueryCall(kind, found.node, found.columns, values, self.location.of(tree))

        return ExpressionBinder(self.context, self.location, scope, bind_query)

    def _with(self, tree: exp.Expr, names: Names) -> Names:
        clause = tree.args.get("with_")
        if clause is None:
            return names
        expressions = self.expressions(Scope(), names)
        expressions.only(clause, "expressions")
        known, own = dict(names), set[str]()
        for each in clause.expressions:
            expressions.only(each, "this", "alias")
            alias = each.args["alias"]
            expressions.only(alias, "this", "columns")
            name = alias.this.name
            if name in own:
                expressions.refuse(alias, f"WITH names '{name}' twice.")
            own.add(name)
            columns = tuple(column.name for column in alias.args.get("columns") or ())
            found = Cte(each.this, columns, dict(known))
            if not _is_named_again(name, tree, each):
                self.query(each.this, known, None)  # its mistakes are told although nothing reads it
            known[name] = found
        return known

    def named(self, named: Cte) -> BoundQuery:
        """Return a CTE where its name stands."""
        found = self.query(named.tree, named.names, None)
        if not named.columns:
            return found
        if len(named.columns) != len(found.columns):
            self.location.refuse(
                named.tree,
                f"the query has {len(found.columns)} columns, and {len(named.columns)} names were given.",
            )
        return replace(found, names=named.columns)

    def _set_operation(self, tree: Any, names: Names, outside: Scope | None) -> BoundQuery:
        expressions = self.expressions(Scope(outside=outside), names)
        expressions.only(tree, "this", "expression", "distinct", "order", "limit", "offset", "with_")
        kind = _SET_KINDS[type(tree)]
        left, right = self.query(tree.this, names, outside), self.query(tree.expression, names, outside)
        if len(left.columns) != len(right.columns):
            expressions.refuse(
                tree,
                f"{kind.value} needs as many columns on both sides, got {len(left.columns)} and "
                f"{len(right.columns)}.",
            )
        columns = tuple(
            self.context.column(name, self._common(tree, pair, f"the column '{name}'"))
            for name, *pair in zip(left.names, left.columns, right.columns, strict=True)
        )
        is_all, offset = not tree.args.get("distinct"), self.location.of(tree)
        node = SetOperation(left.node, right.node, kind, is_all, columns, left.columns, right.columns, offset)
        return self._ended(BoundQuery(node, columns, left.names), tree, names)

    def _common(self, tree: exp.Expr, values: list[Any], what: str) -> Any:
        """Return the type that values have together."""
        kind = widest([each.type for each in values])
        if kind is not None:
            return kind
        texts = ", ".join(f"CAST(NULL AS {spark_text(each.type)})" for each in values)
        try:
            return self.context.spark_type(f"coalesce({texts})")
        except ValueError:
            kinds = " and ".join(dict.fromkeys(spark_text(each.type).upper() for each in values))
            self.location.refuse(tree, f"{what} has no common type: {kinds}. Write CAST(... AS ...).")

    def values(self, tree: exp.Expr, names: Names) -> BoundQuery:
        """Return the rows of VALUES."""
        expressions = self.expressions(Scope(), names)
        expressions.only(tree, "expressions", "alias")
        rows: list[tuple[Expression, ...]] = []
        for row in tree.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            if rows and len(cells) != len(rows[0]):
                expressions.refuse(
                    row, f"expected {len(rows[0])} values in each row of VALUES, got {len(cells)}."
                )
            rows.append(tuple(map(expressions.bind, cells)))
        labels = tuple(f"EXPR${index}" for index in range(len(rows[0])))
        columns = tuple(
            self.context.column(label, self._common(tree, [row[index] for row in rows], f"value {index + 1}"))
            for index, label in enumerate(labels)
        )
        return BoundQuery(Values(tuple(rows), columns), columns, labels)

    def _ended(self, bound: BoundQuery, tree: exp.Expr, names: Names) -> BoundQuery:
        """Return a query in brackets, or a set operation, with its ORDER BY, LIMIT and OFFSET."""
        order = tree.args.get("order")
        node = bound.node
        if order is not None:
            binder = self.expressions(Scope(), names)
            items = tuple(self._item_of(each, bound, binder) for each in order.expressions)
            node = Sort(node, items, tree is self.root, self.location.of(order))
        return replace(bound, node=bound_limit(node, tree, self.location))

    def _item_of(self, item: exp.Expr, bound: BoundQuery, binder: ExpressionBinder) -> SortItem:
        column = output_of(item.this, bound.names, bound.columns, self.location)
        if column is None:
            self.location.refuse(
                item,
                "ORDER BY takes columns of the result here. Give the value a name by AS and order by "
                "that name.",
            )
        binder.only(item, "this", "desc", "nulls_first")
        return SortItem(column, bool(item.args.get("desc")), item.args.get("nulls_first"))


def output_of(
    node: exp.Expr,
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    location: QueryLocation,
    *,
    in_any_case: bool = True,
) -> Column | None:
    """Return the column of a result that an item of ORDER BY is: its name or its number.

    `in_any_case`: whether a name in another case is the column too, if no name is the same.

    Raises:
        SqlError: two columns have the name, or there is no column of the number.
    """
    if isinstance(node, exp.Literal):
        number = int(str(node.this)) if node.is_int else 0
        if not 1 <= number <= len(names):
            location.refuse(node, f"ORDER BY takes the number of a column of SELECT, from 1 to {len(names)}.")
        return columns[number - 1]
    if not isinstance(node, exp.Column) or node.table:
        return None
    named = [*zip(names, columns, strict=True)]
    same = [column for name, column in named if name == node.name]
    like = [column for name, column in named if name.lower() == node.name.lower() and in_any_case]
    found = dict.fromkeys(same or like)
    if len(found) > 1:
        location.refuse(node, f"SELECT has two columns '{node.name}'. Give one of them another name by AS.")
    return next(iter(found), None)


def _is_named_again(name: str, tree: exp.Expr, own: exp.Expr) -> bool:
    inside = {id(each) for each in own.walk()}
    return any(
        isinstance(each.this, exp.Identifier) and each.name == name and id(each) not in inside
        for each in tree.find_all(exp.Table)
    )


def bind_expression(fragment: Fragment, script: Source, context: Context, scope: Scope) -> Expression:
    """Return an expression over the columns of a table.

    Raises:
        SqlError: it cannot be read, or has a part that is not served.
    """
    tree = read_expression(fragment.text, script, fragment.offset)
    location = QueryLocation(script, fragment.offset)

    def no_query(kind: QueryKind, tree: exp.Expr, values: Any, around: Scope) -> QueryCall:
        location.refuse(tree, "a query is not served here.")

    with not_too_deep(script, fragment.offset):
        return ExpressionBinder(context, location, scope, no_query).bind(tree)


@contextmanager
def not_too_deep(script: Source, offset: int) -> Iterator[None]:
    """Tell of a query that is nested too deeply with its place."""
    try:
        yield
    except RecursionError:
        raise script.error("the query is nested too deeply. Divide it, e.g. with views.", offset) from None
