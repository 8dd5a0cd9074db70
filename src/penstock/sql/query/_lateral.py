"""A query behind LATERAL: a join with the query for each value that it is compared with.

Runs on the driver. Invariant: as in Flink, a row without partners in the query goes or, with LEFT JOIN, has
NULL in all columns of the query; also if the query is an aggregate without GROUP BY.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query._correlated import (
    KEY,
    Correlated,
    first_rows_of_each,
    grouped_by_keys,
    is_hidden,
    with_keys,
    without_correlation,
)
from penstock.sql.query._orders import row_count
from penstock.sql.query._parts import From
from penstock.sql.query.scope import Scope

if TYPE_CHECKING:
    from penstock.sql.query._relations import Relations

_NOT_SERVED = ("having", "offset", "windows")
_IN_FROM = (
    "a query behind LATERAL has no {} here. Put it in a query in FROM, and its condition in WHERE around it."
)


def lateral_join(parts: Relations, join: exp.Expr, left: From, side: str) -> exp.Expr:
    """Return the join with a query behind LATERAL as a join with a query in FROM.

    Raises:
        SqlError: the query is not compared by = with the rows outside.
    """
    inner, lateral = parts.inner, join.this
    inner.only(lateral, "this", "alias")
    inner.only(lateral.this, "this")
    on = join.args.get("on")
    is_all = on is None or (isinstance(on, exp.Boolean) and on.this)
    if side not in ("", "LEFT") or not is_all or (side and on is None):
        inner.refuse(lateral, "LATERAL is served with CROSS JOIN, a comma, and LEFT JOIN ... ON TRUE.")
    tree = lateral.this.this
    if type(tree) is not exp.Select:
        inner.refuse(lateral, "LATERAL takes a SELECT. Put set operations in a query in FROM of it.")
    for each in _NOT_SERVED:
        if tree.args.get(each):
            inner.refuse(lateral, _IN_FROM.format(each.upper()))
    found = without_correlation(tree, frozenset(each.lower() for each in left.aliases), inner.refuse)
    if not found.outer:
        inner.refuse(
            lateral,
            "a query behind LATERAL needs a comparison by = with the rows before it in WHERE, such as "
            "WHERE o.shop = s.shop. Write the names of the tables. Without one, leave LATERAL out.",
        )
    alias = lateral.args.get("alias")
    name = (
        alias.this.name if alias is not None and alias.this is not None else f"__lateral{len(left.aliases)}"
    )
    columns = list(alias.args.get("columns") or []) if alias is not None else []
    query = _of_each(parts, lateral, found)
    if columns:
        columns += [exp.to_identifier(f"{KEY}{place}") for place in range(len(found.inner))]
    shown = exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=columns)
    pairs = [
        exp.EQ(
            this=outer.copy(),
            expression=exp.column(f"{KEY}{place}", table=exp.to_identifier(name, quoted=True)),
        )
        for place, outer in enumerate(found.outer)
    ]
    return exp.Join(this=exp.Subquery(this=query, alias=shown), on=exp.and_(*pairs), side=side or None)


def _of_each(parts: Relations, lateral: exp.Expr, found: Correlated) -> exp.Expr:
    inner, tree = parts.inner, found.tree
    from penstock.sql.query._select import Select  # noqa: PLC0415 - the two need each other

    is_aggregation = Select(parts.query, tree, parts.names).is_aggregation()
    order, limit = tree.args.get("order"), tree.args.get("limit")
    if is_aggregation or tree.args.get("distinct"):
        if order is not None or limit is not None:
            inner.refuse(lateral, _IN_FROM.format("ORDER BY and LIMIT beside groups"))
        return grouped_by_keys(found) if is_aggregation else with_keys(found)
    if limit is None:
        tree.set("order", None)
        return with_keys(found)
    if order is None:
        inner.refuse(lateral, "LIMIT behind LATERAL needs ORDER BY, which says which rows are first.")
    return first_rows_of_each(found, int(row_count(limit, inner)), inner.refuse)


def without_keys(parts: Relations, source: From) -> From:
    """Return a join without the columns that were compared."""
    entries = tuple(each for each in parts.entries(source) if not is_hidden(each.name))
    return replace(source, scope=Scope(entries))
