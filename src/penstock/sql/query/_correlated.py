"""Queries that compare their rows with rows outside by =: the same query without that, and what is compared.

Runs on the driver. Invariant: a name with a table belongs to the nearest FROM that has the table, and a name
without one to the query itself. A query that uses rows outside otherwise is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from penstock.sql.query._joins import conjuncts

KEY = "__correlated"
"""Before the number of a column that is compared."""
_RANK = "__correlated_rank"
_NOT_A_VALUE = (exp.In, exp.Exists, exp.Subquery, exp.Any, exp.All)
"""What a query may stand in without being a value."""
Refuse = Callable[[exp.Expr, str], NoReturn]


@dataclass(frozen=True)
class Correlated:
    """A query that stands alone.

    Attributes:
        tree: the SELECT, without its comparisons with rows outside.
        outer: the values outside.
        inner: the values that they are compared with.
    """

    tree: exp.Expr
    outer: tuple[exp.Expr, ...]
    inner: tuple[exp.Expr, ...]

    @property
    def keys(self) -> list[exp.Expr]:
        """Return the values inside as columns of SELECT."""
        return [exp.alias_(each.copy(), f"{KEY}{place}") for place, each in enumerate(self.inner)]


def without_correlation(tree: exp.Expr, outside: frozenset[str], refuse: Refuse) -> Correlated:
    """Return a query without its comparisons with rows outside.

    Args:
        tree: a SELECT. It is not changed.
        outside: the names of the tables outside, in lower case.
        refuse: raises the error for a part of the query.

    Raises:
        SqlError: the query uses rows outside otherwise than by =.
    """
    tree = tree.copy()
    outside = outside - _aliases(tree)
    where = tree.args.get("where")
    kept, outer, inner = [], [], []
    for each in conjuncts(where.this if where is not None else None):
        pair = _pair(each, outside)
        if pair is None:
            kept.append(each)
        else:
            outer.append(pair[0])
            inner.append(pair[1])
    if outer:
        tree.set("where", exp.Where(this=exp.and_(*kept, copy=False)) if kept else None)
    for window in tree.find_all(exp.Window) if outer else ():
        if window.find_ancestor(exp.Select) is tree:
            refuse(
                window,
                "OVER beside a comparison with the rows outside is not served. Put it in a query in FROM.",
            )
    for column in tree.find_all(exp.Column):
        if _table(column) in outside:
            refuse(column, "a query compares with the rows outside by = only, in its own WHERE.")
    return Correlated(tree, tuple(outer), tuple(inner))


def first_rows_of_each(found: Correlated, count: int, refuse: Refuse) -> exp.Expr:
    """Return the first rows of a query for each value of what is compared, with the columns of `keys`.

    Args:
        found: the query, with ORDER BY.
        count: how many rows stay.
        refuse: raises the error for a part of the query.
    """
    tree = found.tree.copy()
    order = tree.args["order"]
    tree.set("order", None)
    tree.set("limit", None)
    named = {each.alias.lower(): each.this for each in tree.expressions if isinstance(each, exp.Alias)}
    for each in order.expressions:
        if isinstance(each.this, exp.Literal):
            refuse(each, "ORDER BY takes columns, got a literal. Write the column itself.")
        if isinstance(each.this, exp.Column) and not each.this.table and each.this.name.lower() in named:
            each.set("this", named[each.this.name.lower()].copy())
    rank = exp.Window(
        this=exp.Anonymous(this="ROW_NUMBER"),
        partition_by=[each.copy() for each in found.inner],
        order=order,
        over="OVER",
    )
    outputs = [*tree.expressions, *found.keys]
    tree.set("expressions", [*outputs, exp.alias_(rank, _RANK)])
    has_star = any(isinstance(each, exp.Star) or isinstance(each.this, exp.Star) for each in outputs)
    shown = [
        exp.column(exp.to_identifier(_name(each, refuse), quoted=True)) for each in outputs if not has_star
    ]
    return exp.Select(
        expressions=shown or [exp.Star()],
        from_=exp.From(this=exp.Subquery(this=tree, alias=_alias("__ranked"))),
        where=exp.Where(this=exp.LTE(this=exp.column(_RANK), expression=exp.Literal.number(count))),
    )


def with_keys(found: Correlated) -> exp.Expr:
    """Return the rows of a query with the columns of `keys`."""
    tree = found.tree.copy()
    if found.inner:
        tree.set("expressions", [*tree.expressions, *found.keys])
    return tree


def grouped_by_keys(found: Correlated) -> exp.Expr:
    """Return a query with aggregates for each value of what is compared, with the columns of `keys`."""
    tree = found.tree.copy()
    group = tree.args.get("group")
    items = [*(group.expressions if group is not None else []), *(each.copy() for each in found.inner)]
    if items:
        tree.set("group", exp.Group(expressions=items))
    tree.set("expressions", [*tree.expressions, *found.keys])
    return tree


def is_value(node: exp.Expr) -> bool:
    """Return whether a node is a query as a value."""
    return isinstance(node, exp.Subquery) and not isinstance(node.parent, _NOT_A_VALUE)


def is_hidden(name: str) -> bool:
    """Return whether a column is one that was added here."""
    return name.startswith(KEY)


def _name(each: exp.Expr, refuse: Refuse) -> str:
    if isinstance(each, exp.Alias):
        return str(each.args["alias"].name)
    if not isinstance(each, exp.Column):
        refuse(each, "a value behind LATERAL needs a name: write AS.")
    return str(each.name)


def _alias(name: str) -> exp.Expr:
    return exp.TableAlias(this=exp.to_identifier(name))


def _pair(node: exp.Expr, outside: frozenset[str]) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the value outside and the value inside of a comparison; None for another condition."""
    if type(node) is not exp.EQ:
        return None
    for outer, inner in ((node.this, node.expression), (node.expression, node.this)):
        ones, others = (
            [_table(column) in outside for column in each.find_all(exp.Column)] for each in (outer, inner)
        )
        if ones and all(ones) and others and not any(others) and inner.find(exp.Select) is None:
            return (outer, inner) if outer.find(exp.Select) is None else None
    return None


def _aliases(tree: exp.Expr) -> frozenset[str]:
    """Return the names of all tables in a query, in lower case."""
    tables = [
        each.name
        for each in tree.find_all(exp.Table)
        if isinstance(each.this, exp.Identifier) and not each.alias
    ]
    return frozenset(
        each.lower() for each in (*tables, *(alias.name for alias in tree.find_all(exp.TableAlias)))
    )


def _table(column: exp.Expr) -> str:
    """Return the first part of the name of a column, in lower case; "" if it has one part."""
    names = [column.args[key].name for key in ("catalog", "db", "table") if column.args.get(key)]
    return names[0].lower() if names else ""
