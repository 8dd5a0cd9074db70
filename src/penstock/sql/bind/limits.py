"""LIMIT, FETCH and OFFSET.

Runs on the driver. Invariant: each takes one whole number.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.language.queries import QueryLocation, start_of
from penstock.sql.plan.nodes import Limit, Node


def bound_limit(node: Node, tree: exp.Expr, location: QueryLocation) -> Node:
    """Return rows with the LIMIT and OFFSET of a query."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    clause = limit if limit is not None else offset
    if clause is None:
        return node
    skipped = _rows_left_out(offset, limit, location) if offset is not None else 0
    count = row_count(limit, location) if limit is not None else None
    return Limit(node, count, skipped, location.of(clause))


def row_count(limit: Any, location: QueryLocation) -> int:
    """Return the number of LIMIT or FETCH."""
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        location.refuse(limit, "FETCH takes a number of ROWS ONLY.")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    return _number(count, limit, location)


def _rows_left_out(offset: exp.Expr, limit: exp.Expr | None, location: QueryLocation) -> int:
    """Return the number of OFFSET."""
    count = offset.expression
    number = _number(count, offset, location)
    is_before = limit is not None and (start_of(count) or 0) < (start_of(limit.expression) or 0)
    if is_before and not isinstance(limit, exp.Fetch):
        location.refuse(offset, "LIMIT takes one number. Write LIMIT count OFFSET start.")
    return number


def _number(count: Any, clause: exp.Expr, location: QueryLocation) -> int:
    if not isinstance(count, exp.Literal) or not str(count.this).isdigit():
        location.refuse(clause, "expected a number of rows.")
    return int(str(count.this))
