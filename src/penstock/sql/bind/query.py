"""Bind queries: SELECT, VALUES, set operations, WITH, and what ends them.

Runs on the driver. Invariant: a name means a CTE first, then a table or view, with the case in
which it was written. A CTE is bound again wherever its name stands, so that no column stands for
two rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from penstock.sql.plan.nodes import Node, Output, SetKind, SetOperation, Sort, Values
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


class QueryBinder:
    """Binds one query of a script, with its subqueries."""

    def __init__(self, context: Context, location: QueryLocation, hints: Hints) -> None:
        self.context = context
        self.session = context.session
        self.location = location
        self.hints = hints
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
        if type(tree) is exp.Select or type(tree) in _SET_KINDS:
            return self._without_with(tree, self._with(tree, names), outside)
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

    def _without_with(self, tree: exp.Expr, names: Names, outside: Scope | None) -> BoundQuery:
        if type(tree) in _SET_KINDS:
            return self._set_operation(tree, names, outside)
        from penstock.sql.bind.select import SelectBinder  # noqa: PLC0415 - the two need each other

        return SelectBinder(self, tree, names, outside).bound()

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
            self._column_of_both(tree, name, *pair)
            for name, *pair in zip(left.names, left.columns, right.columns, strict=True)
        )
        node = SetOperation(
            left.node,
            right.node,
            kind,
            not tree.args.get("distinct"),
            columns,
            left.columns,
            right.columns,
            self.location.of(tree),
        )
        return self._ended(BoundQuery(node, columns, left.names), tree, names)

    def _column_of_both(self, tree: exp.Expr, name: str, left: Column, right: Column) -> Column:
        return self.context.column(name, self._common(tree, [left, right], f"the column '{name}'"))

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
            scope = Scope()
            binder = self.expressions(scope, names)
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


def bind_query(fragment: Fragment, script: Source, context: Context) -> Output:
    """Return the plan of a query.

    Raises:
        SqlError: the query cannot be read, names an unknown table, or has a part that is not served.
    """
    text, hints = without_hints(fragment.text)
    tree = read_query(text, script, fragment.offset)
    binder = QueryBinder(context, QueryLocation(script, fragment.offset), Hints(hints))
    binder.root = tree
    while isinstance(binder.root, exp.Subquery) and not _has_clauses(binder.root):
        binder.root = binder.root.this
    with _not_too_deep(script, fragment.offset):
        found = binder.query(tree, {}, None)
    binder.hints.check(binder.location)
    return Output(found.node, found.columns, found.names)


def _has_clauses(tree: exp.Expr) -> bool:
    return any(tree.args.get(each) for each in ("order", "limit", "offset", "with_"))


def bind_expression(fragment: Fragment, script: Source, context: Context, scope: Scope) -> Expression:
    """Return an expression over the columns of a table.

    Raises:
        SqlError: it cannot be read, or has a part that is not served.
    """
    tree = read_expression(fragment.text, script, fragment.offset)
    binder = QueryBinder(context, QueryLocation(script, fragment.offset), Hints([]))

    def no_query(kind: QueryKind, tree: exp.Expr, values: Any, around: Scope) -> QueryCall:
        binder.location.refuse(tree, "a query is not served here.")

    with _not_too_deep(script, fragment.offset):
        return ExpressionBinder(context, binder.location, scope, no_query).bind(tree)


@contextmanager
def _not_too_deep(script: Source, offset: int) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise script.error("the query is nested too deeply. Divide it, e.g. with views.", offset) from None
