"""LIMIT, FETCH and OFFSET.

Runs on the driver. Invariant: each takes one whole number.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql.language.queries import Place, place_of
from penstock.sql.plan.nodes import Limit, Node


def bound_limit(node: Node, tree: exp.Expr, place: Place) -> Node:
    """Return rows with the LIMIT and OFFSET of a query."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    clause = limit if limit is not None else offset
    if clause is None:
        return node
    skipped = _rows_left_out(offset, limit, place) if offset is not None else 0
    count = row_count(limit, place) if limit is not None else None
    return Limit(node, count, skipped, place.of(clause))


def row_count(limit: Any, place: Place) -> int:
    """Return the number of LIMIT or FETCH."""
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        place.refuse(limit, "FETCH takes a number of ROWS ONLY.")
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    return _number(count, limit, place)


def _rows_left_out(offset: exp.Expr, limit: exp.Expr | None, place: Place) -> int:
    """Return the number of OFFSET."""
    count = offset.expression
    number = _number(count, offset, place)
    is_before = limit is not None and (place_of(count) or 0) < (place_of(limit.expression) or 0)
    if is_before and not isinstance(limit, exp.Fetch):
        place.refuse(offset, "LIMIT takes one number. Write LIMIT count OFFSET start.")
    return number


def _number(count: Any, clause: exp.Expr, place: Place) -> int:
    if not isinstance(count, exp.Literal) or not str(count.this).isdigit():
        place.refuse(clause, "expected a number of rows.")
    return int(str(count.this))
