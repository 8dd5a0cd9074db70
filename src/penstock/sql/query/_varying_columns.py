"""Columns of a table that may have another value when their row is taken back, such as `p AS PROCTIME()`.

Runs on the driver. Invariant: a query gets such a column only if it goes straight into a table that does not
compare it. FOR SYSTEM_TIME AS OF only names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.sql.query.piece import quoted
from penstock.sql.query.rows import Relation, Varies, VaryingColumn
from penstock.sql.query.varying import VaryingCall

if TYPE_CHECKING:
    from penstock.sql.query._query import Query
    from penstock.sql.query.expressions.expressions import Expressions


def without_varying(query: Query, tree: exp.Expr, found: Relation, expressions: Expressions) -> Relation:
    """Return a table without its columns that vary, if the SELECT around it does not use them.

    Args:
        query: the whole query.
        tree: the table in FROM.
        found: what it is.
        expressions: of the SELECT.

    Raises:
        SqlError: the SELECT uses one of them, and the session does not accept it.
    """
    select = tree.find_ancestor(exp.Select)
    unused: dict[str, None] = {}
    for column in found.varying:
        uses = list(_uses(select, tree, column)) if select is not None else [tree]
        for node in uses:
            is_free = column.varies is Varies.BATCH and query.is_free_column(node)
            is_copied = column.varies is Varies.RECORD and query.is_copied(node, found.rows)
            if not (is_free or is_copied):
                expressions.check_rows(found.rows, node, VaryingCall(column.name, column.varies, column.why))
        if not uses:
            unused[quoted(column.name)] = None
    if not unused:
        return found
    return replace(found, text=f"(SELECT * EXCEPT ({', '.join(unused)}) FROM {found.text})")


def _uses(select: exp.Expr, table: exp.Expr, column: VaryingColumn) -> Iterator[exp.Expr]:
    """Yield the parts of a SELECT that may mean a column of one of its tables."""
    name, alias = column.name.lower(), table.alias_or_name.lower()
    if table.args.get("alias") is not None and table.args["alias"].args.get("columns"):
        yield table
    for join in select.args.get("joins") or ():
        names = [each.name.lower() for each in join.args.get("using") or ()]
        if join.args.get("method") or name in names:
            yield join
    for each in select.find_all(exp.Column):
        is_named = each.name.lower() == name and each.table.lower() in ("", alias)
        if is_named and each.find_ancestor(exp.Version) is None:
            yield each
    for star in select.find_all(exp.Star):
        around = star.parent
        is_of_select = around is select or (isinstance(around, exp.Column) and around.parent is select)
        if is_of_select and not (isinstance(around, exp.Column) and around.table.lower() != alias):
            yield star
